//! GenAI conventions on events: span events and log records, one per message (`gen_ai.user.message`, `gen_ai.choice`) or one
//! per call (`gen_ai.client.inference.operation.details`).

use serde_json::Map;

use crate::convert::draft::{Draft, Kind};
use crate::convert::message::{messages, messages_of};
use crate::convert::talk::{Message, Part, Role};
use crate::convert::text::{decode, decode_str, to_json};
use crate::convert::wrapping::{arguments, result_str};
use crate::domain::{Attributes, Event, Json, LogRecord, Value};

/// The event that tells a whole call.
const DETAILS: &str = "gen_ai.client.inference.operation.details";

/// One event: its name, what it says, and where it stands among its like.
#[derive(Debug)]
pub(in crate::convert) struct Told {
    name: String,
    body: Json,
    order: (u64, u8, i64),
}

impl Told {
    pub(in crate::convert) fn of_event(event: &Event) -> Option<Told> {
        let name = event.name.as_str();
        if !name.starts_with("gen_ai.") {
            return None;
        }
        // Span events of one span are listed in their order.
        Some(Told { name: name.to_owned(), body: map_of(&event.attributes), order: (0, 0, 0) })
    }

    pub(in crate::convert) fn of_log(log: &LogRecord) -> Option<Told> {
        if !is_told(log) {
            return None;
        }
        let body = match &log.body {
            Value::Null => map_of(&log.attributes),
            Value::String(text) => decode_str(text).json,
            other => to_json(other, 0),
        };
        // A library without a body puts the content on attributes.
        let body = if body.is_object() { body } else { with_content(&log.attributes, body) };
        let index = ["gen_ai.message.index", "CHAT_MESSAGE_INDEX", "message.index"]
            .iter()
            .find_map(|key| log.attributes.get(key).and_then(Value::as_int));
        let rank = u8::from(log.event_name == "gen_ai.choice");
        Some(Told { name: log.event_name.clone(), body, order: (log.time.0, rank, index.unwrap_or(0)) })
    }

    /// An event that a JSON list holds, as pydantic-ai's first version keeps them.
    pub(in crate::convert) fn of_json(json: Json) -> Option<Told> {
        let name = json.get("event.name").or_else(|| json.get("event_name"))?.as_str()?.to_owned();
        Some(Told { name, body: json, order: (0, 0, 0) })
    }
}

fn map_of(attributes: &Attributes) -> Json {
    Json::Object(attributes.iter().map(|(key, value)| (key.to_owned(), to_json(value, 0))).collect())
}

fn with_content(attributes: &Attributes, content: Json) -> Json {
    let mut map = Map::new();
    for (key, value) in attributes.iter() {
        map.insert(key.to_owned(), to_json(value, 0));
    }
    map.insert("content".to_owned(), content);
    Json::Object(map)
}

/// Whether a record tells part of a conversation.
pub(in crate::convert) fn is_told(log: &LogRecord) -> bool {
    let by_name = log.event_name.starts_with("gen_ai.") && !log.event_name.starts_with("gen_ai.evaluation");
    by_name || tells_by_body(log)
}

/// Whether a record tells a whole call.
pub(in crate::convert) fn is_details(log: &LogRecord) -> bool {
    let by_attributes = log.event_name == DETAILS
        && ["gen_ai.input.messages", "gen_ai.output.messages"]
            .iter()
            .any(|key| log.attributes.get(key).is_some());
    by_attributes || tells_by_body(log)
}

/// AWS's distribution moves content off the spans into records whose body is `{input: {messages}, output: {messages}}`.
fn tells_by_body(log: &LogRecord) -> bool {
    let Value::Map(body) = &log.body else { return false };
    let has_messages =
        |key: &str| matches!(body.get(key), Some(Value::Map(side)) if side.get("messages").is_some());
    has_messages("input") || has_messages("output")
}

/// Reads events, in their order, into the draft.
pub(in crate::convert) fn tell(told: &[Told], draft: &mut Draft) {
    let mut sorted: Vec<&Told> = told.iter().collect();
    sorted.sort_by_key(|event| event.order);
    let mut input = Vec::new();
    let mut output = Vec::new();
    for event in sorted {
        if draft.kind == Some(Kind::Tool) && tool_event(event, draft) {
            continue;
        }
        one(event, draft, &mut input, &mut output);
    }
    draft.dialect("gen_ai_events");
    // Without a choice the reply is what the assistant says last.
    if output.is_empty() && draft.kind == Some(Kind::Model) {
        let said =
            input.iter().rev().take_while(|message: &&Message| message.role == Role::Assistant).count();
        output = input.split_off(input.len() - said);
    }
    if draft.input.is_empty() {
        draft.input = input;
    }
    if draft.output.is_empty() {
        super::gen_ai::join_chunks(&mut output);
        draft.output = output;
    }
}

fn one(event: &Told, draft: &mut Draft, input: &mut Vec<Message>, output: &mut Vec<Message>) {
    let body = content_of(&event.body);
    match event.name.as_str() {
        "gen_ai.user.message" => input.extend(single(&body, "user")),
        "gen_ai.assistant.message" => input.extend(single(&body, "assistant")),
        "gen_ai.tool.message" => input.extend(single(&body, "tool")),
        "gen_ai.choice" => choice(&body, output),
        DETAILS => {
            let field = |key: &str| event.body.get(key);
            if let Some(value) = field("gen_ai.input.messages") {
                input.extend(listed(value, Role::User));
            }
            if let Some(value) = field("gen_ai.output.messages") {
                output.extend(listed(value, Role::Assistant));
            }
        }
        "gen_ai.content.prompt" => {
            if let Some(value) = event.body.get("gen_ai.prompt") {
                input.extend(listed(value, Role::User));
                draft.kind(Some(Kind::Model));
            }
        }
        "gen_ai.content.completion" => {
            if let Some(value) = event.body.get("gen_ai.completion") {
                output.extend(listed(value, Role::Assistant));
                draft.kind(Some(Kind::Model));
            }
        }
        _ => {}
    }
}

/// Azure keeps the message as JSON in one attribute.
fn content_of(body: &Json) -> Json {
    match body.get("gen_ai.event.content") {
        Some(Json::String(text)) => decode_str(text).json,
        Some(other) => other.clone(),
        None => body.clone(),
    }
}

fn single(body: &Json, role: &str) -> Option<Message> {
    let mut map = body.as_object().cloned().unwrap_or_default();
    if let Json::String(text) = body {
        map.insert("content".to_owned(), Json::String(text.clone()));
    }
    map.entry("role").or_insert_with(|| Json::String(role.to_owned()));
    // Lists that travel as JSON text.
    for key in ["tool_calls", "parts"] {
        if let Some(Json::String(text)) = map.get(key) {
            let list = decode_str(text).json;
            map.insert(key.to_owned(), list);
        }
    }
    messages(&Json::Object(map), Role::User).into_iter().next()
}

fn choice(body: &Json, output: &mut Vec<Message>) {
    // Other choices are alternatives that nobody took.
    let index = body.get("index").and_then(|index| index.as_i64().or_else(|| index.as_str()?.parse().ok()));
    if index.is_some_and(|index| index > 0) {
        return;
    }
    match body.get("message") {
        Some(Json::String(text)) => {
            let decoded = decode_str(text);
            let told =
                if decoded.json.is_string() { Vec::new() } else { messages_of(&decoded, Role::Assistant) };
            if told.is_empty() {
                output.push(Message::text(Role::Assistant, text.clone()));
            } else {
                output.extend(told);
            }
        }
        Some(message @ Json::Object(_)) => {
            let mut message = message.clone();
            if let (Json::Object(map), Some(calls)) = (&mut message, body.get("tool_calls")) {
                map.entry("tool_calls").or_insert_with(|| calls.clone());
            }
            output.extend(single(&message, "assistant"));
        }
        _ => output.extend(single(body, "assistant")),
    }
}

fn listed(value: &Json, role: Role) -> Vec<Message> {
    let text = match value {
        Json::String(text) => text,
        other => return messages(other, role),
    };
    let decoded = decode_str(text);
    match &decoded.json {
        Json::String(text) => vec![Message::text(role, text.clone())],
        _ => messages_of(&decoded, role),
    }
}

/// On a tool's span Strands tells the arguments as a "tool message" and the result as a "choice".
fn tool_event(event: &Told, draft: &mut Draft) -> bool {
    let text = |key: &str| {
        event.body.get(key).map(|value| match value {
            Json::String(text) => text.clone(),
            other => other.to_string(),
        })
    };
    match event.name.as_str() {
        "gen_ai.tool.message" => {
            if draft.arguments.is_none() {
                draft.arguments = text("content").and_then(|content| arguments(decode_str(&content)));
            }
        }
        "gen_ai.choice" => {
            if draft.shown.is_none() {
                draft.shown = text("message").or_else(|| text("content")).map(|message| result_str(&message));
            }
        }
        DETAILS => {
            let messages =
                |key: &str| event.body.get(key).map(|value| listed(value, Role::Tool)).unwrap_or_default();
            for part in messages("gen_ai.input.messages").into_iter().flat_map(|message| message.parts) {
                if let Part::Call(call) = part
                    && draft.arguments.is_none()
                {
                    draft.arguments = call.arguments;
                }
            }
            for part in messages("gen_ai.output.messages").into_iter().flat_map(|message| message.parts) {
                if let Part::Result(outcome) = part
                    && draft.shown.is_none()
                {
                    draft.shown = Some(result_str(&outcome.text));
                }
            }
        }
        _ => return false,
    }
    if draft.tool_id.is_none() {
        draft.tool_id = text("id");
    }
    true
}

/// The messages of one side of a record's body; their content may be wrapped once more.
fn body_messages(log: &LogRecord, key: &str, role: Role) -> Vec<Message> {
    let side = if key.contains("input") { "input" } else { "output" };
    let Value::Map(body) = &log.body else { return Vec::new() };
    let Some(Value::Map(side)) = body.get(side) else { return Vec::new() };
    let Some(Json::Array(items)) = side.get("messages").map(|list| decode(list).json) else {
        return Vec::new();
    };
    let plain = items.into_iter().map(|item| {
        let Json::Object(mut map) = item else { return item };
        let wrapped = map.get("content");
        let inner =
            wrapped.and_then(|content| content.get("content").or_else(|| content.get("message"))).cloned();
        if let Some(inner) = inner {
            map.insert("content".to_owned(), inner);
        }
        Json::Object(map)
    });
    messages(&Json::Array(plain.collect()), role)
}

/// The messages of one attribute of a record that tells a whole call.
pub(in crate::convert) fn detail(log: &LogRecord, key: &str, role: Role) -> Vec<Message> {
    let mut told = match log.attributes.get(key) {
        Some(value) => messages_of(&decode(value), role),
        None => body_messages(log, key, role),
    };
    if role == Role::Assistant {
        super::gen_ai::join_chunks(&mut told);
    }
    told
}
