//! Vercel's AI SDK, versions 3 to 6: `ai.*`. Version 7 speaks the GenAI conventions.

use serde_json::{Map, json};

use crate::convert::draft::{Draft, Kind};
use crate::convert::message::messages;
use crate::convert::talk::{Message, Part, Role};
use crate::convert::text::{decode_str, is_masked};
use crate::domain::Json;

pub(super) fn read(draft: &mut Draft) {
    let operation = draft
        .text(&["ai.operationId"])
        .or_else(|| draft.span.name.starts_with("ai.").then_some(draft.span.name.as_str()));
    let Some(operation) = operation else { return };
    draft.dialect("vercel_ai");
    draft.kind = Some(match operation {
        "ai.toolCall" => Kind::Tool,
        _ if operation.contains(".do") && !operation.contains("mbed") => Kind::Model,
        _ if operation.contains("mbed") || operation.contains("rerank") => Kind::Ignored,
        _ => Kind::Agent,
    });
    draft.agent =
        draft.text(&["ai.telemetry.functionId", "resource.name"]).map(str::to_owned).or(draft.agent.take());
    draft.model = draft.text(&["ai.response.model", "ai.model.id"]).map(str::to_owned).or(draft.model.take());
    draft.session = draft
        .text(&[
            "ai.telemetry.metadata.sessionId",
            "ai.telemetry.metadata.session_id",
            "ai.telemetry.metadata.conversationId",
            "ai.telemetry.metadata.threadId",
            "ai.telemetry.metadata.chatId",
        ])
        .map(str::to_owned)
        .or(draft.session.take());
    if draft.kind == Some(Kind::Tool) {
        draft.tool = draft.text(&["ai.toolCall.name"]).map(str::to_owned);
        draft.tool_id = draft.text(&["ai.toolCall.id"]).map(str::to_owned);
        draft.arguments_from(&["ai.toolCall.args", "ai.toolCall.input"]);
        draft.result_from(&["ai.toolCall.result", "ai.toolCall.output"]);
        return;
    }
    draft.input_from(&["ai.prompt.messages"]);
    if draft.input.is_empty()
        && let Some((key, value)) = draft.value(&["ai.prompt"])
    {
        let decoded = draft.decode(key, value);
        draft.input = messages(&decoded.json, Role::User);
    }
    if draft.output.is_empty() {
        draft.output = output(draft);
    }
}

fn output(draft: &mut Draft) -> Vec<Message> {
    let mut parts = Vec::new();
    if let Some(text) = draft.text(&["ai.response.reasoning", "ai.result.reasoning"]) {
        parts.push(Part::Thought(text.to_owned()));
    }
    if let Some(text) =
        draft.text(&["ai.response.text", "ai.result.text", "ai.response.object", "ai.result.object"])
    {
        parts.push(Part::Text(text.to_owned()));
    }
    if let Some(text) = draft.text(&["ai.response.toolCalls", "ai.result.toolCalls"])
        && !is_masked(text)
    {
        let decoded = decode_str(text);
        if decoded.cut {
            draft.cut.push("ai.response.toolCalls".to_owned());
        }
        let mut map = Map::new();
        map.insert("role".to_owned(), json!("assistant"));
        let mut calls = decoded.json;
        if let (true, Json::Array(items)) = (decoded.cut, &mut calls) {
            items.pop();
        }
        map.insert("tool_calls".to_owned(), calls);
        parts.extend(
            messages(&Json::Object(map), Role::Assistant).into_iter().flat_map(|message| message.parts),
        );
    }
    if parts.is_empty() { Vec::new() } else { vec![Message::new(Role::Assistant, parts)] }
}
