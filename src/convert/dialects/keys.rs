//! What the words of an attribute's key say of its value.

use crate::convert::talk::Role;
use crate::domain::Value;

/// First words of keys by which other conventions are known; their values are never a conversation.
pub(super) const OTHERS: [&str; 44] = [
    "aws",
    "browser",
    "client",
    "cloud",
    "code",
    "container",
    "cpython",
    "db",
    "deployment",
    "destination",
    "device",
    "enduser",
    "error",
    "event",
    "exception",
    "faas",
    "feature_flag",
    "graphql",
    "grpc",
    "host",
    "http",
    "jvm",
    "k8s",
    "log",
    "messaging",
    "net",
    "network",
    "nodejs",
    "os",
    "otel",
    "peer",
    "process",
    "rpc",
    "server",
    "service",
    "signalr",
    "sql",
    "system",
    "telemetry",
    "thread",
    "tls",
    "url",
    "user_agent",
    "webengine",
];

/// Words in keys whose value went into a step.
pub(super) const INS: [&str; 18] = [
    "input",
    "inputs",
    "prompt",
    "prompts",
    "query",
    "question",
    "arguments",
    "args",
    "parameters",
    "params",
    "kwargs",
    "request",
    "contents",
    "history",
    "instruction",
    "task",
    "ctx",
    "messages",
];

/// Words in keys whose value came out of a step.
pub(super) const OUTS: [&str; 17] = [
    "output",
    "outputs",
    "completion",
    "completions",
    "response",
    "responses",
    "result",
    "results",
    "answer",
    "reply",
    "replies",
    "generation",
    "generations",
    "choices",
    "candidates",
    "return",
    "documents",
];

/// Words that name the wrapping of a value and nothing else.
const CARRIERS: [&str; 16] = [
    "value", "values", "content", "text", "json", "message", "messages", "data", "body", "payload", "raw",
    "str", "string", "full", "user", "calls",
];

/// Words in keys that describe a step rather than tell its content.
const ABOUT: [&str; 16] = [
    "tokens",
    "token",
    "usage",
    "cost",
    "count",
    "schema",
    "schemas",
    "definition",
    "definitions",
    "tools",
    "format",
    "description",
    "config",
    "settings",
    "metadata",
    "system",
];

/// The words that a key is made of, in lower case.
pub(super) fn words(key: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut word = String::new();
    let mut before_small = false;
    for letter in key.chars() {
        let begins = !letter.is_alphanumeric() || letter.is_uppercase() && before_small;
        if begins && !word.is_empty() {
            all.push(std::mem::take(&mut word));
        }
        before_small = letter.is_lowercase() || letter.is_numeric();
        if letter.is_alphanumeric() {
            word.extend(letter.to_lowercase());
        }
    }
    if !word.is_empty() {
        all.push(word);
    }
    all
}

/// One attribute that may hold content, with the words of its key.
pub(super) struct Candidate<'a> {
    pub(super) key: &'a str,
    pub(super) words: Vec<String>,
    pub(super) value: &'a Value,
}

impl Candidate<'_> {
    pub(super) fn has(&self, list: &[&str]) -> bool {
        self.words.iter().any(|word| list.contains(&word.as_str()))
    }

    pub(super) fn ends(&self, tail: &[&str]) -> bool {
        self.words.len() >= tail.len()
            && self.words[self.words.len() - tail.len()..].iter().zip(tail).all(|(word, end)| word == end)
    }

    /// Whether the value went in (`User`) or came out (`Assistant`), by the last word that is no wrapping's.
    pub(super) fn side(&self) -> Option<Role> {
        if self.has(&ABOUT) {
            return None;
        }
        let mut telling = self.words.iter().rev().map(String::as_str);
        let word = telling.find(|word| !CARRIERS.contains(word) && !word.bytes().all(|b| b.is_ascii_digit()));
        match word {
            Some(word) if INS.contains(&word) => Some(Role::User),
            Some(word) if OUTS.contains(&word) => Some(Role::Assistant),
            Some("call" | "function" | "tool") if self.words.last().is_some_and(|last| last == "calls") => {
                Some(Role::Assistant)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side_of(key: &str) -> Option<Role> {
        Candidate { key, words: words(key), value: &Value::Null }.side()
    }

    #[test]
    fn keys_say_what_went_in_and_what_came_out() {
        for key in [
            "acme.input",
            "acmeInputs",
            "acme.prompt.text",
            "x.tool.arguments",
            "lk.user_input",
            "a.input.messages",
        ] {
            assert_eq!(side_of(key), Some(Role::User), "{key}");
        }
        for key in [
            "acme.output",
            "llmOutput",
            "x.response.text",
            "tool_result",
            "a.output.value",
            "lk.response.function_calls",
        ] {
            assert_eq!(side_of(key), Some(Role::Assistant), "{key}");
        }
        for key in [
            "gen_ai.request.model",
            "x.response.id",
            "x.usage.output",
            "output.mime_type",
            "x.input_tokens",
            "x.request.stop_sequences",
            "acme.tools.input",
            "gen_ai.request.service_tier",
            "acme.prompt.version",
        ] {
            assert_eq!(side_of(key), None, "{key}");
        }
    }
}
