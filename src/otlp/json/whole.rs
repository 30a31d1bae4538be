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
        let held = Held::new(group.resource, group.schema_url);
        for scoped in group.scope_spans {
            let Some(scope) = held.scope(scoped.scope, scoped.schema_url, &skip) else { continue };
            let spans = scoped.spans.into_iter().filter_map(span);
            parts.extend(spans.map(|(id, span)| held.part(Signal::Traces, id, &scope, &span)));
        }
    }
    for group in request.resource_logs {
        let held = Held::new(group.resource, group.schema_url);
        for scoped in group.scope_logs {
            let Some(scope) = held.scope(scoped.scope, scoped.schema_url, &skip) else { continue };
            let records = scoped.log_records.into_iter().filter_map(record);
            parts.extend(records.map(|(id, record)| held.part(Signal::Logs, id, &scope, &record)));
        }
    }
    Ok(parts)
}

/// What came under one resource. As far as a part keeps them, the messages around spans and around log records are the same.
struct Held {
    resource: Resource,
    message: Arc<Vec<u8>>,
}

impl Held {
    fn new(from: Option<WireResource>, schema_url: Text) -> Self {
        let message = wire::ResourceSpans {
            resource: from.as_ref().map(resource_out),
            schema_url: schema_url.0,
            ..Default::default()
        };
        Self { message: Arc::new(message.encode_to_vec()), resource: resource(from) }
    }

    /// A scope's message; none if it is skipped.
    fn scope(
        &self,
        from: Option<WireScope>,
        schema_url: Text,
        skip: &impl Fn(&Resource, &Scope) -> bool,
    ) -> Option<Arc<Vec<u8>>> {
        let dropped = from.as_ref().map(|from| from.dropped_attributes_count.0);
        let known = scope(from);
        if skip(&self.resource, &known) {
            return None;
        }
        let message = wire::ScopeSpans {
            scope: dropped.map(|dropped| scope_out(known, dropped)),
            schema_url: schema_url.0,
            ..Default::default()
        };
        Some(Arc::new(message.encode_to_vec()))
    }

    fn part(&self, signal: Signal, trace_id: TraceId, scope: &Arc<Vec<u8>>, item: &impl Message) -> Part {
        Part::new(signal, trace_id, &self.message, scope, item.encode_to_vec().into())
    }
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

fn scope_out(from: Scope, dropped_attributes_count: u32) -> InstrumentationScope {
    InstrumentationScope {
        name: from.name,
        version: from.version,
        attributes: attributes(&from.attributes),
        dropped_attributes_count,
    }
}
