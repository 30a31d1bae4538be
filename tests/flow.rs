//! The whole daemon on real sockets: recorded traces in over OTLP, verdicts out. A scripted decision model, so that what is
//! tested is the flow.

#[path = "common/running.rs"]
mod running;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assayd::assemble::SessionConfig;
use assayd::config::Config;
use assayd::decide::{self, DecideError, Desk, Reply, Scripted};
use assayd::domain::{Decision, Inquiry, Label, Outcome, Period, Verdict};
use assayd::emit::JsonlConfig;
use assayd::pipeline::Ended;
use assayd::receive::{Grpc, Http};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use prost::Message;

use self::running::Running;

const PATIENCE: Duration = Duration::from_secs(60);

struct House {
    daemon: Running,
    folder: tempfile::TempDir,
}

/// A claim that speaks of 90 days is contradicted, all others are grounded.
fn knows_the_handbook(inquiry: &Inquiry) -> Result<Reply, DecideError> {
    let decisions = inquiry.questions.iter().map(|question| {
        let is_wrong = question.instructions.to_string().contains("90 days")
            || format!("{:?}", question.subject).contains("90 days");
        let sure = 0.98;
        let rest = (1.0 - sure) / (question.kind.labels().len() - 1) as f64;
        let right = if is_wrong { "contradicted" } else { "grounded" };
        let probabilities =
            question.kind.labels().iter().map(|label| if label == right { sure } else { rest }).collect();
        Ok(Decision { probabilities, tokens: 7 })
    });
    Ok(Reply { decisions: decisions.collect(), input_tokens: 100, truncated: false })
}

fn desk(script: fn(&Inquiry) -> Result<Reply, DecideError>) -> Desk {
    decide::start_with(Scripted::new(script), &decide::Config::default()).unwrap()
}

impl House {
    async fn open(adjust: impl FnOnce(&mut Config)) -> Self {
        Self::with(desk(knows_the_handbook), adjust).await
    }

    async fn with(desk: Desk, adjust: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let free = "127.0.0.1:0".parse().unwrap();
        let mut config = Config::default();
        config.receive.grpc = Some(Grpc { listen: free });
        config.receive.http = Some(Http { listen: free });
        config.serve.listen = free;
        config.assemble.root_grace = Period::millis(200);
        config.assemble.idle = Period::millis(1500);
        config.data_dir = folder.path().to_owned();
        config.emit.jsonl =
            Some(JsonlConfig { path: folder.path().join("verdicts.jsonl"), ..JsonlConfig::default() });
        adjust(&mut config);
        Self { daemon: Running::start(config, desk).await, folder }
    }

    async fn send(&self, request: ExportTraceServiceRequest) {
        let endpoint = format!("http://{}", self.daemon.at.grpc.unwrap());
        let mut client = TraceServiceClient::connect(endpoint).await.unwrap();
        let reply = client.export(request).await.unwrap().into_inner();
        assert_eq!(reply.partial_success.map_or(0, |partial| partial.rejected_spans), 0);
    }

    /// Recent verdicts over HTTP, when there are at least so many.
    async fn verdicts(&self, wanted: usize) -> Vec<Verdict> {
        let url = format!("http://{}/v1/verdicts?limit=1000", self.daemon.at.admin);
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let page: serde_json::Value = reqwest::get(&url).await.unwrap().json().await.unwrap();
            let verdicts: Vec<Verdict> = serde_json::from_value(page["verdicts"].clone()).unwrap();
            if verdicts.len() >= wanted {
                return verdicts;
            }
            assert!(tokio::time::Instant::now() < deadline, "{} of {wanted} verdicts", verdicts.len());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Stops the daemon; gives how it ended and what is in its file.
    async fn close(self) -> (Ended, Vec<Verdict>) {
        let ended = self.daemon.stop().await;
        let text = std::fs::read_to_string(self.folder.path().join("verdicts.jsonl")).unwrap_or_default();
        (ended, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/traces").join(name)
}

fn recorded(name: &str) -> ExportTraceServiceRequest {
    let bytes = std::fs::read(fixture(&format!("{name}.otlp.pb"))).unwrap();
    ExportTraceServiceRequest::decode(&bytes[..]).unwrap()
}

fn trace_ids(request: &ExportTraceServiceRequest) -> std::collections::HashSet<String> {
    let spans = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
    let ids = spans.flat_map(|scope| &scope.spans).map(|span| &span.trace_id);
    ids.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_number_is_found_and_a_faithful_answer_is_not_accused() {
    let house = House::open(|_| {}).await;
    house.send(recorded("openinference-langchain/s02")).await;
    house.send(recorded("pydantic-ai-v5/s01")).await;
    let verdicts = house.verdicts(2).await;
    let by_trace: HashMap<String, &Verdict> =
        verdicts.iter().map(|verdict| (verdict.trace_id.unwrap().to_string(), verdict)).collect();
    let wrong = by_trace[trace_ids(&recorded("openinference-langchain/s02")).iter().next().unwrap()];
    assert_eq!(wrong.outcome, Outcome::Scored);
    assert_eq!(wrong.label, Some(Label::Hallucination));
    let grounding = wrong.grounding.as_ref().unwrap();
    let contradicted: Vec<_> = grounding
        .claims
        .iter()
        .filter(|claim| claim.standing.is_some_and(|s| s.as_str() == "contradicted"))
        .collect();
    assert_eq!(contradicted.len(), 1);
    assert!(contradicted[0].text.contains("90 days"));
    assert!(!contradicted[0].evidence.is_empty(), "a verdict points to the evidence");
    let right = by_trace[trace_ids(&recorded("pydantic-ai-v5/s01")).iter().next().unwrap()];
    assert_eq!(right.label, Some(Label::Faithful));
    assert_eq!(right.grounding.as_ref().unwrap().score, 1.0);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_admitted_trace_ends_in_exactly_one_outcome() {
    let house = House::open(|_| {}).await;
    let names = [
        "strands/s01",
        "strands/s11",
        "edge-cases/not-an-llm-trace",
        "edge-cases/content-off-traceloop",
        "haystack/s09",
    ];
    let mut sent = std::collections::HashSet::new();
    for name in names {
        let request = recorded(name);
        sent.extend(trace_ids(&request));
        house.send(request).await;
    }
    house.verdicts(sent.len()).await;
    let (ended, written) = house.close().await;
    assert_eq!(ended, Ended::Drained);
    let mut seen: Vec<String> = written.iter().map(|verdict| verdict.trace_id.unwrap().to_string()).collect();
    seen.sort();
    let mut wanted: Vec<String> = sent.into_iter().collect();
    wanted.sort();
    assert_eq!(seen, wanted);
    for verdict in &written {
        assert_eq!(verdict.outcome == Outcome::Scored, verdict.reason.is_none(), "{verdict:?}");
    }
    let reasons: std::collections::BTreeSet<_> = written.iter().filter_map(|v| v.reason.as_deref()).collect();
    assert!(
        reasons.contains("no_answer") && reasons.contains("no_agent") && reasons.contains("no_content"),
        "{reasons:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_stop_gives_open_traces_their_verdicts() {
    let house = House::open(|config| {
        config.assemble.root_grace = Period::seconds(600);
        config.assemble.idle = Period::seconds(600);
    })
    .await;
    house.send(recorded("strands/s01")).await;
    let (ended, written) = house.close().await;
    assert_eq!(ended, Ended::Drained);
    assert_eq!(written.len(), 1);
    assert_eq!(serde_json::to_value(&written[0]).unwrap()["closed"], "shutdown");
    assert_eq!(written[0].outcome, Outcome::Scored);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_span_brings_a_revision_of_the_whole_trace() {
    let house = House::open(|_| {}).await;
    let early = recorded("edge-cases/late-child.1");
    let late = recorded("edge-cases/late-child.2");
    house.send(early).await;
    let first = house.verdicts(1).await.remove(0);
    house.send(late).await;
    let verdicts = house.verdicts(2).await;
    let revised = verdicts.iter().find(|verdict| verdict.revision == 1).expect("a second revision");
    assert_eq!(revised.trace_id, first.trace_id);
    assert_ne!(revised.verdict_id, first.verdict_id);
    assert_eq!(revised.outcome, Outcome::Scored);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_the_model_fails_that_trace_and_no_other() {
    let house = House::with(
        desk(|inquiry| {
            assert!(!format!("{inquiry:?}").contains("90 days"), "a panic that this test wants");
            knows_the_handbook(inquiry)
        }),
        |_| {},
    )
    .await;
    house.send(recorded("openinference-langchain/s02")).await;
    house.send(recorded("strands/s01")).await;
    let verdicts = house.verdicts(2).await;
    let outcomes: Vec<Outcome> = verdicts.iter().map(|verdict| verdict.outcome).collect();
    assert!(outcomes.contains(&Outcome::Scored) && outcomes.contains(&Outcome::Failed), "{verdicts:?}");
    let failed = verdicts.iter().find(|verdict| verdict.outcome == Outcome::Failed).unwrap();
    assert!(failed.grounding.is_none() && failed.label.is_none(), "an error is not a score");
    assert!(failed.reason.is_some());
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_trace_twice_has_the_same_verdict_id() {
    let mut ids = Vec::new();
    for _ in 0..2 {
        let house = House::open(|_| {}).await;
        house.send(recorded("strands/s01")).await;
        house.verdicts(1).await;
        let (_, written) = house.close().await;
        ids.push(written[0].verdict_id.clone());
    }
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_over_http_goes_the_way_of_a_trace() {
    let house = House::open(|_| {}).await;
    let client = reqwest::Client::new();
    let url = format!("http://{}/v1/check", house.daemon.at.admin);
    let ask = |response: &str| {
        let body = serde_json::json!({
            "context": "Unworn footwear may be returned within 30 days of delivery.",
            "query": "How long do I have?",
            "response": response,
        });
        client.post(&url).json(&body).send()
    };
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let wrong: Verdict = loop {
        let reply = ask("You can return unworn footwear within 90 days of delivery.").await.unwrap();
        if reply.status().is_success() {
            break reply.json().await.unwrap();
        }
        assert!(tokio::time::Instant::now() < deadline, "{}", reply.status());
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(wrong.label, Some(Label::Hallucination));
    assert_eq!(wrong.trace_id, None);
    let right: Verdict =
        ask("Unworn footwear can be returned within 30 days.").await.unwrap().json().await.unwrap();
    assert_eq!(right.label, Some(Label::Faithful));
    let bad = client.post(&url).body("{\"context\":").header("content-type", "application/json").send();
    assert_eq!(bad.await.unwrap().status().as_u16() / 100, 4);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_says_what_each_evaluator_did_and_the_configuration_in_force() {
    let house = House::open(|config| {
        config.evaluate = serde_json::from_value(serde_json::json!({
            "use": ["loop", "toxicity"],
            "evaluators": { "toxicity": { "match": { "service": "nobody" } } }
        }))
        .unwrap();
    })
    .await;
    house.send(recorded("pydantic-ai-v5/s01")).await;
    let verdicts = house.verdicts(1).await;
    assert_eq!(verdicts[0].answers["loop"].by, "rule");
    let url = format!("http://{}/v1/status", house.daemon.at.admin);
    let status: serde_json::Value = reqwest::get(&url).await.unwrap().json().await.unwrap();
    assert_eq!(status["status"], "ready");
    assert_eq!(status["evaluators"]["loop"]["status"], "healthy");
    assert_eq!(status["evaluators"]["toxicity"]["status"], "never_ran");
    assert_eq!(status["evaluators"]["toxicity"]["skipped"]["not_matched"], 1);
    assert_eq!(status["receivers"]["grpc"], house.daemon.at.grpc.unwrap().to_string());
    assert_eq!(status["config"]["evaluate"]["use"][0], "loop");
    assert_eq!(status["decider"]["health"], "ready");
    let metrics = reqwest::get(format!("http://{}/metrics", house.daemon.at.admin))
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(
        metrics.contains("assayd_evaluate_traces_total{evaluator=\"toxicity\",result=\"not_matched\"}"),
        "{metrics}"
    );
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_of_several_traces_gets_a_verdict_of_its_own_when_it_is_over() {
    let house = House::open(|config| {
        let sessions = SessionConfig { idle: Period::millis(1500), ..SessionConfig::default() };
        config.assemble.sessions = Some(sessions);
        let text = "{ use: [], evaluators: { held: { type: choice, state: conversation, instructions: Is it right?, \
                    criteria: { grounded: It is., contradicted: It is not. }, fail: [contradicted] } } }";
        config.evaluate.sessions = serde_saphyr::from_str(text).unwrap();
        assert_eq!(config.problems(), Vec::<String>::new());
    })
    .await;
    // One sender repeats the history in every trace, the other does not.
    for name in ["openinference-openai/s09", "openinference-claude-agent-sdk/s09"] {
        house.send(recorded(name)).await;
    }
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let verdicts = loop {
        let verdicts = house.verdicts(8).await;
        if verdicts.iter().filter(|verdict| !verdict.traces.is_empty()).count() == 2 {
            break verdicts;
        }
        assert!(tokio::time::Instant::now() < deadline, "{verdicts:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let (sessions, traces): (Vec<&Verdict>, Vec<&Verdict>) =
        verdicts.iter().partition(|verdict| !verdict.traces.is_empty());
    for session in sessions {
        assert_eq!(session.trace_id, None);
        let own: Vec<&&Verdict> =
            traces.iter().filter(|trace| trace.session_id == session.session_id).collect();
        let ids: std::collections::BTreeSet<_> = own.iter().filter_map(|trace| trace.trace_id).collect();
        assert_eq!(session.traces.iter().copied().collect::<std::collections::BTreeSet<_>>(), ids);
        assert_eq!(ids.len(), 3);
        assert_eq!((session.outcome, session.revision), (Outcome::Scored, 0));
        assert_eq!(session.answers["held"].label.as_deref(), Some("grounded"));
        assert!(own.iter().all(|trace| !trace.answers.contains_key("held")), "it is for conversations");
        assert!(session.label.is_some() && session.span_ids.is_empty());
        let url = format!("http://{}/v1/verdicts/{}", house.daemon.at.admin, session.verdict_id);
        let page: serde_json::Value = reqwest::get(&url).await.unwrap().json().await.unwrap();
        let steps = page["story"]["steps"].as_array().unwrap();
        let asked = steps.iter().filter(|step| step["kind"] == "request").count();
        assert_eq!((asked, steps.len()), (3, 12), "{steps:?}");
    }
    let (_, written) = house.close().await;
    assert_eq!(written.iter().filter(|verdict| !verdict.traces.is_empty()).count(), 2);
}
