//! What holds for every provider, each in its own wire format.

use std::num::NonZeroU32;
use std::time::Duration;

use assayd::domain::Json;
use assayd::judge::{
    AnthropicConfig, BadReply, BedrockConfig, Config, Flaw, Judge, JudgeErrorKind, OpenAiConfig, build,
};
use assayd::secret::Secret;
use serde_json::json;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::{BOTH, Scripted, ask_about, labels, two};

/// How a provider writes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Maker {
    OpenAi,
    Anthropic,
    Bedrock,
}

const ALL: [Maker; 3] = [Maker::OpenAi, Maker::Anthropic, Maker::Bedrock];

impl Maker {
    fn path(self) -> &'static str {
        match self {
            Self::OpenAi => "/v1/chat/completions",
            Self::Anthropic => "/v1/messages",
            Self::Bedrock => "/model/judge%3A0/converse",
        }
    }

    fn config(self, url: &str, key: Secret) -> Config {
        let (url, key) = (url.to_owned(), Some(key));
        let mut config = Config { attempts: NonZeroU32::new(2).unwrap(), ..Config::default() };
        match self {
            Self::OpenAi => {
                let url = format!("{url}/v1");
                let model = "judge:0".to_owned();
                config.openai = Some(OpenAiConfig { url, model, key, ..OpenAiConfig::default() });
            }
            Self::Anthropic => {
                let model = "judge:0".to_owned();
                config.anthropic = Some(AnthropicConfig { url, model, key, ..AnthropicConfig::default() });
            }
            Self::Bedrock => {
                let (region, model) = ("eu-central-1".to_owned(), "judge:0".to_owned());
                config.bedrock =
                    Some(BedrockConfig { region, model, url: Some(url), key, ..BedrockConfig::default() });
            }
        }
        config
    }

    fn reply(self, text: &str, stop: [&str; 3]) -> ResponseTemplate {
        let body = match self {
            Self::OpenAi => json!({
                "choices": [{ "message": { "role": "assistant", "content": text }, "finish_reason": stop[0] }],
                "usage": { "prompt_tokens": 1000, "completion_tokens": 100 },
            }),
            Self::Anthropic => json!({
                "id": "msg_1", "type": "message", "role": "assistant", "model": "judge:0",
                "content": [{ "type": "text", "text": text }], "stop_reason": stop[1],
                "usage": { "input_tokens": 1000, "output_tokens": 100 },
            }),
            Self::Bedrock => json!({
                "output": { "message": { "role": "assistant", "content": [{ "text": text }] } },
                "stopReason": stop[2], "metrics": { "latencyMs": 7 },
                "usage": { "inputTokens": 1000, "outputTokens": 100, "totalTokens": 1100 },
            }),
        };
        ResponseTemplate::new(200).set_body_json(body)
    }

    /// Text, where a call of the tool was asked for.
    fn says(self, text: &str) -> ResponseTemplate {
        self.reply(text, ["stop", "end_turn", "end_turn"])
    }

    fn cut(self, text: &str) -> ResponseTemplate {
        self.reply(text, ["length", "max_tokens", "max_tokens"])
    }

    fn refuses(self) -> ResponseTemplate {
        self.reply("I can't help with that.", ["content_filter", "refusal", "guardrail_intervened"])
    }

    /// The reply in the way that was asked for.
    fn submits(self, input: &Json) -> ResponseTemplate {
        match self {
            Self::OpenAi => self.says(&input.to_string()),
            Self::Anthropic => ResponseTemplate::new(200).set_body_json(json!({
                "type": "message", "role": "assistant", "stop_reason": "tool_use",
                "content": [
                    { "type": "text", "text": "I will submit the answers." },
                    { "type": "tool_use", "id": "toolu_1", "name": "submit_answers", "input": input },
                ],
                "usage": { "input_tokens": 1000, "output_tokens": 100 },
            })),
            Self::Bedrock => ResponseTemplate::new(200).set_body_json(json!({
                "output": { "message": { "role": "assistant", "content": [
                    { "toolUse": { "toolUseId": "t1", "name": "submit_answers", "input": input } },
                ] } },
                "stopReason": "tool_use",
                "usage": { "inputTokens": 1000, "outputTokens": 100, "totalTokens": 1100 },
            })),
        }
    }

    fn error(self, status: u16, kind: &str, message: &str) -> ResponseTemplate {
        let response = ResponseTemplate::new(status);
        match self {
            Self::OpenAi => response.set_body_json(json!({ "error": { "message": message, "type": kind } })),
            Self::Anthropic => response.set_body_json(
                json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": "req_1" }),
            ),
            Self::Bedrock => {
                let kind = format!("{kind}:http://internal.amazon.com/coral/com.amazon.bedrock/");
                response.insert_header("x-amzn-ErrorType", kind).set_body_json(json!({ "message": message }))
            }
        }
    }

    fn overloaded(self) -> ResponseTemplate {
        match self {
            Self::OpenAi => self.error(503, "server_error", "overloaded"),
            Self::Anthropic => self.error(529, "overloaded_error", "Overloaded"),
            Self::Bedrock => self.error(429, "ThrottlingException", "Too many requests"),
        }
    }

    fn error_inside(self) -> Json {
        match self {
            Self::OpenAi => json!({ "error": { "message": "busy", "code": 429 } }),
            Self::Anthropic => {
                json!({ "type": "error", "error": { "type": "rate_limit_error", "message": "busy" } })
            }
            Self::Bedrock => json!({ "__type": "ThrottlingException", "message": "busy" }),
        }
    }

    /// Whether a request asks for the reply's shape.
    fn asks_for_shape(self, body: &Json) -> bool {
        let keys: &[&str] = match self {
            Self::OpenAi => &["response_format", "tools"],
            Self::Anthropic => &["tools"],
            Self::Bedrock => &["toolConfig"],
        };
        keys.iter().any(|key| body.get(*key).is_some())
    }

    fn schema(self, body: &Json) -> Json {
        match self {
            Self::OpenAi => body["response_format"]["json_schema"]["schema"].clone(),
            Self::Anthropic => body["tools"][0]["input_schema"].clone(),
            Self::Bedrock => body["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"].clone(),
        }
    }

    fn user(self, body: &Json) -> String {
        let text = match self {
            Self::OpenAi => &body["messages"][1]["content"],
            Self::Anthropic => &body["messages"][0]["content"],
            Self::Bedrock => &body["messages"][0]["content"][0]["text"],
        };
        text.as_str().unwrap().to_owned()
    }

    fn key_header(self) -> (&'static str, &'static str) {
        match self {
            Self::OpenAi | Self::Bedrock => ("authorization", "Bearer s3cret"),
            Self::Anthropic => ("x-api-key", "s3cret"),
        }
    }
}

struct Far {
    maker: Maker,
    server: MockServer,
    config: Config,
    key: tempfile::NamedTempFile,
}

impl Far {
    async fn start(
        maker: Maker,
        script: impl Fn(usize, &Json) -> ResponseTemplate + Send + Sync + 'static,
    ) -> Self {
        let server = MockServer::start().await;
        let scripted =
            Scripted { script: Box::new(script), count: Default::default(), sent: Default::default() };
        Mock::given(method("POST")).and(path(maker.path())).respond_with(scripted).mount(&server).await;
        let key = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(key.path(), "s3cret\n").unwrap();
        let config = maker.config(&server.uri(), Secret::File(key.path().to_owned()));
        Self { maker, server, config, key }
    }

    async fn always(maker: Maker, response: ResponseTemplate) -> Self {
        Self::start(maker, move |_, _| response.clone()).await
    }

    fn judge(&self) -> std::sync::Arc<dyn Judge> {
        build(&self.config).unwrap().unwrap()
    }

    async fn error(&self) -> JudgeErrorKind {
        self.judge().judge(&two()).await.unwrap_err().kind
    }

    async fn sent(&self) -> Vec<Json> {
        let requests = self.server.received_requests().await.unwrap();
        requests.iter().map(|request| request.body_json().unwrap()).collect()
    }
}

fn both() -> Json {
    serde_json::from_str(BOTH).unwrap()
}

#[tokio::test]
async fn each_provider_is_asked_in_its_own_format_with_the_state_and_only_the_leftover_questions() {
    for maker in ALL {
        let far = Far::always(maker, maker.submits(&both())).await;
        let mut ask = two();
        ask.inquiries[0].questions.remove(1);
        ask.inquiries.extend(ask_about("Another state.", &["third"]).inquiries);
        let judge = far.judge();
        let judgement = judge.judge(&ask).await.unwrap();
        assert_eq!(labels(&judgement), [("first", "yes"), ("third", "no")], "{maker:?}");
        assert_eq!((judgement.usage.judge_input_tokens, judgement.usage.judge_output_tokens), (1000, 100));
        assert_eq!(judge.model(), "judge:0");

        let requests = far.server.received_requests().await.unwrap();
        assert_eq!(requests.len(), 1, "{maker:?}");
        let (header, value) = maker.key_header();
        assert_eq!(requests[0].headers[header], value, "{maker:?}");
        assert_eq!(requests[0].headers["content-type"], "application/json");
        if maker == Maker::Anthropic {
            assert_eq!(requests[0].headers["anthropic-version"], "2023-06-01");
        }
        let body = &far.sent().await[0];
        let user = maker.user(body);
        assert!(user.contains("The order was refunded on Monday.") && user.contains("Another state."));
        assert!(user.contains("Is first supported?") && !user.contains("second"), "{user}");
        let schema = maker.schema(body);
        let keys: Vec<&String> =
            schema["properties"]["answers"]["properties"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["q1", "q2"], "{maker:?}");
    }
}

#[tokio::test]
async fn an_endpoint_that_takes_no_shape_is_asked_plainly_and_that_is_remembered() {
    for maker in ALL {
        let far = Far::start(maker, move |_, body| match maker.asks_for_shape(body) {
            true => maker.error(400, "ValidationException", "tools and response_format are not supported"),
            false => maker.says(&format!("Sure:\n```json\n{BOTH}\n```")),
        })
        .await;
        let judge = far.judge();
        assert_eq!(judge.judge(&two()).await.unwrap().answers.len(), 2, "{maker:?}");
        let first = far.sent().await.len();
        judge.judge(&ask_about("another state", &["a", "b"])).await.unwrap();
        assert_eq!(far.sent().await.len(), first + 1, "{maker:?}");
    }
}

#[tokio::test]
async fn a_model_that_writes_text_instead_of_calling_the_tool_is_understood() {
    for maker in ALL {
        let far = Far::always(maker, maker.says(BOTH)).await;
        assert_eq!(labels(&far.judge().judge(&two()).await.unwrap()), [("first", "yes"), ("second", "no")]);
    }
}

#[tokio::test]
async fn replies_that_are_no_answer_are_errors_after_their_tries() {
    let not_json = |text: &str| BadReply::NotJson { excerpt: text.to_owned() };
    let nothing = |first| BadReply::NothingValid { first };
    for maker in ALL {
        let cases = [
            (maker.says("The first claim is right."), not_json("The first claim is right.")),
            (maker.says("Score: 5"), not_json("Score: 5")),
            (maker.says(""), BadReply::Empty),
            (maker.says("[0.5, 0.5]"), not_json("[0.5, 0.5]")),
            (maker.says(r#"{"q1": NaN}"#), not_json(r#"{"q1": NaN}"#)),
            (maker.submits(&json!({ "grounding_score": 0.75 })), nothing(Flaw::Missing)),
            (maker.submits(&json!({ "q9": "yes" })), nothing(Flaw::Missing)),
            (
                maker.submits(&json!({ "answers": { "q1": { "answer": "5" } } })),
                nothing(Flaw::NotALabel { found: "5".into() }),
            ),
            (maker.cut(r#"{"answers":{"q1":{"reasoning":"The ord"#), BadReply::Truncated),
        ];
        for (response, reply) in cases {
            let far = Far::always(maker, response).await;
            assert_eq!(far.error().await, JudgeErrorKind::Invalid { tries: 2, reply }, "{maker:?}");
            let sent = far.sent().await;
            assert!(maker.user(&sent[1]).contains("An earlier reply could not be used"));
            assert!(maker.asks_for_shape(&sent[1]), "a bad reply lowers no rung: {maker:?}");
        }
    }
}

#[tokio::test]
async fn a_list_instead_of_an_object_missing_and_extra_keys_and_a_wrong_label_cost_only_what_is_wrong() {
    for maker in ALL {
        let listed = json!({ "answers": [
            { "key": "q1", "answer": "yes", "confidence": 0.9 }, { "key": "q2", "answer": "perhaps" }, { "key": "q7" },
        ] });
        let far = Far::always(maker, maker.submits(&listed)).await;
        let judgement = far.judge().judge(&two()).await.unwrap();
        assert_eq!(labels(&judgement), [("first", "yes")], "{maker:?}");
        assert_eq!(judgement.unanswered[0].why, Flaw::NotALabel { found: "perhaps".into() });
    }
}

#[tokio::test]
async fn a_refusal_is_told_apart_and_not_asked_again() {
    for maker in ALL {
        let far = Far::always(maker, maker.refuses()).await;
        assert!(matches!(far.error().await, JudgeErrorKind::Declined { .. }), "{maker:?}");
        assert_eq!(far.sent().await.len(), 1);
    }
}

#[tokio::test]
async fn a_success_that_is_none_is_tried_again_and_then_an_error() {
    for maker in ALL {
        for response in [
            ResponseTemplate::new(200),
            ResponseTemplate::new(200).set_body_string("<html>gateway</html>"),
            ResponseTemplate::new(200).set_body_json(json!({ "id": "x" })),
        ] {
            let far = Far::always(maker, response).await;
            assert!(matches!(far.error().await, JudgeErrorKind::Invalid { .. }), "{maker:?}");
            assert_eq!(far.sent().await.len(), 2);
        }
        let inside = ResponseTemplate::new(200).set_body_json(maker.error_inside());
        let far = Far::always(maker, inside).await;
        assert!(matches!(far.error().await, JudgeErrorKind::RateLimited { status: 429, .. }), "{maker:?}");
    }
}

#[tokio::test]
async fn overload_is_waited_out_and_a_longer_pause_than_the_deadline_is_not() {
    for maker in ALL {
        let far = Far::start(maker, move |count, _| match count {
            0 => maker.overloaded().insert_header("retry-after", "0.05"),
            _ => maker.submits(&both()),
        })
        .await;
        assert_eq!(far.judge().judge(&two()).await.unwrap().answers.len(), 2, "{maker:?}");
        let far = Far::always(maker, maker.overloaded().insert_header("retry-after", "600")).await;
        let error = far.error().await;
        let asked = Some(Duration::from_secs(600));
        assert!(
            matches!(&error, JudgeErrorKind::RateLimited { attempts: 1, retry_after, .. } if *retry_after == asked),
            "{maker:?}: {error}"
        );
    }
}

#[tokio::test]
async fn errors_that_waiting_does_not_help_are_not_tried_again() {
    for maker in ALL {
        let cases = [
            (maker.error(401, "authentication_error", "invalid key s3cret"), "auth"),
            (maker.error(403, "AccessDeniedException", "no access to this model"), "auth"),
            (maker.error(404, "not_found_error", "no such model"), "error"),
            (maker.error(400, "ValidationException", "prompt is too long: 9 > 8"), "too_long"),
            (maker.error(413, "request_too_large", "too large"), "too_long"),
            (maker.error(400, "ValidationException", "unknown field"), "error"),
        ];
        for (response, result) in cases {
            let far = Far::always(maker, response).await;
            let error = far.judge().judge(&two()).await.unwrap_err();
            assert_eq!(error.result(), result, "{maker:?}: {error}");
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
            assert_eq!(far.sent().await.len(), 1, "{maker:?}: {error}");
        }
    }
}

#[tokio::test]
async fn a_rotated_key_is_read_again() {
    for maker in ALL {
        let far = Far::always(maker, maker.submits(&both())).await;
        let judge = far.judge();
        far.server.reset().await;
        let (header, value) = maker.key_header();
        let fresh = value.replace("s3cret", "rotated");
        Mock::given(wiremock::matchers::header(header, fresh.as_str()))
            .respond_with(maker.submits(&both()))
            .mount(&far.server)
            .await;
        let refusal = maker.error(401, "authentication_error", "expired");
        Mock::given(method("POST")).respond_with(refusal).with_priority(9).mount(&far.server).await;
        std::fs::write(far.key.path(), "rotated\n").unwrap();
        assert_eq!(judge.judge(&two()).await.unwrap().answers.len(), 2, "{maker:?}");
        assert_eq!(far.maker, maker);
    }
}

#[tokio::test]
async fn azure_is_asked_with_its_version_and_its_own_header() {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(path("/openai/deployments/d/chat/completions"))
        .and(wiremock::matchers::query_param("api-version", "2024-10-21"))
        .and(wiremock::matchers::header("api-key", "s3cret"))
        .respond_with(Maker::OpenAi.says(BOTH))
        .mount(&server)
        .await;
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), "s3cret").unwrap();
    let openai = OpenAiConfig {
        url: format!("{}/openai/deployments/d", server.uri()),
        model: "d".into(),
        key: Some(Secret::File(key.path().to_owned())),
        api_version: Some("2024-10-21".into()),
        ..OpenAiConfig::default()
    };
    let judge = build(&Config { openai: Some(openai), ..Config::default() }).unwrap().unwrap();
    assert_eq!(judge.judge(&two()).await.unwrap().answers.len(), 2);
}

#[cfg(not(feature = "bedrock"))]
#[test]
fn a_build_without_signatures_says_what_to_do() {
    let (region, model) = ("eu-central-1".to_owned(), "m".to_owned());
    let bedrock = BedrockConfig { region, model, ..BedrockConfig::default() };
    let error = build(&Config { bedrock: Some(bedrock), ..Config::default() }).err().unwrap().to_string();
    assert!(error.contains("--features bedrock") && error.contains("judge.bedrock.key"), "{error}");
}
