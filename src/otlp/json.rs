//! OTLP/JSON, read more kindly than the specification asks: `null` means absent, enums may be names, 64-bit numbers may be
//! numbers, ids may be base64 (counted), field names may be in snake case. Unknown fields are ignored, as it demands.

mod whole;
mod wire;

use std::sync::Arc;

use self::wire::{Request, WireEvent, WireLink, WireLogRecord, WireResource, WireScope, WireSpan};
use super::protobuf::{event_name, log_time, span_kind, span_status};
use super::{DecodeError, Decoded};
use crate::domain::{Event, IdError, Link, LogRecord, Resource, Scope, Span, Time};

pub(super) use self::whole::parts;

pub(super) fn decode(body: &[u8]) -> Result<Decoded, DecodeError> {
    let request = read(body)?;
    let mut decoded = Decoded::default();
    for group in request.resource_spans {
        let resource = Arc::new(resource(group.resource));
        for scoped in group.scope_spans {
            let scope = Arc::new(scope(scoped.scope));
            for wire in scoped.spans {
                span(wire, &resource, &scope, &mut decoded);
            }
        }
    }
    for group in request.resource_logs {
        let resource = Arc::new(resource(group.resource));
        for scoped in group.scope_logs {
            let scope = Arc::new(scope(scoped.scope));
            for wire in scoped.log_records {
                log_record(wire, &resource, &scope, &mut decoded);
            }
        }
    }
    Ok(decoded)
}

fn read(body: &[u8]) -> Result<Request, DecodeError> {
    let text =
        std::str::from_utf8(body).map_err(|error| DecodeError::NotUtf8 { position: error.valid_up_to() })?;
    let request: Request = serde_json::from_str(text).map_err(|source| DecodeError::Json { source })?;
    if !request.names_a_signal && request.has_other_keys {
        return Err(DecodeError::NoSignal);
    }
    Ok(request)
}

fn span(wire: WireSpan, resource: &Arc<Resource>, scope: &Arc<Scope>, decoded: &mut Decoded) {
    let base64_ids = [wire.trace_id.base64, wire.span_id.base64, wire.parent_span_id.base64];
    decoded.base64_ids += base64_ids.into_iter().filter(|was| *was).count() as u64;
    let mut reject = |id, source| decoded.rejects.add("span", &wire.name.0, id, source);
    let trace_id = match wire.trace_id.required() {
        Ok(id) => id,
        Err(source) => return reject("trace", source),
    };
    let span_id = match wire.span_id.required() {
        Ok(id) => id,
        Err(source) => return reject("span", source),
    };
    let parent_id = match wire.parent_span_id.optional() {
        Ok(id) => id,
        Err(source) => return reject("parent span", source),
    };
    let status = wire.status.unwrap_or_default();
    decoded.spans.push(Span {
        trace_id,
        span_id,
        parent_id,
        name: wire.name.0,
        kind: span_kind(wire.kind.0),
        start: Time(wire.start_time_unix_nano.0),
        end: Time(wire.end_time_unix_nano.0),
        status: span_status(status.code.0, status.message.0),
        attributes: wire.attributes.0,
        events: wire.events.into_iter().map(event).collect(),
        links: wire.links.into_iter().filter_map(link).collect(),
        dropped_attributes: wire.dropped_attributes_count.0,
        resource: Arc::clone(resource),
        scope: Arc::clone(scope),
    });
}

fn log_record(wire: WireLogRecord, resource: &Arc<Resource>, scope: &Arc<Scope>, decoded: &mut Decoded) {
    if is_without_trace(&wire) {
        decoded.logs_without_trace += 1;
        return;
    }
    decoded.base64_ids += u64::from(wire.trace_id.base64) + u64::from(wire.span_id.base64);
    let mut reject = |id, source| decoded.rejects.add("log record", &wire.event_name.0, id, source);
    let trace_id = match wire.trace_id.required() {
        Ok(id) => id,
        Err(source) => return reject("trace", source),
    };
    let span_id = match wire.span_id.optional() {
        Ok(id) => id,
        Err(source) => return reject("span", source),
    };
    decoded.logs.push(LogRecord {
        trace_id,
        span_id,
        time: log_time(Time(wire.time_unix_nano.0), Time(wire.observed_time_unix_nano.0)),
        event_name: event_name(wire.event_name.0, &wire.attributes.0),
        body: wire.body.unwrap_or_default().0,
        attributes: wire.attributes.0,
        resource: Arc::clone(resource),
        scope: Arc::clone(scope),
    });
}

fn is_without_trace(wire: &WireLogRecord) -> bool {
    matches!(wire.trace_id.id, None | Some(Err(IdError::Zero)))
}

fn resource(wire: Option<WireResource>) -> Resource {
    Resource { attributes: wire.unwrap_or_default().attributes.0 }
}

fn scope(wire: Option<WireScope>) -> Scope {
    let wire = wire.unwrap_or_default();
    Scope { name: wire.name.0, version: wire.version.0, attributes: wire.attributes.0 }
}

fn event(wire: WireEvent) -> Event {
    Event {
        name: wire.name.0,
        time: Time(wire.time_unix_nano.0),
        attributes: wire.attributes.0,
        dropped_attributes: wire.dropped_attributes_count.0,
    }
}

fn link(wire: WireLink) -> Option<Link> {
    Some(Link {
        trace_id: wire.trace_id.required().ok()?,
        span_id: wire.span_id.required().ok()?,
        attributes: wire.attributes.0,
    })
}
