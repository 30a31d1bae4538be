//! The bodies of `POST chat/completions`: requests in every style, replies, and errors. Pure.

use serde_json::{Map, json};

use super::attempt::{Completion, Failure, Said, Tokens};
use super::manners::{Feature, Rung, Style};
use super::prompt::Prompt;
use super::reply::shorten;
use super::{BadReply, JudgeErrorKind};
use crate::domain::Json;

/// Name of the tool and of the schema.
const NAME: &str = "submit_answers";
/// Bytes of an endpoint's message that are shown, and that are read to understand it.
const MAX_MESSAGE: usize = 200;
const MAX_READ: usize = 4000;

/// The settings of a request that do not depend on the ask.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    /// The model's name.
    pub model: String,
    /// Tokens that the reply may have.
    pub max_output_tokens: u32,
    /// The sampling temperature.
    pub temperature: Option<f64>,
}

/// A request body.
pub(super) fn request(settings: &Settings, style: Style, prompt: &Prompt, schema: &Json) -> Json {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(settings.model));
    let message = |role: &str, content: &str| json!({ "role": role, "content": content });
    body.insert(
        "messages".to_owned(),
        json!([message("system", &prompt.system), message("user", &prompt.user)]),
    );
    body.insert("stream".to_owned(), json!(false));
    let limit = if style.completion_limit { "max_completion_tokens" } else { "max_tokens" };
    body.insert(limit.to_owned(), json!(settings.max_output_tokens));
    if let Some(temperature) = settings.temperature.filter(|_| style.temperature) {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    match style.rung {
        Rung::JsonSchema => {
            let named = json!({ "name": NAME, "strict": true, "schema": schema });
            body.insert("response_format".to_owned(), json!({ "type": "json_schema", "json_schema": named }));
        }
        Rung::ToolCall => {
            let description = "Submits the answers to all questions.";
            let function =
                json!({ "name": NAME, "description": description, "strict": true, "parameters": schema });
            body.insert("tools".to_owned(), json!([{ "type": "function", "function": function }]));
            let choice = json!({ "type": "function", "function": { "name": NAME } });
            body.insert("tool_choice".to_owned(), choice);
        }
        Rung::JsonObject => {
            body.insert("response_format".to_owned(), json!({ "type": "json_object" }));
        }
        Rung::Plain => {}
    }
    Json::Object(body)
}

/// Reads the body of a success. Some gateways answer 200 with an error inside.
pub(super) fn completion(body: &[u8]) -> Result<Completion, Failure> {
    let bad = |message: &str| Failure::BadBody(BadReply::NotACompletion { message: message.to_owned() });
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(Failure::BadBody(BadReply::Empty));
    }
    let Ok(body) = serde_json::from_slice::<Json>(body) else { return Err(bad("no JSON")) };
    let choice = body.get("choices").and_then(|choices| choices.get(0));
    let inner_error = [Some(&body), choice].into_iter().flatten().filter_map(|part| part.get("error"));
    if let Some(error) = inner_error.into_iter().find(|error| !error.is_null()) {
        let told = Told::read(&json!({ "error": error }));
        let status = error.get("code").and_then(Json::as_u64).and_then(|code| u16::try_from(code).ok());
        return Err(failure(status.filter(|code| *code >= 400).unwrap_or(200), &told, None));
    }
    let choice = choice.ok_or_else(|| bad("no choices"))?;
    let message =
        choice.get("message").filter(|message| message.is_object()).ok_or_else(|| bad("no message"))?;
    let tokens = body.get("usage").and_then(tokens);
    let finish = choice.get("finish_reason").and_then(Json::as_str).unwrap_or_default();
    if let Some(refusal) =
        message.get("refusal").and_then(Json::as_str).filter(|text| !text.trim().is_empty())
    {
        let said = Said::Declined { message: shorten(refusal, MAX_MESSAGE) };
        return Ok(Completion { said, tokens });
    }
    if finish == "content_filter" {
        let said = Said::Declined { message: "content filter".to_owned() };
        return Ok(Completion { said, tokens });
    }
    let said = Said::Text { text: text(message), cut: finish == "length" };
    Ok(Completion { said, tokens })
}

fn tokens(usage: &Json) -> Option<Tokens> {
    let count = |name: &str| usage.get(name).and_then(Json::as_u64);
    Some(Tokens { input: count("prompt_tokens")?, output: count("completion_tokens").unwrap_or(0) })
}

/// The arguments of the tool calls if there are any, else the content.
fn text(message: &Json) -> String {
    let calls = message.get("tool_calls").and_then(Json::as_array).into_iter().flatten();
    let arguments: Vec<String> = calls
        .filter_map(|call| call.get("function")?.get("arguments"))
        .map(|arguments| arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned))
        .collect();
    if !arguments.is_empty() {
        return arguments.join("\n");
    }
    match message.get("content") {
        Some(Json::String(text)) => text.clone(),
        Some(Json::Array(parts)) => parts
            .iter()
            .filter_map(|part| part.get("text").and_then(Json::as_str))
            .collect::<Vec<_>>()
            .join("\n"),
        _ => String::new(),
    }
}

/// What an error body says. Only its own words: some servers send the request's content back, which is not theirs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Told {
    /// The message.
    pub message: String,
    /// Code, type and parameter, in lower case.
    pub words: String,
}

impl Told {
    /// Reads an error body of any provider.
    pub fn parse(body: &[u8]) -> Self {
        match serde_json::from_slice(body) {
            Ok(json) => Self::read(&json),
            Err(_) => {
                Self { message: shorten(&String::from_utf8_lossy(body), MAX_READ), words: String::new() }
            }
        }
    }

    fn read(body: &Json) -> Self {
        // OpenAI wraps the error, vLLM's older versions and others do not; FastAPI puts a list under `detail`.
        let error = body.get("error").filter(|error| !error.is_null()).unwrap_or(body);
        let error = error.get(0).unwrap_or(error);
        let mut messages: Vec<&str> = Vec::new();
        messages.extend(error.as_str());
        messages.extend(["message", "msg", "detail"].iter().filter_map(|name| error.get(*name)?.as_str()));
        let mut words: Vec<String> = Vec::new();
        for name in ["code", "type", "param", "status"] {
            words.extend(
                error.get(name).filter(|word| !word.is_null()).map(|word| word.to_string().to_lowercase()),
            );
        }
        words.extend(
            error
                .get("innererror")
                .and_then(|inner| inner.get("code"))
                .map(|code| code.to_string().to_lowercase()),
        );
        for detail in error.get("detail").and_then(Json::as_array).into_iter().flatten() {
            messages.extend(detail.get("msg").and_then(Json::as_str));
            words.extend(detail.get("loc").map(|place| place.to_string().to_lowercase()));
        }
        Self { message: shorten(&messages.join("; "), MAX_READ), words: words.join(" ") }
    }

    fn says(&self, any: &[&str]) -> bool {
        let message = self.message.to_lowercase();
        any.iter().any(|phrase| message.contains(phrase) || self.words.contains(phrase))
    }
}

/// Which part of a request in the style `sent` this error is about, if the endpoint says that it does not take that part.
pub(super) fn refused(status: u16, told: &Told, sent: Style) -> Option<Feature> {
    let unsupported = ["not support", "unsupported", "not implemented"];
    if !matches!(status, 400 | 404 | 405 | 415 | 422 | 500 | 501)
        || (status == 500 && !told.says(&unsupported))
    {
        return None;
    }
    if told.says(&["max_tokens", "max_completion_tokens"]) {
        return Some(Feature::OutputLimit);
    }
    if told.says(&["temperature"]) {
        return Some(Feature::Temperature);
    }
    let about_shape: &[&str] = match sent.rung {
        Rung::JsonSchema => &[
            "response_format",
            "response format",
            "json_schema",
            "schema",
            "structured",
            "grammar",
            "guided",
        ],
        Rung::ToolCall => &["tool", "function"],
        Rung::JsonObject => &["response_format", "response format", "json_object", "json mode"],
        Rung::Plain => return None,
    };
    told.says(about_shape).then_some(Feature::Shape)
}

/// What an error of the endpoint means, once it is clear that no refused feature is behind it.
pub(super) fn failure(status: u16, told: &Told, retry_after: Option<std::time::Duration>) -> Failure {
    let message = shorten(&told.message, MAX_MESSAGE);
    let no_money = ["insufficient_quota", "billing", "insufficient balance", "insufficient credits"];
    let too_long = [
        "context_length_exceeded",
        "context length",
        "context window",
        "context size",
        "maximum context",
        "too many tokens",
        "prompt is too long",
        "reduce the length",
    ];
    let filtered = ["content_filter", "content_policy_violation", "responsibleaipolicyviolation"];
    let kind = match status {
        401 | 403 => JudgeErrorKind::Auth { status },
        402 => JudgeErrorKind::Quota { status, code: "payment required".to_owned() },
        429 if told.says(&no_money) => {
            JudgeErrorKind::Quota { status, code: shorten(&told.words, MAX_MESSAGE) }
        }
        429 | 503 | 529 => return Failure::Overloaded { status, retry_after },
        400 | 413 | 422 | 500 if told.says(&too_long) => JudgeErrorKind::TooLong { tokens: 0, message },
        413 => JudgeErrorKind::TooLong { tokens: 0, message },
        400..=499 if told.says(&filtered) => {
            JudgeErrorKind::Declined { message: "content filter".to_owned() }
        }
        200 | 408 | 409 | 425 | 500 | 502 | 504..=599 => return Failure::Broken { status, message },
        _ => JudgeErrorKind::Status { status, message },
    };
    Failure::Final(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEST: Style = Style { rung: Rung::JsonSchema, completion_limit: false, temperature: true };

    fn style(rung: Rung) -> Style {
        Style { rung, ..BEST }
    }

    fn told(body: Json) -> Told {
        Told::parse(body.to_string().as_bytes())
    }

    #[test]
    fn each_rung_asks_for_the_shape_in_its_own_way() {
        let settings = Settings { model: "m".into(), max_output_tokens: 9, temperature: Some(0.0) };
        let prompt = Prompt { system: "s".into(), user: "u".into() };
        let schema = json!({ "type": "object" });
        let body = |style| request(&settings, style, &prompt, &schema);
        let best = body(BEST);
        assert_eq!(best["response_format"]["json_schema"]["strict"], true);
        assert_eq!(best["response_format"]["json_schema"]["schema"], schema);
        assert_eq!(
            (&best["stream"], &best["max_tokens"], &best["temperature"]),
            (&json!(false), &json!(9), &json!(0.0))
        );
        assert_eq!(best["messages"][1], json!({ "role": "user", "content": "u" }));
        let tool = body(style(Rung::ToolCall));
        assert_eq!(tool["tool_choice"]["function"]["name"], tool["tools"][0]["function"]["name"]);
        assert_eq!(tool["tools"][0]["function"]["parameters"], schema);
        assert_eq!(body(style(Rung::JsonObject))["response_format"], json!({ "type": "json_object" }));
        let plain = body(Style { rung: Rung::Plain, completion_limit: true, temperature: false });
        let keys: Vec<_> = plain.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["model", "messages", "stream", "max_completion_tokens"]);
    }

    #[test]
    fn a_completion_is_read_with_its_tool_call_parts_and_tokens() {
        let read = |message: Json, finish: &str| {
            let usage = json!({ "prompt_tokens": 7, "completion_tokens": 3 });
            let body =
                json!({ "choices": [{ "message": message, "finish_reason": finish }], "usage": usage });
            completion(body.to_string().as_bytes()).unwrap()
        };
        let said = |text: &str, cut| Said::Text { text: text.to_owned(), cut };
        let plain = read(json!({ "content": "hi", "refusal": null }), "stop");
        assert_eq!(
            plain,
            Completion { said: said("hi", false), tokens: Some(Tokens { input: 7, output: 3 }) }
        );
        assert_eq!(read(json!({ "content": "hi" }), "length").said, said("hi", true));
        assert_eq!(
            read(json!({ "content": [{ "type": "text", "text": "hi" }] }), "stop").said,
            said("hi", false)
        );
        let call = json!({ "content": null, "tool_calls": [{ "function": { "name": "f", "arguments": "{\"q1\":1}" } }] });
        assert_eq!(read(call, "tool_calls").said, said("{\"q1\":1}", false));
        let call = json!({ "tool_calls": [{ "function": { "name": "f", "arguments": { "q1": 1 } } }] });
        assert_eq!(read(call, "stop").said, said("{\"q1\":1}", false));
        assert_eq!(read(json!({ "content": null }), "stop").said, said("", false));
        let declined = |message: &str| Said::Declined { message: message.to_owned() };
        assert_eq!(read(json!({ "content": null, "refusal": "I can't" }), "stop").said, declined("I can't"));
        assert_eq!(read(json!({ "content": "half" }), "content_filter").said, declined("content filter"));
    }

    #[test]
    fn a_success_that_is_none_says_what_is_wrong() {
        let bad =
            |message: &str| Err(Failure::BadBody(BadReply::NotACompletion { message: message.to_owned() }));
        assert_eq!(completion(b" \n"), Err(Failure::BadBody(BadReply::Empty)));
        assert_eq!(completion(b"<html>busy</html>"), bad("no JSON"));
        assert_eq!(completion(br#"{"choices":[]}"#), bad("no choices"));
        assert_eq!(completion(br#"{"choices":[{"text":"old api"}]}"#), bad("no message"));
        assert_eq!(completion(b"[]"), bad("no choices"));
        let overloaded = Failure::Overloaded { status: 429, retry_after: None };
        assert_eq!(completion(br#"{"error":{"code":429,"message":"slow down"}}"#), Err(overloaded));
        let broken = |message: &str| Err(Failure::Broken { status: 200, message: message.to_owned() });
        assert_eq!(completion(br#"{"error":"model crashed"}"#), broken("model crashed"));
        let inside = br#"{"choices":[{"error":{"code":502,"message":"upstream"},"message":{"content":""}}]}"#;
        assert_eq!(completion(inside), Err(Failure::Broken { status: 502, message: "upstream".into() }));
    }

    #[test]
    fn endpoints_say_in_many_ways_that_they_do_not_take_a_shape() {
        let error =
            |message: &str| told(json!({ "error": { "message": message, "type": "invalid_request_error" } }));
        let cases = [
            (
                400,
                error(
                    "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
                ),
                Rung::JsonSchema,
            ),
            (400, error("This response_format type is unavailable now"), Rung::JsonSchema),
            (400, error("Invalid schema for response_format 'submit_answers'"), Rung::JsonSchema),
            (400, told(json!({ "error": "failed to parse grammar" })), Rung::JsonSchema),
            (
                422,
                told(
                    json!({ "detail": [{ "loc": ["body", "response_format"], "msg": "Extra inputs are not permitted", "input": "x" }] }),
                ),
                Rung::JsonSchema,
            ),
            (400, told(json!({ "error": "registry/gemma:latest does not support tools" })), Rung::ToolCall),
            (
                400,
                told(
                    json!({ "object": "error", "message": "\"auto\" tool choice requires --enable-auto-tool-choice" }),
                ),
                Rung::ToolCall,
            ),
            (404, error("No endpoints found that support tool use."), Rung::ToolCall),
            (400, error("'response_format.type' must be 'json_schema' or 'text'"), Rung::JsonObject),
            (501, error("response_format is not implemented"), Rung::JsonObject),
        ];
        for (status, told, rung) in cases {
            assert_eq!(refused(status, &told, style(rung)), Some(Feature::Shape), "{told:?}");
            assert_eq!(refused(503, &told, style(rung)), None);
            assert_eq!(refused(429, &told, style(rung)), None);
        }
        let limit = error(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        );
        assert_eq!(refused(400, &limit, BEST), Some(Feature::OutputLimit));
        let temperature = error("Unsupported value: 'temperature' does not support 0 with this model.");
        assert_eq!(refused(400, &temperature, BEST), Some(Feature::Temperature));
    }

    #[test]
    fn transient_errors_and_content_that_is_sent_back_do_not_look_like_a_refusal() {
        let crash = told(json!({ "error": { "message": "worker died while it compiled the grammar" } }));
        assert_eq!(refused(500, &crash, BEST), None);
        let echo = told(
            json!({ "detail": [{ "loc": ["body", "model"], "msg": "unknown model", "input": "json_schema is not supported" }] }),
        );
        assert_eq!(refused(422, &echo, BEST), None);
        assert_eq!(
            refused(404, &told(json!({ "error": { "message": "The model `large` does not exist" } })), BEST),
            None
        );
    }

    #[test]
    fn errors_are_told_apart_by_what_helps_against_them() {
        let fail = |status, body: Json| failure(status, &told(body), None);
        let message = |text: &str| json!({ "error": { "message": text } });
        let last = |failure: Failure| match failure {
            Failure::Final(kind) => kind.result(),
            other => panic!("{other:?} is not final"),
        };
        assert_eq!(last(fail(401, message("no"))), "auth");
        assert_eq!(last(fail(429, json!({ "error": { "code": "insufficient_quota" } }))), "quota");
        assert_eq!(last(fail(400, json!({ "error": { "code": "context_length_exceeded" } }))), "too_long");
        assert_eq!(
            last(fail(400, message("This model's maximum context length is 4096 tokens"))),
            "too_long"
        );
        assert_eq!(last(fail(400, json!({ "error": { "code": "content_filter" } }))), "refused");
        assert_eq!(last(fail(404, message("no such model"))), "error");
        for status in [429, 503, 529] {
            assert!(matches!(fail(status, message("busy")), Failure::Overloaded { .. }));
        }
        for status in [408, 500, 502, 504, 520] {
            assert!(matches!(fail(status, message("oops")), Failure::Broken { .. }), "{status}");
        }
    }
}
