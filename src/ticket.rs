//! Promises to sources. Loss is the default: only [`Ticket::settle`] with [`Outcome::Done`] says that a delivery is safe.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// What became of a delivery, or of one trace's share of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All of it has reached a recorded outcome; the source may forget it.
    Done,
    /// Some of it has not; the source must deliver it again.
    Retry,
}

type Report = Box<dyn FnOnce(Outcome) + Send>;

/// A promise to a source about one delivery. It reports once: when it and all its tickets are gone. The worst outcome wins.
pub struct Promise(Arc<Shared>);

struct Shared {
    retry: AtomicBool,
    report: Mutex<Option<Report>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let report = self.report.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let Some(report) = report {
            let outcome = if *self.retry.get_mut() { Outcome::Retry } else { Outcome::Done };
            report(outcome);
        }
    }
}

impl Promise {
    /// A promise that calls `report` once. `report` runs wherever the last ticket goes, so it must not block.
    pub fn new(report: impl FnOnce(Outcome) + Send + 'static) -> Self {
        Self(Arc::new(Shared { retry: AtomicBool::new(false), report: Mutex::new(Some(Box::new(report))) }))
    }

    /// A promise to a source that does not listen.
    pub fn unheard() -> Self {
        Self(Arc::new(Shared { retry: AtomicBool::new(false), report: Mutex::new(None) }))
    }

    /// One more share of the promise. Hand out all tickets before dropping the promise itself: a promise without tickets is kept.
    pub fn ticket(&self) -> Ticket {
        Ticket { shared: Arc::clone(&self.0), settled: false }
    }
}

impl std::fmt::Debug for Promise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Promise").finish_non_exhaustive()
    }
}

/// One trace's share of a promise. Dropped without being settled, as by a panic or a cancelled task, it means [`Outcome::Retry`].
#[must_use = "a ticket that is dropped means Retry"]
pub struct Ticket {
    shared: Arc<Shared>,
    settled: bool,
}

impl Ticket {
    /// Keeps (or breaks) this share of the promise.
    pub fn settle(mut self, outcome: Outcome) {
        self.settled = outcome == Outcome::Done;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.settled {
            self.shared.retry.store(true, Ordering::Release);
        }
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("settled", &self.settled).finish_non_exhaustive()
    }
}

/// The tickets that a trace holds, one for each delivery that brought spans of it.
#[derive(Debug, Default)]
pub struct Tickets(Vec<Ticket>);

impl Tickets {
    /// Adds a ticket.
    pub fn push(&mut self, ticket: Ticket) {
        self.0.push(ticket);
    }

    /// Takes all tickets of `other`.
    pub fn append(&mut self, other: Tickets) {
        self.0.extend(other.0);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Settles all of them.
    pub fn settle(self, outcome: Outcome) {
        self.0.into_iter().for_each(|ticket| ticket.settle(outcome));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn promise() -> (Promise, mpsc::Receiver<Outcome>) {
        let (sender, receiver) = mpsc::channel();
        (Promise::new(move |outcome| sender.send(outcome).unwrap()), receiver)
    }

    #[test]
    fn a_promise_reports_once_when_its_last_ticket_is_gone() {
        let (promise, reports) = promise();
        let (first, second) = (promise.ticket(), promise.ticket());
        drop(promise);
        first.settle(Outcome::Done);
        assert!(reports.try_recv().is_err());
        second.settle(Outcome::Done);
        assert_eq!(reports.iter().collect::<Vec<_>>(), [Outcome::Done]);
    }

    #[test]
    fn the_worst_outcome_wins() {
        let (promise, reports) = promise();
        let (first, second) = (promise.ticket(), promise.ticket());
        drop(promise);
        first.settle(Outcome::Retry);
        second.settle(Outcome::Done);
        assert_eq!(reports.recv(), Ok(Outcome::Retry));
    }

    #[test]
    fn a_panic_is_a_retry() {
        let (promise, reports) = promise();
        let ticket = promise.ticket();
        drop(promise);
        let result = std::thread::spawn(move || {
            let _held = ticket;
            panic!("a panic that this test wants");
        })
        .join();
        assert!(result.is_err());
        assert_eq!(reports.recv(), Ok(Outcome::Retry));
    }

    #[test]
    fn a_delivery_without_traces_is_done() {
        let (promise, reports) = promise();
        drop(promise);
        assert_eq!(reports.recv(), Ok(Outcome::Done));
    }
}
