//! From domain spans and log records to OTLP protobuf. What the domain does not keep (trace state, flags, some counts of
//! dropped things) is not there.

use std::sync::Arc;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList, any_value,
};
use opentelemetry_proto::tonic::logs::v1 as wire_logs;
use opentelemetry_proto::tonic::resource::v1 as wire_resource;
use opentelemetry_proto::tonic::trace::v1 as wire;

use crate::domain::{Attributes, Event, Link, LogRecord, Resource, Scope, Span, SpanKind, Status, Value};

/// A request that holds these spans, in their order.
pub fn to_traces(spans: &[Span]) -> ExportTraceServiceRequest {
    let mut request = ExportTraceServiceRequest::default();
    let mut last: Option<(&Arc<Resource>, &Arc<Scope>)> = None;
    for span in spans {
        let same_resource = last.is_some_and(|(resource, _)| Arc::ptr_eq(resource, &span.resource));
        if !same_resource {
            let group =
                wire::ResourceSpans { resource: Some(resource(&span.resource)), ..Default::default() };
            request.resource_spans.push(group);
        }
        let same_scope = same_resource && last.is_some_and(|(_, scope)| Arc::ptr_eq(scope, &span.scope));
        if let Some(group) = request.resource_spans.last_mut() {
            if !same_scope {
                let scoped = wire::ScopeSpans { scope: Some(scope(&span.scope)), ..Default::default() };
                group.scope_spans.push(scoped);
            }
            if let Some(scoped) = group.scope_spans.last_mut() {
                scoped.spans.push(span_out(span));
            }
        }
        last = Some((&span.resource, &span.scope));
    }
    request
}

/// A request that holds these log records, in their order.
pub fn to_logs(records: &[LogRecord]) -> ExportLogsServiceRequest {
    let mut request = ExportLogsServiceRequest::default();
    let mut last: Option<(&Arc<Resource>, &Arc<Scope>)> = None;
    for record in records {
        let same_resource = last.is_some_and(|(resource, _)| Arc::ptr_eq(resource, &record.resource));
        if !same_resource {
            let group =
                wire_logs::ResourceLogs { resource: Some(resource(&record.resource)), ..Default::default() };
            request.resource_logs.push(group);
        }
        let same_scope = same_resource && last.is_some_and(|(_, scope)| Arc::ptr_eq(scope, &record.scope));
        if let Some(group) = request.resource_logs.last_mut() {
            if !same_scope {
                let scoped = wire_logs::ScopeLogs { scope: Some(scope(&record.scope)), ..Default::default() };
                group.scope_logs.push(scoped);
            }
            if let Some(scoped) = group.scope_logs.last_mut() {
                scoped.log_records.push(record_out(record));
            }
        }
        last = Some((&record.resource, &record.scope));
    }
    request
}

fn span_out(span: &Span) -> wire::Span {
    wire::Span {
        trace_id: span.trace_id.as_bytes().to_vec(),
        span_id: span.span_id.as_bytes().to_vec(),
        parent_span_id: span.parent_id.map(|id| id.as_bytes().to_vec()).unwrap_or_default(),
        name: span.name.clone(),
        kind: kind(span.kind).into(),
        start_time_unix_nano: span.start.0,
        end_time_unix_nano: span.end.0,
        status: status(&span.status),
        attributes: attributes(&span.attributes),
        dropped_attributes_count: span.dropped_attributes,
        events: span.events.iter().map(event).collect(),
        links: span.links.iter().map(link).collect(),
        ..Default::default()
    }
}

fn record_out(record: &LogRecord) -> wire_logs::LogRecord {
    wire_logs::LogRecord {
        trace_id: record.trace_id.as_bytes().to_vec(),
        span_id: record.span_id.map(|id| id.as_bytes().to_vec()).unwrap_or_default(),
        time_unix_nano: record.time.0,
        event_name: record.event_name.clone(),
        body: Some(value(&record.body)),
        attributes: attributes(&record.attributes),
        ..Default::default()
    }
}

fn resource(resource: &Resource) -> wire_resource::Resource {
    wire_resource::Resource { attributes: attributes(&resource.attributes), ..Default::default() }
}

fn scope(scope: &Scope) -> InstrumentationScope {
    InstrumentationScope {
        name: scope.name.clone(),
        version: scope.version.clone(),
        attributes: attributes(&scope.attributes),
        ..Default::default()
    }
}

fn event(event: &Event) -> wire::span::Event {
    wire::span::Event {
        time_unix_nano: event.time.0,
        name: event.name.clone(),
        attributes: attributes(&event.attributes),
        dropped_attributes_count: event.dropped_attributes,
    }
}

fn link(link: &Link) -> wire::span::Link {
    wire::span::Link {
        trace_id: link.trace_id.as_bytes().to_vec(),
        span_id: link.span_id.as_bytes().to_vec(),
        attributes: attributes(&link.attributes),
        ..Default::default()
    }
}

fn kind(kind: SpanKind) -> wire::span::SpanKind {
    match kind {
        SpanKind::Unspecified => wire::span::SpanKind::Unspecified,
        SpanKind::Internal => wire::span::SpanKind::Internal,
        SpanKind::Server => wire::span::SpanKind::Server,
        SpanKind::Client => wire::span::SpanKind::Client,
        SpanKind::Producer => wire::span::SpanKind::Producer,
        SpanKind::Consumer => wire::span::SpanKind::Consumer,
    }
}

fn status(status: &Status) -> Option<wire::Status> {
    let (code, message) = match status {
        Status::Unset => return None,
        Status::Ok => (wire::status::StatusCode::Ok, String::new()),
        Status::Error(text) => (wire::status::StatusCode::Error, text.clone()),
    };
    Some(wire::Status { code: code.into(), message })
}

fn attributes(pairs: &Attributes) -> Vec<KeyValue> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, inner)| KeyValue { key: key.to_owned(), value: Some(value(inner)), ..Default::default() })
        .collect()
}

fn value(inner: &Value) -> AnyValue {
    let out = match inner {
        Value::Null => None,
        Value::Bool(truth) => Some(any_value::Value::BoolValue(*truth)),
        Value::Int(number) => Some(any_value::Value::IntValue(*number)),
        Value::Double(number) => Some(any_value::Value::DoubleValue(*number)),
        Value::String(text) => Some(any_value::Value::StringValue(text.clone())),
        Value::Bytes(bytes) => Some(any_value::Value::BytesValue(bytes.to_vec())),
        Value::List(items) => {
            Some(any_value::Value::ArrayValue(ArrayValue { values: items.iter().map(value).collect() }))
        }
        Value::Map(map) => Some(any_value::Value::KvlistValue(KeyValueList { values: attributes(map) })),
    };
    AnyValue { value: out }
}
