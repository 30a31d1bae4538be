//! Content blocks: the pieces of a message, as each provider shapes them.

use serde_json::Map;

use super::media::media;
use super::parse::CLASS;
use super::talk::{Call, Outcome, Part};
use super::text::{decode_str, is_masked, pick, pick_str};
use super::wrapping::{Shown, arguments, result_str};
use crate::domain::Json;

/// Bedrock's and Haystack's blocks without a type: `{"document": {"format": "pdf", "source": {"bytes": …}}}`, `{"base64_image": …}`.
fn is_bare_media(map: &Map<String, Json>) -> bool {
    let holds_source = |key: &&str| map.get(*key).is_some_and(|value| value.get("source").is_some());
    map.contains_key("base64_image")
        || map.len() == 1 && ["image", "document", "video", "audio"].iter().any(holds_source)
}

/// Whether an object is a content block rather than a message.
pub(super) fn is_block(json: &Json) -> bool {
    let Some(map) = json.as_object() else { return false };
    if map.contains_key("role")
        || map.contains_key("lc")
        || map.contains_key("data") && map.contains_key("type")
    {
        return false;
    }
    if let Some(kind) = map.get("type").and_then(Json::as_str) {
        return is_block_type(kind);
    }
    const BARE: [&str; 17] = [
        "toolRequest",
        "toolResponse",
        "text",
        "toolUse",
        "toolResult",
        "reasoningContent",
        "functionCall",
        "functionResponse",
        "function_call",
        "function_response",
        "inline_data",
        "inlineData",
        "tool_call",
        "tool_call_result",
        "message_content",
        "image",
        "block_type",
    ];
    is_bare_media(map)
        || BARE.iter().any(|key| map.contains_key(*key))
            && !map.contains_key("message")
            && !map.contains_key("generation_info")
}

fn is_block_type(kind: &str) -> bool {
    matches!(
        kind,
        "text"
            | "input_text"
            | "output_text"
            | "refusal"
            | "thinking"
            | "redacted_thinking"
            | "reasoning"
            | "tool_use"
            | "tool_result"
            | "server_tool_use"
            | "mcp_tool_use"
            | "mcp_tool_result"
            | "tool_call"
            | "tool_call_response"
            | "server_tool_call"
            | "server_tool_call_response"
            | "tool-call"
            | "tool-result"
            | "image"
            | "image_url"
            | "input_image"
            | "audio"
            | "input_audio"
            | "file"
            | "input_file"
            | "document"
            | "blob"
            | "uri"
            | "media"
            | "video"
            | "tool-error"
            | "summary_text"
            | "compaction"
            | "toolUse"
            | "toolResult"
            | "toolUseBlock"
            | "toolResultBlock"
            | "textBlock"
            | "reasoningBlock"
    )
}

/// The parts that a list of content blocks holds.
pub(super) fn blocks(items: &[Json]) -> Vec<Part> {
    let mut parts = Vec::new();
    for item in items {
        match item {
            Json::String(text) if !text.is_empty() && !is_masked(text) => {
                parts.push(Part::Text(text.clone()))
            }
            Json::Object(map) => block(map, 0, &mut parts),
            _ => {}
        }
    }
    parts
}

pub(super) fn block(map: &Map<String, Json>, depth: usize, parts: &mut Vec<Part>) {
    if depth > 3 {
        return;
    }
    // OpenInference wraps a block once; a call stands beside the wrapping.
    if let (Some(Json::Object(inner)), false) = (map.get("message_content"), map.contains_key("tool_call")) {
        return block(inner, depth + 1, parts);
    }
    for (key, is_call) in [
        ("toolUse", true),
        ("toolRequest", true),
        ("functionCall", true),
        ("function_call", true),
        ("tool_call", true),
        ("toolResult", false),
        ("toolResponse", false),
        ("functionResponse", false),
        ("function_response", false),
        ("tool_call_result", false),
    ] {
        if let Some(Json::Object(inner)) = map.get(key) {
            if !is_call {
                parts.push(Part::Result(outcome(inner)));
            } else if let Some(found) = call(inner) {
                parts.push(Part::Call(found));
            }
            return;
        }
    }
    if map.get("reasoningContent").is_some() || map.contains_key("redacted_thinking") {
        parts.extend(reasoning(map).into_iter().map(Part::Thought));
        return;
    }
    let kind = pick_str(map, &["type", "block_type"]);
    match kind {
        Some("thinking" | "reasoning" | "reasoningBlock") => {
            parts.extend(reasoning(map).into_iter().map(Part::Thought))
        }
        Some("redacted_thinking") => {}
        Some(
            "tool_use" | "tool_call" | "tool-call" | "server_tool_use" | "mcp_tool_use" | "server_tool_call"
            | "function_call" | "toolUse" | "toolUseBlock",
        ) => {
            if let Some(found) = call(map) {
                parts.push(Part::Call(found));
            }
        }
        Some(
            "tool_result"
            | "tool_call_response"
            | "tool-result"
            | "tool-error"
            | "mcp_tool_result"
            | "server_tool_call_response"
            | "web_search_tool_result"
            | "code_execution_tool_result"
            | "toolResult"
            | "toolResultBlock",
        ) => {
            let mut found = outcome(map);
            if kind == Some("tool-error") {
                found.failed = Some(true);
            }
            parts.push(Part::Result(found));
        }
        Some(
            kind @ ("image" | "image_url" | "input_image" | "audio" | "input_audio" | "file" | "input_file"
            | "document" | "blob" | "uri" | "media" | "video"),
        ) => {
            let label = pick_str(map, &["modality"]).unwrap_or(kind);
            parts.push(Part::Text(media(label, map)));
        }
        _ if map.contains_key("inline_data")
            || map.contains_key("inlineData")
            || map.contains_key("fileData") =>
        {
            parts.push(Part::Text(media("file", map)));
        }
        _ if is_bare_media(map) => {
            let key = map.keys().next().map_or("file", String::as_str);
            parts.push(Part::Text(media(key, map)));
        }
        _ => bare_block(map, depth, parts),
    }
}

/// A block without a type that says what it is.
fn bare_block(map: &Map<String, Json>, depth: usize, parts: &mut Vec<Part>) {
    if let Some(Json::String(class)) = map.get(CLASS) {
        match class.as_str() {
            "ToolCall" | "ToolCallBlock" => {
                parts.extend(call(map).map(Part::Call));
                return;
            }
            "ToolCallResult" => {
                parts.push(Part::Result(outcome(map)));
                return;
            }
            "ThinkingBlock" | "ReasoningContent" => {
                parts.extend(reasoning(map).into_iter().map(Part::Thought));
                return;
            }
            _ => {}
        }
    }
    let Some(value) = pick(map, &["text", "content", "output_text", "refusal"]) else { return };
    let text = match value {
        Json::String(text) => text.clone(),
        other => result_str(&other.to_string()).text,
    };
    if text.is_empty() || is_masked(&text) {
        return;
    }
    if let Some(inner) = nested(&text) {
        return block(&inner, depth + 1, parts);
    }
    let is_thought = map.get("thought").and_then(Json::as_bool) == Some(true);
    parts.push(if is_thought { Part::Thought(text) } else { Part::Text(text) });
}

/// The texts of a reasoning block. Encrypted reasoning has none.
pub(super) fn reasoning(map: &Map<String, Json>) -> Vec<String> {
    if let Some(inner) = map.get("reasoningContent").and_then(Json::as_object) {
        return reasoning(inner);
    }
    if let Some(inner) = map.get("reasoningText").and_then(Json::as_object) {
        return reasoning(inner);
    }
    let mut texts = Vec::new();
    for key in ["thinking", "content", "text", "summary", "reasoning", "reasoning_text", "thought"] {
        match map.get(key) {
            Some(Json::String(text)) if !text.trim().is_empty() && !is_masked(text) => {
                match summaries(text) {
                    Some(found) => texts.extend(found),
                    None => texts.push(text.clone()),
                }
            }
            Some(Json::Array(items)) => texts.extend(items.iter().filter_map(|item| {
                item.get("text").or_else(|| item.get("content")).unwrap_or(item).as_str().map(str::to_owned)
            })),
            _ => {}
        }
        if !texts.is_empty() {
            return texts;
        }
    }
    texts
}

/// The summaries of a reasoning item that travel as JSON text.
fn summaries(text: &str) -> Option<Vec<String>> {
    if !text.starts_with("[{") {
        return None;
    }
    let json = decode_str(text).json;
    json.as_array()?.iter().map(|item| Some(item.get("text")?.as_str()?.to_owned())).collect()
}

/// A block that travels as text, in JSON or as Python prints it, where its own text should be.
pub(super) fn nested(text: &str) -> Option<Map<String, Json>> {
    const MARKS: [&str; 9] = [
        "reasoningContent",
        "toolUse",
        "toolResult",
        "functionCall",
        "functionResponse",
        "'type': '",
        "'type':'",
        "\"type\": \"",
        "\"type\":\"",
    ];
    if !text.starts_with('{') || !text.ends_with('}') || !MARKS.iter().any(|mark| text.contains(mark)) {
        return None;
    }
    let decoded = decode_str(text);
    let Json::Object(map) = decoded.json else { return None };
    let is_typed = map.get("type").and_then(Json::as_str).is_none_or(|kind| match kind {
        "text" | "output_text" | "input_text" => map.get("text").is_some_and(Json::is_string),
        "thinking" | "reasoning" => true,
        "tool_use" | "tool_result" => map.contains_key("id") || map.contains_key("tool_use_id"),
        _ => false,
    });
    let is_alone = map.contains_key("type") || map.len() == 1 && is_block(&Json::Object(map.clone()));
    (!decoded.cut && is_typed && is_alone && !map.contains_key("role")).then_some(map)
}

/// A tool call in any of its spellings.
pub(super) fn call(map: &Map<String, Json>) -> Option<Call> {
    if let Some(Json::Object(inner)) = map.get("tool_call")
        && !map.contains_key("function")
    {
        return call(inner);
    }
    let id = pick_str(
        map,
        &[
            "id",
            "call_id",
            "toolCallId",
            "tool_call_id",
            "toolUseId",
            "tool_use_id",
            "tool_id",
            "callId",
            "ref",
        ],
    )
    .map(str::to_owned);
    // The Responses API has an item id and, apart from it, the call's id.
    let id = pick_str(map, &["call_id"]).map(str::to_owned).or(id);
    let function = match map.get("function") {
        Some(Json::Object(function)) => function,
        _ => map,
    };
    let name = pick_str(function, &["name", "tool_name", "toolName"])
        .or_else(|| map.get("function").and_then(Json::as_str))?
        .to_owned();
    let raw = pick(function, &["arguments", "args", "input", "parameters", "tool_kwargs", "params"])
        .or_else(|| map.get("server_tool_call"));
    let arguments = match raw {
        // The model gave none: an empty object, as the tool received.
        None => Some(Json::Object(Map::new())),
        Some(Json::String(text)) if text.trim().is_empty() => Some(Json::Object(Map::new())),
        Some(Json::String(text)) if is_masked(text) => None,
        Some(Json::String(text)) => arguments(decode_str(text)),
        Some(other) => Some(other.clone()),
    };
    Some(Call { id, also: Vec::new(), name, arguments })
}

/// A tool's result in any of its spellings.
pub(super) fn outcome(map: &Map<String, Json>) -> Outcome {
    let origin = map.get("origin").and_then(Json::as_object);
    let id =
        pick_str(map, &["tool_use_id", "toolUseId", "toolCallId", "tool_call_id", "call_id", "id", "ref"])
            .or_else(|| origin.and_then(|origin| pick_str(origin, &["id"])));
    let tool = pick_str(map, &["name", "toolName", "tool_name"])
        .or_else(|| origin.and_then(|origin| pick_str(origin, &["tool_name", "name"])));
    let value = pick(map, &["response", "result", "output", "content", "error", "server_tool_call_response"]);
    let shown = match value {
        Some(Json::String(text)) if is_masked(text) => Shown::default(),
        Some(Json::String(text)) => result_str(text),
        Some(other) => result_str(&other.to_string()),
        None => Shown::default(),
    };
    told_by(map, id, tool, shown)
}

/// What this block or message says of a result, and, where it says nothing, the result itself.
pub(super) fn told_by(
    map: &Map<String, Json>,
    id: Option<&str>,
    tool: Option<&str>,
    shown: Shown,
) -> Outcome {
    let failed = pick(map, &["is_error", "isError", "error"])
        .and_then(Json::as_bool)
        .or_else(|| map.get("status").and_then(Json::as_str).map(|status| status == "error"))
        .or(shown.failed);
    Outcome {
        id: id.map(str::to_owned).or(shown.id),
        tool: tool.map(str::to_owned).or(shown.tool),
        text: shown.text,
        failed,
    }
}
