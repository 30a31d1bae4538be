//! The inference thread: owns queue, batcher and model. Work piles up while a batch runs, and that is the batching.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice::from_ref;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};

use super::batch::{Size, Waiting};
use super::{Config, DecideError, Decider, Health, Reply};
use crate::metrics;

/// How often a failing model is probed while nobody asks it.
const PROBE: Duration = Duration::from_secs(1);

/// One inquiry on its way through the queue.
pub(super) struct Entry<W> {
    pub work: W,
    pub size: Size,
    pub reply: oneshot::Sender<Result<Reply, DecideError>>,
    pub since: Instant,
    /// Its place in the queue, given back when the entry is gone.
    pub place: OwnedSemaphorePermit,
}

/// What an entry is beside its work.
struct Caller {
    reply: oneshot::Sender<Result<Reply, DecideError>>,
    _place: OwnedSemaphorePermit,
}

pub(super) struct Worker<D: Decider> {
    decider: D,
    entries: Receiver<Entry<D::Work>>,
    waiting: Waiting<Entry<D::Work>>,
    health: HealthLight,
    linger: Duration,
}

/// The worker's end of the health watch: says `Stopped` however the thread ends.
struct HealthLight(watch::Sender<Health>);

impl HealthLight {
    fn set(&self, health: Health) {
        self.0.send_if_modified(|now| std::mem::replace(now, health) != health);
    }

    fn is(&self, health: Health) -> bool {
        *self.0.borrow() == health
    }
}

impl Drop for HealthLight {
    fn drop(&mut self) {
        self.set(Health::Stopped);
    }
}

impl<D: Decider> Worker<D> {
    pub(super) fn new(
        decider: D,
        entries: Receiver<Entry<D::Work>>,
        health: watch::Sender<Health>,
        config: &Config,
    ) -> Self {
        let waiting = Waiting::new(decider.layout(), config.batch_tokens.get());
        Self { decider, entries, waiting, health: HealthLight(health), linger: config.linger.0 }
    }

    /// Answers until every desk is gone.
    pub(super) fn run(mut self) {
        self.probe();
        while self.gather() {
            let batch = self.waiting.next(|entry| !entry.reply.is_closed());
            if !batch.is_empty() {
                self.serve(batch);
            }
        }
    }

    /// Waits for work and takes what is there; false when no more can come.
    fn gather(&mut self) -> bool {
        if self.waiting.is_empty() && !self.wait() {
            return false;
        }
        while let Ok(entry) = self.entries.try_recv() {
            self.waiting.push(entry.size, entry);
        }
        if !self.linger.is_zero() {
            self.linger();
        }
        metrics::decide_queue(self.waiting.len());
        true
    }

    fn wait(&mut self) -> bool {
        metrics::decide_queue(0);
        loop {
            let next = if self.health.is(Health::Failing) {
                self.entries.recv_timeout(PROBE)
            } else {
                self.entries.recv().map_err(RecvTimeoutError::from)
            };
            match next {
                Ok(entry) => {
                    self.waiting.push(entry.size, entry);
                    return true;
                }
                Err(RecvTimeoutError::Timeout) => self.probe(),
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    fn linger(&mut self) {
        let until = Instant::now() + self.linger;
        while !self.waiting.is_full() {
            match self.entries.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(entry) => self.waiting.push(entry.size, entry),
                Err(_) => return,
            }
        }
    }

    fn serve(&mut self, batch: Vec<Entry<D::Work>>) {
        let mut size: Option<Size> = None;
        let mut work = Vec::with_capacity(batch.len());
        let mut callers = Vec::with_capacity(batch.len());
        for entry in batch {
            metrics::decide_wait(entry.since.elapsed());
            size = Some(size.map_or(entry.size, |size| size.and(entry.size)));
            work.push(entry.work);
            callers.push(Caller { reply: entry.reply, _place: entry.place });
        }
        let started = Instant::now();
        match self.decide(&work) {
            Ok(replies) => {
                self.health.set(Health::Ready);
                if let Some(size) = size {
                    let cost = self.decider.layout().cost(size);
                    metrics::decide_batch(size.rows, cost, size.tokens as u64, started.elapsed());
                }
                for (caller, reply) in callers.into_iter().zip(replies) {
                    // A caller that went away while the batch ran misses nothing.
                    let _ = caller.reply.send(Ok(reply));
                }
            }
            Err(error) if work.len() == 1 => {
                self.fail(&error);
                for caller in callers {
                    let _ = caller.reply.send(Err(error.clone()));
                }
            }
            Err(_) => self.serve_one_by_one(&work, callers),
        }
    }

    /// After a batch failed: whose inquiry is poison fails alone, the others get their answers.
    fn serve_one_by_one(&mut self, work: &[D::Work], callers: Vec<Caller>) {
        for (work, caller) in work.iter().zip(callers) {
            if caller.reply.is_closed() {
                continue;
            }
            let answer = self
                .decide(from_ref(work))
                .and_then(|mut replies| replies.pop().ok_or(DecideError::Miscounted { wanted: 1, found: 0 }));
            match &answer {
                Ok(_) => self.health.set(Health::Ready),
                Err(error) => self.fail(error),
            }
            let _ = caller.reply.send(answer);
        }
    }

    fn decide(&mut self, work: &[D::Work]) -> Result<Vec<Reply>, DecideError> {
        let decider = &mut self.decider;
        let replies = match catch_unwind(AssertUnwindSafe(|| decider.decide(work))) {
            Ok(replies) => replies?,
            Err(panic) => {
                self.decider.recover();
                return Err(DecideError::Panicked { message: panic_text(&*panic) });
            }
        };
        if replies.len() != work.len() {
            return Err(DecideError::Miscounted { wanted: work.len(), found: replies.len() });
        }
        Ok(replies)
    }

    fn fail(&mut self, error: &DecideError) {
        metrics::decide_failure(error.fault());
        tracing::warn!(%error, model = self.decider.info().name, "the decision model failed");
        self.health.set(Health::Failing);
    }

    fn probe(&mut self) {
        let decider = &mut self.decider;
        let health = match catch_unwind(AssertUnwindSafe(|| decider.warm_up())) {
            Ok(Ok(())) => Health::Ready,
            Ok(Err(error)) => {
                tracing::warn!(%error, model = self.decider.info().name, "the decision model is not ready");
                Health::Failing
            }
            Err(panic) => {
                let error = panic_text(&*panic);
                tracing::warn!(
                    error,
                    model = self.decider.info().name,
                    "the decision model panicked at a probe"
                );
                self.decider.recover();
                Health::Failing
            }
        };
        self.health.set(health);
    }
}

/// What a panic said.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
