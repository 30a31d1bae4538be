//! The daemon's own spans as OTLP has them: what such spans do not have is not there. Pure.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1 as wire;

use crate::domain::{Attributes, Span, Status, Value};

/// A request with these spans, all of one resource and scope.
pub(super) fn request(spans: &[Span]) -> ExportTraceServiceRequest {
    let Some(first) = spans.first() else { return ExportTraceServiceRequest::default() };
    let resource = Resource { attributes: attributes(&first.resource.attributes), ..Resource::default() };
    let scope = InstrumentationScope {
        name: first.scope.name.clone(),
        version: first.scope.version.clone(),
        ..InstrumentationScope::default()
    };
    let scoped = wire::ScopeSpans {
        scope: Some(scope),
        spans: spans.iter().map(span).collect(),
        ..wire::ScopeSpans::default()
    };
    let group = wire::ResourceSpans {
        resource: Some(resource),
        scope_spans: vec![scoped],
        ..wire::ResourceSpans::default()
    };
    ExportTraceServiceRequest { resource_spans: vec![group] }
}

fn span(span: &Span) -> wire::Span {
    let link = |link: &crate::domain::Link| wire::span::Link {
        trace_id: link.trace_id.as_bytes().to_vec(),
        span_id: link.span_id.as_bytes().to_vec(),
        ..wire::span::Link::default()
    };
    wire::Span {
        trace_id: span.trace_id.as_bytes().to_vec(),
        span_id: span.span_id.as_bytes().to_vec(),
        parent_span_id: span.parent_id.map(|id| id.as_bytes().to_vec()).unwrap_or_default(),
        name: span.name.clone(),
        kind: wire::span::SpanKind::Internal.into(),
        start_time_unix_nano: span.start.0,
        end_time_unix_nano: span.end.0,
        status: match &span.status {
            Status::Unset => None,
            Status::Ok => Some(status(wire::status::StatusCode::Ok, "")),
            Status::Error(why) => Some(status(wire::status::StatusCode::Error, why)),
        },
        attributes: attributes(&span.attributes),
        links: span.links.iter().map(link).collect(),
        ..wire::Span::default()
    }
}

fn status(code: wire::status::StatusCode, message: &str) -> wire::Status {
    wire::Status { code: code.into(), message: message.to_owned() }
}

fn attributes(pairs: &Attributes) -> Vec<KeyValue> {
    let told = |(key, value): (&str, &Value)| KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: plain(value) }),
        ..KeyValue::default()
    };
    pairs.iter().map(told).collect()
}

/// Notes hold numbers, words and truth values only.
fn plain(value: &Value) -> Option<any_value::Value> {
    match value {
        Value::Bool(truth) => Some(any_value::Value::BoolValue(*truth)),
        Value::Int(number) => Some(any_value::Value::IntValue(*number)),
        Value::Double(number) => Some(any_value::Value::DoubleValue(*number)),
        Value::String(text) => Some(any_value::Value::StringValue(text.clone())),
        Value::Null | Value::Bytes(_) | Value::List(_) | Value::Map(_) => None,
    }
}
