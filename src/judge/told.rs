//! What an error body says, and what that means. Providers, and the gateways before them, share their words. Pure.

use std::time::Duration;

use serde_json::json;

use super::JudgeErrorKind;
use super::attempt::Failure;
use super::manners::{Feature, Rung, Style};
use super::reply::shorten;
use crate::domain::Json;

/// Bytes of an endpoint's message that are shown, and that are read to understand it.
pub(super) const MAX_MESSAGE: usize = 200;
const MAX_READ: usize = 4000;

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

    /// The same from an error that stands inside another body.
    pub fn inside(error: &Json) -> Self {
        Self::read(&json!({ "error": error }))
    }

    fn read(body: &Json) -> Self {
        // OpenAI and Anthropic wrap the error, AWS and vLLM's older versions do not; FastAPI puts a list under `detail`.
        let error = body.get("error").filter(|error| !error.is_null()).unwrap_or(body);
        let error = error.get(0).unwrap_or(error);
        let mut messages: Vec<&str> = Vec::new();
        messages.extend(error.as_str());
        let named = ["message", "Message", "msg", "detail"];
        messages.extend(named.iter().filter_map(|name| error.get(*name)?.as_str()));
        let mut words: Vec<String> = Vec::new();
        for name in ["code", "type", "param", "status", "__type"] {
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

    /// Adds a word that stands beside the body, such as AWS' header with the error's type.
    pub fn add(&mut self, word: &str) {
        self.words.push(' ');
        self.words.push_str(&word.to_lowercase());
    }

    /// Whether any of the phrases occurs.
    pub fn says(&self, any: &[&str]) -> bool {
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
    // The prompt does not fit beside the reply's limit: another name for the limit would not help.
    if told.says(TOO_LONG) {
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
        Rung::ToolCall => &["tool", "function", "input_schema", "inputschema"],
        Rung::JsonObject => &["response_format", "response format", "json_object", "json mode"],
        Rung::Plain => return None,
    };
    told.says(about_shape).then_some(Feature::Shape)
}

const TOO_LONG: &[&str] = &[
    "context_length_exceeded",
    "context length",
    "context window",
    "context size",
    "context limit",
    "maximum context",
    "too many tokens",
    "too many input tokens",
    "input is too long",
    "prompt is too long",
    "reduce the length",
];

/// What an error of the endpoint means, once it is clear that no refused feature is behind it.
pub(super) fn failure(status: u16, told: &Told, retry_after: Option<Duration>) -> Failure {
    let message = shorten(&told.message, MAX_MESSAGE);
    // Limits per minute are told in these words too, but with a time to come back or by the code of a rate.
    let no_money = ["exceeded your current quota", "insufficient balance", "insufficient credits"];
    let is_rate = retry_after.is_some() || told.words.contains("rate_limit");
    let is_broke = told.says(&["insufficient_quota"])
        || told.words.contains("billing")
        || (!is_rate && told.says(&no_money));
    let no_credit = ["credit balance is too low", "billing_hard_limit", "billing_not_active"];
    let filtered = ["content_filter", "content_policy_violation", "responsibleaipolicyviolation"];
    let is_flagged = told.says(&["input was flagged", "moderation"]);
    let quota = || JudgeErrorKind::Quota { status, code: shorten(told.words.trim(), MAX_MESSAGE) };
    let kind = match status {
        400 | 403 if told.says(&no_credit) => quota(),
        // A gateway's filter, not its door.
        403 if is_flagged || told.says(&filtered) => {
            JudgeErrorKind::Declined { message: "content filter".to_owned() }
        }
        401 | 403 => JudgeErrorKind::Auth { status, message },
        402 => JudgeErrorKind::Quota { status, code: "payment required".to_owned() },
        429 if is_broke => quota(),
        429 | 503 | 529 => return Failure::Overloaded { status, retry_after },
        400 | 413 | 422 | 500 if told.says(TOO_LONG) => JudgeErrorKind::TooLong { tokens: 0, message },
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
        let flagged = "Your chosen model requires moderation and your input was flagged for \"violence\"";
        assert_eq!(last(fail(403, message(flagged))), "refused");
        for status in [429, 503, 529] {
            assert!(matches!(fail(status, message("busy")), Failure::Overloaded { .. }));
        }
        // A limit per minute is no lack of money, whatever is advertised beside it.
        let billing = "Rate limit reached on requests per min (RPM). You can increase your limit by adding a payment \
                       method at https://platform.openai.com/account/billing.";
        let limited =
            json!({ "error": { "message": billing, "type": "requests", "code": "rate_limit_exceeded" } });
        assert!(matches!(fail(429, limited), Failure::Overloaded { .. }));
        let current = message("You exceeded your current quota, please check your plan and billing details.");
        assert_eq!(last(fail(429, current.clone())), "quota");
        let wait = Some(Duration::from_secs(32));
        assert_eq!(
            failure(429, &told(current), wait),
            Failure::Overloaded { status: 429, retry_after: wait }
        );
        for status in [408, 500, 502, 504, 520] {
            assert!(matches!(fail(status, message("oops")), Failure::Broken { .. }), "{status}");
        }
    }
}
