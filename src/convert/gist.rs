//! What was asked and what was answered, out of the inputs and outputs of agents, chains and workflows.

use super::message::messages;
use super::talk::{Message, Role};
use super::text::{decode, is_constant, is_masked};
use crate::domain::{Json, Value};

/// Names under which programs take a question, the most telling first.
const ASKS: [&str; 26] = [
    "question",
    "query",
    "user_query",
    "user_input",
    "user_message",
    "request",
    "new_message",
    "task",
    "input",
    "prompt",
    "message",
    "text",
    "content",
    "problem",
    "topic",
    "instruction",
    "description",
    "user_msg",
    "input_text",
    "query_str",
    "data",
    "inputs",
    "kwargs",
    "args",
    "messages",
    "arguments",
];

/// Names under which programs give an answer, the most telling first.
const ANSWERS: [&str; 22] = [
    "final_answer",
    "answer",
    "final_output",
    "output",
    "response",
    "result",
    "raw",
    "reply",
    "completion",
    "text",
    "content",
    "output_text",
    "message",
    "chat_message",
    "llm",
    "generator",
    "replies",
    "outputs",
    "data",
    "value",
    "final_result",
    "messages",
];

const DEEPEST: usize = 5;

/// The input of a span around others as messages.
pub(super) fn input(value: &Value) -> Vec<Message> {
    boxed(value, Role::User, &ASKS)
}

/// The output of a span around others as messages.
pub(super) fn output(value: &Value) -> Vec<Message> {
    boxed(value, Role::Assistant, &ANSWERS)
}

fn boxed(value: &Value, role: Role, names: &[&str]) -> Vec<Message> {
    let decoded = decode(value);
    if let Json::String(text) = &decoded.json {
        if text.trim().is_empty() || is_masked(text) || is_constant(text) {
            return Vec::new();
        }
        return vec![Message::text(role, text.clone())];
    }
    let told = messages(&decoded.json, role);
    let speaks = |message: &Message| message.role == role && !message.parts.is_empty();
    if told.iter().any(|message| speaks(message) || message.role == Role::Tool) {
        return told;
    }
    // A step that passes on what the user said has no words of its own.
    let passes = |message: &Message| matches!(message.role, Role::User | Role::System);
    if role == Role::Assistant
        && told.iter().all(passes)
        && told.iter().any(|m| m.role == Role::User && !m.parts.is_empty())
    {
        return told;
    }
    named(&decoded.json, names, 0).map(|text| vec![Message::text(role, text)]).unwrap_or_default()
}

/// The text under the first of `names` that leads to one; else the only text there is.
pub(super) fn named(json: &Json, names: &[&str], depth: usize) -> Option<String> {
    if depth > DEEPEST {
        return None;
    }
    match json {
        Json::String(text) => {
            let text = text.trim();
            // Addresses of Python objects and enum-like constants are no texts.
            let says = !text.is_empty() && !text.starts_with('<') && !is_masked(text) && !is_constant(text);
            says.then(|| text.to_owned())
        }
        Json::Array(items) => {
            let found = items.iter().find_map(|item| named(item, names, depth + 1));
            if names == ANSWERS {
                items.iter().rev().find_map(|item| named(item, names, depth + 1))
            } else {
                found
            }
        }
        Json::Object(map) => {
            let told =
                names.iter().find_map(|name| map.get(*name).and_then(|value| named(value, names, depth + 1)));
            if told.is_some() || map.len() > 4 {
                return told;
            }
            if let Some(Json::Array(parts)) = map.get("parts") {
                return parts.iter().find_map(|part| named(part, names, depth + 1));
            }
            // A function of one argument, a pipeline of named components.
            let mut texts = map.values().filter(|value| value.is_string() || depth < 2 && value.is_object());
            match (texts.next(), map.len()) {
                (Some(only), 1) => named(only, names, depth + 1),
                (Some(first), _) => std::iter::once(first)
                    .chain(texts)
                    .filter(|value| value.is_object())
                    .find_map(|value| named(value, names, depth + 1)),
                (None, _) => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> String {
        input(&Value::from(text)).iter().map(Message::joined).collect()
    }

    fn answered(text: &str) -> String {
        output(&Value::from(text)).iter().map(Message::joined).collect()
    }

    #[test]
    fn questions_are_found_whatever_the_program_calls_them() {
        for text in [
            "How long?",
            r#"{"question": "How long?"}"#,
            r#"{"args": ["How long?"], "kwargs": {}}"#,
            r#"{"data": {"retriever": {"query": "How long?"}, "prompt_builder": {"question": "How long?"}}}"#,
            r#"{"task": "How long?", "stream": false, "reset": true}"#,
            r#"{"user_id": "u", "new_message": {"parts": [{"text": "How long?"}], "role": "user"}, "state": null}"#,
            r#"{"messages": [{"role": "user", "content": "How long?"}]}"#,
            r#"{"what_to_find_out": "How long?"}"#,
        ] {
            assert_eq!(asked(text), "How long?", "{text}");
        }
    }

    #[test]
    fn answers_are_found_whatever_the_program_calls_them() {
        for text in [
            "30 days.",
            r#""30 days.""#,
            r#"{"raw": "30 days.", "pydantic": null, "json_dict": null, "agent": "a"}"#,
            r#"{"reasoning": "because", "answer": "30 days."}"#,
            r#"{"content": {"parts": [{"text": "30 days."}], "role": "model"}, "finish": "STOP"}"#,
            r#"{"llm": {"replies": ["30 days."]}}"#,
        ] {
            assert_eq!(answered(text), "30 days.", "{text}");
        }
    }
}
