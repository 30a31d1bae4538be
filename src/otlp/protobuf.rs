use std::sync::Arc;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::logs::v1 as wire_logs;
use opentelemetry_proto::tonic::resource::v1 as wire_resource;
use opentelemetry_proto::tonic::trace::v1 as wire;
use prost::Message;

use crate::domain::{
    Attributes, Event, IdError, Link, LogRecord, Resource, Scope, Span, SpanId, SpanKind, Status, Time,
    TraceId, Value,
};

use super::{DecodeError, Decoded, Rejects, Signal};

pub(super) fn decode_traces(body: &[u8]) -> Result<Decoded, DecodeError> {
    let request = ExportTraceServiceRequest::decode(body)
        .map_err(|source| DecodeError::Protobuf { signal: Signal::Traces, source })?;
    Ok(from_traces(request))
}

pub(super) fn decode_logs(body: &[u8]) -> Result<Decoded, DecodeError> {
    let request = ExportLogsServiceRequest::decode(body)
        .map_err(|source| DecodeError::Protobuf { signal: Signal::Logs, source })?;
    Ok(from_logs(request))
}

/// The spans of a decoded request.
pub fn from_traces(request: ExportTraceServiceRequest) -> Decoded {
    let mut decoded = Decoded::default();
    for group in request.resource_spans {
        let resource = Arc::new(resource(group.resource));
        for scoped in group.scope_spans {
            let scope = Arc::new(scope(scoped.scope));
            decoded.spans.reserve(scoped.spans.len());
            for wire in scoped.spans {
                if let Some(span) = span(wire, &resource, &scope, &mut decoded.rejects) {
                    decoded.spans.push(span);
                }
            }
        }
    }
    decoded
}

/// The log records of a decoded request that belong to a trace.
pub fn from_logs(request: ExportLogsServiceRequest) -> Decoded {
    let mut decoded = Decoded::default();
    for group in request.resource_logs {
        let resource = Arc::new(resource(group.resource));
        for scoped in group.scope_logs {
            let scope = Arc::new(scope(scoped.scope));
            for wire in scoped.log_records {
                // OpenTelemetry writes "no trace" as an absent or an all-zero id.
                if wire.trace_id.iter().all(|byte| *byte == 0) {
                    decoded.logs_without_trace += 1;
                } else if let Some(record) = log_record(wire, &resource, &scope, &mut decoded.rejects) {
                    decoded.logs.push(record);
                }
            }
        }
    }
    decoded
}

fn span(
    wire: wire::Span,
    resource: &Arc<Resource>,
    scope: &Arc<Scope>,
    rejects: &mut Rejects,
) -> Option<Span> {
    let mut reject = |id, source| {
        rejects.add("span", &wire.name, id, source);
        None
    };
    let trace_id = match TraceId::try_from(&wire.trace_id[..]) {
        Ok(id) => id,
        Err(source) => return reject("trace", source),
    };
    let span_id = match SpanId::try_from(&wire.span_id[..]) {
        Ok(id) => id,
        Err(source) => return reject("span", source),
    };
    let parent_id = match optional_span_id(&wire.parent_span_id) {
        Ok(id) => id,
        Err(source) => return reject("parent span", source),
    };
    Some(Span {
        trace_id,
        span_id,
        parent_id,
        name: wire.name,
        kind: span_kind(wire.kind),
        start: Time(wire.start_time_unix_nano),
        end: Time(wire.end_time_unix_nano),
        status: wire.status.map(|status| span_status(status.code, status.message)).unwrap_or_default(),
        attributes: attributes(wire.attributes),
        events: wire.events.into_iter().map(event).collect(),
        links: wire.links.into_iter().filter_map(link).collect(),
        dropped_attributes: wire.dropped_attributes_count,
        resource: Arc::clone(resource),
        scope: Arc::clone(scope),
    })
}

fn log_record(
    wire: wire_logs::LogRecord,
    resource: &Arc<Resource>,
    scope: &Arc<Scope>,
    rejects: &mut Rejects,
) -> Option<LogRecord> {
    let mut reject = |id, source| {
        rejects.add("log record", &wire.event_name, id, source);
        None
    };
    let trace_id = match TraceId::try_from(&wire.trace_id[..]) {
        Ok(id) => id,
        Err(source) => return reject("trace", source),
    };
    let span_id = match optional_span_id(&wire.span_id) {
        Ok(id) => id,
        Err(source) => return reject("span", source),
    };
    let attributes = attributes(wire.attributes);
    Some(LogRecord {
        trace_id,
        span_id,
        time: log_time(Time(wire.time_unix_nano), Time(wire.observed_time_unix_nano)),
        event_name: event_name(wire.event_name, &attributes),
        body: wire.body.map(value).unwrap_or_default(),
        attributes,
        resource: Arc::clone(resource),
        scope: Arc::clone(scope),
    })
}

/// No bytes and zeros only both mean that there is none.
pub(super) fn optional_span_id(bytes: &[u8]) -> Result<Option<SpanId>, IdError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    match SpanId::try_from(bytes) {
        Ok(id) => Ok(Some(id)),
        Err(IdError::Zero) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn resource(wire: Option<wire_resource::Resource>) -> Resource {
    Resource { attributes: wire.map(|resource| attributes(resource.attributes)).unwrap_or_default() }
}

pub(super) fn scope(wire: Option<InstrumentationScope>) -> Scope {
    wire.map(|scope| Scope {
        name: scope.name,
        version: scope.version,
        attributes: attributes(scope.attributes),
    })
    .unwrap_or_default()
}

fn event(wire: wire::span::Event) -> Event {
    Event {
        name: wire.name,
        time: Time(wire.time_unix_nano),
        attributes: attributes(wire.attributes),
        dropped_attributes: wire.dropped_attributes_count,
    }
}

/// A link that points nowhere tells nothing and is left out.
fn link(wire: wire::span::Link) -> Option<Link> {
    Some(Link {
        trace_id: TraceId::try_from(&wire.trace_id[..]).ok()?,
        span_id: SpanId::try_from(&wire.span_id[..]).ok()?,
        attributes: attributes(wire.attributes),
    })
}

fn attributes(pairs: Vec<KeyValue>) -> Attributes {
    pairs.into_iter().map(|pair| (pair.key, pair.value.map(value).unwrap_or_default())).collect()
}

fn value(wire: AnyValue) -> Value {
    match wire.value {
        Some(any_value::Value::StringValue(text)) => Value::String(text),
        Some(any_value::Value::BoolValue(truth)) => Value::Bool(truth),
        Some(any_value::Value::IntValue(number)) => Value::Int(number),
        Some(any_value::Value::DoubleValue(number)) => Value::Double(number),
        Some(any_value::Value::BytesValue(bytes)) => Value::Bytes(bytes.into()),
        Some(any_value::Value::ArrayValue(list)) => Value::List(list.values.into_iter().map(value).collect()),
        Some(any_value::Value::KvlistValue(map)) => Value::Map(attributes(map.values)),
        // References into a dictionary exist in the profiles signal only.
        Some(any_value::Value::StringValueStrindex(_)) | None => Value::Null,
    }
}

/// OTLP's number for a span's kind; kinds that we do not know yet are unspecified.
pub(super) fn span_kind(number: i32) -> SpanKind {
    match wire::span::SpanKind::try_from(number) {
        Ok(wire::span::SpanKind::Internal) => SpanKind::Internal,
        Ok(wire::span::SpanKind::Server) => SpanKind::Server,
        Ok(wire::span::SpanKind::Client) => SpanKind::Client,
        Ok(wire::span::SpanKind::Producer) => SpanKind::Producer,
        Ok(wire::span::SpanKind::Consumer) => SpanKind::Consumer,
        Ok(wire::span::SpanKind::Unspecified) | Err(_) => SpanKind::Unspecified,
    }
}

/// OTLP's number for a status, and its text.
pub(super) fn span_status(code: i32, message: String) -> Status {
    match wire::status::StatusCode::try_from(code) {
        Ok(wire::status::StatusCode::Ok) => Status::Ok,
        Ok(wire::status::StatusCode::Error) => Status::Error(message),
        Ok(wire::status::StatusCode::Unset) | Err(_) => Status::Unset,
    }
}

/// When a record happened, else when it was observed.
pub(super) fn log_time(happened: Time, observed: Time) -> Time {
    if happened.is_known() { happened } else { observed }
}

/// OTLP's `eventName`; older SDKs have it in the attribute `event.name`.
pub(super) fn event_name(field: String, attributes: &Attributes) -> String {
    if field.is_empty() { attributes.text("event.name").unwrap_or_default().to_owned() } else { field }
}
