//! The verdict on a conversation.

use super::Plan;
use super::plan::digest;
use crate::domain::{Outcome, Session, Verdict};

/// Says of what a verdict is that was made of a conversation's story: of its traces, with the worst of their labels. A
/// conversation without a label, about which nobody was asked, stays skipped.
pub fn of_session(session: &Session, verdict: Verdict, plan: &Plan) -> Verdict {
    let service = session.service.as_deref();
    let revision = session.revision.to_string();
    let plan = plan.of(service);
    let is_labelled = verdict.outcome == Outcome::Skipped && session.label.is_some();
    Verdict {
        // Neither time nor outcome enters, as for a trace.
        verdict_id: digest(&["session", service.unwrap_or_default(), &session.id, &revision, &plan.hash]),
        revision: session.revision,
        session_id: Some(session.id.clone()),
        traces: session.traces.clone(),
        // A span's id says nothing without its trace.
        span_ids: Vec::new(),
        evaluated_span_id: None,
        response_id: None,
        label: session.label,
        hallucination_probability: session.hallucination_probability,
        outcome: if is_labelled { Outcome::Scored } else { verdict.outcome },
        reason: verdict.reason.filter(|_| !is_labelled),
        ..verdict
    }
}
