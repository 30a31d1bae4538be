//! AWS Bedrock's `POST /model/MODEL/converse`: the reply's shape is asked for by a tool that has to be called. Pure.

use std::time::Duration;

use reqwest::Url;
use serde_json::{Map, json};

use super::attempt::{Completion, Failure, Said, Tokens};
use super::config::web_address;
use super::dialect::{DESCRIPTION, Dialect, NAME, Settings, Shape, declined, malformed, parsed};
use super::manners::{Feature, Rung, Style};
use super::prompt::Prompt;
use super::reply::shorten;
use super::told::{self, MAX_MESSAGE, Told};
use super::{BedrockConfig, JudgeErrorKind};
use crate::domain::Json;

/// Converse.
pub(super) struct Bedrock;

impl Bedrock {
    /// The address of `converse` for the model, in the region or below an own base address.
    pub fn address(config: &BedrockConfig) -> Option<Url> {
        let regional = format!("https://bedrock-runtime.{}.amazonaws.com", config.region);
        let mut url = web_address(config.url.as_deref().unwrap_or(&regional))?;
        let base = url.path().trim_end_matches('/').to_owned();
        // Names hold colons, and ARNs slashes, which belong to the name and not to the path.
        url.set_path(&format!("{base}/model/{}/converse", escaped(&config.model)));
        Some(url)
    }
}

impl Dialect for Bedrock {
    fn rungs(&self) -> &'static [Rung] {
        &[Rung::ToolCall, Rung::Plain]
    }

    fn request(&self, settings: &Settings, style: Style, prompt: &Prompt, shape: &Shape) -> Json {
        let mut inference = Map::new();
        inference.insert("maxTokens".to_owned(), json!(settings.max_output_tokens));
        if let Some(temperature) = settings.temperature.filter(|_| style.temperature) {
            inference.insert("temperature".to_owned(), json!(temperature));
        }
        let mut body = Map::new();
        body.insert("system".to_owned(), json!([{ "text": prompt.system }]));
        body.insert("messages".to_owned(), json!([{ "role": "user", "content": [{ "text": prompt.user }] }]));
        body.insert("inferenceConfig".to_owned(), Json::Object(inference));
        if style.rung == Rung::ToolCall {
            let schema = json!({ "json": shape.schema });
            let tool =
                json!({ "toolSpec": { "name": NAME, "description": DESCRIPTION, "inputSchema": schema } });
            let choice = json!({ "tool": { "name": NAME } });
            body.insert("toolConfig".to_owned(), json!({ "tools": [tool], "toolChoice": choice }));
        }
        Json::Object(body)
    }

    fn completion(&self, body: &[u8]) -> Result<Completion, Failure> {
        let body = parsed(body)?;
        let kind = body.get("__type").or_else(|| body.get("error"));
        if let Some(kind) = kind.filter(|kind| !kind.is_null()) {
            let told =
                if kind.is_string() { Told::parse(body.to_string().as_bytes()) } else { Told::inside(kind) };
            return Err(self.failure(200, &told, None));
        }
        let message = body.get("output").and_then(|output| output.get("message"));
        let content = message.and_then(|message| message.get("content")).and_then(Json::as_array);
        let content = content.ok_or_else(|| malformed("no message"))?;
        let tokens = body.get("usage").and_then(tokens);
        let stop = body.get("stopReason").and_then(Json::as_str).unwrap_or_default();
        let said = match stop {
            "guardrail_intervened" => Said::Declined { message: "guardrail".to_owned() },
            "content_filtered" => Said::Declined { message: "content filter".to_owned() },
            "refusal" => declined(&written(content)),
            _ => {
                let cut = matches!(stop, "max_tokens" | "model_context_window_exceeded");
                Said::Text { text: text(content), cut }
            }
        };
        Ok(Completion { said, tokens })
    }

    fn refused(&self, status: u16, told: &Told, sent: Style) -> Option<Feature> {
        told::refused(status, told, sent).filter(|feature| *feature != Feature::OutputLimit)
    }

    /// AWS names its errors; the name says more than the status.
    fn failure(&self, status: u16, told: &Told, retry_after: Option<Duration>) -> Failure {
        let named = |names: &[&str]| names.iter().any(|name| told.words.contains(name));
        let message = shorten(&told.message, MAX_MESSAGE);
        if named(&["throttlingexception", "toomanyrequestsexception", "modelnotreadyexception"]) {
            return Failure::Overloaded { status: 429, retry_after };
        }
        if named(&["serviceunavailableexception"]) {
            return Failure::Overloaded { status: 503, retry_after };
        }
        if named(&["servicequotaexceededexception"]) {
            let code = "service quota exceeded".to_owned();
            return Failure::Final(JudgeErrorKind::Quota { status, code });
        }
        if named(&["accessdenied", "unrecognizedclient", "expiredtoken", "invalidsignature"]) {
            return Failure::Final(JudgeErrorKind::Auth { status: status.max(400), message });
        }
        if named(&["modelerrorexception", "modeltimeoutexception", "internalserverexception"]) {
            return Failure::Broken { status, message };
        }
        told::failure(status, told, retry_after)
    }
}

fn tokens(usage: &Json) -> Option<Tokens> {
    let count = |name: &str| usage.get(name).and_then(Json::as_u64);
    let cached = ["cacheReadInputTokens", "cacheWriteInputTokens"];
    let cached: u64 = cached.iter().filter_map(|name| count(name)).sum();
    Some(Tokens { input: count("inputTokens")? + cached, output: count("outputTokens").unwrap_or(0) })
}

/// The input of the tool calls if there are any, else what is written.
fn text(content: &[Json]) -> String {
    let calls = content.iter().filter_map(|block| block.get("toolUse")?.get("input"));
    let inputs: Vec<String> = calls.map(Json::to_string).collect();
    if inputs.is_empty() { written(content) } else { inputs.join("\n") }
}

fn written(content: &[Json]) -> String {
    content.iter().filter_map(|block| block.get("text")?.as_str()).collect::<Vec<_>>().join("\n")
}

fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::BadReply;
    use super::*;

    fn read(body: Json) -> Result<Completion, Failure> {
        Bedrock.completion(body.to_string().as_bytes())
    }

    fn reply(content: Json, stop: &str) -> Json {
        let usage = json!({ "inputTokens": 7, "outputTokens": 3, "totalTokens": 10 });
        let message = json!({ "role": "assistant", "content": content });
        json!({ "output": { "message": message }, "stopReason": stop, "usage": usage })
    }

    fn told(kind: &str, message: &str) -> Told {
        let mut told = Told::parse(json!({ "message": message }).to_string().as_bytes());
        told.add(kind);
        told
    }

    #[test]
    fn the_shape_is_asked_for_by_a_tool_that_has_to_be_called() {
        let settings = Settings { model: "m".into(), max_output_tokens: 9, temperature: Some(0.0) };
        let prompt = Prompt { system: "s".into(), user: "u".into() };
        let shape = Shape { schema: json!({ "type": "object" }), strict: true, kind: 0 };
        let style = Style { rung: Rung::ToolCall, completion_limit: false, temperature: true };
        let body = Bedrock.request(&settings, style, &prompt, &shape);
        assert_eq!(body["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"], shape.schema);
        assert_eq!(body["toolConfig"]["toolChoice"]["tool"]["name"], NAME);
        assert_eq!(body["inferenceConfig"], json!({ "maxTokens": 9, "temperature": 0.0 }));
        assert_eq!(body["messages"][0]["content"][0]["text"], "u");
        let plain = Style { rung: Rung::Plain, temperature: false, ..style };
        let body = Bedrock.request(&settings, plain, &prompt, &shape);
        assert!(body.get("toolConfig").is_none() && body["inferenceConfig"].get("temperature").is_none());
    }

    #[test]
    fn tool_input_text_limits_and_refusals_are_read() {
        let said = |text: &str, cut| Said::Text { text: text.to_owned(), cut };
        let called = json!([{ "text": "Here." }, { "toolUse": { "toolUseId": "t", "name": NAME, "input": { "q1": 1 } } }]);
        let completion = read(reply(called, "tool_use")).unwrap();
        assert_eq!(completion.said, said("{\"q1\":1}", false));
        assert_eq!(completion.tokens, Some(Tokens { input: 7, output: 3 }));
        // No tool call at all is the case that broke others: the text counts then.
        let text = json!([{ "reasoningContent": { "reasoningText": { "text": "hm" } } }, { "text": "{}" }]);
        assert_eq!(read(reply(text.clone(), "end_turn")).unwrap().said, said("{}", false));
        assert_eq!(read(reply(text.clone(), "max_tokens")).unwrap().said, said("{}", true));
        for (stop, message) in [("guardrail_intervened", "guardrail"), ("content_filtered", "content filter")]
        {
            let declined = Said::Declined { message: message.to_owned() };
            assert_eq!(read(reply(text.clone(), stop)).unwrap().said, declined);
        }
    }

    #[test]
    fn a_success_that_is_none_says_what_is_wrong() {
        let bad = |message: &str| Err(Failure::BadBody(BadReply::NotACompletion { message: message.into() }));
        assert_eq!(Bedrock.completion(b" "), Err(Failure::BadBody(BadReply::Empty)));
        assert_eq!(Bedrock.completion(b"<html>"), bad("no JSON"));
        assert_eq!(read(json!({ "output": {} })), bad("no message"));
        let inside = json!({ "__type": "com.amazon#ThrottlingException", "message": "slow down" });
        assert_eq!(read(inside), Err(Failure::Overloaded { status: 429, retry_after: None }));
    }

    #[test]
    fn errors_are_told_apart_by_their_names() {
        let result = |status, told: &Told| Bedrock.failure(status, told, None).into_error(1).result();
        assert_eq!(result(429, &told("ThrottlingException", "Too many requests")), "rate_limited");
        assert_eq!(result(503, &told("ServiceUnavailableException", "")), "rate_limited");
        assert_eq!(result(400, &told("ServiceQuotaExceededException", "")), "quota");
        assert_eq!(result(403, &told("AccessDeniedException", "You don't have access to the model")), "auth");
        assert_eq!(
            result(400, &told("ValidationException", "Input is too long for requested model.")),
            "too_long"
        );
        assert_eq!(result(404, &told("ResourceNotFoundException", "no such model")), "error");
        let model = Bedrock.failure(424, &told("ModelErrorException", "crashed"), None);
        assert_eq!(model, Failure::Broken { status: 424, message: "crashed".into() });
        let style = Style { rung: Rung::ToolCall, completion_limit: false, temperature: true };
        let refused =
            "This model doesn't support the toolConfig.toolChoice.tool field. Remove it and try again.";
        assert_eq!(Bedrock.refused(400, &told("ValidationException", refused), style), Some(Feature::Shape));
    }

    #[test]
    fn a_models_name_keeps_its_colons_and_slashes_within_one_segment() {
        let at = |model: &str, url: Option<&str>| {
            let config = BedrockConfig {
                region: "eu-central-1".into(),
                model: model.into(),
                url: url.map(str::to_owned),
                ..BedrockConfig::default()
            };
            Bedrock::address(&config).map(String::from).unwrap()
        };
        assert_eq!(
            at("amazon.nova-pro-v1:0", None),
            "https://bedrock-runtime.eu-central-1.amazonaws.com/model/amazon.nova-pro-v1%3A0/converse"
        );
        assert_eq!(
            at("arn:aws:bedrock:x:1:inference-profile/p", Some("http://vpce/")),
            "http://vpce/model/arn%3Aaws%3Abedrock%3Ax%3A1%3Ainference-profile%2Fp/converse"
        );
    }
}
