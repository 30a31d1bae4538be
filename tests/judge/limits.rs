//! When a judge is not asked, or asked again: pauses, deadlines, the breaker, budgets, the cache, calls in flight.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use assayd::domain::{ByteSize, Period};
use assayd::error::Fault;
use assayd::judge::{Ask, Config, JudgeErrorKind, OpenAiConfig, Price, Waiting, Window, build};
use serde_json::json;

use super::{BOTH, Endpoint, ask_about, fails, labels, says, two};

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
