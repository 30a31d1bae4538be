//! What becomes of a complete trace. Read this first: everything else is a room that it enters.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::Assayer;
use super::panic::caught;
use crate::assemble::ClosedTrace;
use crate::domain::{Label, SessionTrace, Story, Time, Trace, TraceId, Value, Verdict};
use crate::emit::{EmitError, Notes, Sinks, Traces, stage, stage_over};
use crate::error::Fault;
use crate::receive::Stake;
use crate::ticket::Outcome;

/// Which closing of which trace was worked on, and whether its outcome is recorded.
#[derive(Debug)]
pub(super) struct Settled {
    pub trace_id: TraceId,
    pub number: u64,
    pub closed_at: Time,
    pub outcome: Outcome,
    /// A sink that will take no verdict any more: evaluating on would be for nothing, again and again.
    pub broken: Option<EmitError>,
}

/// Evaluates a trace, writes its verdict, and only then keeps the promises to the sources of its spans. Then whoever puts
/// conversations together (`ear`) hears of it. Followed by `traces`, if they are on.
pub(super) async fn assay(
    assayer: Arc<Assayer>,
    sinks: Arc<Sinks>,
    traces: Traces,
    ear: Option<mpsc::Sender<SessionTrace>>,
    closed: ClosedTrace<Stake>,
) -> Settled {
    let trace = Arc::clone(&closed.trace);
    let work = settle(&assayer, &sinks, ear, closed);
    traces.follow("assay", Some(trace.first_arrival), work, |settled| about(&trace, settled.outcome)).await
}

async fn settle(
    assayer: &Assayer,
    sinks: &Sinks,
    ear: Option<mpsc::Sender<SessionTrace>>,
    closed: ClosedTrace<Stake>,
) -> Settled {
    let ClosedTrace { trace, payloads: stakes, number } = closed;
    stage_over("assemble", trace.first_arrival, Notes::default());
    let (verdict, story) = assayer.assay_told(&trace).await;
    let mut broken = None;
    let writing = caught(sinks.write_told(&verdict, story.as_ref()));
    let outcome = match stage("emit", writing, |_| told(&verdict)).await {
        Ok(Ok(())) => Outcome::Done,
        Ok(Err(error)) => {
            tracing::error!(trace_id = %trace.trace_id, %error, "a verdict was not written");
            broken = Some(error).filter(|error| error.fault == Fault::Fatal);
            Outcome::Retry
        }
        Err(panic) => {
            tracing::error!(trace_id = %trace.trace_id, panic, "a sink panicked; the verdict was not written");
            Outcome::Retry
        }
    };
    Stake::settle_all(stakes, outcome);
    if let (Some(ear), Some(part)) = (ear, part_of_session(&trace, &verdict, story)) {
        // Whoever puts conversations together may be gone at the end.
        let _ = ear.send(part).await;
    }
    Settled { trace_id: trace.trace_id, number, closed_at: trace.closed_at, outcome, broken }
}

/// What a trace contributes to its conversation, if it names one.
fn part_of_session(trace: &Trace, verdict: &Verdict, story: Option<Story>) -> Option<SessionTrace> {
    let story = story.filter(|story| story.session_id.is_some())?;
    Some(SessionTrace {
        trace_id: trace.trace_id,
        story,
        label: verdict.label,
        hallucination_probability: verdict.hallucination_probability,
    })
}

/// What a trace of the daemon's own work says of the trace that it was about.
fn about(trace: &Trace, outcome: Outcome) -> Notes {
    let root = trace.spans.iter().find(|span| span.parent_id.is_none()).or(trace.spans.first());
    let mut notes = Notes::of([
        ("assayd.trace.id", Value::from(trace.trace_id.to_string())),
        ("assayd.trace.spans", Value::Int(trace.spans.len() as i64)),
        ("assayd.trace.closed", Value::from(trace.closed.as_str())),
    ]);
    notes.about = root.map(|span| (trace.trace_id, span.span_id));
    notes.failed = (outcome == Outcome::Retry).then_some("the verdict was not written");
    notes
}

/// The verdict in the house's own words.
fn told(verdict: &Verdict) -> Notes {
    Notes::of([
        ("assayd.outcome", Value::from(verdict.outcome.as_str())),
        ("assayd.label", Value::from(verdict.label.map_or("none", Label::as_str))),
        ("assayd.degraded", Value::Bool(verdict.degraded)),
    ])
}
