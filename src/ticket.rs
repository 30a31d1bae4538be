//! Promises to sources. Loss is the default: only [`Ticket::settle`] with [`Outcome::Done`] says that a delivery is safe.
//!
//! A verdict settles the tickets of several deliveries. A source that notes for a restart what is done must note all of them or
//! none, or the rest would be judged again without its beginning: hence [`together`] and [`apart`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, PoisonError, RwLock};

/// What became of a delivery, or of one trace's share of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All of it has reached a recorded outcome; the source may forget it.
    Done,
    /// Some of it has not; the source must deliver it again.
    Retry,
}

/// One for the process, since a trace may hold tickets of several sources. Held for a moment only, and never over an await.
static VERDICT: RwLock<()> = RwLock::new(());

/// Settles all tickets of one verdict: seen from within [`apart`], all of them are settled or none is.
pub fn together<R>(settle: impl FnOnce() -> R) -> R {
    let _many = VERDICT.read().unwrap_or_else(PoisonError::into_inner);
    settle()
}

/// Looks at what is settled between two verdicts and never within one. `look` must be quick and settle nothing.
pub fn apart<R>(look: impl FnOnce() -> R) -> R {
    let _alone = VERDICT.write().unwrap_or_else(PoisonError::into_inner);
    look()
}

type Report = Box<dyn FnOnce(Outcome) + Send>;
type ShareReport = Box<dyn Fn(u128) + Send + Sync>;

/// A promise to a source about one delivery. It reports once: when it and all its tickets are gone. The worst outcome wins.
pub struct Promise(Arc<Shared>);

struct Shared {
    retry: AtomicBool,
    share: Option<ShareReport>,
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
        Self::of(None, Some(Box::new(report)))
    }

    /// The same, for a source that can note parts of a delivery: `share` is called with the name of each share that is done
    /// while the delivery as a whole is not. Like `report`, it must not block.
    pub fn with_shares(
        share: impl Fn(u128) + Send + Sync + 'static,
        report: impl FnOnce(Outcome) + Send + 'static,
    ) -> Self {
        Self::of(Some(Box::new(share)), Some(Box::new(report)))
    }

    /// A promise to a source that does not listen.
    pub fn unheard() -> Self {
        Self::of(None, None)
    }

    fn of(share: Option<ShareReport>, report: Option<Report>) -> Self {
        Self(Arc::new(Shared { retry: AtomicBool::new(false), share, report: Mutex::new(report) }))
    }

    /// One more share of the promise. Hand out all tickets before dropping the promise itself: a promise without tickets is kept.
    pub fn ticket(&self) -> Ticket {
        self.cut(None)
    }

    /// The same, for a share that has a name: the trace's id as a number.
    pub fn ticket_of(&self, share: u128) -> Ticket {
        self.cut(Some(share))
    }

    fn cut(&self, share: Option<u128>) -> Ticket {
        Ticket { shared: Arc::clone(&self.0), share, settled: false }
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
    share: Option<u128>,
    settled: bool,
}

impl Ticket {
    /// Keeps (or breaks) this share of the promise.
    pub fn settle(mut self, outcome: Outcome) {
        self.settled = outcome == Outcome::Done;
        let is_last = Arc::strong_count(&self.shared) == 1;
        // What the others said before they went is seen from here on.
        fence(Ordering::Acquire);
        let is_whole = is_last && !self.shared.retry.load(Ordering::Relaxed);
        // Where the whole is done, nobody needs to know of its shares.
        if self.settled
            && !is_whole
            && let (Some(report), Some(share)) = (&self.shared.share, self.share)
        {
            report(share);
        }
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
    fn a_share_is_named_when_it_is_done_before_the_whole() {
        let (sender, shares) = mpsc::channel();
        let (report, reports) = mpsc::channel();
        let share = move |name| sender.send(name).unwrap();
        let promise = Promise::with_shares(share, move |outcome| report.send(outcome).unwrap());
        let (first, second, third) = (promise.ticket_of(1), promise.ticket_of(2), promise.ticket_of(3));
        drop(promise);
        first.settle(Outcome::Done);
        second.settle(Outcome::Retry);
        third.settle(Outcome::Done);
        assert_eq!(reports.recv(), Ok(Outcome::Retry));
        assert_eq!(shares.iter().collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn the_share_that_makes_a_delivery_whole_is_not_named() {
        let (sender, shares) = mpsc::channel();
        let promise = Promise::with_shares(move |name| sender.send(name).unwrap(), |_| {});
        let (first, second) = (promise.ticket_of(1), promise.ticket_of(2));
        drop(promise);
        first.settle(Outcome::Done);
        second.settle(Outcome::Done);
        assert_eq!(shares.iter().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn whoever_looks_between_verdicts_sees_all_tickets_of_one_or_none() {
        let (sender, reports) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let settling = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                while !stop.load(Ordering::Relaxed) {
                    let promises: Vec<Promise> = (0..3)
                        .map(|_| {
                            let sender = sender.clone();
                            Promise::new(move |outcome| sender.send(outcome).unwrap())
                        })
                        .collect();
                    let tickets: Vec<Ticket> = promises.iter().map(Promise::ticket).collect();
                    drop(promises);
                    together(|| tickets.into_iter().for_each(|ticket| ticket.settle(Outcome::Done)));
                }
            }
        });
        let mut seen = 0;
        for _ in 0..200 {
            std::thread::yield_now();
            seen += apart(|| reports.try_iter().count());
            assert_eq!(seen % 3, 0, "a verdict in parts");
        }
        stop.store(true, Ordering::Relaxed);
        // What is still sent needs a receiver.
        settling.join().unwrap();
    }

    #[test]
    fn a_delivery_without_traces_is_done() {
        let (promise, reports) = promise();
        drop(promise);
        assert_eq!(reports.recv(), Ok(Outcome::Done));
    }
}
