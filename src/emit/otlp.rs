//! Verdicts back into traces: log records to an OTLP receiver. One task owns the connection and sends what waits together;
//! whoever writes waits until the receiver has said that it has the records.

mod records;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use self::records::{Style, records, request};
use super::config::OtlpConfig;
use super::receiver::{Accepted, Client, Failure};
use super::{EmitError, Sink};
use crate::domain::{Outcome, Verdict};
use crate::error::Fault;
use crate::metrics;

const SINK: &str = "otlp";
/// Verdicts that may wait for the task; beyond that, writers wait.
const WAITING: usize = 256;
/// Records of one request, more or less: 4 MiB is what a receiver takes by default, and a record is rarely above 8 KiB.
const MOST_RECORDS: usize = 512;
/// A receiver that asks for a longer pause than this is asked again all the same.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// An OTLP receiver that verdicts go to.
pub struct Otlp {
    jobs: mpsc::Sender<Job>,
    style: Style,
    skipped: bool,
}

/// A verdict's records, and who waits for them.
struct Job {
    records: Vec<LogRecord>,
    done: oneshot::Sender<Result<(), Told>>,
}

/// What all writers of a request are told.
#[derive(Debug, Clone)]
struct Told {
    message: Arc<str>,
    fault: Fault,
}

impl Otlp {
    /// Reads certificates and starts the task. The receiver need not be there yet. Must be called within a tokio runtime.
    pub fn open(config: &OtlpConfig) -> Result<Self, EmitError> {
        let client =
            Client::new(config.receiver()).map_err(|message| failed(message.into(), Fault::Fatal))?;
        let (jobs, waiting) = mpsc::channel(WAITING);
        tokio::spawn(run(waiting, client, config.batch.get(), config.linger.0));
        Ok(Self { jobs, style: Style { texts: config.texts }, skipped: config.skipped })
    }

    async fn deliver(&self, verdict: &Verdict) -> Result<(), EmitError> {
        if verdict.outcome == Outcome::Skipped && !self.skipped {
            metrics::emit_filtered(SINK);
            return Ok(());
        }
        let stopped = || failed("its task has stopped".into(), Fault::Fatal);
        let (done, told) = oneshot::channel();
        let job = Job { records: records(verdict, self.style), done };
        self.jobs.send(job).await.map_err(|_| stopped())?;
        told.await.map_err(|_| stopped())?.map_err(|told| failed(told.message, told.fault))
    }
}

impl Sink for Otlp {
    fn write<'a>(&'a self, verdict: &'a Verdict) -> BoxFuture<'a, Result<(), EmitError>> {
        Box::pin(self.deliver(verdict))
    }
}

fn failed(message: Arc<str>, fault: Fault) -> EmitError {
    EmitError { sink: SINK, message: message.to_string(), fault }
}

/// Ends when the sink is gone and nothing waits.
async fn run(mut waiting: mpsc::Receiver<Job>, client: Client, most: usize, linger: Duration) {
    while let Some(first) = waiting.recv().await {
        let mut jobs = gather(first, &mut waiting, most, linger).await;
        // Whoever stopped waiting (a daemon that gave up) is not served any more.
        jobs.retain(|job| !job.done.is_closed());
        if !jobs.is_empty() {
            metrics::emit_batch(SINK, jobs.len());
            send(&client, jobs).await;
        }
    }
}

async fn gather(first: Job, waiting: &mut mpsc::Receiver<Job>, most: usize, linger: Duration) -> Vec<Job> {
    let until = Instant::now() + linger;
    let mut count = first.records.len();
    let mut jobs = vec![first];
    while jobs.len() < most && count < MOST_RECORDS {
        let Ok(Some(job)) = tokio::time::timeout_at(until, waiting.recv()).await else { break };
        count += job.records.len();
        jobs.push(job);
    }
    jobs
}

/// Sends all jobs in one request; one by one if the request is refused for what is in it, so that one verdict cannot spoil the
/// others.
async fn send(client: &Client, jobs: Vec<Job>) {
    let Err(failure) = attempt(client, &jobs).await else { return answer(jobs, &Ok(())) };
    if failure.is_about_content && jobs.len() > 1 {
        for job in jobs {
            let alone = [job];
            let result = attempt(client, &alone).await;
            if let Err(failure) = &result {
                pause(failure).await;
            }
            answer(alone, &result.map_err(Failure::told));
        }
        return;
    }
    pause(&failure).await;
    answer(jobs, &Err(failure.told()));
}

async fn attempt(client: &Client, jobs: &[Job]) -> Result<(), Failure> {
    let records: Vec<LogRecord> = jobs.iter().flat_map(|job| job.records.iter().cloned()).collect();
    let sent = records.len() as u64;
    let Accepted { rejected, message } = client.logs(request(records)).await?;
    if rejected == 0 {
        return Ok(());
    }
    // It does not say which. Sending again is forbidden: those that it has would be there twice.
    metrics::emit_rejected_records(SINK, rejected);
    if rejected >= sent || jobs.len() == 1 {
        return Err(Failure::refused(
            format!("the receiver rejected {rejected} of {sent} records: {message}"),
            false,
        ));
    }
    tracing::warn!(
        sink = SINK,
        rejected,
        sent,
        message,
        "the receiver rejected records of an accepted request"
    );
    Ok(())
}

/// The receiver said when to come back. Until then nobody is answered, so nobody tries again.
async fn pause(failure: &Failure) {
    if let Some(after) = failure.retry_after {
        tokio::time::sleep(after.min(LONGEST_PAUSE)).await;
    }
}

fn answer(jobs: impl IntoIterator<Item = Job>, result: &Result<(), Told>) {
    for job in jobs {
        // A writer that stopped waiting needs no answer.
        drop(job.done.send(result.clone()));
    }
}

impl Failure {
    fn told(self) -> Told {
        Told { message: self.message.into(), fault: self.fault }
    }
}
