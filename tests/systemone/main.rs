//! `POST /v1/systemone` on a real socket over real models: the reference's recorded answers and refusals, many callers at
//! once, and what the contract asks for beside that.

mod reference;
mod remote;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assayd::decide::{self, DecideError, Desk, ModelName, Reply, Scripted};
use assayd::domain::{ByteSize, Decision, Inquiry};
use assayd::emit::{Recent, RecentConfig};
use assayd::metrics;
use assayd::secret::Secret;
use assayd::serve::{self, Access, Readiness};
use reqwest::{Client, Response, StatusCode};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

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
