//! What becomes of a complete trace. Read this first: everything else is a room that it enters.

use std::sync::Arc;

use super::Assayer;
use super::panic::caught;
use crate::assemble::ClosedTrace;
use crate::domain::{Time, TraceId};
use crate::emit::Sinks;
use crate::receive::Stake;
use crate::ticket::Outcome;

/// Which closing of which trace was worked on, and whether its outcome is recorded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settled {
    pub trace_id: TraceId,
    pub number: u64,
    pub first_arrival: Time,
    pub outcome: Outcome,
}

/// Evaluates a trace, writes its verdict, and only then keeps the promises to the sources of its spans.
pub(super) async fn assay(assayer: Arc<Assayer>, sinks: Arc<Sinks>, closed: ClosedTrace<Stake>) -> Settled {
    let ClosedTrace { trace, payloads: stakes, number } = closed;
    let (verdict, story) = assayer.assay_told(&trace).await;
    let outcome = match caught(sinks.write_told(&verdict, story.as_ref())).await {
        Ok(Ok(())) => Outcome::Done,
        Ok(Err(error)) => {
            tracing::error!(trace_id = %trace.trace_id, %error, "a verdict was not written");
            Outcome::Retry
        }
        Err(panic) => {
            tracing::error!(trace_id = %trace.trace_id, panic, "a sink panicked; the verdict was not written");
            Outcome::Retry
        }
    };
    stakes.into_iter().for_each(|stake| stake.settle(outcome));
    Settled { trace_id: trace.trace_id, number, first_arrival: trace.first_arrival, outcome }
}
