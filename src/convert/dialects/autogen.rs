//! AutoGen's runtime: each span `autogen process …` holds the event that was processed, as JSON, in `message`.

use crate::convert::draft::{Draft, Kind};
use crate::convert::message::messages;
use crate::convert::talk::{Message, Role};
use crate::domain::Json;

pub(super) fn read(draft: &mut Draft) {
    let is_runtime = draft.text(&["messaging.operation"]).is_some() || draft.span.scope.name.starts_with("autogen");
    let Some((key, value)) = draft.value(&["message"]).filter(|_| is_runtime) else { return };
    let decoded = draft.decode(key, value);
    let mut told = Vec::new();
    gather(&decoded.json, 0, &mut told);
    if told.is_empty() {
        return;
    }
    draft.dialect("autogen");
    // Everything is history: what an event tells has already happened.
    draft.input = told;
    draft.kind(Some(Kind::Model));
}

/// The events of an envelope. A response lists what came before its last message.
fn gather(json: &Json, depth: usize, out: &mut Vec<Message>) {
    if depth > 4 {
        return;
    }
    match json {
        Json::Array(items) => items.iter().for_each(|item| gather(item, depth + 1, out)),
        Json::Object(map) if map.contains_key("source") && map.contains_key("type") => {
            out.extend(messages(json, Role::Assistant).into_iter().filter(|message| !message.parts.is_empty()));
        }
        Json::Object(map) => {
            for key in ["inner_messages", "messages", "message", "response", "chat_message", "result", "task_result"] {
                if let Some(inner) = map.get(key) {
                    gather(inner, depth + 1, out);
                }
            }
        }
        _ => {}
    }
}
