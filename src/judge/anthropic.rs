//! Anthropic's `POST /v1/messages`: the reply's shape is asked for by a tool that has to be called. Pure.

use reqwest::Url;
use serde_json::{Map, json};

use super::AnthropicConfig;
use super::attempt::{Completion, Failure, Said, Tokens};
use super::config::web_address;
use super::dialect::{DESCRIPTION, Dialect, NAME, Settings, Shape, declined, malformed, parsed};
use super::manners::{Feature, Rung, Style};
use super::prompt::Prompt;
use super::told::{self, Told, failure};
use crate::domain::Json;

/// `messages`.
pub(super) struct Anthropic;

impl Anthropic {
    /// The address of `messages` below the base address, with its query.
    pub fn address(config: &AnthropicConfig) -> Option<Url> {
        let mut url = web_address(&config.url)?;
        let path = url.path().trim_end_matches('/').to_owned();
        if path.ends_with("/v1") {
            url.set_path(&format!("{path}/messages"));
        } else if !path.ends_with("/messages") {
            url.set_path(&format!("{path}/v1/messages"));
        }
        Some(url)
    }
}

impl Dialect for Anthropic {
    fn rungs(&self) -> &'static [Rung] {
        &[Rung::ToolCall, Rung::Plain]
    }

    fn request(&self, settings: &Settings, style: Style, prompt: &Prompt, shape: &Shape) -> Json {
        let mut body = Map::new();
        body.insert("model".to_owned(), json!(settings.model));
        body.insert("max_tokens".to_owned(), json!(settings.max_output_tokens));
        body.insert("system".to_owned(), json!(prompt.system));
        body.insert("messages".to_owned(), json!([{ "role": "user", "content": prompt.user }]));
        body.insert("stream".to_owned(), json!(false));
        if let Some(temperature) = settings.temperature.filter(|_| style.temperature) {
            body.insert("temperature".to_owned(), json!(temperature));
        }
        if style.rung == Rung::ToolCall {
            let tool = json!({ "name": NAME, "description": DESCRIPTION, "input_schema": shape.schema });
            body.insert("tools".to_owned(), json!([tool]));
            body.insert("tool_choice".to_owned(), json!({ "type": "tool", "name": NAME }));
        }
        Json::Object(body)
    }

    fn completion(&self, body: &[u8]) -> Result<Completion, Failure> {
        let body = parsed(body)?;
        if let Some(error) = body.get("error").filter(|error| !error.is_null()) {
            let kind = error.get("type").and_then(Json::as_str).unwrap_or_default();
            return Err(failure(status_of(kind), &Told::inside(error), None));
        }
        let content = body.get("content").and_then(Json::as_array).ok_or_else(|| malformed("no content"))?;
        let tokens = body.get("usage").and_then(tokens);
        let stop = body.get("stop_reason").and_then(Json::as_str).unwrap_or_default();
        let said = match stop {
            "refusal" => declined(&written(content)),
            _ => {
                let cut = matches!(stop, "max_tokens" | "model_context_window_exceeded");
                Said::Text { text: text(content), cut }
            }
        };
        Ok(Completion { said, tokens })
    }

    fn refused(&self, status: u16, told: &Told, sent: Style) -> Option<Feature> {
        // The limit has one name here; an error about it is about its value.
        told::refused(status, told, sent).filter(|feature| *feature != Feature::OutputLimit)
    }
}

/// The status that an error of this type has when it comes with one.
fn status_of(kind: &str) -> u16 {
    match kind {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "api_error" => 500,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => 200,
    }
}

/// Tokens that were read from a cache, or written into one, count too.
fn tokens(usage: &Json) -> Option<Tokens> {
    let count = |name: &str| usage.get(name).and_then(Json::as_u64);
    let cached = ["cache_creation_input_tokens", "cache_read_input_tokens"];
    let cached: u64 = cached.iter().filter_map(|name| count(name)).sum();
    Some(Tokens { input: count("input_tokens")? + cached, output: count("output_tokens").unwrap_or(0) })
}

/// The input of the tool calls if there are any, else what is written.
fn text(content: &[Json]) -> String {
    let of_tools = content.iter().filter(|block| block.get("type").is_some_and(|kind| kind == "tool_use"));
    let inputs: Vec<String> = of_tools.filter_map(|block| block.get("input")).map(Json::to_string).collect();
    if inputs.is_empty() { written(content) } else { inputs.join("\n") }
}

fn written(content: &[Json]) -> String {
    let texts = content.iter().filter(|block| block.get("type").is_none_or(|kind| kind == "text"));
    texts.filter_map(|block| block.get("text").and_then(Json::as_str)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{BadReply, JudgeErrorKind};
    use super::*;

    fn read(body: Json) -> Result<Completion, Failure> {
        Anthropic.completion(body.to_string().as_bytes())
    }

    fn message(content: Json, stop: &str) -> Json {
        let usage = json!({ "input_tokens": 7, "cache_read_input_tokens": 5, "output_tokens": 3 });
        json!({ "type": "message", "role": "assistant", "content": content, "stop_reason": stop, "usage": usage })
    }

    #[test]
    fn the_shape_is_asked_for_by_a_tool_that_has_to_be_called() {
        let settings = Settings { model: "m".into(), max_output_tokens: 9, temperature: Some(0.0) };
        let prompt = Prompt { system: "s".into(), user: "u".into() };
        let shape = Shape { schema: json!({ "type": "object" }), strict: true, kind: 0 };
        let style = Style { rung: Rung::ToolCall, completion_limit: false, temperature: true };
        let body = Anthropic.request(&settings, style, &prompt, &shape);
        assert_eq!(body["tools"][0]["input_schema"], shape.schema);
        assert_eq!(body["tool_choice"], json!({ "type": "tool", "name": body["tools"][0]["name"] }));
        assert_eq!((&body["system"], &body["messages"][0]["content"]), (&json!("s"), &json!("u")));
        let plain = Style { rung: Rung::Plain, temperature: false, ..style };
        let body = Anthropic.request(&settings, plain, &prompt, &shape);
        let keys: Vec<_> = body.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["model", "max_tokens", "system", "messages", "stream"]);
    }

    #[test]
    fn tool_input_text_limits_and_refusals_are_read() {
        let said = |text: &str, cut| Said::Text { text: text.to_owned(), cut };
        let called = json!([
            { "type": "text", "text": "Let me submit." },
            { "type": "tool_use", "id": "t", "name": NAME, "input": { "q1": 1 } },
        ]);
        let completion = read(message(called, "tool_use")).unwrap();
        assert_eq!(completion.said, said("{\"q1\":1}", false));
        assert_eq!(completion.tokens, Some(Tokens { input: 12, output: 3 }));
        let thought = json!([{ "type": "thinking", "thinking": "hm" }, { "type": "text", "text": "{}" }]);
        assert_eq!(read(message(thought, "end_turn")).unwrap().said, said("{}", false));
        let text = json!([{ "type": "text", "text": "hi" }]);
        for stop in ["max_tokens", "model_context_window_exceeded"] {
            assert_eq!(read(message(text.clone(), stop)).unwrap().said, said("hi", true));
        }
        let declined = |message: &str| Said::Declined { message: message.to_owned() };
        assert_eq!(read(message(text, "refusal")).unwrap().said, declined("hi"));
        assert_eq!(read(message(json!([]), "refusal")).unwrap().said, declined("refusal"));
    }

    #[test]
    fn a_success_that_is_none_says_what_is_wrong() {
        let bad = |message: &str| Err(Failure::BadBody(BadReply::NotACompletion { message: message.into() }));
        assert_eq!(Anthropic.completion(b""), Err(Failure::BadBody(BadReply::Empty)));
        assert_eq!(Anthropic.completion(b"event: ping"), bad("no JSON"));
        assert_eq!(read(json!({ "completion": "old api" })), bad("no content"));
        let inside = |kind: &str| json!({ "type": "error", "error": { "type": kind, "message": "said" } });
        let overloaded = Failure::Overloaded { status: 529, retry_after: None };
        assert_eq!(read(inside("overloaded_error")), Err(overloaded));
        assert_eq!(
            read(inside("authentication_error")),
            Err(Failure::Final(JudgeErrorKind::Auth { status: 401, message: "said".into() }))
        );
        assert_eq!(read(inside("new_error")), Err(Failure::Broken { status: 200, message: "said".into() }));
    }

    #[test]
    fn errors_are_told_apart_by_what_helps_against_them() {
        let told = |kind: &str, message: &str| {
            let body =
                json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": "r" });
            Told::parse(body.to_string().as_bytes())
        };
        let invalid = |message: &str| told("invalid_request_error", message);
        let last = |status, told: &Told| match Anthropic.failure(status, told, None) {
            Failure::Final(kind) => kind.result(),
            other => panic!("{other:?} is not final"),
        };
        assert_eq!(last(400, &invalid("prompt is too long: 210000 tokens > 200000 maximum")), "too_long");
        let credit = "Your credit balance is too low to access the Anthropic API.";
        assert_eq!(last(400, &invalid(credit)), "quota");
        assert_eq!(last(413, &told("request_too_large", "Request exceeds the maximum size")), "too_long");
        assert_eq!(last(404, &told("not_found_error", "model: nope")), "error");
        let wait = Some(Duration::from_secs(7));
        let limited = Anthropic.failure(429, &told("rate_limit_error", "slow down"), wait);
        assert_eq!(limited, Failure::Overloaded { status: 429, retry_after: wait });
        let style = Style { rung: Rung::ToolCall, completion_limit: false, temperature: true };
        let refused = |message: &str| Anthropic.refused(400, &invalid(message), style);
        assert_eq!(
            refused("tool_choice: forced tool use is not supported with thinking"),
            Some(Feature::Shape)
        );
        assert_eq!(refused("tools.0.custom.input_schema: is invalid"), Some(Feature::Shape));
        assert_eq!(refused("`temperature` is deprecated for this model."), Some(Feature::Temperature));
        assert_eq!(refused("max_tokens: 100000 > 8192, which is the maximum"), None);
    }

    #[test]
    fn the_address_is_below_the_base_whether_it_names_the_version_or_not() {
        let at = |url: &str| {
            let config = AnthropicConfig { url: url.to_owned(), ..AnthropicConfig::default() };
            Anthropic::address(&config).map(String::from)
        };
        for base in ["https://h", "https://h/", "https://h/v1", "https://h/v1/messages"] {
            assert_eq!(at(base).as_deref(), Some("https://h/v1/messages"));
        }
        assert_eq!(at("https://h/proxy?tenant=7").as_deref(), Some("https://h/proxy/v1/messages?tenant=7"));
        assert_eq!(at("h"), None);
    }
}
