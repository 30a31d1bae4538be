//! The task that sends spans, and its end.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::domain::Span;
use crate::emit::config::TracesConfig;
use crate::emit::receiver::Client;
use crate::error::Fault;
use crate::metrics;

use super::wire::request;

/// Attempts of one request. Longer outages are what `dropped` is for.
const ATTEMPTS: u32 = 4;
/// The pause before the second attempt; it doubles.
const PAUSE: Duration = Duration::from_millis(500);
/// A receiver that asks for a longer pause is asked again all the same.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The running task; it ends when every [`Traces`](super::Traces) is gone and nothing waits.
#[derive(Debug)]
pub struct TracesTask(Option<JoinHandle<()>>);

impl TracesTask {
    pub(super) fn none() -> Self {
        Self(None)
    }

    pub(super) fn start(waiting: mpsc::Receiver<Span>, client: Client, config: &TracesConfig) -> Self {
        let (most, linger) = (config.batch.get(), config.linger.0);
        Self(Some(tokio::spawn(run(waiting, client, most, linger))))
    }

    /// Waits until what was told is sent, at most so long.
    pub async fn finish(self, patience: Duration) {
        let Some(task) = self.0 else { return };
        let stop = task.abort_handle();
        if tokio::time::timeout(patience, task).await.is_err() {
            tracing::warn!("the last spans of the daemon's own work were not sent in time");
            stop.abort();
        }
    }
}

async fn run(mut waiting: mpsc::Receiver<Span>, client: Client, most: usize, linger: Duration) {
    let mut is_failing = false;
    while let Some(first) = waiting.recv().await {
        let until = Instant::now() + linger;
        let mut spans = vec![first];
        while spans.len() < most {
            let Ok(Some(span)) = tokio::time::timeout_at(until, waiting.recv()).await else { break };
            spans.push(span);
        }
        let sent = send(&client, &spans).await;
        if let Err(message) = &sent {
            metrics::emit_own_spans("failed", spans.len() as u64);
            // An outage is one line in the log.
            if !is_failing {
                tracing::warn!(message, "the receiver of the daemon's own spans does not take them");
            }
        } else if is_failing {
            tracing::info!("the receiver of the daemon's own spans takes them again");
        }
        is_failing = sent.is_err();
    }
}

async fn send(client: &Client, spans: &[Span]) -> Result<(), String> {
    let mut pause = PAUSE;
    let mut attempt = 1;
    loop {
        let failure = match client.traces(request(spans)).await {
            Ok(accepted) => {
                let rejected = accepted.rejected.min(spans.len() as u64);
                metrics::emit_own_spans("rejected", rejected);
                metrics::emit_own_spans("sent", spans.len() as u64 - rejected);
                return Ok(());
            }
            Err(failure) => failure,
        };
        if attempt == ATTEMPTS || failure.fault != Fault::Transient {
            return Err(failure.message);
        }
        tokio::time::sleep(failure.retry_after.unwrap_or(pause).min(LONGEST_PAUSE)).await;
        pause *= 2;
        attempt += 1;
    }
}
