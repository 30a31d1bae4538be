//! GSAR's loop over real sockets: runs are opened, regenerated, replanned, driven by callbacks, and survive a restart. A scripted
//! decision model, so that what is tested is the loop; in `killed` the daemon as a process.

mod killed;
#[path = "../common/running.rs"]
mod running;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use assayd::config::Config;
use assayd::decide::{self, DecideError, Reply, Scripted};
use assayd::domain::{Decision, Ended, Inquiry, Verdict};
use assayd::emit::JsonlConfig;
use assayd::gsar::CallbackTarget;
use serde_json::{Value, json};
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use self::running::Running;

const EVIDENCE: &str = "The order 7 was shipped on 3 May from Hamburg. It costs 40 euros.";
const RIGHT: &str = "The order was shipped on 3 May.";
const HALF: &str = "The order was shipped on 3 May. It costs 90 euros.";
const WRONG: &str = "It costs 90 euros.";

struct House {
    daemon: Running,
    admin: String,
    client: reqwest::Client,
}

/// A claim of 90 euros is contradicted; one of a fault breaks the model; all others are grounded.
fn script(inquiry: &Inquiry) -> Result<Reply, DecideError> {
    let asked = format!("{:?}", inquiry.questions);
    if asked.contains("fault") {
        return Err(DecideError::Forward { source: Arc::new(std::io::Error::other("out of order")) });
    }
    let decisions = inquiry.questions.iter().map(|question| {
        let right = if format!("{question:?}").contains("90 euros") { "contradicted" } else { "grounded" };
        let probabilities =
            question.kind.labels().iter().map(|label| if label == right { 0.98 } else { 0.01 }).collect();
        Ok(Decision { probabilities, tokens: 1 })
    });
    Ok(Reply { decisions: decisions.collect(), input_tokens: 10, truncated: false })
}

impl House {
    async fn open(folder: &Path, adjust: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::default();
        config.receive.grpc = None;
        config.receive.http = None;
        config.serve.listen = "127.0.0.1:0".parse().unwrap();
        config.data_dir = folder.to_owned();
        config.emit.jsonl =
            Some(JsonlConfig { path: folder.join("verdicts.jsonl"), ..JsonlConfig::default() });
        // One wrong claim of two is to be regenerated; a wrong answer is to be replanned.
        config.score.proceed = 0.9;
        config.score.regenerate = 0.3;
        adjust(&mut config);
        let desk = decide::start_with(Scripted::new(script), &decide::Config::default()).unwrap();
        let daemon = Running::start(config, desk).await;
        let admin = format!("http://{}", daemon.at.admin);
        let client = reqwest::Client::new();
        while !client.get(format!("{admin}/readyz")).send().await.unwrap().status().is_success() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Self { daemon, admin, client }
    }

    async fn post(&self, path: &str, key: Option<&str>, body: &Value) -> (u16, Value) {
        let mut request = self.client.post(format!("{}{path}", self.admin)).json(body);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    async fn start(&self, synthesis: &str) -> (u16, Value) {
        self.post("/v1/gsar/runs", None, &json!({ "synthesis": synthesis, "evidence": EVIDENCE })).await
    }

    async fn next(&self, run: &str, body: &Value) -> (u16, Value) {
        self.post(&format!("/v1/gsar/runs/{run}/rounds"), None, body).await
    }

    async fn see(&self, run: &str) -> (u16, Value) {
        let response = self.client.get(format!("{}/v1/gsar/runs/{run}", self.admin)).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// The run once it has ended.
    async fn ended(&self, run: &str) -> Value {
        for _ in 0..600 {
            let (status, seen) = self.see(run).await;
            if status == 200 && seen["awaiting"] == "done" {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the run did not end");
    }

    async fn close(self) {
        self.daemon.stop().await;
    }
}

fn verdicts(folder: &Path) -> Vec<Verdict> {
    let text = std::fs::read_to_string(folder.join("verdicts.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn verdict_of(folder: &Path, run: &str) -> Verdict {
    for _ in 0..600 {
        let found = verdicts(folder).into_iter().find(|v| v.run.as_ref().is_some_and(|r| r.run_id == run));
        if let Some(found) = found {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no verdict on the run went out");
}

fn id(run: &Value) -> &str {
    run["run_id"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_judged_once_without_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path(), |_| {}).await;
    let (status, found) =
        house.post("/v1/gsar/evaluate", None, &json!({ "synthesis": HALF, "evidence": EVIDENCE })).await;
    assert_eq!((status, &found["decision"]), (200, &json!("regenerate")));
    assert_eq!(found["partition"]["contradicted"][0]["text"], "It costs 90 euros.");
    assert_eq!(found["partition"]["grounded"].as_array().unwrap().len(), 1);
    assert!(found["explanation"].as_str().unwrap().contains("It costs 90 euros"));
    let (status, refused) = house
        .post("/v1/gsar/evaluate", None, &json!({ "synthesis": HALF, "evidence": "e", "max_rounds": 2 }))
        .await;
    assert_eq!(status, 422, "{refused}");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_has_its_own_thresholds_whichever_way_its_answers_come() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path(), |config| {
        config.score = serde_json::from_value(json!({
            "proceed": 0.9, "regenerate": 0.3,
            "services": { "lenient-*": { "proceed": 0.5 }, "strict": { "regenerate": 0.8 } },
        }))
        .unwrap();
    })
    .await;
    for (service, decision) in
        [(json!(null), "regenerate"), (json!("lenient-eu"), "proceed"), (json!("strict"), "replan")]
    {
        let trace = "5b8efff798038103d269b633813fc60c";
        let body = json!({ "synthesis": HALF, "evidence": EVIDENCE, "service": service, "trace_id": trace });
        let (_, once) = house.post("/v1/gsar/evaluate", None, &body).await;
        assert_eq!((&once["decision"], &once["verdict"]["service"]), (&json!(decision), &service));
        assert_eq!(once["verdict"]["trace_id"], trace);
        let (_, run) = house.post("/v1/gsar/runs", None, &body).await;
        assert_eq!(run["decision"], decision, "{service}");
        let check = json!({ "response": HALF, "context": EVIDENCE, "service": service });
        let (_, verdict) = house.post("/v1/check", None, &check).await;
        assert_eq!(verdict["grounding"]["tier"], decision, "{service}");
    }
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_from_replan_over_regenerate_to_proceed_and_its_verdict_tells_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path(), |_| {}).await;
    let (status, run) = house.start(WRONG).await;
    assert_eq!((status, &run["decision"], &run["awaiting"]), (201, &json!("replan"), &json!("evidence")));
    let run_id = id(&run);
    let (status, refused) = house.next(run_id, &json!({ "synthesis": HALF })).await;
    assert_eq!(status, 422, "{refused}");
    let (status, run) =
        house.next(run_id, &json!({ "synthesis": HALF, "evidence": [EVIDENCE, "more"] })).await;
    assert_eq!((status, &run["decision"], &run["replans"]), (200, &json!("regenerate"), &json!(1)));
    let (status, run) = house.next(run_id, &json!({ "synthesis": RIGHT })).await;
    assert_eq!((status, &run["decision"], &run["awaiting"]), (200, &json!("proceed"), &json!("done")));
    assert_eq!((&run["degraded"], &run["ended"]), (&json!(false), &json!("proceeded")));
    let (status, _) = house.next(run_id, &json!({ "synthesis": RIGHT })).await;
    assert_eq!(status, 409);

    let verdict = verdict_of(folder.path(), run_id).await;
    let told = verdict.run.unwrap();
    assert_eq!((told.ended, told.degraded, told.rounds.len()), (Ended::Proceeded, false, 3));
    assert_eq!(told.rounds[0].synthesis, WRONG);
    let (_, seen) = house.see(run_id).await;
    assert_eq!(seen["rounds"][1]["evidence"], json!([EVIDENCE, "more"]));
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_replans_are_spent_the_run_ends_degraded() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path(), |_| {}).await;
    let (_, run) = house.start(WRONG).await;
    let run_id = id(&run).to_owned();
    for round in 0..2 {
        let (_, run) =
            house.next(&run_id, &json!({ "synthesis": WRONG, "evidence": [EVIDENCE, round] })).await;
        assert_eq!(run["decision"], "replan");
    }
    let (_, seen) = house.see(&run_id).await;
    assert_eq!((&seen["ended"], &seen["degraded"]), (&json!("replans_spent"), &json!(true)));
    assert!(verdict_of(folder.path(), &run_id).await.degraded);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_request_twice_is_one_run_and_one_round() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path(), |_| {}).await;
    let body = json!({ "synthesis": HALF, "evidence": EVIDENCE });
    let (first, second) = tokio::join!(
        house.post("/v1/gsar/runs", Some("open-1"), &body),
        house.post("/v1/gsar/runs", Some("open-1"), &body)
    );
    assert_eq!(id(&first.1), id(&second.1));
    let other = json!({ "synthesis": RIGHT, "evidence": EVIDENCE });
    assert_eq!(house.post("/v1/gsar/runs", Some("open-1"), &other).await.0, 422);
    let rounds = format!("/v1/gsar/runs/{}/rounds", id(&first.1));
    for _ in 0..2 {
        let (status, run) = house.post(&rounds, Some("round-2"), &json!({ "synthesis": HALF })).await;
        assert_eq!((status, &run["round"]), (200, &json!(2)));
    }
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_survives_a_restart_and_its_key_is_still_known() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path(), |_| {}).await;
    let body = json!({ "synthesis": HALF, "evidence": EVIDENCE });
    let (_, run) = house.post("/v1/gsar/runs", Some("open-1"), &body).await;
    let run_id = id(&run).to_owned();
    house.close().await;

    let house = House::open(folder.path(), |_| {}).await;
    let (_, again) = house.post("/v1/gsar/runs", Some("open-1"), &body).await;
    assert_eq!(id(&again), run_id);
    let (status, run) = house.next(&run_id, &json!({ "synthesis": RIGHT })).await;
    assert_eq!((status, &run["decision"]), (200, &json!("proceed")));
    verdict_of(folder.path(), &run_id).await;
    house.close().await;

    // A finished run can be read, and its verdict does not go out again.
    let house = House::open(folder.path(), |_| {}).await;
    assert_eq!(house.see(&run_id).await.1["rounds"].as_array().unwrap().len(), 2);
    house.close().await;
    assert_eq!(verdicts(folder.path()).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_fails_costs_no_round_and_is_no_score() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path(), |_| {}).await;
    let (status, refused) = house.start("There was a fault of 3 minutes.").await;
    assert_eq!((status, &refused["detail"]["error_type"]), (503, &json!("unavailable")));
    let (_, run) = house.start(WRONG).await;
    let run_id = id(&run);
    let broken = json!({ "synthesis": "There was a fault of 3 minutes.", "evidence": [EVIDENCE, 2] });
    assert_eq!(house.next(run_id, &broken).await.0, 503);
    let (_, seen) = house.see(run_id).await;
    assert_eq!(
        (&seen["replans"], &seen["round"], &seen["awaiting"]),
        (&json!(0), &json!(1), &json!("evidence"))
    );
    let (status, run) = house.next(run_id, &json!({ "synthesis": RIGHT, "evidence": [EVIDENCE, 2] })).await;
    assert_eq!((status, &run["decision"]), (200, &json!("proceed")));
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_drives_a_run_by_the_agents_callbacks() {
    let agent = MockServer::start().await;
    Mock::given(method("POST"))
        .and(path("/gsar/replan"))
        .and(header("authorization", "Bearer tell-nobody"))
        .respond_with(
            ResponseTemplate::new(200)
                .set_body_json(json!({ "synthesis": HALF, "evidence": [EVIDENCE, "new"] })),
        )
        .mount(&agent)
        .await;
    Mock::given(method("POST"))
        .and(path("/gsar/regenerate"))
        .respond_with(ResponseTemplate::new(503))
        .up_to_n_times(1)
        .mount(&agent)
        .await;
    Mock::given(method("POST"))
        .and(path("/gsar/regenerate"))
        .respond_with(ResponseTemplate::new(200).set_body_json(json!({ "synthesis": RIGHT })))
        .mount(&agent)
        .await;

    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, "tell-nobody\n").unwrap();
    let target = CallbackTarget {
        url: format!("{}/gsar/", agent.uri()),
        key: Some(assayd::secret::Secret::File(key)),
        tls: None,
    };
    let house = House::open(folder.path(), |config| config.gsar.callbacks = vec![target]).await;
    let callbacks = json!({
        "replan": format!("{}/gsar/replan", agent.uri()),
        "regenerate": format!("{}/gsar/regenerate", agent.uri()),
    });
    let body = json!({ "synthesis": WRONG, "evidence": EVIDENCE, "callbacks": callbacks });
    let (status, run) = house.post("/v1/gsar/runs", None, &body).await;
    assert_eq!(status, 202, "{run}");
    let seen = house.ended(id(&run)).await;
    assert_eq!((&seen["ended"], seen["rounds"].as_array().unwrap().len()), (&json!("proceeded"), 3));
    let asked: Vec<Value> =
        agent.received_requests().await.unwrap().iter().map(|request| request.body_json().unwrap()).collect();
    assert_eq!((&asked[0]["decision"], &asked[0]["synthesis"]), (&json!("replan"), &json!(WRONG)));
    assert_eq!(asked.len(), 3, "the call that failed was made again");

    let elsewhere = json!({ "replan": "http://169.254.169.254/", "regenerate": "http://169.254.169.254/" });
    let body = json!({ "synthesis": WRONG, "evidence": EVIDENCE, "callbacks": elsewhere });
    let (status, refused) = house.post("/v1/gsar/runs", None, &body).await;
    assert_eq!(status, 422, "{refused}");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_on_runs_are_kept_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path(), |config| {
        config.gsar.max_runs = 1.try_into().unwrap();
        config.gsar.max_run_bytes = assayd::domain::ByteSize(2_000);
    })
    .await;
    let (_, run) = house.start(HALF).await;
    let (status, refused) = house.start(HALF).await;
    assert_eq!((status, &refused["detail"]["error_type"]), (429, &json!("too_many_runs")));
    let (status, _) = house.next(id(&run), &json!({ "synthesis": "x".repeat(3_000) })).await;
    assert_eq!(status, 413);
    let cancel = house.client.delete(format!("{}/v1/gsar/runs/{}", house.admin, id(&run)));
    let cancelled: Value = cancel.send().await.unwrap().json().await.unwrap();
    assert_eq!((&cancelled["ended"], &cancelled["degraded"]), (&json!("cancelled"), &json!(true)));
    assert_eq!(house.start(RIGHT).await.0, 201);
    assert_eq!(house.see("no-such-run").await.0, 404);
    assert_eq!(house.post("/v1/gsar/runs", None, &json!({ "synthesis": " ", "evidence": "e" })).await.0, 422);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_its_agent_leaves_alone_expires() {
    let folder = tempfile::tempdir().unwrap();
    let house =
        House::open(folder.path(), |config| config.gsar.idle = assayd::domain::Period::millis(100)).await;
    let (_, run) = house.start(HALF).await;
    assert_eq!(house.ended(id(&run)).await["ended"], "expired");
    house.close().await;
}
