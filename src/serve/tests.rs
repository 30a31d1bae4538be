//! The listener over real sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Access, CheckError, CheckRequest, Checker, Config, Readiness, State, Status, Tracer, serve};
use crate::assemble::Sight;
use crate::domain::{ByteSize, Period, Time, TraceId, Verdict};
use crate::emit::{Recent, RecentConfig, sample};
use crate::feedback::{self, Feedback};
use crate::metrics;

struct House {
    address: SocketAddr,
    client: Client,
    readiness: watch::Sender<Readiness>,
    recent: Recent,
    shutdown: CancellationToken,
    server: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl House {
    async fn open(config: Config, checker: Option<Checker>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (readiness, watched) = watch::channel(Readiness::Ready);
        let recent = Recent::new(&RecentConfig::default());
        let folder = tempfile::tempdir().unwrap();
        let state = State {
            metrics: metrics::install().unwrap(),
            readiness: watched,
            recent: recent.clone(),
            checker,
            tracer: Some(Tracer::new(|trace_id| Box::pin(async move { sight(trace_id) }))),
            feedback: Some(Feedback::open(folder.path(), &feedback::Config::default()).unwrap()),
            desk: None,
            access: Access::open(&config).unwrap(),
            runs: None,
            status: Some(Status::new(|| json!({"evaluators": {"tone": {"status": "never_ran"}}}))),
        };
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        let server = tokio::spawn(async move { serve(listener, &config, state, stop).await });
        Self { address, client: Client::new(), readiness, recent, shutdown, server, _folder: folder }
    }

    async fn with_checker() -> Self {
        Self::open(Config::default(), Some(Checker::new(checked))).await
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn get(&self, path: &str) -> Response {
        self.client.get(self.url(path)).send().await.unwrap()
    }

    async fn check(&self, body: &Value) -> Response {
        self.client.post(self.url("/v1/check")).json(body).send().await.unwrap()
    }

    async fn post(&self, content_type: &str, body: impl Into<reqwest::Body>) -> Response {
        let request = self.client.post(self.url("/v1/check")).header("content-type", content_type);
        request.body(body).send().await.unwrap()
    }

    async fn close(self) {
        self.shutdown.cancel();
        self.server.await.unwrap();
    }
}

/// A trace id's last digit says what the assembler knows.
fn sight(trace_id: TraceId) -> Option<Sight> {
    let first_arrival = Time(1_000_000_000);
    match trace_id.as_bytes()[15] {
        1 => Some(Sight::Open { spans: 3, first_arrival, closes_by: first_arrival }),
        2 => Some(Sight::Closed { revision: 0, settled: false }),
        3 => Some(Sight::Closed { revision: 4, settled: true }),
        4 => None,
        _ => Some(Sight::Unknown),
    }
}

/// Says in the verdict what it was asked, and fails on demand.
fn checked(request: CheckRequest) -> futures::future::BoxFuture<'static, Result<Verdict, CheckError>> {
    Box::pin(async move {
        match request.response.as_str() {
            "busy" => Err(CheckError::Busy { retry_after: Duration::from_secs(7) }),
            "broken" => Err(CheckError::Failed("no model".into())),
            "slow" => std::future::pending().await,
            _ => Ok(Verdict {
                session_id: request.query,
                truncated: vec![request.context.to_string(), request.response],
                ..sample::check()
            }),
        }
    })
}

async fn refusal(response: Response, status: u16) -> (String, String) {
    assert_eq!(response.status().as_u16(), status);
    assert_eq!(response.headers()["content-type"], "application/json");
    let body: Value = response.json().await.unwrap();
    let text = |key: &str| body["detail"][key].as_str().unwrap().to_owned();
    (text("error_type"), text("message"))
}

/// Reads an event stream until `count` events are there.
async fn events(response: &mut Response, count: usize) -> Vec<(String, Value)> {
    let mut text = String::new();
    loop {
        let found: Vec<(String, Value)> = text
            .split("\n\n")
            .filter_map(|block| {
                let (name, data) = block.strip_prefix("event: ")?.split_once("\ndata: ")?;
                Some((name.to_owned(), serde_json::from_str(data).ok()?))
            })
            .collect();
        if found.len() >= count {
            return found;
        }
        let chunk = response.chunk().await.unwrap().expect("the stream ended early");
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
}

#[tokio::test]
async fn probes_follow_the_daemon() {
    let house = House::open(Config::default(), None).await;
    assert_eq!(house.get("/healthz").await.json::<Value>().await.unwrap(), json!({"status": "alive"}));
    for (readiness, status, word) in [
        (Readiness::Starting, 503, "starting"),
        (Readiness::Ready, 200, "ready"),
        (Readiness::Stopping, 503, "stopping"),
    ] {
        house.readiness.send(readiness).unwrap();
        let response = house.get("/readyz").await;
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(response.json::<Value>().await.unwrap(), json!({"status": word}));
        assert_eq!(house.get("/healthz").await.status(), StatusCode::OK);
    }
    let version: Value = house.get("/version").await.json().await.unwrap();
    assert_eq!(version["name"], "assayd");
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    house.close().await;
}

#[tokio::test]
async fn metrics_are_prometheus_text_of_the_catalogue() {
    let house = House::open(Config::default(), None).await;
    house.get("/healthz").await;
    house.get("/no/such/page").await;
    let response = house.get("/metrics").await;
    assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let text = response.text().await.unwrap();
    assert!(text.contains("# TYPE assayd_serve_requests_total counter"));
    assert!(text.contains("assayd_serve_requests_total{route=\"/healthz\",status=\"2xx\"}"));
    assert!(text.contains("assayd_serve_requests_total{route=\"unmatched\",status=\"4xx\"}"));
    // Only this room's lines: tests of other rooms record into the same process.
    let own: Vec<&str> = text.lines().filter(|line| line.starts_with("assayd_serve_")).collect();
    assert_eq!(metrics::strays(&own.join("\n")), Vec::<String>::new());
    let resident = text.lines().find_map(|line| line.strip_prefix("assayd_process_resident_bytes ")).unwrap();
    assert!(resident.parse::<f64>().unwrap() > 1e6, "{resident}");
    house.close().await;
}

#[tokio::test]
async fn recent_verdicts_are_listed_newest_first_and_filtered() {
    let house = House::open(Config::default(), None).await;
    assert_eq!(house.get("/v1/verdicts").await.json::<Value>().await.unwrap(), json!({"verdicts": []}));
    for number in 0..3 {
        house.recent.push(&sample::numbered(number));
    }
    house.recent.push(&sample::skipped());
    let listed = async |query: &str| -> Vec<Verdict> {
        let body: Value = house.get(&format!("/v1/verdicts{query}")).await.json().await.unwrap();
        serde_json::from_value(body["verdicts"].clone()).unwrap()
    };
    assert_eq!(listed("").await.len(), 4);
    assert_eq!(listed("?limit=1").await, [sample::skipped()]);
    assert_eq!(listed("?label=faithful&service=support-bot&limit=2").await, [2, 1].map(sample::numbered));
    assert_eq!(listed("?outcome=skipped&agent=refunds").await, [sample::skipped()]);
    assert_eq!(listed("?tier=proceed").await, []);
    let (kind, message) = refusal(house.get("/v1/verdicts?label=wrong").await, 422).await;
    assert_eq!(
        (kind.as_str(), message.as_str()),
        ("invalid_request", "label must be faithful, hallucination or unsure")
    );
    house.close().await;
}

#[tokio::test]
async fn the_live_feed_shows_the_last_ones_then_each_new_one_and_ends_with_the_daemon() {
    let house = House::open(Config::default(), None).await;
    for number in 0..3 {
        house.recent.push(&sample::numbered(number));
    }
    let request = house.client.get(house.url("/v1/verdicts?limit=2&label=faithful"));
    let mut stream = request.header("accept", "text/event-stream").send().await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    house.recent.push(&sample::full());
    house.recent.push(&sample::numbered(3));
    let names: Vec<String> = events(&mut stream, 3)
        .await
        .into_iter()
        .map(|(name, data)| format!("{name} {}", data["verdict_id"].as_str().unwrap()))
        .collect();
    assert_eq!(names, ["verdict verdict-1", "verdict verdict-2", "verdict verdict-3"]);
    house.shutdown.cancel();
    assert!(stream.chunk().await.unwrap().is_none_or(|chunk| chunk.is_empty()));
    house.close().await;
}

#[tokio::test]
async fn readers_beyond_the_limit_are_asked_to_come_back() {
    let config = Config { max_feed_readers: 1.try_into().unwrap(), ..Config::default() };
    let house = House::open(config, None).await;
    let first = house.get("/v1/verdicts?live=true").await;
    let second = house.get("/v1/verdicts?live=true").await;
    assert_eq!(second.headers()["retry-after"], "10");
    assert_eq!(refusal(second, 503).await.0, "unavailable");
    drop(first);
    // The place is free again once the server has seen that the reader left.
    while house.get("/v1/verdicts?live=true").await.status() != StatusCode::OK {
        house.recent.push(&sample::full());
        tokio::task::yield_now().await;
    }
    house.close().await;
}

#[tokio::test]
async fn a_check_is_answered_with_a_verdict() {
    let house = House::with_checker().await;
    let body = json!({"context": {"orders": [7]}, "query": "where is it?", "response": "On its way."});
    let response = house.check(&body).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["x-content-type-options"], "nosniff");
    let verdict: Verdict = response.json().await.unwrap();
    assert_eq!(verdict.trace_id, None);
    assert_eq!(verdict.session_id.as_deref(), Some("where is it?"));
    assert_eq!(verdict.truncated, [r#"{"orders":[7]}"#, "On its way."]);
    let body = json!({"context": "text", "response": "ok"}).to_string();
    assert_eq!(house.post("application/json; charset=utf-8", body).await.status(), StatusCode::OK);
    house.close().await;
}

#[tokio::test]
async fn bad_requests_are_4xx_with_a_reason_and_never_5xx() {
    let config = Config { max_body_bytes: ByteSize(1_000), ..Config::default() };
    let house = House::open(config, Some(Checker::new(checked))).await;
    let (kind, message) = refusal(house.post("application/json", "{\"context\": ").await, 400).await;
    assert!(kind == "invalid_json" && message.contains("line 1"), "{message}");
    let (_, message) = refusal(house.post("application/json", &b"\xff\xfe"[..]).await, 400).await;
    assert!(message.starts_with("the body is not JSON"), "{message}");
    let (_, message) = refusal(house.check(&json!({"context": "a"})).await, 422).await;
    assert!(message.contains("missing field `response`"), "{message}");
    let (_, message) = refusal(house.check(&json!({"context": "a", "response": 7})).await, 422).await;
    assert!(message.contains("expected a string"), "{message}");
    let typo = json!({"context": "a", "response": "b", "querry": "c"});
    let (_, message) = refusal(house.check(&typo).await, 422).await;
    assert!(message.contains("unknown field `querry`") && message.contains("`query`"), "{message}");
    let (kind, _) =
        refusal(house.check(&json!({"context": "a".repeat(2_000), "response": "b"})).await, 413).await;
    assert_eq!(kind, "too_large");
    let (_, message) = refusal(house.post("text/plain", "{}").await, 415).await;
    assert!(message.contains("send application/json"), "{message}");
    let wrong_method = house.get("/v1/check").await;
    assert_eq!(wrong_method.headers()["allow"], "POST");
    assert_eq!(refusal(wrong_method, 405).await.0, "method_not_allowed");
    assert_eq!(refusal(house.get("/v1/chekc").await, 404).await.0, "not_found");
    let deep = format!("{}{}", "[".repeat(400), "]".repeat(400));
    assert_eq!(refusal(house.post("application/json", deep).await, 400).await.0, "invalid_json");
    let other_site = house.client.post(house.url("/v1/check")).header("sec-fetch-site", "cross-site");
    assert_eq!(refusal(other_site.body("{}").send().await.unwrap(), 403).await.0, "forbidden");
    house.close().await;
}

#[tokio::test]
async fn bodies_share_one_memory_and_those_without_room_are_asked_to_come_back() {
    let go_on = Arc::new(tokio::sync::Semaphore::new(0));
    let gate = Arc::clone(&go_on);
    let checker = Checker::new(move |request| {
        let gate = Arc::clone(&gate);
        Box::pin(async move {
            drop(gate.acquire().await);
            checked(request).await
        })
    });
    let config =
        Config { max_body_bytes: ByteSize::mib(1), max_held_bytes: ByteSize::mib(4), ..Config::default() };
    let house = House::open(config, Some(checker)).await;
    // Each takes its 900,000 bytes twice: as they came, and as a text that was read.
    let body = json!({"context": "a".repeat(900_000), "response": "b"});
    let asks: Vec<_> = (0..24).map(|_| house.check(&body)).collect();
    let mut asks: futures::stream::FuturesUnordered<_> = asks.into_iter().collect();
    let mut refused = 0;
    // Two fit; all others are told so while those are not answered.
    while refused < 22 {
        let response = futures::StreamExt::next(&mut asks).await.unwrap();
        assert_eq!(response.headers()["retry-after"], "2");
        let (kind, message) = refusal(response, 503).await;
        assert!(kind == "unavailable" && message.contains("other requests"), "{message}");
        refused += 1;
    }
    // Small ones and probes still have room.
    assert_eq!(house.get("/healthz").await.status(), StatusCode::OK);
    go_on.add_permits(1_000);
    while let Some(response) = futures::StreamExt::next(&mut asks).await {
        assert_eq!(response.status(), StatusCode::OK);
    }
    drop(asks);
    // What was held is free again.
    for _ in 0..8 {
        assert_eq!(house.check(&body).await.status(), StatusCode::OK);
    }
    let dense = json!({"context": vec![0; 400_000], "response": "b"});
    let (kind, message) = refusal(house.check(&dense).await, 413).await;
    assert!(kind == "too_large" && message.contains("serve.max_held_bytes"), "{message}");
    assert!(house.get("/metrics").await.text().await.unwrap().contains("assayd_serve_full_total"));
    house.close().await;
}

#[tokio::test]
async fn what_the_checker_says_becomes_a_status() {
    let config = Config { timeout: Period::millis(100), ..Config::default() };
    let house = House::open(config, Some(Checker::new(checked))).await;
    let ask = async |response: &str| house.check(&json!({"context": "a", "response": response})).await;
    let busy = ask("busy").await;
    assert_eq!(busy.headers()["retry-after"], "7");
    assert_eq!(refusal(busy, 503).await.0, "unavailable");
    assert_eq!(refusal(ask("broken").await, 500).await.0, "evaluation_failed");
    assert_eq!(refusal(ask("slow").await, 504).await.0, "timeout");
    house.readiness.send(Readiness::Stopping).unwrap();
    assert_eq!(refusal(ask("fine").await, 503).await.1, "assayd is stopping");
    house.close().await;
    let without = House::open(Config::default(), None).await;
    assert_eq!(
        refusal(without.check(&json!({"context": "a", "response": "b"})).await, 503).await.0,
        "unavailable"
    );
    without.close().await;
}

#[tokio::test]
async fn a_body_that_never_comes_is_not_waited_for_and_probes_go_on() {
    let config = Config { timeout: Period::millis(100), ..Config::default() };
    let house = House::open(config, Some(Checker::new(checked))).await;
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    let head = "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(house.get("/healthz").await.status(), StatusCode::OK);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("the body did not arrive within 0.1 seconds"), "{answer}");
    house.close().await;
}

#[tokio::test]
async fn many_readers_and_checks_at_once_are_all_answered() {
    let house = Arc::new(House::with_checker().await);
    let requests = (0..64).map(|number| {
        let house = Arc::clone(&house);
        tokio::spawn(async move {
            let response = house.check(&json!({"context": number, "response": "fine"})).await;
            let verdict: Verdict = response.json().await.unwrap();
            verdict.truncated[0] == number.to_string()
        })
    });
    for request in requests.collect::<Vec<_>>() {
        assert!(request.await.unwrap());
    }
    Arc::into_inner(house).unwrap().close().await;
}

#[tokio::test]
async fn a_verdict_comes_with_its_story_and_what_people_say() {
    let house = House::open(Config::default(), None).await;
    house.recent.keep(&sample::full(), Some(&sample::story()));
    house.recent.push(&sample::numbered(1));
    let whole: Value = house.get("/v1/verdicts/b1946ac92492d234").await.json().await.unwrap();
    assert_eq!(whole["verdict"], serde_json::to_value(sample::full()).unwrap());
    assert_eq!(whole["story"], serde_json::to_value(sample::story()).unwrap());
    assert_eq!((&whole["story_missing"], &whole["feedback"]), (&Value::Null, &json!([])));
    let bare: Value = house.get("/v1/verdicts/verdict-1").await.json().await.unwrap();
    assert_eq!((&bare["story"], &bare["story_missing"]), (&Value::Null, &json!("never")));
    let (kind, message) = refusal(house.get("/v1/verdicts/nothing").await, 404).await;
    assert!(kind == "not_found" && message.contains("emit.recent"), "{message}");
    house.close().await;
}

#[tokio::test]
async fn verdicts_are_filtered_by_text_and_time() {
    let house = House::open(Config::default(), None).await;
    house.recent.push(&sample::full());
    house.recent.push(&Verdict { service: Some("bank".into()), grounding: None, ..sample::numbered(1) });
    let ids = async |query: &str| -> Vec<String> {
        let body: Value = house.get(&format!("/v1/verdicts?{query}")).await.json().await.unwrap();
        let verdicts = body["verdicts"].as_array().unwrap();
        verdicts.iter().map(|verdict| verdict["verdict_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids("text=%C3%9CBERRASCHUNG").await, ["b1946ac92492d234"]);
    assert_eq!(ids("text=bank").await, ["verdict-1"]);
    assert_eq!(ids("text=contradiction_penalty").await, Vec::<String>::new());
    assert_eq!(ids("since=2026-11-30T08:00:00Z").await.len(), 2);
    assert_eq!(ids("since=2026-12-30T08:00:00Z").await.len(), 0);
    house.close().await;
}

#[tokio::test]
async fn a_trace_says_where_it_is_and_why_it_was_not_evaluated() {
    let house = House::open(Config::default(), None).await;
    let trace_id = |number: u8| format!("{:032x}", 0xabc00_u128 + u128::from(number));
    let verdict = Verdict { trace_id: Some(trace_id(5).parse().unwrap()), ..sample::skipped() };
    house.recent.push(&verdict);
    let ask = async |number: u8| -> (String, String, usize) {
        let found: Value = house.get(&format!("/v1/traces/{}", trace_id(number))).await.json().await.unwrap();
        let text = |key: &str| found[key].as_str().unwrap().to_owned();
        (text("stage"), text("message"), found["verdicts"].as_array().unwrap().len())
    };
    let (stage, message, _) = ask(1).await;
    assert!(stage == "open" && message.contains("3 spans"), "{message}");
    assert_eq!(ask(2).await.0, "evaluating");
    let (stage, message, _) = ask(3).await;
    assert!(stage == "decided" && message.contains("no longer among the recent ones"), "{message}");
    let (stage, message, _) = ask(4).await;
    assert!(stage == "unknown" && message.contains("cannot be said right now"), "{message}");
    let (stage, message, verdicts) = ask(5).await;
    assert!(stage == "decided" && message.contains("ends without an answer"), "{message}");
    assert_eq!(verdicts, 1);
    let (stage, message, _) = ask(6).await;
    assert!(stage == "unknown" && message.contains("No span of this trace has come"), "{message}");
    let (_, message) = refusal(house.get("/v1/traces/xyz").await, 422).await;
    assert!(message.contains("32 hexadecimal digits"), "{message}");
    house.close().await;
}

#[tokio::test]
async fn rates_count_what_was_emitted() {
    let house = House::open(Config::default(), None).await;
    let emitted = super::query::now();
    for number in 0..3 {
        let mut verdict = if number == 0 { sample::full() } else { sample::numbered(number) };
        verdict.times.emitted = emitted;
        verdict.traces.clear();
        house.recent.push(&verdict);
    }
    let rates: Value =
        house.get("/v1/rates?window=15m&points=30&service=support-bot").await.json().await.unwrap();
    assert_eq!(rates["seconds_each"], 30);
    let points = rates["points"].as_array().unwrap();
    let total = |key: &str| points.iter().map(|point| point[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((points.len(), total("scored"), total("hallucination")), (30, 3, 1));
    assert_eq!(rates["agents"][0]["agent"], "refunds");
    assert_eq!(rates["agents"][0]["scored"], 3);
    assert_eq!(rates["conversations"]["agents"], json!([]));
    let expected = json!([{
        "service": "support-bot", "model": "model-large", "service_version": "2.4.1", "prompt_version": "refunds@12",
        "now": {"scored": 3, "hallucination": 1}, "baseline": {"scored": 0, "hallucination": 0},
        "baseline_of": "nothing", "drift": "unknown",
    }]);
    assert_eq!(rates["variants"], expected);
    let other: Value = house.get("/v1/rates?service=other").await.json().await.unwrap();
    assert_eq!(other["variants"], json!([]));
    house.close().await;
}

#[tokio::test]
async fn feedback_is_taken_told_and_exported() {
    let house = House::open(Config::default(), None).await;
    house.recent.push(&sample::full());
    house.recent.push(&Verdict { verdict_id: "skipped".into(), ..sample::skipped() });
    let say =
        async |body: Value| house.client.post(house.url("/v1/feedback")).json(&body).send().await.unwrap();
    let id = "b1946ac92492d234";
    let first = json!({"verdict_id": id, "label": "faithful", "by": " ann ", "note": "it is fine"});
    let taken: Value = say(first.clone()).await.json().await.unwrap();
    assert_eq!((&taken["changed"], &taken["feedback"]["by"]), (&json!(true), &json!("ann")));
    assert_eq!(say(first).await.json::<Value>().await.unwrap()["changed"], false);
    let claim = json!({"verdict_id": id, "claim": 1, "label": "contradicted"});
    assert_eq!(say(claim).await.status(), StatusCode::OK);

    let whole: Value = house.get(&format!("/v1/verdicts/{id}")).await.json().await.unwrap();
    assert_eq!(whole["feedback"].as_array().unwrap().len(), 2);
    let export = house.get("/v1/feedback").await;
    assert_eq!(export.headers()["content-type"], "application/x-ndjson");
    let text = export.text().await.unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["predicted"], "hallucination");
    assert_eq!(
        (&lines[0]["hallucination_probability"], &lines[0]["confidence"]),
        (&json!(0.875), &json!(0.75))
    );
    assert_eq!((&lines[1]["claim"], &lines[1]["predicted"]), (&json!(1), &json!("contradicted")));
    assert_eq!(lines[1]["hallucination_probability"], 0.875);
    let agreement: Value = house.get("/v1/feedback/agreement").await.json().await.unwrap();
    assert_eq!(agreement["verdicts"]["false_positives"], 1);
    assert_eq!(agreement["claims"]["true_positives"], 1);
    let metrics = house.get("/metrics").await.text().await.unwrap();
    assert!(metrics.contains("assayd_feedback_false_positives{target=\"verdict\"}"), "{metrics}");

    let refused = async |body: Value, status: u16| refusal(say(body).await, status).await.1;
    let message = refused(json!({"verdict_id": id, "label": "grounded"}), 422).await;
    assert!(message.contains("faithful or hallucination"), "{message}");
    let message = refused(json!({"verdict_id": id, "claim": 9, "label": "grounded"}), 422).await;
    assert!(message.contains("has 3 claims"), "{message}");
    let message = refused(json!({"verdict_id": "skipped", "label": "faithful"}), 422).await;
    assert!(message.contains("was skipped, not scored"), "{message}");
    let message = refused(json!({"verdict_id": id, "label": "faithful", "by": "x".repeat(101)}), 422).await;
    assert!(message.contains("more than 100 characters"), "{message}");
    let message = refused(json!({"verdict_id": "old", "label": "faithful"}), 404).await;
    assert!(message.contains("send what it had said as well: predicted"), "{message}");
    let old = json!({"verdict_id": "old", "label": "faithful", "predicted": "unsure", "confidence": 0.2});
    assert_eq!(say(old).await.status(), StatusCode::OK);
    house.close().await;
}

#[tokio::test]
async fn feedback_from_other_sites_and_without_a_type_is_refused() {
    let house = House::open(Config::default(), None).await;
    let post = |name: &'static str, value: &'static str| {
        let request = house.client.post(house.url("/v1/feedback")).header(name, value);
        request.body(r#"{"verdict_id": "v", "label": "faithful"}"#).send()
    };
    assert_eq!(refusal(post("origin", "http://evil.example").await.unwrap(), 403).await.0, "forbidden");
    assert_eq!(refusal(post("sec-fetch-site", "cross-site").await.unwrap(), 403).await.0, "forbidden");
    assert_eq!(
        refusal(post("content-type", "text/plain").await.unwrap(), 415).await.0,
        "unsupported_media_type"
    );
    assert_eq!(refusal(post("x-nothing", "1").await.unwrap(), 415).await.0, "unsupported_media_type");
    house.close().await;
}

#[tokio::test]
async fn the_console_is_a_page_that_may_only_run_its_own_scripts() {
    let house = House::open(Config::default(), None).await;
    let page = house.get("/").await;
    assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let tag = page.headers()["etag"].clone();
    let html = page.text().await.unwrap();
    for name in html.split('"').filter(|part| part.starts_with("console/")) {
        assert_eq!(house.get(&format!("/{name}")).await.status(), StatusCode::OK, "{name}");
    }
    let again = house.client.get(house.url("/console/console.js")).header("if-none-match", tag);
    let again = again.send().await.unwrap();
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
    assert!(again.text().await.unwrap().is_empty());
    house.close().await;

    let without = House::open(Config { console: false, ..Config::default() }, None).await;
    assert_eq!(refusal(without.get("/").await, 404).await.0, "not_found");
    without.close().await;
}

#[tokio::test]
async fn the_status_is_what_the_pipeline_says_of_itself_and_whether_it_is_ready() {
    let house = House::open(Config::default(), None).await;
    house.readiness.send_replace(Readiness::Stopping);
    let status: Value = house.get("/v1/status").await.json().await.unwrap();
    assert_eq!(status["status"], "stopping");
    assert_eq!(status["evaluators"]["tone"]["status"], "never_ran");
    house.close().await;
}

#[tokio::test]
async fn a_name_of_another_site_is_not_answered_to() {
    let house = House::open(Config::default(), None).await;
    let request = house.client.get(house.url("/v1/verdicts")).header("host", "evil.example:8321");
    let (kind, message) = refusal(request.send().await.unwrap(), 421).await;
    assert!(kind == "misdirected_request" && message.contains("serve.hosts"), "{message}");
    house.close().await;
}
