//! `POST /v1/systemone` on a real socket over real models: the reference's recorded answers and refusals, many callers at
//! once, and what the contract asks for beside that.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assayd::decide::{self, DecideError, Desk, ModelName, Reply, Scripted};
use assayd::domain::{ByteSize, Decision, Inquiry};
use assayd::emit::{Recent, RecentConfig};
use assayd::metrics;
use assayd::secret::Secret;
use assayd::serve::{self, Access, Readiness};
use futures::future::join_all;
use reqwest::{Client, Response, StatusCode};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const CHECKPOINTS: [&str; 3] = ["tiny-lora", "tiny-legacy", "tiny-merged"];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/decider")
}

fn checkpoint(name: &str) -> Desk {
    let folder = fixtures().join("checkpoints").join(name);
    let model = ModelName::Checkpoint(folder.to_string_lossy().into_owned());
    decide::start(&decide::Config { model, ..decide::Config::default() }).unwrap()
}

fn embedded() -> Desk {
    decide::start(&decide::Config::default()).unwrap()
}

fn golden(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(fixtures().join("golden").join(file)).unwrap();
    text.lines().map(str::to_owned).collect()
}

struct House {
    address: SocketAddr,
    client: Client,
    _readiness: watch::Sender<Readiness>,
    shutdown: CancellationToken,
    server: JoinHandle<()>,
}

impl House {
    async fn open(desk: Desk) -> Self {
        Self::with(desk, serve::Config::default()).await
    }

    async fn with(desk: Desk, config: serve::Config) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (readiness, watched) = watch::channel(Readiness::Ready);
        assert!(desk.ready().await);
        let state = serve::State {
            metrics: metrics::install().unwrap(),
            readiness: watched,
            recent: Recent::new(&RecentConfig::default()),
            checker: None,
            tracer: None,
            feedback: None,
            runs: None,
            status: None,
            desk: Some(desk),
            access: Access::open(&config).unwrap(),
        };
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        let server = tokio::spawn(async move { serve::serve(listener, &config, state, stop).await });
        Self { address, client: Client::new(), _readiness: readiness, shutdown, server }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn raw(&self, content_type: &str, body: impl Into<reqwest::Body>) -> Response {
        let request = self.client.post(self.url("/v1/systemone")).header("content-type", content_type);
        request.body(body).send().await.unwrap()
    }

    async fn ask(&self, body: &Value) -> Response {
        self.raw("application/json", body.to_string()).await
    }

    async fn answered(&self, body: &Value) -> Value {
        let response = self.ask(body).await;
        let (status, text) = (response.status(), response.text().await.unwrap());
        assert_eq!(status, StatusCode::OK, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    async fn close(self) {
        self.shutdown.cancel();
        self.server.await.unwrap();
    }
}

/// Text of a member of one line of JSON, as it stands there: a request may hold numbers and keys that a value cannot.
fn member<'a>(line: &'a str, key: &str) -> &'a str {
    let members: std::collections::HashMap<&str, &serde_json::value::RawValue> =
        serde_json::from_str(line).unwrap();
    members[key].get()
}

/// TypeSafe's definition, from what an answer shows.
fn confidence(answer: &Value) -> Option<f64> {
    let p: Vec<f64> = answer["probabilities"].as_object()?.values().map(|p| p.as_f64().unwrap()).collect();
    let n = p.len() as f64;
    let mode =
        p.iter().enumerate().fold(0, |best, (index, share)| if *share > p[best] { index } else { best });
    let away = |from: f64| (0..p.len()).map(move |index| (index as f64 - from).abs());
    let found = match answer["type"].as_str()? {
        "choice" => (p[mode] - 1.0 / n) / (1.0 - 1.0 / n),
        _ => {
            let spread: f64 = away(mode as f64).zip(&p).map(|(distance, p)| distance * p).sum();
            1.0 - spread / (away((n - 1.0) / 2.0).sum::<f64>() / n)
        }
    };
    Some(found.clamp(0.0, 1.0))
}

/// Equal but for numbers within rounding and confidence, which the reference defines otherwise; key order counts.
#[track_caller]
fn assert_like(ours: &Value, theirs: &Value, place: &str) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>(), "{place}");
            for (key, value) in a.iter().filter(|(key, _)| *key != "confidence") {
                assert_like(value, &b[key], &format!("{place}.{key}"));
            }
        }
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            assert!((a - b).abs() <= 2.1e-4, "{place}: {a} {b}");
        }
        _ => assert_eq!(ours, theirs, "{place}"),
    }
}

#[tokio::test]
async fn recorded_requests_are_answered_as_the_reference_answered_them() {
    for name in CHECKPOINTS {
        let house = House::open(checkpoint(name)).await;
        // One model answers all; what the others add is the engine's, whose own tests ask them everything.
        let step = if name == "tiny-lora" { 1 } else { 5 };
        for line in golden(&format!("{name}.jsonl")).into_iter().step_by(step) {
            let id = member(&line, "id");
            let response = house.raw("application/json", member(&line, "request").to_owned()).await;
            let (status, text) = (response.status(), response.text().await.unwrap());
            assert_eq!(status, StatusCode::OK, "{name} {id}: {text}");
            let ours: Value = serde_json::from_str(&text).unwrap();
            assert_like(&ours, &serde_json::from_str(member(&line, "response")).unwrap(), id);
            for answer in ours["answers"].as_object().unwrap().values() {
                let told = answer.get("confidence").map(|told| told.as_f64().unwrap());
                let (told, meant) = (told.unwrap_or(-1.0), confidence(answer).unwrap_or(-1.0));
                assert!((told - meant).abs() < 2e-3, "{id}: confidence {told}, by the definition {meant}");
            }
        }
        house.close().await;
    }
}

#[tokio::test]
async fn recorded_refusals_are_refused_alike() {
    for name in CHECKPOINTS {
        let house = House::open(checkpoint(name)).await;
        for line in golden(&format!("{name}.refused.jsonl")) {
            let id: String = serde_json::from_str(member(&line, "id")).unwrap();
            let status: u16 = member(&line, "status").parse().unwrap();
            let theirs: Value = serde_json::from_str(member(&line, "body")).unwrap();
            let response = match id.split_once(' ') {
                Some((method, path)) => {
                    let method = method.parse().unwrap();
                    house.client.request(method, house.url(path)).send().await.unwrap()
                }
                None => recorded(&house, &line).await,
            };
            // The reference fails on a lone surrogate; a bad request is never a 5xx here.
            let wanted = if id == "lone_surrogate" { 422 } else { status };
            assert_eq!(response.status().as_u16(), wanted, "{name} {id}");
            assert_eq!(response.headers()["content-type"], "application/json", "{id}");
            let ours: Value = response.json().await.unwrap();
            assert_refused_alike(&ours, &theirs, wanted, &id);
        }
        house.close().await;
    }
}

async fn recorded(house: &House, line: &str) -> Response {
    let members: Value = serde_json::from_str(line).unwrap();
    let content_type = members["content_type"].as_str().unwrap();
    if members["id"] == "choice_256_options" {
        let options: Map<String, Value> = (0..256).map(|index| (format!("o{index}"), Value::Null)).collect();
        let question = json!({"type": "choice", "instructions": "Pick", "criteria": options});
        return house.ask(&json!({"state": "s", "questions": {"q": question}})).await;
    }
    let raw = members["request_raw"].as_str().map(str::to_owned);
    house.raw(content_type, raw.unwrap_or_else(|| member(line, "request").to_owned())).await
}

/// Engine refusals in the same words; of the reference's list of flaws, one for each form that a question might have had,
/// those that speak of the form that was meant, word for word.
#[track_caller]
fn assert_refused_alike(ours: &Value, theirs: &Value, status: u16, id: &str) {
    if status == 200 {
        return assert_like(ours, theirs, id);
    }
    match &theirs["detail"] {
        Value::String(text) if status == 422 => assert_eq!(ours["detail"], *text, "{id}"),
        Value::Array(all) => {
            let flaws = ours["detail"].as_array().unwrap();
            assert!(!flaws.is_empty(), "{id}");
            for flaw in flaws {
                assert!(all.contains(flaw), "{id}: {flaw}\nis not in {}", theirs["detail"]);
            }
        }
        _ => assert!(ours.get("detail").is_some(), "{id}: {ours}"),
    }
}

fn state_of_its_own(caller: usize) -> Value {
    let question = |text: &str| format!("{text} {}", "Really? ".repeat(caller % 4));
    let noul = json!({"type": "noul", "instructions": question("Is it urgent?")});
    let choice = json!({"type": "choice", "instructions": "Which team?",
        "criteria": {"billing": "money", "sales": null, "support": {"for": ["bugs", caller]}}});
    let score = json!({"type": "score", "instructions": "How angry?", "criteria": ["calm", {"level": "cross"}, "furious"]});
    let mut questions = Map::new();
    for (name, asked) in
        [("urgent", noul), ("team", choice), ("anger", score)].into_iter().take(1 + caller % 3)
    {
        questions.insert(name.to_owned(), asked);
    }
    let state =
        format!("Ticket {caller}. {}", format!("My payout {caller} fails again. ").repeat(caller % 7));
    json!({"model": "jev-latest", "state": state, "questions": questions})
}

/// The reference's server mixes answers of concurrent callers up.
#[tokio::test]
async fn sixty_four_callers_at_once_get_the_answers_that_they_get_alone() {
    let house = House::open(checkpoint("tiny-lora")).await;
    let requests: Vec<Value> = (0..64).map(state_of_its_own).collect();
    let together = join_all(requests.iter().map(|request| house.answered(request))).await;
    let fresh = House::open(checkpoint("tiny-lora")).await;
    for (index, (request, ours)) in requests.iter().zip(&together).enumerate() {
        let alone = fresh.answered(request).await;
        assert_like(ours, &alone, &format!("caller {index}"));
        let asked: Vec<&String> = request["questions"].as_object().unwrap().keys().collect();
        assert_eq!(ours["answers"].as_object().unwrap().keys().collect::<Vec<_>>(), asked);
    }
    // Answers differ from caller to caller, or mixing them up would not show.
    let nouls: std::collections::HashSet<String> =
        together.iter().map(|body| body["answers"]["urgent"]["noul"].to_string()).collect();
    assert!(nouls.len() > 32, "{}", nouls.len());
    house.close().await;
    fresh.close().await;
}

/// The reference's server takes strings only, and its confidence is another number.
#[tokio::test]
async fn structured_levels_are_taken_and_confidence_is_the_one_definition() {
    let house = House::open(checkpoint("tiny-lora")).await;
    let body = json!({"model": "jev-latest", "state": {"ticket": 1}, "questions": {"anger": {"type": "score",
        "instructions": {"scale": "frustration"},
        "criteria": [{"label": "Calm"}, ["a", "list"], {"label": "Very angry", "signals": ["threats"]}]}}});
    let answer = house.answered(&body).await["answers"]["anger"].clone();
    assert_eq!(answer["legend"]["0"], "{\n  \"label\": \"Calm\"\n}");
    let (told, meant) = (answer["confidence"].as_f64().unwrap(), confidence(&answer).unwrap());
    assert!((told - meant).abs() < 1e-3, "{answer}");
    house.close().await;
}

#[tokio::test]
async fn health_says_what_the_reference_s_said_and_models_lists_who_answers() {
    for name in CHECKPOINTS {
        let house = House::open(checkpoint(name)).await;
        let mut ours: Map<String, Value> =
            house.client.get(house.url("/health")).send().await.unwrap().json().await.unwrap();
        let text = golden(&format!("{name}.health.json")).concat();
        let mut theirs: Map<String, Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
        // The reference was started beside its checkpoints.
        assert!(ours["checkpoint"].as_str().unwrap().ends_with(theirs["checkpoint"].as_str().unwrap()));
        ours.remove("checkpoint");
        theirs.remove("checkpoint");
        assert_eq!(ours, theirs);
        let models: Value =
            house.client.get(house.url("/v1/models")).send().await.unwrap().json().await.unwrap();
        let names: Vec<&str> = models["models"]
            .as_array()
            .unwrap()
            .iter()
            .map(|model| model["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, [name, "jev-latest"]);
        house.close().await;
    }
}

#[tokio::test]
async fn the_embedded_model_answers_claims_and_says_what_it_does_not_answer() {
    let house = House::open(embedded()).await;
    let standings = json!({"grounded": "the state says it", "ungrounded": null, "contradicted": null});
    let state = "Unworn footwear may be returned within 30 days of delivery for a full refund.";
    let claim = |claim: &str| {
        json!({"model": "assayd-starter", "state": state, "questions": {"q": {"type": "choice",
            "instructions": {"claim": claim}, "criteria": standings}}})
    };
    let right = house.answered(&claim("Unworn footwear may be returned within 30 days.")).await;
    assert_eq!(right["answers"]["q"]["choice"], "grounded", "{right}");
    let wrong = house.answered(&claim("Unworn footwear may be returned within 90 days.")).await;
    assert_ne!(wrong["answers"]["q"]["choice"], "grounded", "{wrong}");
    let noul = json!({"state": state, "questions": {"q": {"type": "noul",
        "instructions": {"claim": "Footwear may be returned within 30 days."}}}});
    assert!(house.answered(&noul).await["answers"]["q"]["noul"].as_f64().unwrap() > 0.5);

    let general = json!({"model": "jev-latest", "state": state, "questions": {
        "ok": {"type": "noul", "instructions": {"claim": "Refunds are full."}},
        "mood": {"type": "noul", "instructions": "Is the customer angry?"},
        "level": {"type": "score", "instructions": "How angry?", "criteria": ["calm", "angry"]}}});
    let response = house.ask(&general).await;
    assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let body: Value = response.json().await.unwrap();
    let places: Vec<&Value> = body["detail"].as_array().unwrap().iter().map(|flaw| &flaw["loc"][2]).collect();
    assert_eq!(places, ["mood", "level"], "{body}");
    let text = body["detail"][0]["msg"].as_str().unwrap();
    assert!(
        text.contains("assayd-starter") && text.contains("grounded, ungrounded and contradicted"),
        "{text}"
    );

    let mut empty = claim("It rains.");
    empty["state"] = json!("  ");
    let response = house.ask(&empty).await;
    assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(response.json::<Value>().await.unwrap()["detail"][0]["loc"], json!(["body", "state"]));
    let health: Value = house.client.get(house.url("/health")).send().await.unwrap().json().await.unwrap();
    assert_eq!(health["x_answers"], json!({"kinds": ["noul", "choice"], "subjects": ["claim", "query"]}));
    house.close().await;
}

const ASKED: &str = r#"{"state": "s", "questions": {"q": {"type": "noul", "instructions": "Ok?"}}}"#;

#[tokio::test]
async fn tokens_guard_the_api_and_every_answer_has_a_name() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "s3cret\n").unwrap();
    let tokens = vec![Secret::File(file.path().to_owned())];
    let house = House::with(checkpoint("tiny-lora"), serve::Config { tokens, ..Default::default() }).await;
    let mut names = std::collections::HashSet::new();
    for (token, status) in [(None, 401), (Some("wrong"), 401), (Some("s3cret"), 200)] {
        let mut request = house.client.post(house.url("/v1/systemone")).body(ASKED);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{token:?}");
        names.insert(response.headers()["x-typesafe-request-id"].to_str().unwrap().to_owned());
        if status == 401 {
            assert_eq!(response.headers()["www-authenticate"], "Bearer");
            let body: Value = response.json().await.unwrap();
            assert_eq!(body["detail"]["error_type"], "authentication_error");
            assert!(!body.to_string().contains("s3cret"));
        }
    }
    assert_eq!(names.len(), 3);
    assert_eq!(house.client.get(house.url("/v1/models")).send().await.unwrap().status().as_u16(), 401);
    for open in ["/healthz", "/readyz", "/health", "/metrics"] {
        assert_eq!(
            house.client.get(house.url(open)).send().await.unwrap().status(),
            StatusCode::OK,
            "{open}"
        );
    }
    house.close().await;
}

#[tokio::test]
async fn bodies_have_a_limit_also_when_they_are_compressed() {
    let config = serve::Config { max_body_bytes: ByteSize(2_000), ..serve::Config::default() };
    let house = House::with(checkpoint("tiny-lora"), config).await;
    let large =
        json!({"state": "a".repeat(4_000), "questions": {"q": {"type": "noul", "instructions": "Ok?"}}});
    assert_eq!(house.ask(&large).await.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let compressed = |text: &str| zstd::encode_all(text.as_bytes(), 3).unwrap();
    let post = |bytes: Vec<u8>| {
        house.client.post(house.url("/v1/systemone")).header("content-encoding", "zstd").body(bytes).send()
    };
    let response = post(compressed(&large.to_string())).await.unwrap();
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(response.json::<Value>().await.unwrap()["detail"]["error_type"], "too_large");
    assert_eq!(post(compressed(ASKED)).await.unwrap().status(), StatusCode::OK);
    assert_eq!(post(b"nonsense".to_vec()).await.unwrap().status(), StatusCode::BAD_REQUEST);
    house.close().await;
}

#[tokio::test]
async fn overload_is_429_and_a_slow_model_503_both_with_the_time_to_come_back() {
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let desk = decide::start_with(
        Scripted::new(move |inquiry: &Inquiry| {
            let _ = gate.recv();
            let decided = |_| Ok(Decision { probabilities: vec![0.25, 0.75], tokens: 1 });
            Ok(Reply {
                decisions: inquiry.questions.iter().map(decided).collect(),
                input_tokens: 1,
                truncated: false,
            })
        }),
        &decide::Config::default(),
    );
    let config = serve::Config {
        max_decisions: std::num::NonZeroUsize::MIN,
        timeout: assayd::domain::Period::millis(1_500),
        ..serve::Config::default()
    };
    let house = House::with(desk.unwrap(), config).await;
    let first = house.raw("application/json", ASKED);
    let second = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        house.raw("application/json", ASKED).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(second.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(second.headers()["retry-after"], "1");
    assert_eq!(first.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(first.headers()["retry-after"], "5");
    drop(open);
    assert_eq!(house.raw("application/json", ASKED).await.status(), StatusCode::OK);
    house.close().await;
}

#[tokio::test]
async fn a_model_that_fails_is_a_5xx_and_never_an_answer() {
    let fails = |inquiry: &Inquiry| match inquiry.state.as_str() {
        Some("nan") => Ok(Reply {
            decisions: vec![Ok(Decision { probabilities: vec![f64::NAN, 1.0], tokens: 1 })],
            input_tokens: 1,
            truncated: false,
        }),
        _ => Err(DecideError::NotFinite),
    };
    let house =
        House::open(decide::start_with(Scripted::new(fails), &decide::Config::default()).unwrap()).await;
    for state in ["nan", "error"] {
        let response = house.raw("application/json", ASKED.replace("\"s\"", &format!("\"{state}\""))).await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR, "{state}");
        assert_eq!(response.json::<Value>().await.unwrap()["detail"]["error_type"], "model_failed");
    }
    house.close().await;
}

fn remote(house: &House, model: &str) -> Desk {
    let model = ModelName::parse(&format!("systemone:http://{}#{model}", house.address));
    decide::start(&decide::Config { model, ..decide::Config::default() }).unwrap()
}

/// assayd as the client of assayd: through two sockets comes what the model says.
#[tokio::test]
async fn a_remote_model_answers_as_the_local_one_behind_it() {
    let origin = House::open(checkpoint("tiny-lora")).await;
    let relay = House::open(remote(&origin, "tiny-lora")).await;
    for caller in 0..12 {
        let request = state_of_its_own(caller);
        let (near, far) = (origin.answered(&request).await, relay.answered(&request).await);
        assert_eq!(near["answers"].as_object().unwrap().len(), far["answers"].as_object().unwrap().len());
        for (id, near) in near["answers"].as_object().unwrap() {
            let far = &far["answers"][id];
            for exact in ["type", "noul", "choice", "probabilities"] {
                assert_eq!(near.get(exact), far.get(exact), "{id}");
            }
            // Made of four decimals there, of all of them here.
            for close in ["score", "confidence"].iter().filter(|key| near.get(key).is_some()) {
                let (near, far) = (near[close].as_f64().unwrap(), far[close].as_f64().unwrap());
                assert!((near - far).abs() < 1e-3, "{id} {close}: {near} {far}");
            }
        }
        assert_eq!(near["usage"], far["usage"]);
    }
    relay.close().await;
    origin.close().await;
}

#[tokio::test]
async fn sixty_four_callers_of_a_remote_model_get_their_own_answers() {
    let origin = House::open(checkpoint("tiny-lora")).await;
    let relay = House::open(remote(&origin, "")).await;
    let requests: Vec<Value> = (0..64).map(state_of_its_own).collect();
    let together = join_all(requests.iter().map(|request| relay.answered(request))).await;
    for (request, far) in requests.iter().zip(&together).step_by(4) {
        let near = origin.answered(request).await;
        assert_like(&far["answers"]["urgent"], &near["answers"]["urgent"], "urgent");
    }
    relay.close().await;
    origin.close().await;
}

#[tokio::test]
async fn a_list_of_options_that_is_longer_than_the_window_is_asked_in_rounds() {
    let house = House::open(checkpoint("tiny-lora")).await;
    let options: Map<String, Value> = (0..255)
        .map(|index| (format!("Queue {index:03}"), json!(format!("Tickets routed to queue {index}"))))
        .collect();
    let question = json!({"type": "choice", "instructions": "Which queue?", "criteria": options});
    let mut body = json!({"state": "My payouts fail.", "questions": {"queue": question}});
    let refused = house.ask(&body).await;
    assert_eq!(refused.status(), StatusCode::UNPROCESSABLE_ENTITY, "the Strands dialect refuses it");
    body["model"] = json!("jev-latest");
    let answer = house.answered(&body).await["answers"]["queue"].clone();
    let p: Vec<f64> =
        answer["probabilities"].as_object().unwrap().values().map(|p| p.as_f64().unwrap()).collect();
    assert_eq!(p.len(), 255);
    assert!((p.iter().sum::<f64>() - 1.0).abs() < 0.02);
    let most = p.iter().copied().fold(0.0, f64::max);
    assert_eq!(answer["probabilities"][answer["choice"].as_str().unwrap()], most);
    house.close().await;
}

#[tokio::test]
async fn names_of_other_models_are_not_found_where_that_is_wished() {
    let config = serve::Config { any_model: false, ..serve::Config::default() };
    let house = House::with(checkpoint("tiny-lora"), config).await;
    for (model, status) in [("tiny-lora", 200), ("jev-latest", 200), ("jev-2", 404)] {
        let mut body: Value = serde_json::from_str(ASKED).unwrap();
        body["model"] = json!(model);
        let response = house.ask(&body).await;
        assert_eq!(response.status().as_u16(), status, "{model}");
        if status == 404 {
            assert_eq!(response.json::<Value>().await.unwrap()["detail"]["error_type"], "not_found");
        }
    }
    house.close().await;
}

/// Runs `assayd ask` beside the server.
async fn command(arguments: Vec<String>) -> std::process::Output {
    let run = move || {
        std::process::Command::new(env!("CARGO_BIN_EXE_assayd"))
            .args(arguments)
            .env_remove("ASSAYD_DECIDE_KEY")
            .env_remove("TYPESAFE_API_KEY")
            .output()
            .unwrap()
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test]
async fn the_command_line_asks_a_server_and_says_what_is_wrong_with_it() {
    let house = House::open(checkpoint("tiny-lora")).await;
    let asked = json!({"model": "jev-latest", "state": "My payouts fail.", "questions": {
        "noul_0": {"type": "noul", "instructions": "Is it urgent?"}}});
    let near = house.answered(&asked).await;
    let ask = |model: String| {
        let arguments =
            ["ask", "--json", "--state", "My payouts fail.", "--noul", "Is it urgent?", "--model"];
        arguments.iter().map(|argument| (*argument).to_owned()).chain([model]).collect()
    };
    let there = format!("systemone:http://{}", house.address);
    let output = command(ask(there.clone())).await;
    let far: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(far["answers"], near["answers"]);
    for (model, words) in [
        (format!("{there}#another-model"), "decide.model.systemone.model"),
        ("systemone:http://127.0.0.1:9".to_owned(), "cannot be reached"),
        ("systemone".to_owned(), "TYPESAFE_API_KEY"),
    ] {
        let output = command(ask(model)).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(words), "{said}");
    }
    house.close().await;
}
