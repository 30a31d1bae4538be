//! What comes out is what went in, field by field: generated requests in both encodings.

use std::collections::BTreeMap;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, EntityRef, InstrumentationScope, KeyValue, KeyValueList, any_value,
};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::otlp::{Encoding, Signal};

const NO_LIMIT: usize = usize::MAX;

fn keep_all(_: &crate::domain::Resource, _: &crate::domain::Scope) -> bool {
    false
}

fn text() -> impl Strategy<Value = String> {
    "[a-zé\"]{0,6}"
}

fn value() -> impl Strategy<Value = AnyValue> {
    let leaf = prop_oneof![
        text().prop_map(any_value::Value::StringValue),
        any::<bool>().prop_map(any_value::Value::BoolValue),
        any::<i64>().prop_map(any_value::Value::IntValue),
        (-1e9..1e9f64).prop_map(any_value::Value::DoubleValue),
        vec(any::<u8>(), 0..5).prop_map(any_value::Value::BytesValue),
    ];
    let leaf = leaf.prop_map(|value| AnyValue { value: Some(value) });
    leaf.prop_recursive(3, 12, 3, |inner| {
        let pair = (text(), inner.clone()).prop_map(|(key, value)| KeyValue {
            key,
            value: Some(value),
            ..Default::default()
        });
        prop_oneof![
            vec(inner, 0..3).prop_map(|values| any_value::Value::ArrayValue(ArrayValue { values })),
            vec(pair, 0..3).prop_map(|values| any_value::Value::KvlistValue(KeyValueList { values })),
        ]
        .prop_map(|value| AnyValue { value: Some(value) })
    })
}

fn attributes() -> impl Strategy<Value = Vec<KeyValue>> {
    vec((text(), value()), 0..3).prop_map(|pairs| {
        let pairs = pairs.into_iter();
        pairs.map(|(key, value)| KeyValue { key, value: Some(value), ..Default::default() }).collect()
    })
}

/// Few, so that traces meet again; sometimes one that is bad.
fn trace_id() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![9 => (1..4u8).prop_map(|id| vec![id; 16]), 1 => Just(vec![0; 16])]
}

fn span_id() -> impl Strategy<Value = Vec<u8>> {
    any::<u64>().prop_map(|id| id.to_be_bytes().to_vec())
}

fn resource() -> impl Strategy<Value = Resource> {
    let entity = (text(), text(), vec(text(), 0..2), vec(text(), 0..2)).prop_map(
        |(schema_url, kind, id_keys, description_keys)| EntityRef {
            schema_url,
            r#type: kind,
            id_keys,
            description_keys,
        },
    );
    (attributes(), any::<u32>(), vec(entity, 0..2)).prop_map(
        |(attributes, dropped_attributes_count, entity_refs)| Resource {
            attributes,
            dropped_attributes_count,
            entity_refs,
        },
    )
}

fn scope() -> impl Strategy<Value = InstrumentationScope> {
    (text(), text(), attributes(), any::<u32>()).prop_map(
        |(name, version, attributes, dropped_attributes_count)| InstrumentationScope {
            name,
            version,
            attributes,
            dropped_attributes_count,
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    (any::<u64>(), text(), attributes(), any::<u32>()).prop_map(
        |(time_unix_nano, name, attributes, dropped_attributes_count)| Event {
            time_unix_nano,
            name,
            attributes,
            dropped_attributes_count,
        },
    )
}

fn link() -> impl Strategy<Value = Link> {
    (1..9u8, 1..9u8, text(), attributes(), any::<u32>(), any::<u32>()).prop_map(
        |(trace, span, trace_state, attributes, dropped_attributes_count, flags)| Link {
            trace_id: vec![trace; 16],
            span_id: vec![span; 8],
            trace_state,
            attributes,
            dropped_attributes_count,
            flags,
        },
    )
}

fn span() -> impl Strategy<Value = Span> {
    let ids = (trace_id(), span_id(), prop_oneof![Just(Vec::new()), span_id()], text(), any::<u32>());
    let told = (text(), 0..6i32, any::<u64>(), any::<u64>());
    let lists = (attributes(), vec(event(), 0..3), vec(link(), 0..3), any::<[u32; 3]>());
    let status = option::of((text(), 0..3i32).prop_map(|(message, code)| Status { message, code }));
    (ids, told, lists, status).prop_map(|(ids, told, lists, status)| {
        let [dropped_attributes_count, dropped_events_count, dropped_links_count] = lists.3;
        Span {
            trace_id: ids.0,
            span_id: ids.1,
            parent_span_id: ids.2,
            trace_state: ids.3,
            flags: ids.4,
            name: told.0,
            kind: told.1,
            start_time_unix_nano: told.2,
            end_time_unix_nano: told.3,
            attributes: lists.0,
            dropped_attributes_count,
            events: lists.1,
            dropped_events_count,
            links: lists.2,
            dropped_links_count,
            status,
        }
    })
}

fn record() -> impl Strategy<Value = LogRecord> {
    let ids = (trace_id(), prop_oneof![Just(Vec::new()), span_id()], any::<u32>(), text());
    let told =
        (any::<u64>(), any::<u64>(), 0..25i32, text(), option::of(value()), attributes(), any::<u32>());
    (ids, told).prop_map(|(ids, told)| LogRecord {
        trace_id: ids.0,
        span_id: ids.1,
        flags: ids.2,
        event_name: ids.3,
        time_unix_nano: told.0,
        observed_time_unix_nano: told.1,
        severity_number: told.2,
        severity_text: told.3,
        body: told.4,
        attributes: told.5,
        dropped_attributes_count: told.6,
    })
}

fn traces() -> impl Strategy<Value = ExportTraceServiceRequest> {
    let scoped = (option::of(scope()), vec(span(), 0..4), text())
        .prop_map(|(scope, spans, schema_url)| ScopeSpans { scope, spans, schema_url });
    let group = (option::of(resource()), vec(scoped, 0..3), text())
        .prop_map(|(resource, scope_spans, schema_url)| ResourceSpans { resource, scope_spans, schema_url });
    vec(group, 0..3).prop_map(|resource_spans| ExportTraceServiceRequest { resource_spans })
}

fn logs() -> impl Strategy<Value = ExportLogsServiceRequest> {
    let scoped = (option::of(scope()), vec(record(), 0..4), text())
        .prop_map(|(scope, log_records, schema_url)| ScopeLogs { scope, log_records, schema_url });
    let group = (option::of(resource()), vec(scoped, 0..3), text())
        .prop_map(|(resource, scope_logs, schema_url)| ResourceLogs { resource, scope_logs, schema_url });
    vec(group, 0..3).prop_map(|resource_logs| ExportLogsServiceRequest { resource_logs })
}

/// Each span with all that it came in, by trace and in order.
fn spans(request: &ExportTraceServiceRequest) -> BTreeMap<Vec<u8>, Vec<ResourceSpans>> {
    let mut found: BTreeMap<Vec<u8>, Vec<ResourceSpans>> = BTreeMap::new();
    for group in &request.resource_spans {
        for scoped in &group.scope_spans {
            for span in &scoped.spans {
                let scope_spans = vec![ScopeSpans { spans: vec![span.clone()], ..scoped.clone() }];
                let alone = ResourceSpans { scope_spans, ..group.clone() };
                found.entry(span.trace_id.clone()).or_default().push(alone);
            }
        }
    }
    found
}

fn records(request: &ExportLogsServiceRequest) -> BTreeMap<Vec<u8>, Vec<ResourceLogs>> {
    let mut found: BTreeMap<Vec<u8>, Vec<ResourceLogs>> = BTreeMap::new();
    for group in &request.resource_logs {
        for scoped in &group.scope_logs {
            for record in &scoped.log_records {
                let scope_logs = vec![ScopeLogs { log_records: vec![record.clone()], ..scoped.clone() }];
                let alone = ResourceLogs { scope_logs, ..group.clone() };
                found.entry(record.trace_id.clone()).or_default().push(alone);
            }
        }
    }
    found
}

fn cut_of(signal: Signal, encoding: Encoding, body: Vec<u8>, limit: usize) -> Cut {
    cut(otlp::parts(signal, encoding, &Bytes::from(body), keep_all).unwrap(), limit)
}

/// The pieces' values, read by whoever knows OTLP; each of one trace.
fn read_spans(cut: &Cut) -> BTreeMap<Vec<u8>, Vec<ResourceSpans>> {
    let mut found: BTreeMap<Vec<u8>, Vec<ResourceSpans>> = BTreeMap::new();
    for piece in &cut.pieces {
        let mut read = spans(&ExportTraceServiceRequest::decode(&piece.value[..]).unwrap());
        let (trace_id, of_trace) = read.pop_first().unwrap();
        assert!(read.is_empty() && trace_id == piece.trace_id.as_bytes(), "a piece is of one trace");
        found.entry(trace_id).or_default().extend(of_trace);
    }
    found
}

fn read_records(cut: &Cut) -> BTreeMap<Vec<u8>, Vec<ResourceLogs>> {
    let mut found: BTreeMap<Vec<u8>, Vec<ResourceLogs>> = BTreeMap::new();
    for piece in &cut.pieces {
        let mut read = records(&ExportLogsServiceRequest::decode(&piece.value[..]).unwrap());
        let (trace_id, of_trace) = read.pop_first().unwrap();
        assert!(read.is_empty() && trace_id == piece.trace_id.as_bytes(), "a piece is of one trace");
        found.entry(trace_id).or_default().extend(of_trace);
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn spans_come_out_as_they_went_in(request in traces()) {
        let mut sent = spans(&request);
        // What `decode` rejects is left out, and nothing else.
        sent.remove(&vec![0; 16]);
        sent.values_mut().for_each(|spans| spans.retain(|group| group.scope_spans[0].spans[0].span_id != [0; 8]));
        sent.retain(|_, spans| !spans.is_empty());
        let json = serde_json::to_vec(&request).unwrap();
        let decoded = otlp::decode(Signal::Traces, Encoding::Protobuf, &request.encode_to_vec()).unwrap();
        for (encoding, body) in [(Encoding::Protobuf, request.encode_to_vec()), (Encoding::Json, json)] {
            let whole = cut_of(Signal::Traces, encoding, body.clone(), NO_LIMIT);
            prop_assert_eq!(whole.pieces.len(), sent.len(), "one piece for each trace");
            prop_assert_eq!(read_spans(&whole), sent.clone(), "{:?}", encoding);
            let parts = otlp::parts(Signal::Traces, encoding, &Bytes::from(body.clone()), keep_all).unwrap();
            let ids: Vec<TraceId> = parts.iter().map(|part| part.trace_id).collect();
            prop_assert_eq!(ids, decoded.spans.iter().map(|span| span.trace_id).collect::<Vec<_>>());
            let small = cut_of(Signal::Traces, encoding, body, 400);
            prop_assert!(small.pieces.iter().all(|piece| piece.value.len() <= 400));
            let left: usize = read_spans(&small).values().map(Vec::len).sum();
            let all: usize = sent.values().map(Vec::len).sum();
            prop_assert_eq!(left + small.left_out as usize, all);
        }
    }

    #[test]
    fn log_records_come_out_as_they_went_in(request in logs()) {
        let mut sent = records(&request);
        sent.remove(&vec![0; 16]);
        let json = serde_json::to_vec(&request).unwrap();
        for (encoding, body) in [(Encoding::Protobuf, request.encode_to_vec()), (Encoding::Json, json)] {
            let whole = cut_of(Signal::Logs, encoding, body, NO_LIMIT);
            prop_assert_eq!(whole.pieces.len(), sent.len());
            prop_assert_eq!(read_records(&whole), sent.clone(), "{:?}", encoding);
        }
    }
}

fn simple(trace: u8, number: u8, name: &str) -> Span {
    Span { trace_id: vec![trace; 16], span_id: vec![number; 8], name: name.to_owned(), ..Default::default() }
}

fn request(spans: Vec<Span>) -> ExportTraceServiceRequest {
    let scope_spans = vec![ScopeSpans { spans, ..Default::default() }];
    ExportTraceServiceRequest { resource_spans: vec![ResourceSpans { scope_spans, ..Default::default() }] }
}

#[test]
fn fields_of_a_later_version_pass_unharmed() {
    // A field 99 of two bytes, and a group: what this version of OTLP does not have.
    let unknown = [0x9a, 0x06, 0x02, b'h', b'i', 0xa3, 0x06, 0x08, 0x07, 0xa4, 0x06];
    let framed = |key: u8, inner: &[u8]| [&[key, u8::try_from(inner.len()).unwrap()], inner].concat();
    let item = [simple(1, 1, "a").encode_to_vec(), unknown.to_vec()].concat();
    let scope = [framed(0x12, &item), unknown.to_vec()].concat();
    let resource = [unknown.to_vec(), framed(0x12, &scope)].concat();
    let body = framed(0x0a, &resource);
    let cut = cut_of(Signal::Traces, Encoding::Protobuf, body, NO_LIMIT);
    let scope = [unknown.to_vec(), framed(0x12, &item)].concat();
    let resource = [unknown.to_vec(), framed(0x12, &scope)].concat();
    assert_eq!(cut.pieces[0].value, framed(0x0a, &resource));
}

#[test]
fn what_its_sender_may_not_send_is_left_out() {
    let mut own = request(vec![simple(1, 1, "a")]);
    own.resource_spans[0].scope_spans[0].scope =
        Some(InstrumentationScope { name: "own".into(), ..Default::default() });
    own.resource_spans.extend(request(vec![simple(1, 2, "b")]).resource_spans);
    let skip = |_: &crate::domain::Resource, scope: &crate::domain::Scope| scope.name == "own";
    for (encoding, body) in
        [(Encoding::Protobuf, own.encode_to_vec()), (Encoding::Json, serde_json::to_vec(&own).unwrap())]
    {
        let parts = otlp::parts(Signal::Traces, encoding, &Bytes::from(body), skip).unwrap();
        assert_eq!(parts.len(), 1);
        let read = ExportTraceServiceRequest::decode(&otlp::join(&parts)[..]).unwrap();
        assert_eq!(read.resource_spans[0].scope_spans[0].spans[0].name, "b");
    }
}

#[test]
fn what_is_too_large_is_split_by_span_and_a_span_that_is_too_large_alone_is_left_out() {
    let mut all: Vec<Span> = (1..=20).map(|number| simple(1, number, &"x".repeat(100))).collect();
    all.insert(7, simple(1, 99, &"x".repeat(5_000)));
    let cut = cut_of(Signal::Traces, Encoding::Protobuf, request(all.clone()).encode_to_vec(), 1_000);
    assert_eq!(cut.left_out, 1);
    assert!(cut.pieces.len() > 2 && cut.pieces.iter().all(|piece| piece.value.len() <= 1_000));
    all.remove(7);
    assert_eq!(read_spans(&cut), spans(&request(all)));
}

#[test]
fn a_piece_that_the_brokers_find_too_large_is_cut_again_until_it_is_one_span() {
    let all = request(vec![simple(1, 1, "a"), simple(1, 2, "b"), simple(1, 3, "c")]);
    let mut waiting = cut_of(Signal::Traces, Encoding::Protobuf, all.encode_to_vec(), NO_LIMIT).pieces;
    let mut singles = 0;
    while let Some(piece) = waiting.pop() {
        let cut = Cut::again(piece);
        singles += cut.left_out;
        waiting.extend(cut.pieces);
    }
    assert_eq!(singles, 3);
}
