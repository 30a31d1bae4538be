//! OTLP/JSON to the protobuf of the same messages, with every field, for whoever passes them on.

use std::sync::Arc;

use opentelemetry_proto::tonic::common::v1::{EntityRef, InstrumentationScope};
use opentelemetry_proto::tonic::logs::v1 as wire_logs;
use opentelemetry_proto::tonic::resource::v1 as wire_resource;
use opentelemetry_proto::tonic::trace::v1 as wire;
use prost::Message;

use super::wire::{WireEvent, WireLink, WireLogRecord, WireResource, WireScope, WireSpan, WireStatus};
use super::{is_without_trace, read, resource, scope};
use crate::domain::{Resource, Scope, SpanId, TraceId};
use crate::otlp::lenient::{Id, Text};
use crate::otlp::outward::{attributes, value};
use crate::otlp::{DecodeError, Part, Signal};

/// The spans and log records of a request whose ids are good, but for those that `skip` names.
pub(in crate::otlp) fn parts(
    body: &[u8],
    skip: impl Fn(&Resource, &Scope) -> bool,
) -> Result<Vec<Part>, DecodeError> {
    let request = read(body)?;
    let mut parts = Vec::new();
    for group in request.resource_spans {
        let held = wire::ResourceSpans {
            resource: group.resource.as_ref().map(resource_out),
            schema_url: group.schema_url.0,
            ..Default::default()
        };
        let (held, known) = (Arc::new(held.encode_to_vec()), resource(group.resource));
        for scoped in group.scope_spans {
            let inner = wire::ScopeSpans {
                scope: scoped.scope.as_ref().map(scope_out),
                schema_url: scoped.schema_url.0,
                ..Default::default()
            };
            let inner = Arc::new(inner.encode_to_vec());
            if skip(&known, &scope(scoped.scope)) {
                continue;
            }
            let spans = scoped.spans.into_iter().filter_map(span);
            parts.extend(spans.map(|(trace_id, span)| {
                Part::new(Signal::Traces, trace_id, &held, &inner, span.encode_to_vec().into())
            }));
        }
    }
    for group in request.resource_logs {
        let held = wire_logs::ResourceLogs {
            resource: group.resource.as_ref().map(resource_out),
            schema_url: group.schema_url.0,
            ..Default::default()
        };
        let (held, known) = (Arc::new(held.encode_to_vec()), resource(group.resource));
        for scoped in group.scope_logs {
            let inner = wire_logs::ScopeLogs {
                scope: scoped.scope.as_ref().map(scope_out),
                schema_url: scoped.schema_url.0,
                ..Default::default()
            };
            let inner = Arc::new(inner.encode_to_vec());
            if skip(&known, &scope(scoped.scope)) {
                continue;
            }
            let records = scoped.log_records.into_iter().filter_map(record);
            parts.extend(records.map(|(trace_id, record)| {
                Part::new(Signal::Logs, trace_id, &held, &inner, record.encode_to_vec().into())
            }));
        }
    }
    Ok(parts)
}

/// None if one of its ids is bad: such a span is rejected.
fn span(from: WireSpan) -> Option<(TraceId, wire::Span)> {
    let trace_id = from.trace_id.required().ok()?;
    let span = wire::Span {
        trace_id: trace_id.as_bytes().to_vec(),
        span_id: from.span_id.required().ok()?.as_bytes().to_vec(),
        trace_state: from.trace_state.0,
        parent_span_id: optional(from.parent_span_id)?,
        flags: from.flags.0,
        name: from.name.0,
        kind: from.kind.0,
        start_time_unix_nano: from.start_time_unix_nano.0,
        end_time_unix_nano: from.end_time_unix_nano.0,
        attributes: attributes(&from.attributes.0),
        dropped_attributes_count: from.dropped_attributes_count.0,
        events: from.events.into_iter().map(event).collect(),
        dropped_events_count: from.dropped_events_count.0,
        links: from.links.into_iter().map(link).collect(),
        dropped_links_count: from.dropped_links_count.0,
        status: from
            .status
            .map(|WireStatus { code, message }| wire::Status { message: message.0, code: code.0 }),
    };
    Some((trace_id, span))
}

/// None if it belongs to no trace, or one of its ids is bad.
fn record(from: WireLogRecord) -> Option<(TraceId, wire_logs::LogRecord)> {
    if is_without_trace(&from) {
        return None;
    }
    let trace_id = from.trace_id.required().ok()?;
    let record = wire_logs::LogRecord {
        time_unix_nano: from.time_unix_nano.0,
        observed_time_unix_nano: from.observed_time_unix_nano.0,
        severity_number: from.severity_number.0,
        severity_text: from.severity_text.0,
        body: from.body.map(|body| value(&body.0)),
        attributes: attributes(&from.attributes.0),
        dropped_attributes_count: from.dropped_attributes_count.0,
        flags: from.flags.0,
        trace_id: trace_id.as_bytes().to_vec(),
        span_id: optional(from.span_id)?,
        event_name: from.event_name.0,
    };
    Some((trace_id, record))
}

/// An id that may be missing; none if it is there and bad.
fn optional(id: Id<SpanId>) -> Option<Vec<u8>> {
    let id = id.optional().ok()?;
    Some(id.map(|id| id.as_bytes().to_vec()).unwrap_or_default())
}

fn event(from: WireEvent) -> wire::span::Event {
    wire::span::Event {
        time_unix_nano: from.time_unix_nano.0,
        name: from.name.0,
        attributes: attributes(&from.attributes.0),
        dropped_attributes_count: from.dropped_attributes_count.0,
    }
}

/// A link with ids that cannot be read points nowhere, and is passed on so.
fn link(from: WireLink) -> wire::span::Link {
    let (trace_id, span_id) = (from.trace_id.required().ok(), from.span_id.required().ok());
    wire::span::Link {
        trace_id: trace_id.map(|id: TraceId| id.as_bytes().to_vec()).unwrap_or_default(),
        span_id: span_id.map(|id: SpanId| id.as_bytes().to_vec()).unwrap_or_default(),
        trace_state: from.trace_state.0,
        attributes: attributes(&from.attributes.0),
        dropped_attributes_count: from.dropped_attributes_count.0,
        flags: from.flags.0,
    }
}

fn resource_out(from: &WireResource) -> wire_resource::Resource {
    let texts = |list: &[Text]| list.iter().map(|text| text.0.clone()).collect();
    let entities = from.entity_refs.iter().map(|entity| EntityRef {
        schema_url: entity.schema_url.0.clone(),
        r#type: entity.kind.0.clone(),
        id_keys: texts(&entity.id_keys),
        description_keys: texts(&entity.description_keys),
    });
    wire_resource::Resource {
        attributes: attributes(&from.attributes.0),
        dropped_attributes_count: from.dropped_attributes_count.0,
        entity_refs: entities.collect(),
    }
}

fn scope_out(from: &WireScope) -> InstrumentationScope {
    InstrumentationScope {
        name: from.name.0.clone(),
        version: from.version.0.clone(),
        attributes: attributes(&from.attributes.0),
        dropped_attributes_count: from.dropped_attributes_count.0,
    }
}
