//! A kill in the middle of a run, of the daemon as a process: with `kill -9` nothing can be put right on the way out.

#[path = "../faults/daemon.rs"]
#[expect(dead_code, reason = "the tests of faults do more with a daemon")]
mod daemon;

use std::time::Instant;

use wiremock::Request;

use self::daemon::{Daemon, PATIENCE, settings};
use super::*;

/// A daemon that is ready and asks this judge.
async fn start(folder: &Path, judge: &MockServer) -> Daemon {
    let url = judge.uri();
    let judge =
        format!("{{ openai: {{ url: '{url}/v1', model: judge-large }}, partition: always, attempts: 1 }}");
    let sections = [("receive", "{ grpc: null, http: null }"), ("judge", &judge)];
    let daemon = Daemon::start(folder, &settings(folder, &sections));
    let end = Instant::now() + PATIENCE;
    while !daemon.is_ready().await {
        assert!(Instant::now() < end, "the daemon is not ready; its log:\n{}", daemon.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    daemon
}

/// Opens a run, the same one each time.
async fn open(admin: String) -> reqwest::Result<Value> {
    let body = json!({ "synthesis": RIGHT, "evidence": EVIDENCE });
    let request = reqwest::Client::new().post(format!("{admin}/v1/gsar/runs")).json(&body);
    request.header("idempotency-key", "open-1").send().await?.json().await
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

    let daemon = start(folder.path(), &judge).await;
    let caller = tokio::spawn(open(daemon.admin()));
    let end = Instant::now() + PATIENCE;
    while judge.received_requests().await.unwrap().is_empty() {
        assert!(Instant::now() < end, "the judge is not asked");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let runs = folder.path().join("data/gsar");
    let kept = || std::fs::read_dir(&runs).unwrap().count();
    assert_eq!(kept(), 1, "the run is on disk before it is judged");
    daemon.kill();
    assert!(caller.await.unwrap().is_err(), "its client got no answer");

    let daemon = start(folder.path(), &judge).await;
    let run = open(daemon.admin()).await.unwrap();
    let run_id = id(&run);
    assert_eq!(kept(), 1, "the same key is the same run: {run}");
    let verdict = verdict_of(folder.path(), run_id).await;
    let told = verdict.run.unwrap();
    assert_eq!((told.ended, told.rounds.len()), (Ended::Proceeded, 1));
    assert_eq!(told.rounds[0].synthesis, RIGHT);
    daemon.kill();

    // Killed again at any time after its end: whatever goes out once more has the same id.
    let daemon = start(folder.path(), &judge).await;
    assert_eq!(id(&open(daemon.admin()).await.unwrap()), run_id);
    daemon.kill();
    let out = verdicts(folder.path());
    assert!(out.iter().all(|other| other.verdict_id == verdict.verdict_id), "{out:?}");
}
