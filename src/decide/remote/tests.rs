//! The client against scripted servers on real sockets.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

use super::start::start;
use super::*;
use crate::decide::{Config, DecideError, Desk, Health};
use crate::domain::{Inquiry, Json, Kind, Nobody, Period, Question, Subject};
use crate::error::Fault;
use crate::secret::Secret;

/// Answers every noul with a number made of its instructions, as a conformant server would.
struct Conformant;

impl Respond for Conformant {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let answers: serde_json::Map<String, Value> = body["questions"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, asked)| {
                (name.clone(), json!({"type": "noul", "noul": noul_of(&asked["instructions"])}))
            })
            .collect();
        let usage = json!({"input_tokens": 10, "output_tokens": answers.len()});
        ResponseTemplate::new(200)
            .set_body_json(json!({"model": body["model"], "answers": answers, "usage": usage}))
    }
}

fn noul_of(instructions: &Value) -> f64 {
    let number: f64 = instructions.as_str().unwrap().parse().unwrap();
    number / 1000.0
}

fn noul(number: usize) -> Question {
    let kind = Kind::Noul { if_true: None, if_false: None };
    Question {
        id: format!("claim:{number}"),
        kind,
        instructions: json!(number.to_string()),
        subject: Subject::General,
    }
}

fn inquiry(questions: Vec<Question>) -> Inquiry {
    Inquiry::new(Arc::new(json!("a state")), questions)
}

fn remote_config(server: &MockServer) -> RemoteConfig {
    RemoteConfig { url: Some(server.uri()), ..RemoteConfig::default() }
}

fn desk(api: Api, config: &RemoteConfig) -> Desk {
    start(api, config, &Config::default()).unwrap()
}

async fn serve_models(server: &MockServer, names: &[&str]) {
    let models: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    let body = ResponseTemplate::new(200).set_body_json(json!({"models": models}));
    Mock::given(method("GET")).and(path("/v1/models")).respond_with(body).mount(server).await;
}

fn answering() -> wiremock::MockBuilder {
    Mock::given(method("POST")).and(path("/v1/systemone"))
}

async fn asked(server: &MockServer) -> usize {
    server.received_requests().await.unwrap().iter().filter(|request| request.method == "POST").count()
}

fn nouls(reply: &crate::decide::Reply) -> Vec<f64> {
    reply.decisions.iter().map(|decision| decision.as_ref().unwrap().probabilities[1]).collect()
}

#[tokio::test]
async fn questions_beyond_one_request_are_asked_in_several_and_come_back_in_order() {
    let server = MockServer::start().await;
    serve_models(&server, &["jev-latest"]).await;
    answering().respond_with(Conformant).mount(&server).await;
    let config = RemoteConfig { max_questions: 2.try_into().unwrap(), ..remote_config(&server) };
    let desk = desk(Api::Systemone, &config);
    assert!(desk.ready().await);
    let reply = desk.ask(inquiry((1..=5).map(noul).collect())).await.unwrap();
    assert_eq!(nouls(&reply), [0.001, 0.002, 0.003, 0.004, 0.005]);
    assert_eq!((reply.input_tokens, asked(&server).await), (30, 3));
    assert_eq!(desk.info().name, "jev-latest");
}

#[tokio::test]
async fn an_overloaded_server_is_asked_again_when_it_says() {
    let server = MockServer::start().await;
    serve_models(&server, &["jev-latest"]).await;
    for status in [429, 503, 529] {
        let busy = ResponseTemplate::new(status).insert_header("retry-after-ms", "5");
        answering().respond_with(busy).up_to_n_times(1).mount(&server).await;
    }
    answering().respond_with(Conformant).mount(&server).await;
    let desk = desk(Api::Systemone, &remote_config(&server));
    let reply = desk.ask(inquiry(vec![noul(7)])).await.unwrap();
    assert_eq!((nouls(&reply), asked(&server).await), (vec![0.007], 4));
}

#[tokio::test]
async fn waiting_ends_at_the_deadline_with_a_fault_that_may_pass() {
    let server = MockServer::start().await;
    serve_models(&server, &["jev-latest"]).await;
    answering()
        .respond_with(ResponseTemplate::new(429).insert_header("retry-after", "20"))
        .mount(&server)
        .await;
    let config = RemoteConfig { deadline: Period::millis(300), ..remote_config(&server) };
    let desk = desk(Api::Systemone, &config);
    let error = desk.ask(inquiry(vec![noul(1)])).await.unwrap_err();
    assert_eq!((error.fault(), asked(&server).await), (Fault::Transient, 1));
    server.reset().await;
    answering()
        .respond_with(ResponseTemplate::new(200).set_delay(Duration::from_secs(30)))
        .mount(&server)
        .await;
    let error = desk.ask(inquiry(vec![noul(1)])).await.unwrap_err();
    assert!(error.to_string().contains("in time"), "{error}");
}

#[tokio::test]
async fn what_the_model_cannot_do_is_refused_before_it_is_sent() {
    let server = MockServer::start().await;
    serve_models(&server, &["jev-latest"]).await;
    answering().respond_with(Conformant).mount(&server).await;
    let config = RemoteConfig {
        kinds: vec![RemoteKind::Noul, RemoteKind::Choice],
        max_options: 3.try_into().unwrap(),
        window: Some(100.try_into().unwrap()),
        ..remote_config(&server)
    };
    let desk = desk(Api::Systemone, &config);
    let options = |count: usize| (0..count).map(|option| (option.to_string(), Json::Null)).collect();
    let questions = vec![
        Question { kind: Kind::Score { levels: vec![json!("a"), json!("b")] }, ..noul(1) },
        Question { kind: Kind::Choice { options: options(4) }, ..noul(2) },
        Question { instructions: json!("x".repeat(1_000)), ..noul(3) },
    ];
    let reply = desk.ask(inquiry(questions)).await.unwrap();
    let words = ["Unsupported", "takes 3", "context window of 100 tokens"];
    for (decision, words) in reply.decisions.iter().zip(words) {
        assert!(format!("{decision:?}").contains(words), "{decision:?}");
    }
    assert_eq!(asked(&server).await, 0);
    assert!(!desk.info().capabilities.score && desk.info().capabilities.noul);
    assert_eq!(desk.info().max_tokens, Some(100));
}

#[tokio::test]
async fn another_model_is_an_error_at_the_start_and_says_what_to_set() {
    for told in ["models", "health"] {
        let server = MockServer::start().await;
        if told == "models" {
            serve_models(&server, &["tiny-lora", "other"]).await;
        } else {
            let body =
                ResponseTemplate::new(200).set_body_json(json!({"status": "ok", "model": "tiny-lora"}));
            Mock::given(method("GET")).and(path("/health")).respond_with(body).mount(&server).await;
        }
        let config = RemoteConfig { model: Some("decider-2b".into()), ..remote_config(&server) };
        let wrong = desk(Api::Systemone, &config);
        assert!(!wrong.reached().await);
        assert_eq!(wrong.health(), Health::Failing);
        let error = wrong.ask(inquiry(vec![noul(1)])).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("tiny-lora") && text.contains("decider-2b"), "{text}");
        assert!(text.contains("decide.model.systemone.model"), "{text}");
        assert_eq!(error.fault(), Fault::Fatal);
        let unchecked = desk(Api::Systemone, &RemoteConfig { check_model: false, ..config.clone() });
        assert!(unchecked.ready().await);
        let right = desk(Api::Systemone, &RemoteConfig { model: Some("hub/Tiny-LoRA".into()), ..config });
        assert!(right.ready().await);
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_yet_is_waited_for_and_callers_with_it() {
    let reserved = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = reserved.local_addr().unwrap();
    drop(reserved);
    let config = RemoteConfig::parse(&format!("http://{address}"));
    let desk = desk(Api::Systemone, &config);
    assert!(!desk.ready().await);
    assert_eq!(desk.health(), Health::Unreachable);
    let early = tokio::spawn({
        let desk = desk.clone();
        async move { desk.ask(inquiry(vec![noul(3)])).await }
    });
    let listener = std::net::TcpListener::bind(address).unwrap();
    let server = MockServer::builder().listener(listener).start().await;
    answering().respond_with(Conformant).mount(&server).await;
    assert!(desk.reached().await);
    assert_eq!(nouls(&early.await.unwrap().unwrap()), [0.003]);
}

#[tokio::test]
async fn a_refusal_of_all_is_found_to_be_one_question_s() {
    let server = MockServer::start().await;
    serve_models(&server, &["jev-latest"]).await;
    let poisonous = |request: &Request| String::from_utf8_lossy(&request.body).contains("\"2\"");
    let refusal =
        ResponseTemplate::new(422).set_body_json(json!({"detail": "option span (1,2) has no tokens left"}));
    answering().and(poisonous).respond_with(refusal).mount(&server).await;
    answering().respond_with(Conformant).mount(&server).await;
    let desk = desk(Api::Systemone, &remote_config(&server));
    let reply = desk.ask(inquiry((1..=3).map(noul).collect())).await.unwrap();
    assert_eq!(reply.decisions[1], Err(Nobody::Refused("option span (1,2) has no tokens left".into())));
    assert!(reply.decisions[0].is_ok() && reply.decisions[2].is_ok());
    assert_eq!(asked(&server).await, 4);
}

#[tokio::test]
async fn a_key_is_sent_never_shown_and_read_again_when_it_is_refused() {
    let server = MockServer::start().await;
    serve_models(&server, &["jev-latest"]).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "first-key").unwrap();
    answering()
        .and(header("authorization", "Bearer first-key"))
        .respond_with(Conformant)
        .mount(&server)
        .await;
    let denied = ResponseTemplate::new(401)
        .set_body_json(json!({"detail": {"error_type": "authentication_error", "message": "no: first-key"}}));
    let config = RemoteConfig { key: Some(Secret::File(file.path().to_owned())), ..remote_config(&server) };
    let desk = desk(Api::Systemone, &config);
    assert!(desk.ask(inquiry(vec![noul(1)])).await.is_ok());
    server.reset().await;
    answering()
        .and(header("authorization", "Bearer second-key"))
        .respond_with(Conformant)
        .mount(&server)
        .await;
    answering().respond_with(denied).mount(&server).await;
    let error = desk.ask(inquiry(vec![noul(1)])).await.unwrap_err();
    assert_eq!(error.fault(), Fault::Fatal);
    assert!(error.to_string().contains("401") && !error.to_string().contains("first-key"), "{error}");
    std::fs::write(file.path(), "second-key\n").unwrap();
    assert!(desk.ask(inquiry(vec![noul(1)])).await.is_ok());
}

#[tokio::test]
async fn a_broken_answer_fails_and_never_becomes_a_number() {
    let server = MockServer::start().await;
    serve_models(&server, &["jev-latest"]).await;
    let desk = desk(Api::Systemone, &remote_config(&server));
    for (body, whole) in [
        (r#"{"model": "m", "answers": {"q0": {"type": "noul", "noul": 1.5}}}"#, false),
        (r#"{"model": "m", "answers": {"q0": {"type": "noul", "noul": NaN}}}"#, false),
        (r#"{"model": "m", "answers": {}}"#, false),
        (
            r#"{"model": "m", "answers": {"q0": {"type": "noul", "noul": 0.5}, "q7": {"type": "noul", "noul": 0.5}}}"#,
            true,
        ),
        (r#"{"model": "m"}"#, true),
        ("<html>hello</html>", true),
    ] {
        server.reset().await;
        answering().respond_with(ResponseTemplate::new(200).set_body_string(body)).mount(&server).await;
        match desk.ask(inquiry(vec![noul(1)])).await {
            Ok(reply) => assert!(!whole && matches!(reply.decisions[0], Err(Nobody::Failed(_))), "{body}"),
            Err(error) => assert!(whole && matches!(error, DecideError::Remote { .. }), "{body}: {error}"),
        }
    }
}

#[tokio::test]
async fn a_request_that_breaks_the_server_is_not_sent_again_and_again() {
    let server = MockServer::start().await;
    serve_models(&server, &["jev-latest"]).await;
    answering().respond_with(ResponseTemplate::new(500)).mount(&server).await;
    let desk = desk(Api::Systemone, &remote_config(&server));
    assert!(desk.ask(inquiry(vec![noul(1)])).await.is_err());
    assert_eq!(asked(&server).await, 2);
}

#[tokio::test]
async fn the_decisions_api_is_asked_in_its_own_words() {
    let server = MockServer::start().await;
    let list = json!({"object": "list", "data": [{"id": "gpt-6-luna"}, {"id": "gpt-6"}]});
    let list = ResponseTemplate::new(200).set_body_json(list);
    Mock::given(method("GET")).and(path("/v1/models")).respond_with(list).mount(&server).await;
    let body = json!({"model": "gpt-6-luna", "answers": [
        {"type": "predicate", "name": "q0", "probability": 0.9},
        {"type": "refusal", "name": "q1"}],
        "usage": {"input_tokens": 42, "output_tokens": 0, "total_tokens": 42}});
    let wanted = |request: &Request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        body["input"] == "a state"
            && body["questions"][1]["type"] == "predicate"
            && body["model"] == "gpt-6-luna"
    };
    Mock::given(method("POST"))
        .and(path("/v1/decisions"))
        .and(wanted)
        .respond_with(ResponseTemplate::new(200).set_body_json(body))
        .mount(&server)
        .await;
    let desk = desk(Api::Decisions, &remote_config(&server));
    assert!(desk.ready().await);
    let reply = desk.ask(inquiry(vec![noul(1), noul(2)])).await.unwrap();
    assert_eq!(reply.decisions[0].as_ref().unwrap().probabilities[1], 0.9);
    assert!(matches!(&reply.decisions[1], Err(Nobody::Refused(_))));
    assert_eq!(reply.input_tokens, 42);
}

#[tokio::test]
async fn requests_at_the_same_time_are_bounded() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let server = MockServer::start().await;
    serve_models(&server, &["jev-latest"]).await;
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (counted, peak) = (Arc::clone(&now), Arc::clone(&most));
    let router = axum::Router::new().fallback(move |body: String| {
        let (counted, peak) = (Arc::clone(&counted), Arc::clone(&peak));
        async move {
            let Ok(body) = serde_json::from_str::<Value>(&body) else {
                return axum::Json(json!({"models": []}));
            };
            peak.fetch_max(counted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            counted.fetch_sub(1, Ordering::SeqCst);
            let noul = noul_of(&body["questions"]["q0"]["instructions"]);
            axum::Json(json!({"model": "m", "answers": {"q0": {"type": "noul", "noul": noul}}}))
        }
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    let config = RemoteConfig {
        concurrency: 3.try_into().unwrap(),
        ..RemoteConfig::parse(&format!("http://{address}"))
    };
    let desk = desk(Api::Systemone, &config);
    let asks =
        (0..40).map(|number| {
            let desk = desk.clone();
            async move {
                (number as f64 / 1000.0, nouls(&desk.ask(inquiry(vec![noul(number)])).await.unwrap())[0])
            }
        });
    for (wanted, found) in futures::future::join_all(asks).await {
        assert_eq!(wanted, found);
    }
    assert_eq!(most.load(Ordering::SeqCst), 3);
}
