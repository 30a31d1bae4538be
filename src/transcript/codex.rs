//! Codex's records: `{timestamp, type, payload}`, one per line. The story is in `response_item`; `event_msg` tells it again.

use serde_json::{Map, Value};

use super::event::{Event, TurnKey, is_true, text};
use super::text::{added_lines, of_blocks};

/// Types of records around a payload.
const RECORDS: [&str; 7] = [
    "session_meta",
    "turn_context",
    "world_state",
    "response_item",
    "event_msg",
    "compacted",
    "token_usage_record",
];

/// Types of items, which older versions wrote without a record around them.
const ITEMS: [&str; 6] = [
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "local_shell_call",
    "reasoning",
];

/// Beginnings of messages with the role `user` that the program wrote.
const NOT_THE_USERS: [&str; 10] = [
    "<environment_context>",
    "<user_instructions>",
    "<permissions",
    "<turn_aborted>",
    "<subagent_notification>",
    "<skill>",
    "<collaboration_mode>",
    "<user_shell_command>",
    "<model_switch>",
    "# AGENTS.md instructions",
];

/// How Codex hands a hook's reason to the agent.
const FEEDBACK: &str = "<hook_prompt";

/// Lines that Codex puts before a command's output; the last one is `Output:`.
const HEADER: [&str; 9] = [
    "Chunk ID:",
    "Wall time:",
    "Process exited with code",
    "Process running",
    "Exit code:",
    "Original token count:",
    "Total output lines:",
    "Session ID:",
    "Command:",
];

/// Whether a line is one of Codex's.
pub(super) fn is_record(record: &Map<String, Value>) -> bool {
    let Some(kind) = text(record, "type") else { return false };
    (RECORDS.contains(&kind) && record.contains_key("payload"))
        || (ITEMS.contains(&kind) && !record.contains_key("sessionId"))
        || (kind == "message" && record.contains_key("role"))
}

/// What a record tells.
pub(super) fn events(record: &Map<String, Value>) -> Vec<Event> {
    let item = match text(record, "type") {
        Some("response_item") => record.get("payload").and_then(Value::as_object),
        Some(kind) if RECORDS.contains(&kind) => None,
        _ => Some(record),
    };
    let Some(item) = item else { return Vec::new() };
    match text(item, "type") {
        Some("message") => message(item),
        Some("reasoning") => {
            let (thought, _) = of_blocks(item.get("summary").unwrap_or(&Value::Null));
            if thought.is_empty() { Vec::new() } else { vec![Event::Thought(thought)] }
        }
        Some("function_call" | "custom_tool_call" | "local_shell_call") => vec![call(item)],
        Some("function_call_output" | "custom_tool_call_output") => vec![output(item)],
        Some("web_search_call" | "image_generation_call") => vec![Event::Unrecorded],
        _ => Vec::new(),
    }
}

fn message(item: &Map<String, Value>) -> Vec<Event> {
    let Some(content) = item.get("content") else { return Vec::new() };
    match text(item, "role") {
        Some("assistant") => {
            let (text, _) = of_blocks(content);
            vec![Event::Said { text, message: self::text(item, "id").map(str::to_owned) }]
        }
        Some("user") => request(item, content).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn request(item: &Map<String, Value>, content: &Value) -> Option<Event> {
    let about = item.get("internal_chat_message_metadata_passthrough");
    let sources = about.and_then(|about| about.get("content_item_metadata")).and_then(Value::as_array);
    let provenance =
        |at: usize| sources.and_then(|sources| sources.get(at)).and_then(|one| one.get("provenance"));
    let parts: Vec<&str> = match content {
        Value::String(text) => vec![text],
        other => other
            .as_array()
            .into_iter()
            .flatten()
            .map(|part| part.get("text").and_then(Value::as_str).unwrap_or_default())
            .collect(),
    };
    let is_hook =
        |at: usize| provenance(at).and_then(|from| from.get("hook")).and_then(Value::as_bool) == Some(true);
    if parts.iter().enumerate().any(|(at, part)| part.trim_start().starts_with(FEEDBACK) || is_hook(at)) {
        return Some(Event::Feedback);
    }
    let is_users = |at: usize, part: &str| {
        let by_program =
            provenance(at).and_then(|from| from.get("type")).and_then(Value::as_str) == Some("harness");
        let part = part.trim_start();
        !by_program && !part.is_empty() && !NOT_THE_USERS.iter().any(|start| part.starts_with(start))
    };
    let said: Vec<&str> =
        parts.iter().enumerate().filter(|(at, part)| is_users(*at, part)).map(|(_, part)| *part).collect();
    if said.is_empty() {
        return None;
    }
    let turn = about.and_then(|about| about.get("turn_id")).and_then(Value::as_str);
    let turn = turn.map_or(TurnKey::New, |id| TurnKey::Id(id.to_owned()));
    Some(Event::Request { text: said.join("\n"), turn })
}

fn call(item: &Map<String, Value>) -> Event {
    let told = ["arguments", "input", "action"].iter().find_map(|key| item.get(*key));
    let arguments = told.map(|told| match told {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| told.clone()),
        other => other.clone(),
    });
    let texts = arguments.as_ref().map(texts).unwrap_or_default();
    let written: Vec<String> =
        texts.iter().map(|text| added_lines(text)).filter(|text| !text.is_empty()).collect();
    Event::Call {
        id: id(item),
        tool: text(item, "name").unwrap_or("shell").to_owned(),
        arguments,
        written: written.join("\n"),
    }
}

/// All texts within a value.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(members) => members.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

fn id(item: &Map<String, Value>) -> Option<String> {
    text(item, "call_id").or_else(|| text(item, "id")).map(str::to_owned)
}

fn output(item: &Map<String, Value>) -> Event {
    let mut read = Read::default();
    match item.get("output") {
        Some(Value::String(text)) => read.text(text),
        Some(Value::Object(told)) => {
            read.is_error = told.get("success").and_then(Value::as_bool) == Some(false);
            match told.get("content").or_else(|| told.get("body")) {
                Some(Value::String(text)) => read.text(text),
                Some(content) => read.blocks(content),
                None => read.object(told),
            }
        }
        Some(content) => read.blocks(content),
        None => {}
    }
    Event::Result {
        id: id(item),
        text: read.told.trim_end().to_owned(),
        is_error: read.is_error,
        is_unread: read.is_unread,
    }
}

/// A tool's output, taken out of its wrappings.
#[derive(Default)]
struct Read {
    told: String,
    is_error: bool,
    is_unread: bool,
}

impl Read {
    fn text(&mut self, text: &str) {
        let (code, body) = unheaded(text);
        self.is_error |= code.is_some_and(|code| code != 0);
        match serde_json::from_str::<Value>(body) {
            // A command may print JSON; only what has the marks of a wrapping is unwrapped.
            Ok(Value::Object(told)) if is_wrapping(&told) => self.object(&told),
            Ok(Value::Array(parts)) if is_content(&parts) => self.blocks(&Value::Array(parts)),
            _ => body.clone_into(&mut self.told),
        }
    }

    fn blocks(&mut self, content: &Value) {
        let (told, is_unread) = of_blocks(content);
        let (code, body) = unheaded(&told);
        self.is_error |= code.is_some_and(|code| code != 0);
        body.clone_into(&mut self.told);
        self.is_unread |= is_unread;
    }

    fn object(&mut self, told: &Map<String, Value>) {
        let code = told.get("metadata").and_then(|about| about.get("exit_code")).and_then(Value::as_i64);
        self.is_error |=
            code.is_some_and(|code| code != 0) || is_true(told, "isError") || is_true(told, "is_error");
        match (text(told, "output"), told.get("content")) {
            (Some(output), _) => output.clone_into(&mut self.told),
            (None, Some(content)) => self.blocks(content),
            (None, None) => self.told = Value::Object(told.clone()).to_string(),
        }
    }
}

fn is_wrapping(told: &Map<String, Value>) -> bool {
    let is_command = told.get("output").is_some_and(Value::is_string) && told.contains_key("metadata");
    let parts = told.get("content").and_then(Value::as_array);
    is_command || parts.is_some_and(|parts| is_content(parts))
}

fn is_content(parts: &[Value]) -> bool {
    let is_part = |part: &Value| {
        let kind = part.get("type").and_then(Value::as_str);
        kind.is_some_and(|kind| {
            matches!(kind, "text" | "input_text" | "output_text" | "image" | "input_image")
        })
    };
    !parts.is_empty() && parts.iter().all(is_part)
}

/// A command's exit code and its output, without the header.
fn unheaded(text: &str) -> (Option<i64>, &str) {
    let mut code = None;
    let mut rest = text;
    while let Some((line, after)) = rest.split_once('\n') {
        let line = line.trim_end();
        if line == "Output:" {
            return (code, after);
        }
        let is_known = line.is_empty() || HEADER.iter().any(|start| line.starts_with(start));
        if !is_known {
            return (None, text);
        }
        let told = line.strip_prefix("Process exited with code").or_else(|| line.strip_prefix("Exit code:"));
        code = told.and_then(|told| told.trim().parse().ok()).or(code);
        rest = after;
    }
    if rest.trim_end() == "Output:" { (code, "") } else { (None, text) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(payload: Value) -> Vec<Event> {
        let record = json!({"type": "response_item", "payload": payload});
        assert!(is_record(record.as_object().unwrap()));
        events(record.as_object().unwrap())
    }

    fn result(output: Value) -> (String, bool, bool) {
        match &read(json!({"type": "function_call_output", "call_id": "c", "output": output}))[..] {
            [Event::Result { text, is_error, is_unread, .. }] => (text.clone(), *is_error, *is_unread),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn outputs_are_taken_out_of_their_wrappings() {
        let told = |text: &str, is_error, is_unread| (text.to_owned(), is_error, is_unread);
        assert_eq!(
            result(json!(
                "Chunk ID: 3c\nWall time: 0.0 seconds\nProcess exited with code 1\nOriginal token count: 2\nOutput:\ncat: no\n"
            )),
            told("cat: no", true, false)
        );
        assert_eq!(
            result(json!("Exit code: 0\nWall time: 1 seconds\nOutput:\na\nOutput:\nb")),
            told("a\nOutput:\nb", false, false)
        );
        assert_eq!(result(json!("plain\nOutput:\nx")), told("plain\nOutput:\nx", false, false));
        assert_eq!(
            result(json!(r#"{"output":"a = 1\n","metadata":{"exit_code":2}}"#)),
            told("a = 1", true, false)
        );
        assert_eq!(result(json!(r#"{"output": 7}"#)), told(r#"{"output": 7}"#, false, false));
        assert_eq!(
            result(json!("Wall time: 0.1 seconds\nOutput:\n[{\"type\":\"text\",\"text\":\"open: 6500\"}]")),
            told("open: 6500", false, false)
        );
        assert_eq!(
            result(
                json!([{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "data:"}])
            ),
            told("a", false, true)
        );
        assert_eq!(result(json!({"content": "no", "success": false})), told("no", true, false));
        assert_eq!(result(json!("Exit code: 0\nOutput:\n")), told("", false, false));
        assert_eq!(result(Value::Null), told("", false, false));
    }

    #[test]
    fn only_what_the_user_wrote_is_a_request() {
        let user = |text: &str, about: Value| {
            read(json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}],
                        "internal_chat_message_metadata_passthrough": about}))
        };
        let by =
            |kind: &str| json!({"turn_id": "t", "content_item_metadata": [{"provenance": {"type": kind}}]});
        let asked = Event::Request { text: "How long?".into(), turn: TurnKey::Id("t".into()) };
        assert_eq!(user("How long?", by("user")), [asked]);
        assert_eq!(
            user("How long?", Value::Null),
            [Event::Request { text: "How long?".into(), turn: TurnKey::New }]
        );
        assert_eq!(user("<environment_context>\n…", Value::Null), []);
        assert_eq!(user("anything", by("harness")), []);
        assert_eq!(user("<hook_prompt hook_run_id=\"x\">no</hook_prompt>", Value::Null), [Event::Feedback]);
        assert_eq!(read(json!({"type": "message", "role": "developer", "content": "x"})), []);
    }

    #[test]
    fn patches_and_older_forms_are_read() {
        let patch = "*** Begin Patch\n*** Update File: a\n-b = 1\n+b = 2\n*** End Patch";
        let calls = [
            json!({"type": "custom_tool_call", "name": "apply_patch", "call_id": "c", "input": patch}),
            json!({"type": "function_call", "name": "shell", "call_id": "c",
                   "arguments": json!({"command": ["apply_patch", patch]}).to_string()}),
        ];
        for call in calls {
            let [Event::Call { written, .. }] = &read(call)[..] else { panic!("no call") };
            assert_eq!(written, "b = 2");
        }
        let bare = json!({"type": "function_call_output", "call_id": "c", "output": "x"});
        assert!(is_record(bare.as_object().unwrap()));
        assert_eq!(events(bare.as_object().unwrap()).len(), 1);
        assert_eq!(events(json!({"type": "event_msg", "payload": {"type": "x"}}).as_object().unwrap()), []);
    }
}
