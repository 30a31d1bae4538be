//! OTLP/JSON as it comes in: every field of its messages, with everything that senders may leave out or write otherwise.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::domain::{Attributes, SpanId, TraceId, Value};
use crate::otlp::lenient::{
    Base64, Double, Id, Int, KindNames, Number, SeverityNames, StatusNames, Text, U32, U64, or_default,
};

/// Traces, logs, or both: the keys say which.
#[derive(Default)]
pub(super) struct Request {
    pub(super) resource_spans: Vec<ResourceSpans>,
    pub(super) resource_logs: Vec<ResourceLogs>,
    pub(super) names_a_signal: bool,
    pub(super) has_other_keys: bool,
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
pub(super) struct ResourceSpans {
    pub(super) resource: Option<WireResource>,
    #[serde(alias = "scope_spans", deserialize_with = "or_default")]
    pub(super) scope_spans: Vec<ScopeSpans>,
    #[serde(alias = "schema_url")]
    pub(super) schema_url: Text,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ScopeSpans {
    pub(super) scope: Option<WireScope>,
    #[serde(deserialize_with = "or_default")]
    pub(super) spans: Vec<WireSpan>,
    #[serde(alias = "schema_url")]
    pub(super) schema_url: Text,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ResourceLogs {
    pub(super) resource: Option<WireResource>,
    #[serde(alias = "scope_logs", deserialize_with = "or_default")]
    pub(super) scope_logs: Vec<ScopeLogs>,
    #[serde(alias = "schema_url")]
    pub(super) schema_url: Text,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ScopeLogs {
    pub(super) scope: Option<WireScope>,
    #[serde(alias = "log_records", deserialize_with = "or_default")]
    pub(super) log_records: Vec<WireLogRecord>,
    #[serde(alias = "schema_url")]
    pub(super) schema_url: Text,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireResource {
    pub(super) attributes: Pairs,
    #[serde(alias = "dropped_attributes_count")]
    pub(super) dropped_attributes_count: U32,
    #[serde(alias = "entity_refs", deserialize_with = "or_default")]
    pub(super) entity_refs: Vec<WireEntityRef>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireEntityRef {
    #[serde(alias = "schema_url")]
    pub(super) schema_url: Text,
    #[serde(rename = "type")]
    pub(super) kind: Text,
    #[serde(alias = "id_keys", deserialize_with = "or_default")]
    pub(super) id_keys: Vec<Text>,
    #[serde(alias = "description_keys", deserialize_with = "or_default")]
    pub(super) description_keys: Vec<Text>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireScope {
    pub(super) name: Text,
    pub(super) version: Text,
    pub(super) attributes: Pairs,
    #[serde(alias = "dropped_attributes_count")]
    pub(super) dropped_attributes_count: U32,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireSpan {
    #[serde(alias = "trace_id")]
    pub(super) trace_id: Id<TraceId>,
    #[serde(alias = "span_id")]
    pub(super) span_id: Id<SpanId>,
    #[serde(alias = "parent_span_id")]
    pub(super) parent_span_id: Id<SpanId>,
    #[serde(alias = "trace_state")]
    pub(super) trace_state: Text,
    pub(super) flags: U32,
    pub(super) name: Text,
    pub(super) kind: Number<KindNames>,
    #[serde(alias = "start_time_unix_nano")]
    pub(super) start_time_unix_nano: U64,
    #[serde(alias = "end_time_unix_nano")]
    pub(super) end_time_unix_nano: U64,
    pub(super) attributes: Pairs,
    #[serde(alias = "dropped_attributes_count")]
    pub(super) dropped_attributes_count: U32,
    #[serde(deserialize_with = "or_default")]
    pub(super) events: Vec<WireEvent>,
    #[serde(alias = "dropped_events_count")]
    pub(super) dropped_events_count: U32,
    #[serde(deserialize_with = "or_default")]
    pub(super) links: Vec<WireLink>,
    #[serde(alias = "dropped_links_count")]
    pub(super) dropped_links_count: U32,
    pub(super) status: Option<WireStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WireStatus {
    pub(super) code: Number<StatusNames>,
    pub(super) message: Text,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireEvent {
    #[serde(alias = "time_unix_nano")]
    pub(super) time_unix_nano: U64,
    pub(super) name: Text,
    pub(super) attributes: Pairs,
    #[serde(alias = "dropped_attributes_count")]
    pub(super) dropped_attributes_count: U32,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireLink {
    #[serde(alias = "trace_id")]
    pub(super) trace_id: Id<TraceId>,
    #[serde(alias = "span_id")]
    pub(super) span_id: Id<SpanId>,
    #[serde(alias = "trace_state")]
    pub(super) trace_state: Text,
    pub(super) attributes: Pairs,
    #[serde(alias = "dropped_attributes_count")]
    pub(super) dropped_attributes_count: U32,
    pub(super) flags: U32,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireLogRecord {
    #[serde(alias = "time_unix_nano")]
    pub(super) time_unix_nano: U64,
    #[serde(alias = "observed_time_unix_nano")]
    pub(super) observed_time_unix_nano: U64,
    #[serde(alias = "severity_number")]
    pub(super) severity_number: Number<SeverityNames>,
    #[serde(alias = "severity_text")]
    pub(super) severity_text: Text,
    pub(super) body: Option<Any>,
    pub(super) attributes: Pairs,
    #[serde(alias = "dropped_attributes_count")]
    pub(super) dropped_attributes_count: U32,
    pub(super) flags: U32,
    #[serde(alias = "trace_id")]
    pub(super) trace_id: Id<TraceId>,
    #[serde(alias = "span_id")]
    pub(super) span_id: Id<SpanId>,
    #[serde(alias = "event_name")]
    pub(super) event_name: Text,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Pair {
    pub(super) key: Text,
    pub(super) value: Any,
}

/// A list of key-value pairs.
#[derive(Default)]
pub(super) struct Pairs(pub(super) Attributes);

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
pub(super) struct Any(pub(super) Value);

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
pub(super) struct List {
    #[serde(deserialize_with = "or_default")]
    pub(super) values: Vec<Any>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Map {
    pub(super) values: Pairs,
}
