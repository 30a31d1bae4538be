//! Attribute values as JSON and as text.

use serde_json::{Map, Number};

use super::media::placeholder;
use super::parse::parse;
use crate::domain::{Attributes, Json, Value};

/// Nesting beyond this is not followed.
const DEEPEST: usize = 96;

/// How often JSON is unpacked from a string inside JSON.
pub(super) const LAYERS: usize = 4;

/// A value and whether the sender's limits cut it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Decoded {
    pub(super) json: Json,
    pub(super) cut: bool,
}

/// The value as JSON; a string that holds JSON or Python is unpacked, any other string stays one.
pub(super) fn decode(value: &Value) -> Decoded {
    match value {
        Value::String(text) => decode_str(text),
        other => Decoded { json: to_json(other, 0), cut: false },
    }
}

/// See [`decode`].
pub(super) fn decode_str(text: &str) -> Decoded {
    let Some(parsed) = parse(text) else {
        return Decoded { json: Json::String(text.to_owned()), cut: false };
    };
    let mut decoded = Decoded { json: parsed.json, cut: parsed.cut };
    for _ in 1..LAYERS {
        let Json::String(inner) = &decoded.json else { break };
        match parse(inner) {
            Some(parsed) => decoded = Decoded { json: parsed.json, cut: decoded.cut || parsed.cut },
            None => break,
        }
    }
    // LangWatch says of every value what it is: {"type": "chat_messages", "value": [...]}
    if let Json::Object(map) = &mut decoded.json
        && is_typed_value(map)
        && map.get("type").and_then(Json::as_str).is_some_and(|kind| TYPES.contains(&kind))
    {
        decoded.json = map.remove("value").unwrap_or_default();
    }
    decoded
}

/// What a value can be said to be beside it.
const TYPES: [&str; 5] = ["chat_messages", "json", "text", "raw", "list"];

/// A structured attribute value as JSON, strings untouched.
pub(super) fn to_json(value: &Value, depth: usize) -> Json {
    if depth > DEEPEST {
        return Json::Null;
    }
    match value {
        Value::Null => Json::Null,
        Value::Bool(truth) => Json::Bool(*truth),
        Value::Int(number) => Json::Number((*number).into()),
        Value::Double(number) => Number::from_f64(*number).map_or(Json::Null, Json::Number),
        Value::String(text) => Json::String(text.clone()),
        Value::Bytes(bytes) => Json::String(placeholder("bytes", None, bytes)),
        Value::List(items) => Json::Array(items.iter().map(|item| to_json(item, depth + 1)).collect()),
        Value::Map(attributes) => map_to_json(attributes, depth + 1),
    }
}

fn map_to_json(attributes: &Attributes, depth: usize) -> Json {
    Json::Object(attributes.iter().map(|(key, value)| (key.to_owned(), to_json(value, depth))).collect())
}

/// Whether the instrumentation put a mask where content was.
pub(super) fn is_masked(text: &str) -> bool {
    let inner = text.trim().trim_matches(|c: char| "_[]<>*\"".contains(c));
    (inner.is_empty() && !text.trim().is_empty() && text.trim().len() < 20 && text.contains(['*', '_']))
        || inner.eq_ignore_ascii_case("redacted")
        || inner.eq_ignore_ascii_case("masked")
        || inner.eq_ignore_ascii_case("filtered")
}

/// Names of a graph's own places, such as `__end__`.
pub(super) fn is_constant(text: &str) -> bool {
    let text = text.trim();
    text.len() > 4
        && text.starts_with("__")
        && text.ends_with("__")
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// A string as itself, nothing as nothing, everything else as compact JSON.
pub(super) fn plain(json: &Json) -> String {
    match json {
        Json::String(text) => text.clone(),
        Json::Null => String::new(),
        other => other.to_string(),
    }
}

/// The first of `keys` that the object has, and that is not null.
pub(super) fn pick<'a>(map: &'a Map<String, Json>, keys: &[&str]) -> Option<&'a Json> {
    keys.iter().find_map(|key| map.get(*key).filter(|value| !value.is_null()))
}

/// The first of `keys` that the object has as a non-empty string.
pub(super) fn pick_str<'a>(map: &'a Map<String, Json>, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| map.get(*key).and_then(Json::as_str).filter(|text| !text.is_empty()))
}

/// Vercel's `{"type": "json", "value": ...}`.
pub(super) fn is_typed_value(map: &Map<String, Json>) -> bool {
    map.len() == 2 && map.contains_key("value") && map.get("type").is_some_and(Json::is_string)
}
