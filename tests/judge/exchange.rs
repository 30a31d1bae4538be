//! What a judge is sent, and what is read from its replies.

use std::num::NonZeroU32;
use std::sync::Arc;

use assayd::domain::Inquiry;
use assayd::error::Fault;
use assayd::judge::{Ask, BadReply, Config, Flaw, JudgeErrorKind, OpenAiConfig, Price, build};
use assayd::secret::Secret;
use serde_json::json;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::{BOTH, Endpoint, ask_about, choice, completion, error_of, fails, labels, says, two};

#[tokio::test]
async fn one_call_carries_the_original_state_and_only_the_leftover_questions() {
    let endpoint = Endpoint::saying(BOTH).await;
    let mut ask = two();
    let evidence = json!({ "tool": "lookup_order", "result": { "id": 7, "status": "refunded" } });
    let third = choice("third", &["yes", "no"]);
    ask.inquiries[0].questions.remove(1);
    ask.inquiries.push(Inquiry::new(Arc::new(evidence.clone()), vec![third]));
    let judgement = endpoint.judge().judge(&ask).await.unwrap();
    assert_eq!(labels(&judgement), [("first", "yes"), ("third", "no")]);
    assert_eq!(judgement.answers[0].reasoning.as_deref(), Some("It says so."));

    let sent = endpoint.sent();
    assert_eq!(sent.len(), 1);
    let user = sent[0]["messages"][1]["content"].as_str().unwrap();
    assert!(
        user.contains("The order was refunded on Monday.") && user.contains(&evidence.to_string()),
        "{user}"
    );
    assert!(user.contains("Is first supported?") && user.contains("Is third supported?"));
    assert!(!user.contains("second"), "a question that was answered locally is not sent: {user}");
    let schema = &sent[0]["response_format"]["json_schema"]["schema"];
    let keys: Vec<&String> =
        schema["properties"]["answers"]["properties"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["q1", "q2"]);
    assert_eq!(sent[0]["stream"], false);
}

#[tokio::test]
async fn tokens_and_money_are_counted_by_the_price_table() {
    let endpoint = Endpoint::saying(BOTH).await;
    let mut config = endpoint.config();
    let price = Price { usd_per_million_input: 2.0, usd_per_million_output: 10.0 };
    config.prices.insert("judge-large".into(), price);
    let usage = build(&config).unwrap().unwrap().judge(&two()).await.unwrap().usage;
    assert_eq!((usage.judge_input_tokens, usage.judge_output_tokens), (1000, 100));
    assert!((usage.judge_cost_usd - 0.003).abs() < 1e-9, "{usage:?}");
}

#[tokio::test]
async fn an_endpoint_that_takes_nothing_is_asked_plainly_and_that_is_remembered() {
    let endpoint = Endpoint::start(|_, body| {
        if body.get("max_tokens").is_some() {
            return fails(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.");
        }
        if body.get("tools").is_some() {
            return fails(400, "this model does not support tools");
        }
        if body.get("response_format").is_some() {
            return fails(400, "response_format is not supported");
        }
        says(&format!("Sure! Here is the JSON:\n```json\n{BOTH}\n```"))
    })
    .await;
    let judge = endpoint.judge();
    let judgement = judge.judge(&two()).await.unwrap();
    assert_eq!(labels(&judgement), [("first", "yes"), ("second", "no")]);
    assert_eq!(judgement.usage.judge_input_tokens, 1000, "a refused request is not billed");
    let sent = endpoint.sent();
    assert_eq!(sent.len(), 5);
    assert_eq!(sent[1]["response_format"]["type"], "json_schema");
    assert_eq!(sent[2]["tool_choice"]["function"]["name"], "submit_answers");
    assert_eq!(sent[3]["response_format"]["type"], "json_object");
    judge.judge(&ask_about("another state", &["a", "b"])).await.unwrap();
    assert_eq!(endpoint.sent().len(), 6, "what was learnt holds for the next ask");
}

#[tokio::test]
async fn a_tool_call_is_read() {
    let endpoint = Endpoint::start(|_, body| {
        if body.get("tools").is_none() {
            return fails(400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported");
        }
        let call = json!({ "id": "c", "type": "function", "function": { "name": "submit_answers", "arguments": BOTH } });
        completion(json!({ "role": "assistant", "content": null, "tool_calls": [call] }), "tool_calls")
    })
    .await;
    let judgement = endpoint.judge().judge(&two()).await.unwrap();
    assert_eq!(labels(&judgement), [("first", "yes"), ("second", "no")]);
}

#[tokio::test]
async fn a_transient_error_does_not_lower_what_is_asked_for() {
    let endpoint = Endpoint::start(|count, _| match count {
        0 => fails(503, "structured output worker restarting; response_format json_schema not supported yet"),
        _ => says(BOTH),
    })
    .await;
    endpoint.judge().judge(&two()).await.unwrap();
    let sent = endpoint.sent();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[1]["response_format"]["type"], "json_schema");
}

#[tokio::test]
async fn an_incomplete_reply_is_repaired_by_asking_only_what_is_open() {
    let endpoint = Endpoint::start(|count, _| match count {
        0 => says(r#"{"answers":{"q1":{"answer":"YES"},"q2":{"answer":"perhaps"},"q7":{"answer":"no"}}}"#),
        _ => says(r#"{"answers":{"q2":{"answer":"no"}}}"#),
    })
    .await;
    let judgement = endpoint.judge().judge(&two()).await.unwrap();
    assert_eq!(labels(&judgement), [("first", "yes"), ("second", "no")]);
    assert_eq!(judgement.usage.judge_input_tokens, 2000);
    let sent = endpoint.sent();
    let user = sent[1]["messages"][1]["content"].as_str().unwrap();
    assert!(
        user.contains(r#"q2 is answered with "perhaps""#) && !user.contains("Is first supported?"),
        "{user}"
    );
    assert!(user.contains("The order was refunded on Monday."));
}

#[tokio::test]
async fn what_stays_open_after_the_repair_is_reported_beside_the_valid_answers() {
    let endpoint = Endpoint::saying(r#"{"q1":"yes","q2":"perhaps"}"#).await;
    let judge = endpoint.judge();
    let judgement = judge.judge(&two()).await.unwrap();
    assert_eq!(labels(&judgement), [("first", "yes")]);
    assert_eq!(judgement.unanswered[0].id, "second");
    assert_eq!(judgement.unanswered[0].why, Flaw::NotALabel { found: "perhaps".into() });
    assert_eq!(endpoint.sent().len(), 2);
    assert!(!judge.judge(&two()).await.unwrap().cached, "an incomplete judgement is not kept");
}

#[tokio::test]
async fn a_failure_of_the_repair_does_not_lose_the_first_answers() {
    let endpoint = Endpoint::start(|count, _| match count {
        0 => says(r#"{"q1":"yes"}"#),
        _ => fails(400, "context window exceeded"),
    })
    .await;
    let judgement = endpoint.judge().judge(&two()).await.unwrap();
    assert_eq!(labels(&judgement), [("first", "yes")]);
    assert_eq!(judgement.unanswered[0].why, Flaw::Missing);
}

#[tokio::test]
async fn an_invalid_reply_is_an_error_after_its_tries_and_never_an_answer() {
    let cases = [
        ("", BadReply::Empty),
        ("Score: 5", BadReply::NotJson { excerpt: "Score: 5".into() }),
        (r#"{"q1":{"answer":NaN}}"#, BadReply::NotJson { excerpt: r#"{"q1":{"answer":NaN}}"#.into() }),
        ("[0.5, 0.5]", BadReply::NotJson { excerpt: "[0.5, 0.5]".into() }),
        (r#"{"grounding_score": 0.75}"#, BadReply::NothingValid { first: Flaw::Missing }),
        (r#"{"q1":{"answer":"5"}}"#, BadReply::NothingValid { first: Flaw::NotALabel { found: "5".into() } }),
        (r#"{"answers":{"q1":{"reasoning":"The ord"#, BadReply::Truncated),
    ];
    for (text, reply) in cases {
        let endpoint = Endpoint::saying(text).await;
        let error = endpoint.judge().judge(&two()).await.unwrap_err();
        assert_eq!(error.kind, JudgeErrorKind::Invalid { tries: 2, reply }, "{text}");
        assert_eq!(error.fault(), Fault::Poison);
        assert_eq!(error.usage.judge_input_tokens, 2000, "what failed was paid for all the same");
        let sent = endpoint.sent();
        let complaint = sent[1]["messages"][1]["content"].as_str().unwrap();
        assert!(complaint.contains("An earlier reply could not be used"), "{complaint}");
        assert_eq!(sent[0]["response_format"], sent[1]["response_format"], "a bad reply lowers no rung");
    }
}

#[tokio::test]
async fn a_reply_cut_at_the_token_limit_keeps_what_is_complete() {
    let cut = r#"{"answers":{"q1":{"reasoning":"a","answer":"yes"},"q2":{"reasoning":"the or"#;
    let endpoint = Endpoint::start(move |count, _| match count {
        0 => completion(json!({ "content": cut }), "length"),
        _ => says(r#"{"answers":{"q2":{"reasoning":"b","answer":"no"}}}"#),
    })
    .await;
    let judgement = endpoint.judge().judge(&two()).await.unwrap();
    assert_eq!(labels(&judgement), [("first", "yes"), ("second", "no")]);
}

#[tokio::test]
async fn a_refusal_is_told_apart_and_not_asked_again() {
    let refusals = [
        completion(json!({ "content": null, "refusal": "I can't help with that." }), "stop"),
        completion(json!({ "content": "{\"q1\":" }), "content_filter"),
        ResponseTemplate::new(400)
            .set_body_json(json!({ "error": { "code": "content_filter", "message": "filtered" } })),
    ];
    for refusal in refusals {
        let endpoint = Endpoint::start(move |_, _| refusal.clone()).await;
        assert!(matches!(error_of(&endpoint).await, JudgeErrorKind::Declined { .. }));
        assert_eq!(endpoint.sent().len(), 1);
    }
}

#[tokio::test]
async fn a_success_that_is_none_is_tried_again_and_then_an_error() {
    let bodies: [(ResponseTemplate, &str); 4] = [
        (ResponseTemplate::new(200), "empty"),
        (ResponseTemplate::new(200).set_body_string("<html>gateway</html>"), "no JSON"),
        (ResponseTemplate::new(200).set_body_json(json!({ "choices": [] })), "no choices"),
        (
            ResponseTemplate::new(200).set_body_json(json!({ "error": { "message": "model crashed" } })),
            "model crashed",
        ),
    ];
    for (body, said) in bodies {
        let endpoint = Endpoint::start(move |_, _| body.clone()).await;
        let mut config = endpoint.config();
        config.attempts = NonZeroU32::new(2).unwrap();
        let error = build(&config).unwrap().unwrap().judge(&two()).await.unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!(endpoint.sent().len(), 2);
    }
}

#[tokio::test]
async fn errors_that_waiting_does_not_help_are_not_tried_again() {
    let quota = json!({ "error": { "message": "You exceeded your quota", "code": "insufficient_quota" } });
    let cases = [
        (fails(403, "no access"), "auth", Fault::Fatal),
        (ResponseTemplate::new(429).set_body_json(quota), "quota", Fault::Fatal),
        (fails(404, "The model `judge-large` does not exist"), "error", Fault::Fatal),
        (fails(400, "This model's maximum context length is 4096 tokens"), "too_long", Fault::Poison),
        (fails(400, "unknown field"), "error", Fault::Poison),
    ];
    for (response, result, fault) in cases {
        let endpoint = Endpoint::start(move |_, _| response.clone()).await;
        let error = endpoint.judge().judge(&two()).await.unwrap_err();
        assert_eq!((error.result(), error.fault()), (result, fault), "{error}");
        assert_eq!(error.usage.judge_input_tokens, 0);
        assert_eq!(endpoint.sent().len(), 1, "{error}");
    }
}

#[tokio::test]
async fn a_rotated_key_is_read_again_and_never_shown() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "old-key\n").unwrap();
    let server = MockServer::start().await;
    Mock::given(wiremock::matchers::header("api-key", "new-key"))
        .respond_with(says(BOTH))
        .mount(&server)
        .await;
    let refusal =
        ResponseTemplate::new(401).set_body_json(json!({ "error": "Incorrect API key provided: old-key" }));
    Mock::given(method("POST")).respond_with(refusal).with_priority(9).mount(&server).await;
    let openai = OpenAiConfig {
        url: format!("{}/openai/deployments/d?api-version=2026-06-01", server.uri()),
        model: "d".into(),
        key: Some(Secret::File(file.path().to_owned())),
        key_header: Some("API-Key".into()),
        ..OpenAiConfig::default()
    };
    let judge = build(&Config { openai: Some(openai), ..Config::default() }).unwrap().unwrap();
    let error = judge.judge(&two()).await.unwrap_err();
    let message = "Incorrect API key provided: [secret]".to_owned();
    assert_eq!(error.kind, JudgeErrorKind::Auth { status: 401, message });
    assert!(!format!("{error:?} {error}").contains("old-key"));
    std::fs::write(file.path(), "new-key\n").unwrap();
    assert_eq!(judge.judge(&two()).await.unwrap().answers.len(), 2);
    let requests = server.received_requests().await.unwrap();
    assert_eq!(requests[0].url.path(), "/openai/deployments/d/chat/completions");
    assert_eq!(requests[0].url.query(), Some("api-version=2026-06-01"));
}

#[tokio::test]
async fn a_bearer_key_goes_into_the_authorization_header() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "s3cret").unwrap();
    let endpoint = Endpoint::saying(BOTH).await;
    let mut config = endpoint.config();
    config.openai.as_mut().unwrap().key = Some(Secret::File(file.path().to_owned()));
    build(&config).unwrap().unwrap().judge(&two()).await.unwrap();
    let requests = endpoint.server.received_requests().await.unwrap();
    assert_eq!(requests[0].headers["authorization"], "Bearer s3cret");
}

#[tokio::test]
async fn a_redirect_is_not_followed_because_it_would_carry_the_content_elsewhere() {
    let elsewhere = Endpoint::saying(BOTH).await;
    let target = format!("{}/v1/chat/completions", elsewhere.server.uri());
    let endpoint =
        Endpoint::start(move |_, _| ResponseTemplate::new(307).insert_header("location", target.as_str()))
            .await;
    assert!(matches!(error_of(&endpoint).await, JudgeErrorKind::Status { status: 307, .. }));
    assert!(elsewhere.sent().is_empty());
}

#[tokio::test]
async fn an_empty_ask_needs_nobody() {
    let endpoint = Endpoint::saying(BOTH).await;
    assert!(endpoint.judge().judge(&Ask { inquiries: Vec::new() }).await.unwrap().answers.is_empty());
    assert!(endpoint.sent().is_empty());
}

#[tokio::test]
async fn without_an_endpoint_there_is_no_judge_and_a_missing_key_is_said_at_the_start() {
    assert!(build(&Config::default()).unwrap().is_none());
    let endpoint = Endpoint::saying(BOTH).await;
    let mut config = endpoint.config();
    config.openai.as_mut().unwrap().key = Some(Secret::Env("ASSAYD_TEST_NO_SUCH_KEY".into()));
    let error = build(&config).err().unwrap().to_string();
    assert!(error.contains("ASSAYD_TEST_NO_SUCH_KEY"), "{error}");
}
