//! The judge against scripted endpoints: here in the wire format of `POST chat/completions`, in `providers` in all of them.

mod docs;
mod metrics;
mod partition;
mod providers;
mod whole;
mod window;

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use assayd::domain::{ByteSize, Inquiry, Json, Kind, Period, Question, Subject};
use assayd::error::Fault;
use assayd::judge::{
    Ask, BadReply, Config, Flaw, Judge, JudgeErrorKind, OpenAiConfig, Price, Waiting, Window, build,
};
use assayd::secret::Secret;
use serde_json::json;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

type Script = Box<dyn Fn(usize, &Json) -> ResponseTemplate + Send + Sync>;

/// A server that answers its n-th request as the script says, and keeps what it was sent.
struct Scripted {
    script: Script,
    count: AtomicUsize,
    sent: Arc<Mutex<Vec<Json>>>,
}

impl Respond for Scripted {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Json = request.body_json().unwrap();
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let response = (self.script)(count, &body);
        self.sent.lock().unwrap().push(body);
        response
    }
}

struct Endpoint {
    server: MockServer,
    sent: Arc<Mutex<Vec<Json>>>,
}

impl Endpoint {
    async fn start(script: impl Fn(usize, &Json) -> ResponseTemplate + Send + Sync + 'static) -> Self {
        let server = MockServer::start().await;
        let sent = Arc::new(Mutex::new(Vec::new()));
        let scripted =
            Scripted { script: Box::new(script), count: AtomicUsize::new(0), sent: Arc::clone(&sent) };
        Mock::given(method("POST"))
            .and(path("/v1/chat/completions"))
            .respond_with(scripted)
            .mount(&server)
            .await;
        Self { server, sent }
    }

    /// One that always answers with this text.
    async fn saying(text: &str) -> Self {
        let text = text.to_owned();
        Self::start(move |_, _| says(&text)).await
    }

    fn config(&self) -> Config {
        let url = format!("{}/v1", self.server.uri());
        let openai = OpenAiConfig { url, model: "judge-large".into(), ..OpenAiConfig::default() };
        Config { openai: Some(openai), ..Config::default() }
    }

    fn judge(&self) -> Arc<dyn Judge> {
        build(&self.config()).unwrap().unwrap()
    }

    fn sent(&self) -> Vec<Json> {
        self.sent.lock().unwrap().clone()
    }
}

fn choice(id: &str, options: &[&str]) -> Question {
    let options = options.iter().map(|name| ((*name).to_owned(), Json::Null)).collect();
    let instructions = Json::String(format!("Is {id} supported?"));
    Question { id: id.to_owned(), kind: Kind::Choice { options }, instructions, subject: Subject::General }
}

/// Two questions, each `yes` or `no`.
fn two() -> Ask {
    ask_about("The order was refunded on Monday.", &["first", "second"])
}

fn ask_about(state: &str, ids: &[&str]) -> Ask {
    let questions = ids.iter().map(|id| choice(id, &["yes", "no"])).collect();
    Ask { inquiries: vec![Inquiry::new(Arc::new(json!(state)), questions)] }
}

const BOTH: &str = r#"{"answers":{"q1":{"reasoning":"It says so.","answer":"yes"},"q2":{"reasoning":"It does not.","answer":"no"}}}"#;

fn completion(message: Json, finish: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": "judge-large",
        "choices": [{ "index": 0, "message": message, "finish_reason": finish }],
        "usage": { "prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100 },
    }))
}

fn says(text: &str) -> ResponseTemplate {
    completion(json!({ "role": "assistant", "content": text, "refusal": null }), "stop")
}

fn fails(status: u16, message: &str) -> ResponseTemplate {
    let error = json!({ "message": message, "type": "error", "code": null });
    ResponseTemplate::new(status).set_body_json(json!({ "error": error }))
}

fn labels(judgement: &assayd::judge::Judgement) -> Vec<(&str, &str)> {
    judgement.answers.iter().map(|answer| (answer.id.as_str(), answer.label.as_str())).collect()
}

async fn error_of(endpoint: &Endpoint) -> JudgeErrorKind {
    endpoint.judge().judge(&two()).await.unwrap_err().kind
}

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
async fn a_storm_of_429_is_waited_out_as_long_as_the_endpoint_asks() {
    let storm = |count| match count {
        0..3 => fails(429, "slow down").insert_header("retry-after-ms", "30"),
        _ => says(BOTH),
    };
    let endpoint = Endpoint::start(move |count, _| storm(count)).await;
    let judgement = endpoint.judge().judge(&two()).await.unwrap();
    assert_eq!(labels(&judgement).len(), 2);
    assert_eq!(endpoint.sent().len(), 4);
}

#[tokio::test]
async fn a_refusal_that_names_no_time_is_waited_out_too() {
    for status in [429, 503, 529] {
        let endpoint = Endpoint::start(move |count, _| match count {
            0 => fails(status, "slow down"),
            _ => says(BOTH),
        })
        .await;
        assert_eq!(endpoint.judge().judge(&two()).await.unwrap().answers.len(), 2, "{status}");
        assert_eq!(endpoint.sent().len(), 2);
    }
}

#[tokio::test]
async fn own_limits_of_requests_and_tokens_hold_back_what_the_endpoint_would_take() {
    let endpoint = Endpoint::saying(BOTH).await;
    let unlimited = endpoint.config();
    let by_requests = Config { requests_per_minute: NonZeroU32::new(1), ..unlimited.clone() };
    let by_tokens = Config { tokens_per_minute: NonZeroU32::new(5000), ..unlimited };
    for config in [by_requests, by_tokens] {
        let config = Config { deadline: Period::seconds(2), attempt_timeout: Period::seconds(2), ..config };
        let judge = build(&config).unwrap().unwrap();
        let before = endpoint.sent().len();
        judge.judge(&ask_about("one", &["a", "b"])).await.unwrap();
        let error = judge.judge(&ask_about("two", &["a", "b"])).await.unwrap_err();
        assert!(matches!(error.kind, JudgeErrorKind::Deadline { waiting: Waiting::Rate, .. }), "{error}");
        assert_eq!(endpoint.sent().len(), before + 1);
    }
}

#[tokio::test]
async fn a_pause_longer_than_the_deadline_ends_the_ask_at_once_and_holds_for_the_next() {
    let endpoint = Endpoint::start(|_, _| fails(429, "slow down").insert_header("retry-after", "120")).await;
    let judge = endpoint.judge();
    let first = judge.judge(&two()).await.unwrap_err();
    let retry_after = Some(Duration::from_secs(120));
    assert_eq!(first.kind, JudgeErrorKind::RateLimited { status: 429, attempts: 1, retry_after });
    let next = judge.judge(&ask_about("another", &["a", "b"])).await.unwrap_err();
    assert!(matches!(next.kind, JudgeErrorKind::Deadline { waiting: Waiting::Rate, .. }), "{next}");
    assert_eq!(endpoint.sent().len(), 1, "nobody asks during the pause");
}

#[tokio::test]
async fn attempts_are_bounded() {
    let endpoint = Endpoint::start(|_, _| fails(500, "oops").insert_header("retry-after", "0")).await;
    let mut config = endpoint.config();
    config.attempts = NonZeroU32::new(2).unwrap();
    let error = build(&config).unwrap().unwrap().judge(&two()).await.unwrap_err();
    assert_eq!(error.kind, JudgeErrorKind::Status { status: 500, message: "oops".into() });
    assert_eq!(endpoint.sent().len(), 2);
}

#[tokio::test]
async fn a_server_that_hangs_costs_the_deadline_and_what_it_may_have_billed() {
    let endpoint = Endpoint::start(|_, _| says(BOTH).set_delay(Duration::from_secs(60))).await;
    let config =
        Config { deadline: Period::millis(200), attempt_timeout: Period::millis(200), ..endpoint.config() };
    let error = build(&config).unwrap().unwrap().judge(&two()).await.unwrap_err();
    assert!(matches!(error.kind, JudgeErrorKind::Deadline { waiting: Waiting::Reply, .. }), "{error}");
    assert!(error.usage.judge_input_tokens > 100);
    assert_eq!(error.usage.judge_output_tokens, u64::from(config.max_output_tokens.get()));
}

#[tokio::test]
async fn an_attempt_that_hangs_is_tried_again_within_the_deadline() {
    let endpoint = Endpoint::start(|count, _| match count {
        0 => says(BOTH).set_delay(Duration::from_secs(60)),
        _ => says(BOTH),
    })
    .await;
    let config = Config { attempt_timeout: Period::millis(300), ..endpoint.config() };
    let judgement = build(&config).unwrap().unwrap().judge(&two()).await.unwrap();
    assert_eq!(labels(&judgement).len(), 2);
    assert!(
        judgement.usage.judge_input_tokens > 1000,
        "the attempt that hung counts too: {:?}",
        judgement.usage
    );
}

#[tokio::test]
async fn nobody_there_is_an_error_and_trips_the_breaker() {
    let endpoint = Endpoint::saying(BOTH).await;
    let mut config = endpoint.config();
    // Nothing listens on the reserved port 1.
    config.openai.as_mut().unwrap().url = "http://127.0.0.1:1/v1".into();
    config.attempts = NonZeroU32::new(1).unwrap();
    config.breaker_failures = NonZeroU32::new(2).unwrap();
    let judge = build(&config).unwrap().unwrap();
    for _ in 0..2 {
        let error = judge.judge(&two()).await.unwrap_err();
        assert!(matches!(error.kind, JudgeErrorKind::Unreachable { attempts: 1, .. }), "{error}");
    }
    let error = judge.judge(&two()).await.unwrap_err();
    assert!(matches!(error.kind, JudgeErrorKind::Resting { failures: 2, .. }), "{error}");
    assert_eq!(error.fault(), Fault::Transient);
}

#[tokio::test]
async fn the_breaker_closes_again_without_a_restart() {
    let endpoint = Endpoint::start(|count, _| if count == 0 { fails(500, "down") } else { says(BOTH) }).await;
    let mut config = endpoint.config();
    config.attempts = NonZeroU32::new(1).unwrap();
    config.breaker_failures = NonZeroU32::new(1).unwrap();
    config.breaker_pause = Period::millis(50);
    let judge = build(&config).unwrap().unwrap();
    judge.judge(&two()).await.unwrap_err();
    tokio::time::sleep(Duration::from_millis(80)).await;
    assert_eq!(judge.judge(&two()).await.unwrap().answers.len(), 2);
}

#[tokio::test]
async fn a_spent_budget_is_said_and_nothing_more_is_sent() {
    let endpoint = Endpoint::saying(BOTH).await;
    let mut config = endpoint.config();
    config.max_output_tokens = NonZeroU32::new(100).unwrap();
    let price = Price { usd_per_million_input: 0.0, usd_per_million_output: 10_000.0 };
    config.prices.insert("judge-large".into(), price);
    // One attempt costs at most 100 tokens, that is 1 USD.
    config.usd_per_day = Some(2.5);
    let judge = build(&config).unwrap().unwrap();
    for state in ["one", "two"] {
        judge.judge(&ask_about(state, &["a", "b"])).await.unwrap();
    }
    let error = judge.judge(&ask_about("three", &["a", "b"])).await.unwrap_err();
    assert!(
        matches!(error.kind, JudgeErrorKind::Budget { window: Window::Day, limit_usd: 2.5, .. }),
        "{error}"
    );
    let told = "counted at 0 and 10000 USD per million tokens of prompt and reply, as judge.prices says of judge-large";
    assert!(error.to_string().contains(told), "{error}");
    assert_eq!(endpoint.sent().len(), 2);
}

#[tokio::test]
async fn failed_attempts_spend_the_budget_too() {
    let endpoint = Endpoint::saying("Score: 5").await;
    let mut config = endpoint.config();
    config.max_output_tokens = NonZeroU32::new(100).unwrap();
    let price = Price { usd_per_million_input: 0.0, usd_per_million_output: 10_000.0 };
    config.prices.insert("judge-large".into(), price);
    config.usd_per_hour = Some(1.5);
    let error = build(&config).unwrap().unwrap().judge(&two()).await.unwrap_err();
    assert!(matches!(error.kind, JudgeErrorKind::Budget { window: Window::Hour, .. }), "{error}");
    assert!((error.usage.judge_cost_usd - 1.0).abs() < 1e-9);
    assert_eq!(endpoint.sent().len(), 1);
}

#[tokio::test]
async fn equal_asks_share_one_call_whatever_their_ids_are() {
    let endpoint = Endpoint::start(|_, _| says(BOTH).set_delay(Duration::from_millis(100))).await;
    let judge = endpoint.judge();
    let (one, mut renamed) = (two(), two());
    renamed.inquiries[0].questions[0].id = "claim:7".into();
    let (first, second) = tokio::join!(judge.judge(&one), judge.judge(&renamed));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(labels(&first), [("first", "yes"), ("second", "no")]);
    assert_eq!(labels(&second), [("claim:7", "yes"), ("second", "no")]);
    assert_eq!((first.cached, second.cached), (false, true));
    assert_eq!(second.usage.judge_input_tokens, 0, "one call is paid once");
    assert!(judge.judge(&two()).await.unwrap().cached);
    assert!(!judge.judge(&ask_about("another", &["first", "second"])).await.unwrap().cached);
    assert_eq!(endpoint.sent().len(), 2);
}

#[tokio::test]
async fn a_cache_of_no_bytes_keeps_nothing() {
    let endpoint = Endpoint::saying(BOTH).await;
    let mut config = endpoint.config();
    config.cache.max_bytes = ByteSize(0);
    let judge = build(&config).unwrap().unwrap();
    for _ in 0..3 {
        assert!(!judge.judge(&two()).await.unwrap().cached);
    }
    assert_eq!(endpoint.sent().len(), 3);
}

#[tokio::test]
async fn a_caller_that_goes_away_does_not_take_the_others_with_it() {
    let endpoint = Endpoint::start(|_, _| says(BOTH).set_delay(Duration::from_millis(150))).await;
    let judge = endpoint.judge();
    let leaver = tokio::spawn({
        let judge = Arc::clone(&judge);
        async move { judge.judge(&two()).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let stayer = tokio::spawn({
        let judge = Arc::clone(&judge);
        async move { judge.judge(&two()).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    leaver.abort();
    assert_eq!(stayer.await.unwrap().unwrap().answers.len(), 2);
}

#[tokio::test]
async fn no_more_calls_than_allowed_are_in_flight() {
    let flying = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap();
    let app = axum::Router::new().route(
        "/v1/chat/completions",
        axum::routing::post({
            let (flying, most) = (Arc::clone(&flying), Arc::clone(&most));
            async move || {
                most.fetch_max(flying.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(20)).await;
                flying.fetch_sub(1, Ordering::SeqCst);
                axum::Json(
                    json!({ "choices": [{ "message": { "content": BOTH }, "finish_reason": "stop" }] }),
                )
            }
        }),
    );
    tokio::spawn(async move { axum::serve(server, app).await });
    let openai =
        OpenAiConfig { url: format!("http://{address}/v1"), model: "m".into(), ..OpenAiConfig::default() };
    let concurrency = std::num::NonZeroUsize::new(3).unwrap();
    let config = Config { openai: Some(openai), concurrency, ..Config::default() };
    let judge = build(&config).unwrap().unwrap();
    let asks: Vec<Ask> = (0..12).map(|number| ask_about(&format!("state {number}"), &["a", "b"])).collect();
    let judged = futures::future::join_all(asks.iter().map(|ask| judge.judge(ask))).await;
    assert!(judged.into_iter().all(|judgement| judgement.unwrap().answers.len() == 2));
    assert_eq!(most.load(Ordering::SeqCst), 3);
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
