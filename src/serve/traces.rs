//! `GET /v1/traces/{trace_id}`: what became of a trace, and why it was not evaluated.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use futures::future::BoxFuture;
use serde::Serialize;

use super::query::now;
use super::reply::{Refusal, json};
use super::server::{Shared, route};
use super::stories::parsed;
use super::words;
use crate::assemble::Sight;
use crate::domain::{Label, Outcome, Tier, Time, TraceId, Verdict};
use crate::emit::Filter;

/// How long to wait for the assembler's word.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most verdicts of one trace that are shown.
const MOST: usize = 100;

type Look = dyn Fn(TraceId) -> BoxFuture<'static, Option<Sight>> + Send + Sync;

/// The pipeline's hand that knows which traces are open. Cheap to clone.
#[derive(Clone)]
pub struct Tracer(Arc<Look>);

impl Tracer {
    /// Asks `look`; none means that it cannot say now.
    pub fn new(look: impl Fn(TraceId) -> BoxFuture<'static, Option<Sight>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }
}

/// Where a trace is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Stage {
    /// It waits for more spans.
    Open,
    /// It is complete and has no verdict yet.
    Evaluating,
    /// It has a verdict.
    Decided,
    /// Nothing is known of it.
    Unknown,
}

#[derive(Debug, Serialize)]
struct Found {
    trace_id: TraceId,
    stage: Stage,
    /// What that means, in words.
    message: String,
    /// Its verdicts among the recent ones, newest first.
    verdicts: Vec<Summary>,
}

#[derive(Debug, Serialize)]
struct Summary {
    verdict_id: String,
    revision: u32,
    outcome: Outcome,
    reason: Option<String>,
    label: Option<Label>,
    tier: Option<Tier>,
    service: Option<String>,
    agent: Option<String>,
    emitted: Time,
    message: String,
}

pub(super) fn routes() -> Router<Shared> {
    route("/v1/traces/{trace_id}", get(trace))
}

async fn trace(State(shared): State<Shared>, Path(text): Path<String>) -> Result<Response, Refusal> {
    let trace_id: TraceId = text.trim().parse().map_err(|_| {
        let message = format!("{text:?} is no trace id, which has 32 hexadecimal digits, not all zero");
        Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", message)
    })?;
    let sight = match &shared.state.tracer {
        Some(Tracer(look)) => tokio::time::timeout(PATIENCE, look(trace_id)).await.ok().flatten(),
        None => None,
    };
    // Asked after the assembler, so that a verdict that is made in between is seen.
    let filter = Filter { trace_id: Some(trace_id), ..Filter::default() };
    let entries = shared.state.recent.latest(&filter, MOST);
    let verdicts: Vec<Summary> =
        entries.iter().map(|entry| parsed(entry).map(summary)).collect::<Result<_, _>>()?;
    let (stage, message) = stage(sight, &verdicts, now());
    let found = Found { trace_id, stage, message, verdicts };
    let body = serde_json::to_vec(&found).expect("it has text keys only, so it is always JSON");
    Ok(json(StatusCode::OK, body))
}

fn stage(sight: Option<Sight>, verdicts: &[Summary], now: Time) -> (Stage, String) {
    if let Some(Sight::Open { spans, first_arrival, closes_by }) = sight {
        let age = now.since(first_arrival).as_secs();
        let wait = closes_by.since(now).as_secs();
        let mut message = format!(
            "The trace is still open: {spans} spans, the first one {age} s ago. It is evaluated when it is complete, at the latest \
             {wait} s from now if nothing more comes."
        );
        if let Some(earlier) = verdicts.first() {
            message.push_str(&format!(
                " Late spans have reopened it; revision {} has a verdict already.",
                earlier.revision
            ));
        }
        return (Stage::Open, message);
    }
    if let Some(latest) = verdicts.first() {
        return (Stage::Decided, latest.message.clone());
    }
    match sight {
        Some(Sight::Closed { settled: false, .. }) => {
            (Stage::Evaluating, "The trace is complete and is being evaluated.".to_owned())
        }
        Some(Sight::Closed { settled: true, revision }) => (
            Stage::Decided,
            format!(
                "The trace (revision {revision}) was decided, and its verdict is no longer among the recent ones; it is where emit \
                 sends verdicts."
            ),
        ),
        Some(Sight::Unknown) => (
            Stage::Unknown,
            "No span of this trace has come, or it was decided so long ago that it is forgotten (assemble.keep). Does the sender \
             reach this assayd, and are its spans sampled? assayd_receive_refused_total counts what was refused."
                .to_owned(),
        ),
        Some(Sight::Open { .. }) | None => (
            Stage::Unknown,
            "There is no recent verdict on this trace; whether it is open cannot be said right now.".to_owned(),
        ),
    }
}

fn summary(verdict: Verdict) -> Summary {
    Summary {
        message: words::of(&verdict),
        tier: verdict.grounding.as_ref().map(|grounding| grounding.tier),
        verdict_id: verdict.verdict_id,
        revision: verdict.revision,
        outcome: verdict.outcome,
        reason: verdict.reason,
        label: verdict.label,
        service: verdict.service,
        agent: verdict.agent,
        emitted: verdict.times.emitted,
    }
}
