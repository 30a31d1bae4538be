//! The judge is down, overloaded, hanging or talks nonsense.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value, json};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

use super::daemon::{Daemon, settings};
use super::traffic::{Sender, all_have_verdicts, repeats_agree, trace};

/// How the judge behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    Sound,
    Overloaded,
    Broken,
    Hanging,
    Garbage,
    WrongLabels,
}

struct Moody(Arc<Mutex<Mood>>);

impl Respond for Moody {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let mood = *self.0.lock().unwrap();
        match mood {
            Mood::Sound => says(&answers(request, |labels| labels[0].clone())),
            Mood::Overloaded => {
                ResponseTemplate::new(429).set_body_json(json!({"error": {"message": "slow down"}}))
            }
            Mood::Broken => ResponseTemplate::new(500),
            Mood::Hanging => ResponseTemplate::new(200).set_delay(Duration::from_secs(600)),
            Mood::Garbage => ResponseTemplate::new(200).set_body_string("<html>\u{0}{{{"),
            Mood::WrongLabels => says(&answers(request, |_| json!("perhaps"))),
        }
    }
}

/// An answer to every question of the request, as its schema wants it.
fn answers(request: &Request, pick: impl Fn(&Vec<Value>) -> Value) -> Value {
    let body: Value = request.body_json().unwrap();
    let schema = &body["response_format"]["json_schema"]["schema"];
    let questions = schema["properties"]["answers"]["properties"].as_object().cloned().unwrap_or_default();
    let answers: Map<String, Value> = questions
        .into_iter()
        .map(|(key, question)| {
            let labels = question["properties"]["answer"]["enum"].as_array().unwrap().clone();
            (key, json!({ "reasoning": "It says so.", "answer": pick(&labels) }))
        })
        .collect();
    json!({ "answers": answers })
}

fn says(answer: &Value) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "id": "c", "object": "chat.completion", "model": "judge-large",
        "choices": [{ "index": 0, "finish_reason": "stop",
            "message": { "role": "assistant", "content": answer.to_string(), "refusal": null } }],
        "usage": { "prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20 },
    }))
}

async fn serve(listener: TcpListener, mood: &Arc<Mutex<Mood>>) -> MockServer {
    let server = MockServer::builder().listener(listener).start().await;
    Mock::given(method("POST")).respond_with(Moody(Arc::clone(mood))).mount(&server).await;
    server
}

/// A judge that stays in this mood.
pub async fn serve_judge(listener: TcpListener, mood: Mood) -> MockServer {
    serve(listener, &Arc::new(Mutex::new(mood))).await
}

/// How often it was asked.
pub async fn asked(judge: &MockServer) -> usize {
    judge.received_requests().await.unwrap().len()
}

/// Sends traces and gives their verdicts.
async fn assay(sender: &mut Sender, folder: &std::path::Path, numbers: std::ops::Range<u32>) -> Vec<Value> {
    let mut ids = BTreeSet::new();
    for number in numbers {
        let (id, request) = trace(number);
        sender.deliver(&request).await;
        ids.insert(id);
    }
    let verdicts = all_have_verdicts(folder, &ids).await;
    verdicts.into_iter().filter(|verdict| ids.contains(verdict["trace_id"].as_str().unwrap())).collect()
}

fn is_judged(verdict: &Value) -> bool {
    let claims = verdict["grounding"]["claims"].as_array().unwrap();
    claims.iter().any(|claim| claim["by"] == "judge") && verdict["judge_error"].is_null()
}

/// The decision model's answers stand, and the verdict says that the judge failed.
fn is_degraded(verdict: &Value) -> bool {
    let claims = verdict["grounding"]["claims"].as_array().unwrap();
    verdict["outcome"] == "scored"
        && verdict["degraded"] == true
        && verdict["judge_error"].is_string()
        && claims.iter().all(|claim| claim["by"] == "local")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_judge_that_fails_in_any_way_costs_its_answers_and_no_verdict() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mood = Arc::new(Mutex::new(Mood::Sound));
    let server = serve(listener, &mood).await;
    let folder = tempfile::tempdir().unwrap();
    let judge = format!(
        "{{ openai: {{ url: 'http://{address}/v1', model: judge-large }}, cache: {{ max_bytes: 0B }}, deadline: 1s, \
         attempt_timeout: 400ms, attempts: 2, breaker_failures: 4, breaker_pause: 200ms }}"
    );
    let sections = [("judge", judge.as_str()), ("decide", "{ min_confidence: 1.0 }")];
    let daemon = Daemon::start(folder.path(), &settings(folder.path(), &sections));
    let mut sender = Sender::new(daemon.grpc());
    let mut number = 0;
    let mut next = || {
        number += 3;
        number - 3..number
    };

    let verdicts = assay(&mut sender, folder.path(), next()).await;
    assert!(verdicts.iter().all(is_judged), "{verdicts:#?}");
    for bad in [Mood::Overloaded, Mood::Broken, Mood::Garbage, Mood::WrongLabels, Mood::Hanging] {
        *mood.lock().unwrap() = bad;
        let verdicts = assay(&mut sender, folder.path(), next()).await;
        assert!(verdicts.iter().all(is_degraded), "{bad:?}: {verdicts:#?}");
        *mood.lock().unwrap() = Mood::Sound;
        healed(&mut sender, folder.path(), &mut next).await;
    }

    // Nobody listens any more; then somebody does again.
    drop(server);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let verdicts = assay(&mut sender, folder.path(), next()).await;
    assert!(verdicts.iter().all(is_degraded), "down: {verdicts:#?}");
    let _server = serve(TcpListener::bind(address).unwrap(), &mood).await;
    healed(&mut sender, folder.path(), &mut next).await;

    // A judge that hangs does not keep the daemon from stopping.
    *mood.lock().unwrap() = Mood::Hanging;
    let (_, request) = trace(1_000_000);
    sender.deliver(&request).await;
    daemon.terminate();
    repeats_agree(&super::traffic::written(folder.path()));
}

/// The breaker and the pace of recovery may cost a few more traces the judge's answers, but not for ever.
async fn healed(
    sender: &mut Sender,
    folder: &std::path::Path,
    next: &mut impl FnMut() -> std::ops::Range<u32>,
) {
    for _ in 0..50 {
        let verdicts = assay(sender, folder, next()).await;
        if verdicts.iter().all(is_judged) {
            return;
        }
        assert!(verdicts.iter().all(|verdict| is_judged(verdict) || is_degraded(verdict)), "{verdicts:#?}");
    }
    panic!("the judge works again, and nobody asks it");
}
