//! pydantic-ai and Logfire: `events`, `all_messages_events` and `tool_arguments` of the first versions,
//! `pydantic_ai.all_messages` and `final_result` of all, `request_data` and `response_data` of Logfire's client integrations.

use super::events::{Told, tell};
use crate::convert::draft::{Draft, Kind};
use crate::convert::message::messages;
use crate::convert::talk::{Message, Role};
use crate::convert::text::decode;
use crate::domain::Json;

pub(super) fn knows(key: &str) -> bool {
    matches!(
        key,
        "all_messages_events"
            | "all_messages"
            | "tool_arguments"
            | "tool_response"
            | "final_result"
            | "request_data"
            | "response_data"
            | "events"
    ) || key.starts_with("pydantic_ai.")
}

pub(super) fn read(draft: &mut Draft) {
    let attributes = &draft.span.attributes;
    if attributes.get("tool_arguments").is_some() || attributes.get("tool_response").is_some() {
        draft.dialect("pydantic_ai");
        draft.kind(Some(Kind::Tool));
        draft.arguments_from(&["tool_arguments"]);
        draft.result_from(&["tool_response"]);
        if draft.tool.is_none() {
            draft.tool = draft.text(&["gen_ai.tool.name"]).map(str::to_owned);
        }
        return;
    }
    if let Some((_, value)) = draft.value(&["events"])
        && let Json::Array(items) = decode(value).json
    {
        let told: Vec<Told> = items.into_iter().filter_map(Told::of_json).collect();
        if !told.is_empty() {
            draft.dialect("pydantic_ai");
            tell(&told, draft);
        }
    }
    let whole = draft.value(&["pydantic_ai.all_messages", "all_messages_events", "all_messages"]);
    if let Some((key, value)) = whole {
        draft.dialect("pydantic_ai");
        draft.kind = Some(Kind::Agent);
        if draft.agent.is_none() {
            draft.agent = draft.text(&["agent_name"]).map(str::to_owned);
        }
        let decoded = draft.decode(key, value);
        if key == "all_messages_events"
            && let Json::Array(items) = decoded.json
        {
            let told: Vec<Told> = items.into_iter().filter_map(Told::of_json).collect();
            tell(&told, draft);
        } else if draft.input.is_empty() {
            draft.input = messages(&decoded.json, Role::User);
        }
        split_answer(draft);
    }
    if draft.value(&["request_data"]).is_some() && draft.kind != Some(Kind::Ignored) {
        draft.dialect("logfire");
        draft.kind(Some(Kind::Model));
        draft.input_from(&["request_data"]);
        draft.output_from(&["response_data"]);
    }
    if let Some(text) = draft.text(&["final_result"]) {
        draft.kind(Some(Kind::Agent));
        if draft.output.is_empty() {
            draft.output.push(Message::text(Role::Assistant, text));
        }
    }
}

/// The whole conversation stands in one list: its last message is the answer.
fn split_answer(draft: &mut Draft) {
    if draft.output.is_empty() && draft.input.last().is_some_and(|last| last.role == Role::Assistant) {
        draft.output.extend(draft.input.pop());
    }
}
