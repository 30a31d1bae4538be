//! OpenAI's `POST chat/completions`, as OpenAI, Azure, vLLM, Ollama, LiteLLM and many others speak it. Pure.

use reqwest::Url;
use serde_json::{Map, json};

use super::OpenAiConfig;
use super::attempt::{Completion, Failure, Said, Tokens};
use super::config::web_address;
use super::dialect::{DESCRIPTION, Dialect, NAME, Settings, Shape, declined, malformed, parsed};
use super::manners::{Rung, Style};
use super::prompt::Prompt;
use super::told::{Told, failure};
use crate::domain::Json;

/// `chat/completions`.
pub(super) struct OpenAi;

impl OpenAi {
    /// The address of `chat/completions` below the base address, with its query and Azure's version.
    pub fn address(config: &OpenAiConfig) -> Option<Url> {
        let mut url = web_address(&config.url)?;
        let path = url.path().trim_end_matches('/').to_owned();
        if !path.ends_with("/chat/completions") {
            url.set_path(&format!("{path}/chat/completions"));
        }
        if let Some(version) = &config.api_version {
            url.query_pairs_mut().append_pair("api-version", version);
        }
        Some(url)
    }
}

impl Dialect for OpenAi {
    fn rungs(&self) -> &'static [Rung] {
        &[Rung::JsonSchema, Rung::ToolCall, Rung::JsonObject, Rung::Plain]
    }

    fn request(&self, settings: &Settings, style: Style, prompt: &Prompt, shape: &Shape) -> Json {
        request(settings, style, prompt, shape)
    }

    fn completion(&self, body: &[u8]) -> Result<Completion, Failure> {
        completion(body)
    }
}

/// A request body.
fn request(settings: &Settings, style: Style, prompt: &Prompt, shape: &Shape) -> Json {
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
            let named = json!({ "name": NAME, "strict": shape.strict, "schema": shape.schema });
            body.insert("response_format".to_owned(), json!({ "type": "json_schema", "json_schema": named }));
        }
        Rung::ToolCall => {
            let function = json!({
                "name": NAME, "description": DESCRIPTION, "strict": shape.strict, "parameters": shape.schema,
            });
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
fn completion(body: &[u8]) -> Result<Completion, Failure> {
    let body = parsed(body)?;
    let choice = body.get("choices").and_then(|choices| choices.get(0));
    let inner_error = [Some(&body), choice].into_iter().flatten().filter_map(|part| part.get("error"));
    if let Some(error) = inner_error.into_iter().find(|error| !error.is_null()) {
        let told = Told::inside(error);
        let status = error.get("code").and_then(Json::as_u64).and_then(|code| u16::try_from(code).ok());
        return Err(failure(status.filter(|code| *code >= 400).unwrap_or(200), &told, None));
    }
    let choice = choice.ok_or_else(|| malformed("no choices"))?;
    let message =
        choice.get("message").filter(|message| message.is_object()).ok_or_else(|| malformed("no message"))?;
    let tokens = body.get("usage").and_then(tokens);
    let finish = choice.get("finish_reason").and_then(Json::as_str).unwrap_or_default();
    if let Some(refusal) =
        message.get("refusal").and_then(Json::as_str).filter(|text| !text.trim().is_empty())
    {
        return Ok(Completion { said: declined(refusal), tokens });
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

#[cfg(test)]
mod tests {
    use super::super::BadReply;
    use super::*;

    const BEST: Style = Style { rung: Rung::JsonSchema, completion_limit: false, temperature: true };

    fn style(rung: Rung) -> Style {
        Style { rung, ..BEST }
    }

    #[test]
    fn each_rung_asks_for_the_shape_in_its_own_way() {
        let settings = Settings { model: "m".into(), max_output_tokens: 9, temperature: Some(0.0) };
        let prompt = Prompt { system: "s".into(), user: "u".into() };
        let schema = json!({ "type": "object" });
        let shape = Shape { schema: schema.clone(), strict: true, kind: 0 };
        let body = |style| request(&settings, style, &prompt, &shape);
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
    fn the_endpoint_is_below_the_base_and_keeps_its_query() {
        let config = |url: &str| OpenAiConfig { url: url.to_owned(), ..OpenAiConfig::default() };
        let at = |base: &str| OpenAi::address(&config(base)).map(String::from);
        let azure = "https://x.openai.azure.com/openai/deployments/d?api-version=2026-06-01";
        let expected =
            "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=2026-06-01";
        assert_eq!(at(azure).as_deref(), Some(expected));
        assert_eq!(
            at("http://localhost:8000/v1/").as_deref(),
            Some("http://localhost:8000/v1/chat/completions")
        );
        assert_eq!(at("http://h/v1/chat/completions").as_deref(), Some("http://h/v1/chat/completions"));
        assert_eq!(at("ftp://h/v1"), None);
        assert_eq!(at("judge"), None);
        let azure = OpenAiConfig {
            api_version: Some("2026-06-01".to_owned()),
            ..config("https://x/openai/deployments/d")
        };
        let address = OpenAi::address(&azure).map(String::from);
        assert_eq!(
            address.as_deref(),
            Some("https://x/openai/deployments/d/chat/completions?api-version=2026-06-01")
        );
    }
}
