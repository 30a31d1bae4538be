//! A kill in the middle of a run, of the daemon as a process: with `kill -9` nothing can be put right on the way out.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::*;

/// How long a loaded machine may take for what must happen.
const PATIENCE: Duration = Duration::from_secs(120);

struct Daemon {
    process: Child,
    admin: String,
}

impl Daemon {
    fn start(folder: &Path, judge: &str) -> Self {
        let config = folder.join("assayd.yaml");
        let at = folder.display();
        let yaml = format!(
            "receive: {{ grpc: null, http: null }}\nserve: {{ listen: 127.0.0.1:0 }}\n\
             judge: {{ openai: {{ url: '{judge}/v1', model: judge-large }}, partition: always, attempts: 1 }}\n\
             emit: {{ jsonl: {{ path: {at}/verdicts.jsonl }} }}\ndata_dir: {at}/data\n"
        );
        std::fs::write(&config, yaml).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_assayd"))
            .args(["serve", "--config"])
            .arg(&config)
            .env("ASSAYD_LOG", "info")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (found, address) = std::sync::mpsc::channel();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        // Reads to the end, so that the daemon never waits for us.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let address = line.split_once(" admin=").and_then(|(_, rest)| rest.split_whitespace().next());
                address.map(|address| found.send(format!("http://{address}")));
            }
        });
        let admin = address.recv_timeout(PATIENCE).expect("the daemon listens");
        Self { process, admin }
    }

    async fn ready(&self) {
        let end = std::time::Instant::now() + PATIENCE;
        let url = format!("{}/readyz", self.admin);
        while !reqwest::get(&url).await.is_ok_and(|reply| reply.status().is_success()) {
            assert!(std::time::Instant::now() < end, "the daemon is not ready");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn open(&self) -> Value {
        let body = json!({ "synthesis": RIGHT, "evidence": EVIDENCE });
        let request = reqwest::Client::new().post(format!("{}/v1/gsar/runs", self.admin)).json(&body);
        request.header("idempotency-key", "open-1").send().await.unwrap().json().await.unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A partition in which every claim is grounded.
fn all_grounded(request: &Request) -> ResponseTemplate {
    let body: Value = request.body_json().unwrap();
    let lists = &body["response_format"]["json_schema"]["schema"]["properties"]["partition"]["properties"];
    let keys = lists["grounded_claims"]["items"]["properties"]["claim"]["enum"].as_array().unwrap();
    let entries: Vec<Value> =
        keys.iter().map(|key| json!({ "claim": key, "evidence_type": "tool_match", "refs": [] })).collect();
    let text =
        json!({ "partition": { "grounded_claims": entries, "decision_status": "resolved" } }).to_string();
    ResponseTemplate::new(200).set_body_json(json!({
        "choices": [{ "message": { "content": text }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 100, "completion_tokens": 10 },
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_daemon_is_killed_while_it_is_judged_ends_after_the_next_start_as_the_same_run() {
    let folder = tempfile::tempdir().unwrap();
    let judge = MockServer::start().await;
    Mock::given(method("POST"))
        .respond_with(|request: &Request| all_grounded(request).set_delay(Duration::from_secs(600)))
        .up_to_n_times(1)
        .mount(&judge)
        .await;
    Mock::given(method("POST")).respond_with(all_grounded).with_priority(9).mount(&judge).await;

    let daemon = Daemon::start(folder.path(), &judge.uri());
    daemon.ready().await;
    let admin = daemon.admin.clone();
    let caller = tokio::spawn(async move {
        let body = json!({ "synthesis": RIGHT, "evidence": EVIDENCE });
        let request = reqwest::Client::new().post(format!("{admin}/v1/gsar/runs")).json(&body);
        request.header("idempotency-key", "open-1").send().await.is_err()
    });
    let end = std::time::Instant::now() + PATIENCE;
    while judge.received_requests().await.unwrap().is_empty() {
        assert!(std::time::Instant::now() < end, "the judge is not asked");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let runs = folder.path().join("data/gsar");
    let kept = || std::fs::read_dir(&runs).unwrap().count();
    assert_eq!(kept(), 1, "the run is on disk before it is judged");
    drop(daemon);
    assert!(caller.await.unwrap(), "its client got no answer");

    let daemon = Daemon::start(folder.path(), &judge.uri());
    daemon.ready().await;
    let run = daemon.open().await;
    let run_id = id(&run);
    assert_eq!(kept(), 1, "the same key is the same run: {run}");
    let verdict = verdict_of(folder.path(), run_id).await;
    let told = verdict.run.unwrap();
    assert_eq!((told.ended, told.rounds.len()), (Ended::Proceeded, 1));
    assert_eq!(told.rounds[0].synthesis, RIGHT);
    drop(daemon);

    // Killed again at any time after its end: whatever goes out once more has the same id.
    let daemon = Daemon::start(folder.path(), &judge.uri());
    daemon.ready().await;
    assert_eq!(id(&daemon.open().await), run_id);
    drop(daemon);
    let out = verdicts(folder.path());
    assert!(out.iter().all(|other| other.verdict_id == verdict.verdict_id), "{out:?}");
}
