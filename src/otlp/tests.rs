use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, any_value};
use opentelemetry_proto::tonic::logs::v1 as wire_logs;
use opentelemetry_proto::tonic::trace::v1 as wire;
use proptest::prelude::*;
use prost::Message;
use serde_json::{Value as Json, json};

use super::*;
use crate::domain::{Span, SpanKind, Status, Time, Value};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn in_json(span: Json) -> Result<Decoded, DecodeError> {
    let request = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
    decode(Signal::Traces, Encoding::Json, request.to_string().as_bytes())
}

fn one(decoded: Result<Decoded, DecodeError>) -> Span {
    let mut decoded = decoded.unwrap();
    assert_eq!(decoded.spans.len(), 1, "{:?}", decoded.rejects);
    decoded.spans.remove(0)
}

fn wire_span(trace_id: &[u8], span_id: &[u8]) -> wire::Span {
    wire::Span {
        trace_id: trace_id.to_vec(),
        span_id: span_id.to_vec(),
        name: "chat".into(),
        ..Default::default()
    }
}

fn traces(spans: Vec<wire::Span>) -> ExportTraceServiceRequest {
    let scope_spans = vec![wire::ScopeSpans { spans, ..Default::default() }];
    ExportTraceServiceRequest {
        resource_spans: vec![wire::ResourceSpans { scope_spans, ..Default::default() }],
    }
}

fn logs(log_records: Vec<wire_logs::LogRecord>) -> ExportLogsServiceRequest {
    let scope_logs = vec![wire_logs::ScopeLogs { log_records, ..Default::default() }];
    ExportLogsServiceRequest {
        resource_logs: vec![wire_logs::ResourceLogs { scope_logs, ..Default::default() }],
    }
}

fn text(text: &str) -> AnyValue {
    AnyValue { value: Some(any_value::Value::StringValue(text.into())) }
}

fn pair(key: &str, value: AnyValue) -> KeyValue {
    KeyValue { key: key.into(), value: Some(value), ..Default::default() }
}

#[test]
fn a_span_in_json_keeps_everything() {
    let span = one(in_json(json!({
        "traceId": TRACE.to_uppercase(), "spanId": SPAN, "parentSpanId": "00f067aa0ba902b8", "name": "chat gpt",
        "kind": 3, "startTimeUnixNano": "1796025600123456789", "endTimeUnixNano": 1796025600223456789u64,
        "status": { "code": 2, "message": "boom" }, "droppedAttributesCount": 4, "flags": 257, "futureField": {},
        "attributes": [
            { "key": "s", "value": { "stringValue": "text" } },
            { "key": "i", "value": { "intValue": "-7" } },
            { "key": "d", "value": { "doubleValue": 0.5 } },
            { "key": "b", "value": { "boolValue": true } },
            { "key": "l", "value": { "arrayValue": { "values": [{ "intValue": 1 }, { "stringValue": "x" }] } } },
            { "key": "m", "value": { "kvlistValue": { "values": [{ "key": "k", "value": { "doubleValue": "NaN" } }] } } },
            { "key": "y", "value": { "bytesValue": "aGk=" } },
            { "key": "n", "value": {} },
        ],
        "events": [{ "timeUnixNano": "5", "name": "exception", "attributes": [], "droppedAttributesCount": 1 }],
        "links": [{ "traceId": TRACE, "spanId": SPAN }, { "traceId": "", "spanId": SPAN }],
    })));
    assert_eq!((span.trace_id.to_string(), span.span_id.to_string()), (TRACE.into(), SPAN.into()));
    assert_eq!(span.parent_id.unwrap().to_string(), "00f067aa0ba902b8");
    assert_eq!((span.kind, &span.status), (SpanKind::Client, &Status::Error("boom".into())));
    assert_eq!((span.start, span.end), (Time(1796025600123456789), Time(1796025600223456789)));
    assert_eq!((span.dropped_attributes, span.events[0].dropped_attributes), (4, 1));
    assert_eq!((span.events[0].time, span.links.len()), (Time(5), 1));
    let get = |key| span.attributes.get(key).unwrap();
    assert_eq!((get("s"), get("i"), get("d")), (&Value::from("text"), &Value::Int(-7), &Value::Double(0.5)));
    assert_eq!(get("l"), &Value::List(vec![Value::Int(1), Value::from("x")]));
    assert_eq!(
        (get("b"), get("y"), get("n")),
        (&Value::Bool(true), &Value::Bytes("hi".into()), &Value::Null)
    );
    assert!(
        matches!(get("m"), Value::Map(map) if matches!(map.get("k"), Some(Value::Double(d)) if d.is_nan()))
    );
}

#[test]
fn json_with_nulls_enum_names_and_snake_case_is_read() {
    let span = one(in_json(json!({
        "trace_id": TRACE, "span_id": SPAN, "parent_span_id": null, "name": "chat", "kind": "SPAN_KIND_CLIENT",
        "start_time_unix_nano": "", "status": { "code": "STATUS_CODE_OK", "message": null },
        "attributes": null, "events": null, "links": null, "droppedAttributesCount": null,
    })));
    assert_eq!((span.kind, span.status, span.parent_id), (SpanKind::Client, Status::Ok, None));
    let null = br#"{"resourceSpans":[{"resource":null,"scopeSpans":null}],"resourceLogs":null}"#;
    assert!(decode(Signal::Traces, Encoding::Json, null).unwrap().is_empty());
}

#[test]
fn a_wrong_enum_name_is_refused_with_what_to_send() {
    let error =
        in_json(json!({ "traceId": TRACE, "spanId": SPAN, "kind": "client" })).unwrap_err().to_string();
    assert!(error.contains("a span kind from 0 to 5"), "{error}");
}

#[test]
fn base64_ids_are_tolerated_and_counted() {
    let decoded = in_json(json!({
        "traceId": "S/kvNXezTaajzpKdDg5HNg==", "spanId": "APBnqgupArc=", "parentSpanId": "APBnqgupArg",
    }))
    .unwrap();
    assert_eq!(decoded.base64_ids, 3);
    let span = &decoded.spans[0];
    assert_eq!((span.trace_id.to_string(), span.span_id.to_string()), (TRACE.into(), SPAN.into()));
    assert_eq!(span.parent_id.unwrap().to_string(), "00f067aa0ba902b8");
    assert_eq!(in_json(json!({ "traceId": TRACE, "spanId": SPAN })).unwrap().base64_ids, 0);
}

#[test]
fn a_bad_id_costs_its_span_and_no_other() {
    let good = wire_span(&[1; 16], &[1; 8]);
    let orphan = wire::Span { parent_span_id: vec![1; 3], ..wire_span(&[1; 16], &[2; 8]) };
    let zero_parent = wire::Span { parent_span_id: vec![0; 8], ..wire_span(&[1; 16], &[3; 8]) };
    let request =
        traces(vec![wire_span(&[1; 15], &[1; 8]), good, wire_span(&[1; 16], &[0; 8]), orphan, zero_parent]);
    let decoded = decode(Signal::Traces, Encoding::Protobuf, &request.encode_to_vec()).unwrap();
    assert_eq!(decoded.spans.len(), 2);
    assert!(decoded.spans.iter().all(|span| span.parent_id.is_none()));
    assert_eq!(
        decoded.rejects.to_string(),
        "span \"chat\": trace id has 15 bytes, not 16; span \"chat\": span id is all zeros; \
         span \"chat\": parent span id has 3 bytes, not 8"
    );
    let many = traces(vec![wire_span(&[], &[]); 1000]);
    let decoded = from_traces(many);
    assert_eq!((decoded.rejects.count, decoded.rejects.first.len()), (1000, 3));
    assert!(decoded.rejects.to_string().ends_with("; and 997 more"));
}

#[test]
fn a_bad_id_in_json_costs_its_span_and_no_other() {
    let spans = json!([
        { "traceId": "zz", "spanId": SPAN, "name": "bad" }, { "traceId": TRACE, "spanId": SPAN },
        { "spanId": SPAN }, { "traceId": "0".repeat(32), "spanId": SPAN },
        { "traceId": TRACE, "spanId": SPAN, "parentSpanId": "0000000000000000" },
    ]);
    let request = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": spans }] }] }).to_string();
    let decoded = decode(Signal::Traces, Encoding::Json, request.as_bytes()).unwrap();
    assert_eq!((decoded.spans.len(), decoded.rejects.count), (2, 3));
    assert!(decoded.rejects.to_string().starts_with("span \"bad\": trace id has 1 bytes, not 16"));
}

#[test]
fn log_records_take_their_name_from_the_field_or_the_attribute() {
    let field = wire_logs::LogRecord {
        trace_id: vec![1; 16],
        span_id: vec![2; 8],
        event_name: "gen_ai.choice".into(),
        observed_time_unix_nano: 9,
        body: Some(text("body")),
        ..Default::default()
    };
    let attribute = wire_logs::LogRecord {
        trace_id: vec![1; 16],
        time_unix_nano: 3,
        observed_time_unix_nano: 9,
        attributes: vec![pair("event.name", text("gen_ai.user.message"))],
        ..Default::default()
    };
    let without = wire_logs::LogRecord { trace_id: vec![0; 16], ..Default::default() };
    let bad = wire_logs::LogRecord { trace_id: vec![1; 2], ..Default::default() };
    let request = logs(vec![field, attribute, without, Default::default(), bad]);
    let decoded = decode(Signal::Logs, Encoding::Protobuf, &request.encode_to_vec()).unwrap();
    assert_eq!((decoded.logs.len(), decoded.logs_without_trace, decoded.rejects.count), (2, 2, 1));
    assert_eq!((&*decoded.logs[0].event_name, decoded.logs[0].time), ("gen_ai.choice", Time(9)));
    assert_eq!(decoded.logs[0].body, Value::from("body"));
    assert_eq!((&*decoded.logs[1].event_name, decoded.logs[1].time), ("gen_ai.user.message", Time(3)));
    assert_eq!(decoded.logs[1].span_id, None);
}

#[test]
fn the_content_decides_what_a_file_is() {
    let spans = traces(vec![wire_span(&[1; 16], &[1; 8])]).encode_to_vec();
    let record = wire_logs::LogRecord {
        trace_id: vec![1; 16],
        observed_time_unix_nano: 9,
        attributes: vec![pair("event.name", text("gen_ai.user.message"))],
        body: Some(text("hello")),
        ..Default::default()
    };
    let records = logs(vec![record]).encode_to_vec();
    assert_eq!(decode_any(&spans).unwrap().spans.len(), 1);
    assert_eq!(decode_any(&records).unwrap().logs.len(), 1);
    let json = json!({ "resourceLogs": [{ "scopeLogs": [{ "logRecords": [{ "traceId": TRACE, "spanId": SPAN }] }] }] });
    assert_eq!(decode_any(format!("\n {json}").as_bytes()).unwrap().logs.len(), 1);
    assert!(matches!(decode_any(b"not otlp"), Err(DecodeError::Protobuf { .. })));
    assert!(matches!(decode_any(b"{\"resourceSpans\": ["), Err(DecodeError::Json { .. })));
    assert!(matches!(decode_any(b"{\"run_id\": 1}"), Err(DecodeError::NoSignal)));
}

#[test]
fn a_protobuf_request_whose_length_byte_is_a_brace_is_still_protobuf() {
    let mut span = wire_span(&[1; 16], &[1; 8]);
    span.name = "n".repeat(
        (1..200)
            .find(|length| {
                span.name = "n".repeat(*length);
                traces(vec![span.clone()]).encode_to_vec()[1] == b'{'
            })
            .unwrap(),
    );
    let body = traces(vec![span]).encode_to_vec();
    assert_eq!(&body[..2], b"\n{");
    assert_eq!(decode_any(&body).unwrap().spans.len(), 1);
}

#[test]
fn text_that_is_not_utf8_is_refused_clearly() {
    let mut body = traces(vec![wire_span(&[1; 16], &[1; 8])]).encode_to_vec();
    let name = body.windows(4).position(|window| window == b"chat").unwrap();
    body[name] = 0xff;
    let error = decode(Signal::Traces, Encoding::Protobuf, &body).unwrap_err().to_string();
    assert!(error.contains("UTF-8"), "{error}");
    let error = decode(Signal::Traces, Encoding::Json, b"{\"resourceSpans\": \"\xff\"}").unwrap_err();
    assert!(matches!(error, DecodeError::NotUtf8 { position: 19 }));
}

#[test]
fn half_an_emoji_does_not_cost_the_request() {
    let body = format!(
        r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"traceId":"{TRACE}","spanId":"{SPAN}","name":"cut \ud83d"}}]}}]}}]}}"#
    );
    let span = one(decode(Signal::Traces, Encoding::Json, body.as_bytes()));
    assert!(span.name.starts_with("cut \u{fffd}"), "{:?}", span.name);
}

#[test]
fn deep_nesting_is_refused_and_overflows_no_stack() {
    let nested = (0..200).fold(text("x"), |inner, _| AnyValue {
        value: Some(any_value::Value::ArrayValue(ArrayValue { values: vec![inner] })),
    });
    let span = wire::Span { attributes: vec![pair("deep", nested)], ..wire_span(&[1; 16], &[1; 8]) };
    let body = traces(vec![span]).encode_to_vec();
    assert!(decode(Signal::Traces, Encoding::Protobuf, &body).is_err());
    let open = r#"{"arrayValue":{"values":["#.repeat(100_000);
    let body = format!(r#"{{"resourceSpans":[{{"resource":{{"attributes":[{{"key":"k","value":{open}"#);
    assert!(matches!(decode(Signal::Traces, Encoding::Json, body.as_bytes()), Err(DecodeError::Json { .. })));
    let unknown = format!(r#"{{"resourceSpans":[],"other":{}"#, "[".repeat(1_000_000));
    assert!(matches!(
        decode(Signal::Traces, Encoding::Json, unknown.as_bytes()),
        Err(DecodeError::Json { .. })
    ));
}

#[test]
fn json_without_a_signal_is_refused_and_an_empty_object_is_an_empty_request() {
    let metrics = br#"{"resourceMetrics": []}"#;
    assert!(matches!(decode(Signal::Traces, Encoding::Json, metrics), Err(DecodeError::NoSignal)));
    assert!(decode(Signal::Traces, Encoding::Json, b"{}").unwrap().is_empty());
    assert!(decode(Signal::Traces, Encoding::Protobuf, b"").unwrap().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_any(&bytes);
        let _ = decode(Signal::Logs, Encoding::Json, &bytes);
    }

    #[test]
    fn no_damage_to_a_good_request_makes_it_panic(cut in 0usize..400, at in 0usize..400, byte in any::<u8>()) {
        let json = json!({ "resourceSpans": [{ "resource": { "attributes": [] }, "scopeSpans": [{ "spans": [{
            "traceId": TRACE, "spanId": SPAN, "kind": 3, "status": { "code": 1 },
            "attributes": [{ "key": "k", "value": { "kvlistValue": { "values": [{ "key": "i", "value": { "intValue": "1" } }] } } }],
        }] }] }] });
        let attributes = vec![pair("k", text("some value"))];
        let event = wire::span::Event { name: "exception".into(), attributes: attributes.clone(), ..Default::default() };
        let span = wire::Span { attributes, events: vec![event], ..wire_span(&[1; 16], &[1; 8]) };
        for mut body in [json.to_string().into_bytes(), traces(vec![span]).encode_to_vec()] {
            let length = body.len();
            body[at % length] = byte;
            body.truncate(length - cut % length);
            let _ = decode_any(&body);
        }
    }
}

#[test]
fn what_is_cut_into_parts_and_joined_again_is_read_the_same() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/traces");
    let mut spans = 0;
    for folder in std::fs::read_dir(corpus).unwrap() {
        let folder = folder.unwrap().path();
        if !folder.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let encoding = match path.extension().and_then(|extension| extension.to_str()) {
                Some("pb") => Encoding::Protobuf,
                Some("json") => Encoding::Json,
                _ => continue,
            };
            let body = bytes::Bytes::from(std::fs::read(path).unwrap());
            for signal in [Signal::Traces, Signal::Logs] {
                let Ok(read) = super::decode(signal, encoding, &body) else { continue };
                let (of_spans, of_logs): (Vec<Part>, Vec<Part>) =
                    parts(signal, encoding, &body, |_, _| false)
                        .unwrap()
                        .into_iter()
                        .partition(|part| part.signal == Signal::Traces);
                spans += read.spans.len();
                let again = decode(Signal::Traces, Encoding::Protobuf, &join(&of_spans)).unwrap();
                assert_eq!(again.spans, read.spans);
                let again = decode(Signal::Logs, Encoding::Protobuf, &join(&of_logs)).unwrap();
                assert_eq!(again.logs, read.logs);
            }
        }
    }
    assert!(spans > 100, "{spans} spans");
}
