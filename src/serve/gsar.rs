//! GSAR over HTTP: `POST /v1/gsar/evaluate` judges once; `/v1/gsar/runs` is the loop, one step a request.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use super::check::evaluate;
use super::reply::{JsonBody, Refusal, json};
use super::server::{Shared, route};
use super::{CheckRequest, Readiness};
use crate::domain::{AssayedClaim, Ended, Json, Standing, Tier, TraceId, Verdict};
use crate::gsar::Callbacks;
use crate::score::{Phase, Round, RoundRefused, Run, explanation};

/// Most characters of an `Idempotency-Key`.
const KEY_CHARS: usize = 200;

/// An answer to judge, or to open a run with.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenRequest {
    /// The answer as the agent would send it.
    #[serde(alias = "response")]
    pub synthesis: String,
    /// What it was written from: text, or any JSON.
    #[serde(alias = "context")]
    pub evidence: Json,
    /// What was asked.
    #[serde(default)]
    pub query: Option<String>,
    /// The trace that the answer belongs to.
    #[serde(default)]
    pub trace_id: Option<TraceId>,
    /// The service that asks, for metrics and for the verdict.
    #[serde(default)]
    pub service: Option<String>,
    /// Replans that are granted; not more than the configuration grants.
    #[serde(default)]
    pub max_replans: Option<u32>,
    /// Rounds that are judged; not more than the configuration grants.
    #[serde(default)]
    pub max_rounds: Option<u32>,
    /// What the judge may cost, in US dollars; not more than the configuration grants.
    #[serde(default)]
    pub max_cost_usd: Option<f64>,
    /// Where the agent is called back; the daemon then drives the loop.
    #[serde(default)]
    pub callbacks: Option<Callbacks>,
}

/// The agent's next try.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnterRequest {
    /// The new answer.
    #[serde(alias = "response")]
    pub synthesis: String,
    /// The new evidence. Needed after a decision to replan.
    #[serde(default, alias = "context")]
    pub evidence: Option<Json>,
}

/// What a client wants of the runs.
#[derive(Debug, Clone, PartialEq)]
pub enum RunRequest {
    /// Open one.
    Open {
        /// With this.
        request: Box<OpenRequest>,
        /// The client's word for the request.
        key: Option<String>,
    },
    /// Go on with one.
    Enter {
        /// Which.
        id: String,
        /// With this.
        request: EnterRequest,
        /// The client's word for the request.
        key: Option<String>,
    },
    /// See one as it is, without waiting.
    See {
        /// Which.
        id: String,
    },
    /// Give one up.
    Cancel {
        /// Which.
        id: String,
    },
}

/// Why a client does not get what it wants.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RunError {
    /// There is no such run, or no longer.
    #[error("there is no run {id}; finished runs are forgotten after gsar.keep")]
    Unknown {
        /// What was asked for, shortened.
        id: String,
    },
    /// The run does not take this round.
    #[error(transparent)]
    Refused(#[from] RoundRefused),
    /// The key was used for another request.
    #[error("this idempotency key was used for another request")]
    KeyReused,
    /// The request is beyond what it may be.
    #[error("{0}")]
    Invalid(String),
    /// The run would hold too much.
    #[error("a run may hold {limit} bytes of answers and evidence (gsar.max_run_bytes)")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// Too many runs are open.
    #[error("{open} runs are open, and no more are allowed (gsar.max_runs)")]
    Full {
        /// How many.
        open: usize,
    },
    /// The round could not be judged; nothing was spent.
    #[error("the round could not be judged ({reason}); nothing was spent: hand it in again")]
    NotJudged {
        /// Why.
        reason: String,
    },
    /// The run cannot be kept.
    #[error("the run could not be kept: {0}")]
    Storage(String),
}

/// A request on its way to the runs' owner.
#[derive(Debug)]
pub struct RunCommand {
    /// What is wanted.
    pub request: RunRequest,
    /// Where the answer goes: a run after its round was judged.
    pub reply: oneshot::Sender<Result<Run, RunError>>,
}

/// The way to the owner of the runs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Runs {
    commands: mpsc::Sender<RunCommand>,
}

impl Runs {
    /// The way, and its other end.
    pub fn new(capacity: usize) -> (Self, mpsc::Receiver<RunCommand>) {
        let (commands, owner) = mpsc::channel(capacity);
        (Self { commands }, owner)
    }

    /// Asks, and waits for the answer. `None`: the owner has gone.
    pub async fn ask(&self, request: RunRequest) -> Option<Result<Run, RunError>> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(RunCommand { request, reply }).await.ok()?;
        answer.await.ok()
    }
}

/// The decision on one answer.
#[derive(Debug, Serialize)]
struct Evaluation<'a> {
    decision: Tier,
    score: f64,
    explanation: String,
    partition: Parts<'a>,
    verdict: &'a Verdict,
}

/// The claims by where they stand; those that nobody could answer are apart.
#[derive(Debug, Serialize)]
struct Parts<'a> {
    grounded: Vec<&'a AssayedClaim>,
    ungrounded: Vec<&'a AssayedClaim>,
    contradicted: Vec<&'a AssayedClaim>,
    complementary: Vec<&'a AssayedClaim>,
    unanswered: Vec<&'a AssayedClaim>,
}

/// A run as its agent sees it.
#[derive(Debug, Serialize)]
struct Seen<'a> {
    run_id: &'a str,
    awaiting: Phase,
    ended: Option<Ended>,
    degraded: bool,
    decision: Option<Tier>,
    score: Option<f64>,
    explanation: Option<&'a str>,
    partition: Option<Parts<'a>>,
    round: Option<u32>,
    rounds_left: u32,
    replans: u32,
    replans_left: u32,
    cost_usd: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rounds: Option<&'a [Round]>,
}

pub(super) fn routes() -> Router<Shared> {
    route("/v1/gsar/evaluate", post(judge_once))
        .merge(route("/v1/gsar/runs", post(open)))
        .merge(route("/v1/gsar/runs/{id}", get(see).delete(cancel)))
        .merge(route("/v1/gsar/runs/{id}/rounds", post(enter)))
}

async fn judge_once(
    State(shared): State<Shared>,
    JsonBody(request): JsonBody<OpenRequest>,
) -> Result<Response, Refusal> {
    let loops = [
        ("max_replans", request.max_replans.is_some()),
        ("max_rounds", request.max_rounds.is_some()),
        ("max_cost_usd", request.max_cost_usd.is_some()),
        ("callbacks", request.callbacks.is_some()),
    ];
    if let Some((name, _)) = loops.iter().find(|(_, given)| *given) {
        return Err(invalid(format!("{name} belongs to /v1/gsar/runs; this judges once")));
    }
    let check = CheckRequest {
        context: request.evidence,
        query: request.query,
        response: request.synthesis,
        service: request.service,
    };
    let verdict = Verdict { trace_id: request.trace_id, ..evaluate(&shared, check).await? };
    let found = verdict.grounding.as_ref();
    let evaluation = Evaluation {
        decision: found.map_or(Tier::Abstain, |found| found.tier),
        score: found.map_or(0.5, |found| found.score),
        explanation: explanation(&verdict),
        partition: Parts::of(&verdict),
        verdict: &verdict,
    };
    if verdict.outcome == crate::domain::Outcome::Failed {
        let reason = verdict.reason.clone().unwrap_or_default();
        return Err(refusal(RunError::NotJudged { reason }));
    }
    Ok(json(StatusCode::OK, body(&evaluation)))
}

async fn open(
    State(shared): State<Shared>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<OpenRequest>,
) -> Result<Response, Refusal> {
    let key = key(&headers)?;
    let run = ask(&shared, RunRequest::Open { request: Box::new(request), key }).await?;
    let Some(run) = run else { return Ok(later(None)) };
    let mut response = answer(StatusCode::CREATED, &run, false);
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/gsar/runs/{}", run.id)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

async fn enter(
    State(shared): State<Shared>,
    Path(id): Path<String>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<EnterRequest>,
) -> Result<Response, Refusal> {
    let key = key(&headers)?;
    let run = ask(&shared, RunRequest::Enter { id: id.clone(), request, key }).await?;
    Ok(run.map_or_else(|| later(Some(&id)), |run| answer(StatusCode::OK, &run, false)))
}

async fn see(State(shared): State<Shared>, Path(id): Path<String>) -> Result<Response, Refusal> {
    let run = ask(&shared, RunRequest::See { id: id.clone() }).await?;
    Ok(run.map_or_else(|| later(Some(&id)), |run| answer(StatusCode::OK, &run, true)))
}

async fn cancel(State(shared): State<Shared>, Path(id): Path<String>) -> Result<Response, Refusal> {
    let run = ask(&shared, RunRequest::Cancel { id: id.clone() }).await?;
    Ok(run.map_or_else(|| later(Some(&id)), |run| answer(StatusCode::OK, &run, false)))
}

/// The run after its round; none if that takes longer than a request may.
async fn ask(shared: &Shared, request: RunRequest) -> Result<Option<Run>, Refusal> {
    let readiness = *shared.state.readiness.borrow();
    let reads = matches!(request, RunRequest::See { .. });
    if readiness != Readiness::Ready && !reads {
        let message = format!("assayd is {}", readiness.as_str());
        return Err(Refusal::busy(message, std::time::Duration::from_secs(1)));
    }
    let gone = || Refusal::busy("this process keeps no runs", std::time::Duration::from_secs(60));
    let runs = shared.state.runs.as_ref().ok_or_else(gone)?;
    match tokio::time::timeout(shared.timeout, runs.ask(request)).await {
        Ok(Some(Ok(run))) => Ok(Some(run)),
        Ok(Some(Err(error))) => Err(refusal(error)),
        Ok(None) => Err(gone()),
        Err(_) => Ok(None),
    }
}

/// Accepted, and still at it: a round goes on without its client.
fn later(id: Option<&str>) -> Response {
    let told = serde_json::json!({
        "run_id": id,
        "awaiting": Phase::Judging,
        "message": "the round is still being judged; GET the run, or send the request again with its Idempotency-Key",
    });
    json(StatusCode::ACCEPTED, told.to_string())
}

fn answer(status: StatusCode, run: &Run, whole: bool) -> Response {
    let last = run.rounds.last();
    let phase = run.phase();
    let seen = Seen {
        run_id: &run.id,
        awaiting: phase,
        ended: run.ended,
        degraded: run.is_degraded(),
        decision: last.map(|round| round.decision),
        score: last.map(|round| round.score),
        explanation: last.map(|round| round.explanation.as_str()),
        partition: last.map(|round| Parts::of(&round.verdict)),
        round: last.map(|round| round.number),
        rounds_left: run.rounds_left(),
        replans: run.replans,
        replans_left: run.replans_left(),
        cost_usd: run.cost_usd(),
        rounds: whole.then_some(&run.rounds),
    };
    let status = if phase == Phase::Judging { StatusCode::ACCEPTED } else { status };
    json(status, body(&seen))
}

impl<'a> Parts<'a> {
    fn of(verdict: &'a Verdict) -> Self {
        let claims = verdict.grounding.as_ref().map_or(&[][..], |found| &found.claims);
        let part = |standing| claims.iter().filter(|claim| claim.standing == standing).collect();
        Self {
            grounded: part(Some(Standing::Grounded)),
            ungrounded: part(Some(Standing::Ungrounded)),
            contradicted: part(Some(Standing::Contradicted)),
            complementary: part(Some(Standing::Complementary)),
            unanswered: part(None),
        }
    }
}

fn body(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("these have text keys only, so they are always JSON")
}

fn key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let text = value.to_str().ok().map(str::trim).filter(|text| !text.is_empty());
    match text {
        Some(text) if text.len() <= KEY_CHARS => Ok(Some(text.to_owned())),
        _ => Err(invalid(format!("an Idempotency-Key has 1 to {KEY_CHARS} visible ASCII characters"))),
    }
}

fn invalid(message: String) -> Refusal {
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", message)
}

fn refusal(error: RunError) -> Refusal {
    let message = error.to_string();
    let second = std::time::Duration::from_secs(1);
    match error {
        RunError::Unknown { .. } => Refusal::new(StatusCode::NOT_FOUND, "not_found", message),
        RunError::Refused(RoundRefused::NeedsEvidence) => invalid(message),
        RunError::Refused(_) => Refusal::new(StatusCode::CONFLICT, "conflict", message),
        RunError::KeyReused | RunError::Invalid(_) => invalid(message),
        RunError::TooLarge { .. } => Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message),
        RunError::Full { .. } => {
            let refusal = Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many_runs", message);
            Refusal { retry_after: Some(30 * second), ..refusal }
        }
        RunError::NotJudged { .. } | RunError::Storage(_) => Refusal::busy(message, second),
    }
}
