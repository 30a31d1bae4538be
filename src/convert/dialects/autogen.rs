//! AutoGen's runtime: each span `autogen process …` holds the event that was processed, as JSON, in `message`.

use crate::convert::draft::{Draft, Kind};
use crate::domain::Json;

pub(super) fn read(draft: &mut Draft) {
    let is_runtime =
        draft.text(&["messaging.operation"]).is_some() || draft.span.scope.name.starts_with("autogen");
    let Some((key, value)) = draft.value(&["message"]).filter(|_| is_runtime) else { return };
    let decoded = draft.decode(key, value);
    let mut told = Vec::new();
    gather(decoded.json, 0, &mut told);
    if told.is_empty() {
        return;
    }
    draft.dialect("autogen");
    draft.events = told;
    draft.kind(Some(Kind::Chain));
}

/// The events of an envelope. A response lists what came before its last message.
fn gather(json: Json, depth: usize, out: &mut Vec<Json>) {
    if depth > 4 {
        return;
    }
    match json {
        Json::Array(items) => items.into_iter().for_each(|item| gather(item, depth + 1, out)),
        Json::Object(map) if map.contains_key("source") && map.contains_key("type") => {
            out.push(Json::Object(map))
        }
        Json::Object(mut map) => {
            for key in
                ["inner_messages", "messages", "message", "response", "chat_message", "result", "task_result"]
            {
                if let Some(inner) = map.remove(key) {
                    gather(inner, depth + 1, out);
                }
            }
        }
        _ => {}
    }
}
