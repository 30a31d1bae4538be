//! What a tool's arguments and results are once the wrappings of frameworks are off.

use serde_json::Map;

use super::media::media;
use super::parse::{CLASS, parse};
use super::text::{Decoded, LAYERS, decode_str, is_typed_value, pick, pick_str, plain, to_json};
use crate::domain::{Json, Value};

/// A call's arguments without their wrappings. `None` if they were cut off.
pub(super) fn arguments(decoded: Decoded) -> Option<Json> {
    if decoded.cut {
        return None;
    }
    Some(unwrap_arguments(decoded.json, 0))
}

fn unwrap_arguments(json: Json, depth: usize) -> Json {
    if depth > 4 {
        return json;
    }
    let Json::Object(mut map) = json else {
        if let Json::String(text) = &json
            && let Some(parsed) = parse(text).filter(|parsed| !parsed.cut)
            && !parsed.json.is_string()
        {
            return unwrap_arguments(parsed.json, depth + 1);
        }
        return json;
    };
    // Python functions: {"args": [...], "kwargs": {...}, ...}
    let has_args = matches!(map.get("args"), None | Some(Json::Array(_)));
    if has_args && matches!(map.get("kwargs"), Some(Json::Object(_))) {
        let positional = map.get("args").and_then(Json::as_array).is_some_and(|args| !args.is_empty());
        let named = map.get("kwargs").and_then(Json::as_object).is_some_and(|kwargs| !kwargs.is_empty());
        let only =
            map.keys().all(|key| matches!(key.as_str(), "args" | "kwargs" | "sanitize_inputs_outputs"));
        if only && (named || !positional) {
            return without_objects(map.remove("kwargs").unwrap_or_default());
        }
        if only && let Some(Json::Array(args)) = map.remove("args") {
            return match <[Json; 1]>::try_from(args) {
                Ok([one]) => one,
                Err(args) => Json::Array(args),
            };
        }
    }
    // A JavaScript function's one argument: {"args": ["{...}"]}
    if map.len() == 1
        && let Some(Json::Array(args)) = map.get_mut("args")
        && args.len() == 1
    {
        return unwrap_arguments(args.remove(0), depth + 1);
    }
    // BeeAI: {"input": {...}, "options": null}
    if map.contains_key("options") && map.len() == 2 && matches!(map.get("input"), Some(Json::Object(_))) {
        return map.remove("input").unwrap_or_default();
    }
    // LangChain's callbacks: {"input_str": "{'a': 1}", "tags": [...], ...}
    if let Some(Json::String(inner)) = map.get("input_str") {
        let inner = decode_str(inner);
        if let Some(Json::Object(inputs)) = map.get("inputs")
            && !inputs.is_empty()
            && !inner.json.is_object()
        {
            return Json::Object(inputs.clone());
        }
        return if inner.cut { Json::Object(map) } else { inner.json };
    }
    // A whole tool call: {"name": ..., "args": {...}, "id": ..., "type": "tool_call"}
    let is_call = map.contains_key("name") && (map.contains_key("id") || map.contains_key("type"));
    if is_call
        && let Some(args) = map.get("args").or_else(|| map.get("arguments")).or_else(|| map.get("input"))
        && (args.is_object() || args.is_string())
    {
        return unwrap_arguments(args.clone(), depth + 1);
    }
    Json::Object(map)
}

/// Drops arguments that are only the address of a Python object, which frameworks inject.
fn without_objects(json: Json) -> Json {
    let Json::Object(map) = json else { return json };
    let is_address =
        |value: &Json| value.as_str().is_some_and(|t| t.starts_with('<') && t.contains(" object at 0x"));
    Json::Object(map.into_iter().filter(|(_, value)| !is_address(value)).collect())
}

/// A tool's result: its text, and whether the wrapping said that the tool failed.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Shown {
    pub(super) text: String,
    pub(super) failed: Option<bool>,
    /// The id of the call, where the wrapping holds it.
    pub(super) id: Option<String>,
    pub(super) tool: Option<String>,
}

/// A result as text without its wrappings. Text that was cut off stays as it is.
pub(super) fn result(value: &Value) -> Shown {
    match value {
        Value::String(text) => result_str(text),
        other => result_json(&to_json(other, 0), 0),
    }
}

/// See [`result`].
pub(super) fn result_str(text: &str) -> Shown {
    unwrap_text(text, 0)
}

/// Text that is a wrapping without it; any other text as it is, to the letter.
fn unwrap_text(text: &str, depth: usize) -> Shown {
    let as_it_is = || Shown { text: text.to_owned(), ..Shown::default() };
    let Some(parsed) =
        parse(text).filter(|parsed| !parsed.cut && depth < LAYERS && is_wrapping(&parsed.json))
    else {
        return as_it_is();
    };
    match unwrapped(&parsed.json, depth + 1) {
        Some(shown) if shown.text.is_empty() && !is_known_empty(&parsed.json) => {
            Shown { text: text.to_owned(), ..shown }
        }
        Some(shown) => shown,
        None => as_it_is(),
    }
}

fn is_known_empty(json: &Json) -> bool {
    json.as_str() == Some("")
        || json.as_object().is_some_and(|map| {
            map.len() == 1 && map.values().all(|value| value.is_null() || value.as_str() == Some(""))
        })
}

/// Whether unpacking may change the value. Plain data is kept as the tool wrote it.
fn is_wrapping(json: &Json) -> bool {
    match json {
        Json::String(_) => true,
        Json::Array(items) => items.iter().all(|item| block_text(item).is_some()) && !items.is_empty(),
        Json::Object(map) => {
            map.len() == 1 || is_typed_value(map) || map.keys().any(|key| WRAPPERS.contains(&key.as_str()))
        }
        _ => false,
    }
}

/// Keys by which frameworks' wrappings are told from a tool's own data.
const WRAPPERS: [&str; 19] = [
    "error_message",
    "kwargs",
    "tool_call_id",
    "toolCallId",
    "toolUseId",
    "tool_use_id",
    "blocks",
    "raw_output",
    "tool_output",
    "output",
    "outputs",
    "isError",
    "is_error",
    CLASS,
    "content",
    "data",
    "response",
    "messages",
    "update",
];

fn result_json(json: &Json, depth: usize) -> Shown {
    unwrapped(json, depth).unwrap_or_else(|| Shown { text: plain(json), ..Shown::default() })
}

/// A value without its wrapping; `None` if it is plain data.
fn unwrapped(json: &Json, depth: usize) -> Option<Shown> {
    if depth > 8 {
        return None;
    }
    match json {
        // A string in a string: MLflow, DSPy and traceloop encode string results once more.
        Json::String(text) => Some(unwrap_text(text, depth)),
        Json::Array(items) if !items.is_empty() && items.iter().all(|item| block_text(item).is_some()) => {
            let texts: Vec<String> = items.iter().filter_map(block_text).collect();
            let failed = items.iter().any(|item| item.get("is_error").and_then(Json::as_bool) == Some(true));
            // What a block holds may be JSON in a string again.
            let inner = unwrap_text(&texts.join("\n"), depth);
            Some(Shown { failed: failed.then_some(true).or(inner.failed), ..inner })
        }
        Json::Object(map) => result_object(map, depth),
        _ => None,
    }
}

fn result_object(map: &Map<String, Json>, depth: usize) -> Option<Shown> {
    // LangChain: constructor form, {"type": "tool", "data": {...}}, {"output": <message>}
    if map.contains_key("lc")
        && let Some(kwargs) = map.get("kwargs")
    {
        return Some(result_json(kwargs, depth + 1));
    }
    if map.len() <= 2
        && map.contains_key("type")
        && let Some(data @ Json::Object(_)) = map.get("data")
    {
        return Some(result_json(data, depth + 1));
    }
    if let Some(tool_result) = map.get("toolResult").or_else(|| map.get("tool_result")) {
        return Some(result_json(tool_result, depth + 1));
    }
    let id = pick_str(map, &["tool_call_id", "toolCallId", "toolUseId", "tool_use_id", "call_id", "tool_id"]);
    let failed = map
        .get("is_error")
        .or_else(|| map.get("isError"))
        .and_then(Json::as_bool)
        .or_else(|| id.and(map.get("status")).and_then(Json::as_str).map(|status| status == "error"));
    let is_message = id.is_some()
        || map
            .get("type")
            .and_then(Json::as_str)
            .is_some_and(|t| t == "tool" || t == "ToolMessage" || t == "tool_result");
    let is_mcp =
        map.contains_key("isError") || map.contains_key("is_error") || map.contains_key("structuredContent");
    if (is_message || is_mcp || map.contains_key("blocks"))
        && let Some(content) = pick(map, &["content", "blocks", "output", "result", "tool_output"])
    {
        let inner = result_json(content, depth + 1);
        return Some(Shown {
            text: inner.text,
            failed: failed.or(inner.failed),
            id: id.map(str::to_owned).or(inner.id),
            tool: pick_str(map, &["name", "tool_name", "toolName"]).map(str::to_owned).or(inner.tool),
        });
    }
    // Vercel AI: {"type": "json" | "text" | "error-text", "value": ...}
    if map.len() == 2
        && let (Some(Json::String(kind)), Some(value)) = (map.get("type"), map.get("value"))
    {
        let inner = result_json(value, depth + 1);
        return Some(Shown { failed: kind.starts_with("error").then_some(true).or(inner.failed), ..inner });
    }
    // Gemini: {"id": ..., "name": ..., "response": {"result": ...}}
    if map.contains_key("name")
        && map.len() <= 4
        && let Some(response) = map.get("response")
    {
        let inner = result_json(response, depth + 1);
        return Some(Shown {
            id: pick_str(map, &["id"]).map(str::to_owned).or(inner.id),
            tool: pick_str(map, &["name"]).map(str::to_owned),
            ..inner
        });
    }
    // LangChain's callbacks: {"output": <anything>, "kwargs": {...}}
    if let Some(output) = map.get("output")
        && map.keys().all(|key| matches!(key.as_str(), "output" | "kwargs" | "type" | "status"))
    {
        return Some(result_json(output, depth + 1));
    }
    // LangGraph: a tool that answers with a command or with messages.
    if let Some(Json::Array(messages)) =
        map.get("messages").or_else(|| map.get("update").and_then(|u| u.get("messages")))
    {
        let last = messages.last()?;
        return Some(result_json(last, depth + 1));
    }
    // A tool that reports its failure: {"status": "error", "error_message": ...}
    if map.len() <= 3
        && map.get("status").and_then(Json::as_str) == Some("error")
        && let Some(message) = pick_str(map, &["error_message", "error", "message", "detail"])
    {
        return Some(Shown { text: message.to_owned(), failed: Some(true), ..Shown::default() });
    }
    if map.len() != 1 {
        return None;
    }
    let (key, value) = map.iter().next()?;
    match (key.as_str(), value) {
        ("result" | "output" | "response" | "content" | "return_value" | "text", Json::String(_)) => {
            Some(result_json(value, depth + 1))
        }
        ("result" | "output" | "response" | "content", Json::Array(_) | Json::Object(_)) => {
            Some(result_json(value, depth + 1))
        }
        ("error", Json::String(text)) => {
            Some(Shown { text: text.clone(), failed: Some(true), ..Shown::default() })
        }
        _ => None,
    }
}

/// The text of a content block, `None` if this is not one.
fn block_text(json: &Json) -> Option<String> {
    let map = json.as_object()?;
    if let Some(Json::String(text)) = map.get("text") {
        let kind = map.get("type").and_then(Json::as_str).unwrap_or("text");
        let bare = map.len() == 1
            || matches!(kind, "text" | "output_text" | "input_text") && map.contains_key("type");
        return (bare || map.contains_key("block_type")).then(|| text.clone());
    }
    if let Some(inner) = map.get("toolResult") {
        return Some(result_json(inner, 1).text);
    }
    if let Some(inner) = map.get("json").filter(|_| map.len() == 1) {
        return Some(inner.to_string());
    }
    let kind = map.get("type").and_then(Json::as_str)?;
    const MEDIA: [&str; 11] = [
        "image",
        "audio",
        "image_url",
        "input_image",
        "input_audio",
        "file",
        "input_file",
        "media",
        "video",
        "document",
        "resource",
    ];
    MEDIA.contains(&kind).then(|| media(kind, map))
}

/// Whether a result's text says that the tool failed: a JSON object whose `error` is set.
pub(super) fn tells_error(text: &str) -> bool {
    if !text.starts_with('{') || text.len() > 4096 || !text.contains("\"error\"") {
        return false;
    }
    match serde_json::from_str(text) {
        Ok(Json::Object(map)) => match map.get("error") {
            None | Some(Json::Null | Json::Bool(false)) => false,
            Some(Json::String(error)) => !error.is_empty() && map.len() <= 3,
            Some(_) => map.len() <= 3,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_lose_their_wrappings() {
        let cases = [
            (r#"{"result": "42 \u00b0C"}"#, "42 °C"),
            (r#"[{"type": "text", "text": "{\"a\": 1}"}]"#, r#"{"a": 1}"#),
            (r#"{"output":{"content":"x","type":"tool","tool_call_id":"c","status":"error"}}"#, "x"),
            (
                r#"{"output": {"lc": 1, "type": "constructor", "kwargs": {"content": "y", "tool_call_id": "c"}}, "kwargs": {}}"#,
                "y",
            ),
            (r#""{\"a\": 1}""#, r#"{"a": 1}"#),
            (r#"{"a": 1, "b": 2}"#, r#"{"a": 1, "b": 2}"#),
            (r#"{"blocks":[{"text":"z","block_type":"text"}],"tool_name":"t","is_error":false}"#, "z"),
            ("plain [text]", "plain [text]"),
        ];
        for (input, text) in cases {
            assert_eq!(result_str(input).text, text, "{input}");
        }
        assert_eq!(result_str(cases[2].0).failed, Some(true));
    }

    #[test]
    fn arguments_lose_their_wrappings() {
        let cases = [
            (r#"{"args": [], "kwargs": {"a": 1}}"#, json!({"a": 1})),
            (r#"{"input_str": "{'a': 'x'}", "tags": []}"#, json!({"a": "x"})),
            (r#""{\"a\": 1}""#, json!({"a": 1})),
            (r#"{"kwargs": {"a": 1, "ctx": "<workflows.Context object at 0x7f>"}}"#, json!({"a": 1})),
            (r#"{"args": "of its own", "b": 1}"#, json!({"args": "of its own", "b": 1})),
        ];
        for (input, wanted) in cases {
            assert_eq!(arguments(decode_str(input)), Some(wanted), "{input}");
        }
        assert_eq!(arguments(decode_str(r#"{"a": "cut of"#)), None);
    }
}
