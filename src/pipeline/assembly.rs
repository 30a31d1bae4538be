//! One task owns the assembler: deliveries in, complete traces out, as many at once as `flow.concurrency` allows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Assayer;
use super::assay::{Settled, assay};
use super::clock::Clock;
use crate::assemble::{Assembler, ClosedTrace, Config, Pushed, Sight};
use crate::domain::{Closed, SessionTrace, Time, TraceId, Value};
use crate::emit::{EmitError, Notes, Sinks, Traces};
use crate::metrics;
use crate::receive::{Delivery, Stake};
use crate::serve::Tracer;
use crate::ticket::Outcome;

/// How often the gauges are set.
const GAUGES: Duration = Duration::from_secs(1);
/// People who may wait at the same time to hear of a trace.
const LOOKS: usize = 16;

/// Somebody asks what is known of a trace.
struct Look {
    trace_id: TraceId,
    reply: oneshot::Sender<Sight>,
}

/// The assembler, what it feeds, and what it is fed by.
pub(super) struct Assembly {
    assembler: Assembler<Stake>,
    deliveries: mpsc::Receiver<Delivery>,
    looks: (mpsc::Sender<Look>, mpsc::Receiver<Look>),
    /// The door closes.
    closing: CancellationToken,
    assayer: Arc<Assayer>,
    sinks: Arc<Sinks>,
    /// Follows the work, if that is wanted.
    traces: Traces,
    /// Who puts conversations together.
    told: Option<mpsc::Sender<SessionTrace>>,
    concurrency: usize,
    clock: Clock,
    working: JoinSet<Settled>,
    /// When the traces that are worked on were complete, with how many share one time.
    completions: BTreeMap<Time, usize>,
    /// Traces without an outcome, for those who wait for the end.
    unfinished: Arc<AtomicUsize>,
    /// The first sink that will take no verdict any more.
    broken: watch::Sender<Option<EmitError>>,
}

impl Assembly {
    /// An assembly that waits for its first delivery. After `closing` it takes only what is on its way already.
    pub fn new(
        config: Config,
        concurrency: usize,
        deliveries: mpsc::Receiver<Delivery>,
        closing: CancellationToken,
        assayer: Arc<Assayer>,
        sinks: Arc<Sinks>,
        told: Option<mpsc::Sender<SessionTrace>>,
    ) -> Self {
        Self {
            assembler: Assembler::new(config),
            deliveries,
            looks: mpsc::channel(LOOKS),
            closing,
            assayer,
            sinks,
            traces: Traces::default(),
            told,
            concurrency,
            clock: Clock::start(),
            working: JoinSet::new(),
            completions: BTreeMap::new(),
            unfinished: Arc::default(),
            broken: watch::Sender::new(None),
        }
    }

    /// The same with its work followed.
    pub fn followed(self, traces: Traces) -> Self {
        Self { traces, ..self }
    }

    /// How many traces have no outcome yet; up to a second old.
    pub fn unfinished(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.unfinished)
    }

    /// Hears of a sink that will take no verdict any more.
    pub fn broken(&self) -> watch::Receiver<Option<EmitError>> {
        self.broken.subscribe()
    }

    /// Tells what is known of a trace, as long as this works.
    pub fn tracer(&self) -> Tracer {
        let looks = self.looks.0.clone();
        Tracer::new(move |trace_id| {
            let looks = looks.clone();
            Box::pin(async move {
                let (reply, sight) = oneshot::channel();
                looks.try_send(Look { trace_id, reply }).ok()?;
                sight.await.ok()
            })
        })
    }

    /// Works until the door is closed and every trace has its outcome.
    pub async fn run(mut self) {
        let mut gauges = interval(GAUGES);
        gauges.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_open = true;
        let closing = self.closing.clone();
        while is_open || self.assembler.open() > 0 || !self.working.is_empty() {
            self.start_work();
            let has_room = self.working.len() < self.concurrency;
            let timeout = self.assembler.next_timeout().filter(|_| has_room);
            let wake = self.clock.instant(timeout.unwrap_or_default());
            tokio::select! {
                Some(finished) = self.working.join_next(), if !self.working.is_empty() => self.finish(finished),
                delivery = self.deliveries.recv(), if is_open && has_room => match delivery {
                    Some(delivery) => self.take(delivery),
                    None => {
                        is_open = false;
                        self.assembler.close_all();
                    }
                },
                Some(Look { trace_id, reply }) = self.looks.1.recv() => {
                    // Who asked may have gone.
                    let _ = reply.send(self.assembler.sight(trace_id));
                }
                () = closing.cancelled(), if is_open && !self.deliveries.is_closed() => self.deliveries.close(),
                () = sleep_until(wake.into()), if timeout.is_some() => {}
                _ = gauges.tick() => self.gauge(),
            }
        }
        self.gauge();
    }

    fn take(&mut self, delivery: Delivery) {
        let began = Instant::now();
        let (spans, logs, mut stakes) = delivery.into_parts();
        let pushed = self
            .assembler
            .push(self.clock.now(), spans, logs, |trace_id, bytes| stakes.cut_for(trace_id, bytes));
        count(&pushed);
        self.traces.tell("receive", began, || notes(&pushed));
    }

    fn start_work(&mut self) {
        while self.working.len() < self.concurrency {
            let Some(closed) = self.assembler.pop(self.clock.now()) else { return };
            self.start(closed);
        }
    }

    fn start(&mut self, closed: ClosedTrace<Stake>) {
        metrics::assemble_closed(closed.trace.closed);
        if is_elsewhere(&closed) {
            // Dropping the stakes means Retry.
            metrics::assemble_handed_over();
            tracing::debug!(trace_id = %closed.trace.trace_id, "another replica evaluates this trace");
            return;
        }
        *self.completions.entry(closed.trace.closed_at).or_default() += 1;
        let (assayer, sinks) = (Arc::clone(&self.assayer), Arc::clone(&self.sinks));
        self.working.spawn(assay(assayer, sinks, self.traces.clone(), self.told.clone(), closed));
    }

    fn finish(&mut self, finished: Result<Settled, JoinError>) {
        let settled = match finished {
            Ok(settled) => settled,
            // Panics are caught within, so the runtime itself is going down. The stakes went with the task: Retry.
            Err(error) => {
                tracing::error!(%error, "the task of a trace was stopped");
                return;
            }
        };
        if let Some(sharing) = self.completions.get_mut(&settled.closed_at) {
            *sharing -= 1;
            if *sharing == 0 {
                self.completions.remove(&settled.closed_at);
            }
        }
        if settled.broken.is_some() {
            self.broken.send_replace(settled.broken);
        }
        if settled.outcome == Outcome::Done {
            self.assembler.settled(settled.trace_id, settled.number);
        }
    }

    fn gauge(&self) {
        metrics::assemble_live(self.assembler.open(), self.assembler.bytes());
        metrics::assay_in_flight(self.working.len());
        let working = self.completions.keys().next().copied();
        metrics::oldest_pending(waiting(self.clock.now(), working, self.assembler.next_timeout()));
        self.unfinished.store(self.assembler.open() + self.working.len(), Ordering::Relaxed);
    }
}

/// For how long the longest waits that is complete: of those that are worked on, or of those that are due and wait for their
/// turn. A trace that is merely open waits for its spans, and nothing is late.
fn waiting(now: Time, working: Option<Time>, next_due: Option<Time>) -> Duration {
    let due = next_due.filter(|due| *due < now);
    working.into_iter().chain(due).min().map_or(Duration::ZERO, |complete| now.since(complete))
}

/// Whether all spans of a trace are kept by their sources for another replica: because it has their partitions by now, or
/// because it will have them when this one has stopped. Evaluated here, the trace would lack what came after.
fn is_elsewhere(closed: &ClosedTrace<Stake>) -> bool {
    let is_stopping = closed.trace.closed == Closed::Shutdown;
    let is_left = |stake: &Stake| stake.is_fenced() || (is_stopping && stake.is_kept());
    !closed.payloads.is_empty() && closed.payloads.iter().all(is_left)
}

/// What a trace of the daemon's own work says of a delivery.
fn notes(pushed: &Pushed) -> Notes {
    let number = |number: u64| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    Notes::of([
        ("assayd.spans", number(pushed.spans)),
        ("assayd.logs", number(pushed.logs)),
        ("assayd.traces.opened", number(pushed.opened)),
        ("assayd.duplicates", number(pushed.duplicates)),
    ])
}

fn count(pushed: &Pushed) {
    let as_count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    metrics::assemble_dropped_spans("duplicate", as_count(pushed.duplicates));
    metrics::assemble_dropped_spans("limit", as_count(pushed.beyond));
    metrics::assemble_late_spans("ignored", as_count(pushed.ignored));
    metrics::assemble_late_spans("revised", pushed.reopened.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_trace_waits_for_its_spans_and_is_not_late() {
        let at = |seconds: u64| Time(seconds * 1_000_000_000);
        let now = at(100);
        assert_eq!(waiting(now, None, None), Duration::ZERO);
        assert_eq!(waiting(now, None, Some(at(130))), Duration::ZERO, "it closes in half a minute");
        assert_eq!(waiting(now, None, Some(at(93))), Duration::from_secs(7), "it is due and has no turn");
        assert_eq!(waiting(now, Some(at(90)), Some(at(93))), Duration::from_secs(10));
        assert_eq!(waiting(now, Some(at(98)), Some(at(130))), Duration::from_secs(2));
    }
}
