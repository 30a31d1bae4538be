//! Admission: spans enter within the memory budget, or the sender is told to come back.
//!
//! Bytes are counted from a request's first byte on. They travel with the spans (see [`Held`]) and are free again when the
//! last trace that holds them is done, so that the budget bounds requests, open traces and traces under evaluation together.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::domain::{LogRecord, Span};
use crate::error::Fault;
use crate::otlp::{Encoding, Signal};
use crate::ticket::{Outcome, Promise, Ticket};

use super::Config;

/// Deliveries between the door and the assembler: enough to keep both busy; the budget is what bounds memory.
const QUEUE: usize = 64;

/// Spans and log records of one request or message on their way in, and the promise to their source.
#[derive(Debug)]
pub struct Arrival {
    /// The spans.
    pub spans: Vec<Span>,
    /// The log records that belong to a trace.
    pub logs: Vec<LogRecord>,
    /// What the source was promised.
    pub promise: Promise,
    /// The request as it came, for whoever must be able to read it again after a restart.
    pub raw: Option<Raw>,
}

/// A request as it came, decompressed.
#[derive(Debug, Clone)]
pub struct Raw {
    /// What it carries.
    pub signal: Signal,
    /// How it is written.
    pub encoding: Encoding,
    /// Its bytes.
    pub body: Bytes,
}

/// An admitted arrival, for the assembler.
#[derive(Debug)]
pub struct Delivery {
    spans: Vec<Span>,
    logs: Vec<LogRecord>,
    stakes: Stakes,
}

/// What a delivery has to give to the traces that it touches: a ticket of its promise and its share of the memory.
#[derive(Debug)]
pub struct Stakes {
    promise: Promise,
    held: Held,
}

/// One trace's stake in a delivery. Dropped without [`settle`](Self::settle) it means [`Outcome::Retry`]; its memory is free then
/// in any case.
#[derive(Debug)]
#[must_use = "a stake that is dropped means Retry"]
pub struct Stake {
    ticket: Ticket,
    _held: Held,
}

/// Bytes of the memory budget, free again when dropped.
#[derive(Debug, Default)]
pub struct Held(Option<OwnedSemaphorePermit>);

/// Why a delivery was not admitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The memory budget is spent; come back.
    #[error("the memory budget for spans is spent; retry later")]
    Full,
    /// The daemon is stopping.
    #[error("assayd is shutting down; retry elsewhere or later")]
    Closing,
    /// It would not fit into an empty house.
    #[error(
        "these spans need {bytes} bytes of memory and receive.max_bytes is {limit}; send smaller requests"
    )]
    TooLarge {
        /// What they need.
        bytes: usize,
        /// The budget.
        limit: usize,
    },
}

/// The way in. Clones are the same door.
#[derive(Debug, Clone)]
pub struct Door {
    budget: Arc<Semaphore>,
    limit: usize,
    wait: Duration,
    queue: mpsc::Sender<Delivery>,
    closing: CancellationToken,
}

/// Opens a door; what it admits comes out of the receiver, which ends when all clones of the door are gone.
pub fn open(config: &Config) -> (Door, mpsc::Receiver<Delivery>) {
    let (queue, deliveries) = mpsc::channel(QUEUE);
    let limit = config.max_bytes.as_usize().min(Semaphore::MAX_PERMITS);
    let door = Door {
        budget: Arc::new(Semaphore::new(limit)),
        limit,
        wait: config.wait.0,
        queue,
        closing: CancellationToken::new(),
    };
    (door, deliveries)
}

impl Door {
    /// Admits spans for which `held` is held so far, or says within `receive.wait` why not. A refused promise is a retry.
    pub async fn admit(&self, arrival: Arrival, held: Held) -> Result<(), Refusal> {
        match tokio::time::timeout(self.wait, self.admit_waiting(arrival, held)).await {
            Ok(result) => result,
            Err(_) => Err(Refusal::Full),
        }
    }

    /// Admits spans when there is room, however long that takes: for sources that can be paused.
    pub async fn admit_waiting(&self, arrival: Arrival, mut held: Held) -> Result<(), Refusal> {
        let Arrival { spans, logs, promise, raw } = arrival;
        // Kept even when the future is dropped half-way: the source must hear "retry", not "done".
        let ticket = promise.ticket();
        // `acknowledge: stored` will have its place here: the request goes to disk before it is let in.
        drop(raw);
        let bytes = weight(&spans, &logs);
        if bytes > self.limit {
            return Err(Refusal::TooLarge { bytes, limit: self.limit });
        }
        let enter = async {
            self.resize(&mut held, bytes).await;
            let delivery = Delivery { spans, logs, stakes: Stakes { promise, held } };
            self.queue.send(delivery).await.map_err(|_| Refusal::Closing)
        };
        tokio::select! {
            biased;
            () = self.closing.cancelled() => Err(Refusal::Closing),
            result = enter => {
                if result.is_ok() {
                    ticket.settle(Outcome::Done);
                }
                result
            }
        }
    }

    /// From now on nothing is admitted.
    pub fn close(&self) {
        self.closing.cancel();
    }

    /// Bytes that are held now.
    pub fn held_bytes(&self) -> usize {
        self.limit.saturating_sub(self.budget.available_permits())
    }

    /// Makes `held` hold `more` bytes more, now or not at all.
    pub(super) fn grow(&self, held: &mut Held, more: usize) -> Result<(), Refusal> {
        if self.closing.is_cancelled() {
            return Err(Refusal::Closing);
        }
        let more = u32::try_from(more).map_err(|_| Refusal::Full)?;
        let permit = Arc::clone(&self.budget).try_acquire_many_owned(more).map_err(|_| Refusal::Full)?;
        held.merge(permit);
        Ok(())
    }

    async fn resize(&self, held: &mut Held, bytes: usize) {
        while held.bytes() < bytes {
            let missing = u32::try_from(bytes - held.bytes()).unwrap_or(u32::MAX);
            let permit = Arc::clone(&self.budget).acquire_many_owned(missing).await;
            held.merge(permit.expect("nobody closes the budget"));
        }
        let surplus = held.bytes() - bytes;
        drop(held.split(surplus));
    }
}

impl Delivery {
    /// Its spans, its log records, and what it has to give to their traces.
    pub fn into_parts(self) -> (Vec<Span>, Vec<LogRecord>, Stakes) {
        (self.spans, self.logs, self.stakes)
    }
}

impl Stakes {
    /// A trace's stake, with so many bytes of the memory. What nobody took is free when this is dropped.
    pub fn cut(&mut self, bytes: usize) -> Stake {
        Stake { ticket: self.promise.ticket(), _held: self.held.split(bytes) }
    }
}

impl Stake {
    /// Says what became of the trace's share of the delivery, and frees its memory.
    pub fn settle(self, outcome: Outcome) {
        self.ticket.settle(outcome);
    }
}

impl Held {
    /// How many bytes.
    pub fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    /// So many of them, or all if there are fewer.
    fn split(&mut self, bytes: usize) -> Held {
        let bytes = bytes.min(self.bytes());
        Held(self.0.as_mut().and_then(|permit| permit.split(bytes)))
    }

    fn merge(&mut self, more: OwnedSemaphorePermit) {
        match &mut self.0 {
            Some(permit) => permit.merge(more),
            None => self.0 = Some(more),
        }
    }
}

impl Refusal {
    /// Whether to send the same again.
    pub fn fault(&self) -> Fault {
        match self {
            Refusal::Full | Refusal::Closing => Fault::Transient,
            Refusal::TooLarge { .. } => Fault::Poison,
        }
    }
}

/// Bytes that spans and log records hold in memory, roughly.
fn weight(spans: &[Span], logs: &[LogRecord]) -> usize {
    let spans: usize = spans.iter().map(Span::weight).sum();
    let logs: usize = logs.iter().map(LogRecord::weight).sum();
    spans + logs
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc as reports;

    use super::*;
    use crate::domain::{Attributes, ByteSize, Period, SpanId, SpanKind, Status, Time, TraceId, Value};

    fn config(max_bytes: u64) -> Config {
        Config { max_bytes: ByteSize(max_bytes), wait: Period::millis(10), ..Config::default() }
    }

    fn record() -> LogRecord {
        LogRecord {
            trace_id: TraceId::try_from(&[1; 16][..]).unwrap(),
            span_id: None,
            time: Time(1),
            event_name: String::new(),
            body: Value::Null,
            attributes: Attributes::new(),
            resource: Arc::default(),
            scope: Arc::default(),
        }
    }

    fn span() -> Span {
        Span {
            trace_id: TraceId::try_from(&[1; 16][..]).unwrap(),
            span_id: SpanId::try_from(&[1; 8][..]).unwrap(),
            parent_id: None,
            name: String::new(),
            kind: SpanKind::Internal,
            start: Time(1),
            end: Time(1),
            status: Status::Unset,
            attributes: Attributes::new(),
            events: Vec::new(),
            links: Vec::new(),
            dropped_attributes: 0,
            resource: Arc::default(),
            scope: Arc::default(),
        }
    }

    fn arrival(spans: usize) -> (Arrival, reports::Receiver<Outcome>) {
        let (report, reports) = reports::channel();
        let promise = Promise::new(move |outcome| {
            // Some tests do not listen.
            let _ = report.send(outcome);
        });
        (Arrival { spans: vec![span(); spans], logs: Vec::new(), promise, raw: None }, reports)
    }

    #[tokio::test]
    async fn memory_is_held_until_the_last_trace_is_done() {
        let one = span().weight();
        let (door, mut deliveries) = open(&config(3 * one as u64));
        let (first, reports) = arrival(3);
        door.admit(first, Held::default()).await.unwrap();
        let (second, refused) = arrival(1);
        assert_eq!(door.admit(second, Held::default()).await, Err(Refusal::Full));
        assert_eq!(refused.try_recv(), Ok(Outcome::Retry));

        let (spans, _, mut stakes) = deliveries.recv().await.unwrap().into_parts();
        let (a, b) = (stakes.cut(one), stakes.cut(one));
        drop((spans, stakes));
        assert_eq!(door.held_bytes(), 2 * one, "what no trace took is free");
        a.settle(Outcome::Done);
        assert_eq!((door.held_bytes(), reports.try_recv().ok()), (one, None));
        b.settle(Outcome::Done);
        assert_eq!((door.held_bytes(), reports.try_recv()), (0, Ok(Outcome::Done)));
    }

    #[tokio::test]
    async fn bytes_of_the_request_become_bytes_of_its_spans() {
        let one = span().weight();
        let (door, _deliveries) = open(&config(10 * one as u64));
        let mut held = Held::default();
        door.grow(&mut held, 8 * one).unwrap();
        assert_eq!(door.grow(&mut held, 3 * one), Err(Refusal::Full));
        door.admit(arrival(2).0, held).await.unwrap();
        assert_eq!(door.held_bytes(), 2 * one);
    }

    #[tokio::test]
    async fn what_can_never_fit_is_not_asked_to_come_back() {
        let (door, _deliveries) = open(&config(10));
        let refusal = door.admit(arrival(1).0, Held::default()).await.unwrap_err();
        assert!(matches!(refusal, Refusal::TooLarge { limit: 10, .. }));
        assert_eq!(refusal.fault(), Fault::Poison);
    }

    #[tokio::test]
    async fn a_closed_door_and_a_gone_assembler_refuse() {
        let (door, deliveries) = open(&config(1 << 20));
        drop(deliveries);
        assert_eq!(door.admit(arrival(1).0, Held::default()).await, Err(Refusal::Closing));
        let (door, _deliveries) = open(&config(1 << 20));
        door.close();
        let (late, reports) = arrival(1);
        assert_eq!(door.admit(late, Held::default()).await, Err(Refusal::Closing));
        assert_eq!(reports.try_recv(), Ok(Outcome::Retry));
        assert_eq!(door.held_bytes(), 0);
    }

    #[tokio::test]
    async fn a_source_that_waits_is_let_in_when_there_is_room() {
        let one = record().weight();
        let (door, mut deliveries) = open(&config(one as u64));
        let logs =
            || Arrival { spans: Vec::new(), logs: vec![record()], promise: Promise::unheard(), raw: None };
        door.admit(logs(), Held::default()).await.unwrap();
        let waiting = tokio::spawn({
            let door = door.clone();
            async move { door.admit_waiting(logs(), Held::default()).await }
        });
        drop(deliveries.recv().await.unwrap());
        assert_eq!(waiting.await.unwrap(), Ok(()));
    }
}
