//! OTLP/JSON, read more kindly than the specification asks: `null` means absent, enums may be names, 64-bit numbers may be
//! numbers, ids may be base64 (counted), field names may be in snake case. Unknown fields are ignored, as it demands.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::domain::{
    Attributes, Event, IdError, Link, LogRecord, Resource, Scope, Span, SpanId, Time, TraceId, Value,
};

use super::lenient::{Base64, Double, Id, Int, KindNames, Number, StatusNames, Text, U64, or_default};
use super::protobuf::{event_name, log_time, span_kind, span_status};
use super::{DecodeError, Decoded};

pub(super) fn decode(body: &[u8]) -> Result<Decoded, DecodeError> {
    let text =
        std::str::from_utf8(body).map_err(|error| DecodeError::NotUtf8 { position: error.valid_up_to() })?;
    let request: Request = serde_json::from_str(text).map_err(|source| DecodeError::Json { source })?;
    if !request.names_a_signal && request.has_other_keys {
        return Err(DecodeError::NoSignal);
    }
    let mut decoded = Decoded::default();
    for group in request.resource_spans {
        let resource = Arc::new(Resource { attributes: group.resource.attributes.0 });
        for scoped in group.scope_spans {
            let scope = Arc::new(scope(scoped.scope));
            for wire in scoped.spans {
                span(wire, &resource, &scope, &mut decoded);
            }
        }
    }
    for group in request.resource_logs {
        let resource = Arc::new(Resource { attributes: group.resource.attributes.0 });
        for scoped in group.scope_logs {
            let scope = Arc::new(scope(scoped.scope));
            for wire in scoped.log_records {
                log_record(wire, &resource, &scope, &mut decoded);
            }
        }
    }
    Ok(decoded)
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
    decoded.spans.push(Span {
        trace_id,
        span_id,
        parent_id,
        name: wire.name.0,
        kind: span_kind(wire.kind.0),
        start: Time(wire.start_time_unix_nano.0),
        end: Time(wire.end_time_unix_nano.0),
        status: span_status(wire.status.code.0, wire.status.message.0),
        attributes: wire.attributes.0,
        events: wire.events.into_iter().map(event).collect(),
        links: wire.links.into_iter().filter_map(link).collect(),
        dropped_attributes: wire.dropped_attributes_count,
        resource: Arc::clone(resource),
        scope: Arc::clone(scope),
    });
}

fn log_record(wire: WireLogRecord, resource: &Arc<Resource>, scope: &Arc<Scope>, decoded: &mut Decoded) {
    if matches!(wire.trace_id.id, None | Some(Err(IdError::Zero))) {
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
        body: wire.body.0,
        attributes: wire.attributes.0,
        resource: Arc::clone(resource),
        scope: Arc::clone(scope),
    });
}

fn scope(wire: WireScope) -> Scope {
    Scope { name: wire.name.0, version: wire.version.0, attributes: wire.attributes.0 }
}

fn event(wire: WireEvent) -> Event {
    Event {
        name: wire.name.0,
        time: Time(wire.time_unix_nano.0),
        attributes: wire.attributes.0,
        dropped_attributes: wire.dropped_attributes_count,
    }
}

fn link(wire: WireLink) -> Option<Link> {
    Some(Link {
        trace_id: wire.trace_id.required().ok()?,
        span_id: wire.span_id.required().ok()?,
        attributes: wire.attributes.0,
    })
}

/// Traces, logs, or both: the keys say which.
#[derive(Default)]
struct Request {
    resource_spans: Vec<ResourceSpans>,
    resource_logs: Vec<ResourceLogs>,
    names_a_signal: bool,
    has_other_keys: bool,
}

impl<'de> Deserialize<'de> for Request {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Request;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object with resourceSpans or resourceLogs")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Request, A::Error> {
                let mut request = Request::default();
                while let Some(key) = map.next_key::<Text>()? {
                    match key.0.as_str() {
                        "resourceSpans" | "resource_spans" => {
                            request.names_a_signal = true;
                            request
                                .resource_spans
                                .extend(map.next_value::<Option<Vec<_>>>()?.unwrap_or_default());
                        }
                        "resourceLogs" | "resource_logs" => {
                            request.names_a_signal = true;
                            request
                                .resource_logs
                                .extend(map.next_value::<Option<Vec<_>>>()?.unwrap_or_default());
                        }
                        _ => {
                            request.has_other_keys = true;
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(request)
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ResourceSpans {
    #[serde(deserialize_with = "or_default")]
    resource: WireResource,
    #[serde(alias = "scope_spans", deserialize_with = "or_default")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ScopeSpans {
    #[serde(deserialize_with = "or_default")]
    scope: WireScope,
    #[serde(deserialize_with = "or_default")]
    spans: Vec<WireSpan>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ResourceLogs {
    #[serde(deserialize_with = "or_default")]
    resource: WireResource,
    #[serde(alias = "scope_logs", deserialize_with = "or_default")]
    scope_logs: Vec<ScopeLogs>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ScopeLogs {
    #[serde(deserialize_with = "or_default")]
    scope: WireScope,
    #[serde(alias = "log_records", deserialize_with = "or_default")]
    log_records: Vec<WireLogRecord>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireResource {
    attributes: Pairs,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireScope {
    name: Text,
    version: Text,
    attributes: Pairs,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireSpan {
    #[serde(alias = "trace_id")]
    trace_id: Id<TraceId>,
    #[serde(alias = "span_id")]
    span_id: Id<SpanId>,
    #[serde(alias = "parent_span_id")]
    parent_span_id: Id<SpanId>,
    name: Text,
    kind: Number<KindNames>,
    #[serde(alias = "start_time_unix_nano")]
    start_time_unix_nano: U64,
    #[serde(alias = "end_time_unix_nano")]
    end_time_unix_nano: U64,
    attributes: Pairs,
    #[serde(alias = "dropped_attributes_count", deserialize_with = "or_default")]
    dropped_attributes_count: u32,
    #[serde(deserialize_with = "or_default")]
    events: Vec<WireEvent>,
    #[serde(deserialize_with = "or_default")]
    links: Vec<WireLink>,
    #[serde(deserialize_with = "or_default")]
    status: WireStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireStatus {
    code: Number<StatusNames>,
    message: Text,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireEvent {
    #[serde(alias = "time_unix_nano")]
    time_unix_nano: U64,
    name: Text,
    attributes: Pairs,
    #[serde(alias = "dropped_attributes_count", deserialize_with = "or_default")]
    dropped_attributes_count: u32,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireLink {
    #[serde(alias = "trace_id")]
    trace_id: Id<TraceId>,
    #[serde(alias = "span_id")]
    span_id: Id<SpanId>,
    attributes: Pairs,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireLogRecord {
    #[serde(alias = "time_unix_nano")]
    time_unix_nano: U64,
    #[serde(alias = "observed_time_unix_nano")]
    observed_time_unix_nano: U64,
    body: Any,
    attributes: Pairs,
    #[serde(alias = "trace_id")]
    trace_id: Id<TraceId>,
    #[serde(alias = "span_id")]
    span_id: Id<SpanId>,
    #[serde(alias = "event_name")]
    event_name: Text,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Pair {
    key: Text,
    value: Any,
}

/// A list of key-value pairs.
#[derive(Default)]
struct Pairs(Attributes);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a list of {key, value} objects")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Pairs, A::Error> {
                let mut attributes = Attributes::new();
                while let Some(pair) = list.next_element::<Pair>()? {
                    attributes.push(pair.key.0, pair.value.0);
                }
                Ok(Pairs(attributes))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Pairs, E> {
                Ok(Pairs::default())
            }
        }
        deserializer.deserialize_any(List)
    }
}

/// OTLP's `AnyValue`. serde_json's limit of 128 levels bounds the recursion.
#[derive(Default)]
struct Any(Value);

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOf;
        impl<'de> Visitor<'de> for OneOf {
            type Value = Any;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object such as {\"stringValue\": \"…\"}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Any, A::Error> {
                let mut value = Value::Null;
                while let Some(key) = map.next_key::<Text>()? {
                    let found = match key.0.as_str() {
                        "stringValue" | "string_value" => {
                            map.next_value::<Option<Text>>()?.map(|text| Value::String(text.0))
                        }
                        "boolValue" | "bool_value" => map.next_value::<Option<bool>>()?.map(Value::Bool),
                        "intValue" | "int_value" => {
                            map.next_value::<Option<Int>>()?.map(|number| Value::Int(number.0))
                        }
                        "doubleValue" | "double_value" => {
                            map.next_value::<Option<Double>>()?.map(|number| Value::Double(number.0))
                        }
                        "arrayValue" | "array_value" => map
                            .next_value::<Option<List>>()?
                            .map(|list| Value::List(list.values.into_iter().map(|any| any.0).collect())),
                        "kvlistValue" | "kvlist_value" => {
                            map.next_value::<Option<Map>>()?.map(|map| Value::Map(map.values.0))
                        }
                        "bytesValue" | "bytes_value" => {
                            map.next_value::<Option<Base64>>()?.map(|bytes| bytes.0)
                        }
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            None
                        }
                    };
                    value = found.unwrap_or(value);
                }
                Ok(Any(value))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Any, E> {
                Ok(Any::default())
            }
        }
        deserializer.deserialize_any(OneOf)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct List {
    #[serde(deserialize_with = "or_default")]
    values: Vec<Any>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Map {
    values: Pairs,
}
