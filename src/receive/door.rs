//! Admission: spans enter within the memory budget, or the sender is told to come back.
//!
//! Bytes are counted from a request's first byte on. They travel with the spans (see [`Held`]) and are free again when the
//! last trace that holds them is done, so that the budget bounds requests, open traces and traces under evaluation together.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::error::Fault;
use crate::ticket::{Outcome, Promise, Ticket};

use super::delivery::{Arrival, Delivery, Fence, Raw, Stakes};
use super::{Acknowledge, Config};

/// Deliveries between the door and the assembler: enough to keep both busy; the budget is what bounds memory.
const QUEUE: usize = 64;

/// Bytes of the memory budget, free again when dropped.
#[derive(Debug, Default)]
pub struct Held(Option<OwnedSemaphorePermit>);

/// Why a delivery was not admitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The memory budget is spent; come back.
    #[error("the memory budget for spans is spent; retry later")]
    Full,
    /// They could not be written to disk; come back.
    #[error("the spans could not be stored; retry later")]
    NotStored,
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

/// Makes a request durable before its sender hears that it is safe. The promise that it gives back reports when the request is
/// done and may be forgotten.
pub trait Store: Fn(Raw) -> BoxFuture<'static, Result<Promise, Refusal>> + Send + Sync {}

impl<F: Fn(Raw) -> BoxFuture<'static, Result<Promise, Refusal>> + Send + Sync> Store for F {}

/// What an admitted request had to leave outside.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Spans and log records.
    pub items: u64,
    /// Why, for their sender; empty if there are none.
    pub message: String,
}

/// Takes a request to where it is safe, as it came, instead of inside.
pub trait Forward: Fn(Raw) -> BoxFuture<'static, Result<LeftOut, Refusal>> + Send + Sync {}

impl<F: Fn(Raw) -> BoxFuture<'static, Result<LeftOut, Refusal>> + Send + Sync> Forward for F {}

/// The way in. Clones are the same door.
#[derive(Clone)]
pub struct Door {
    budget: Arc<Semaphore>,
    limit: usize,
    wait: Duration,
    queue: mpsc::Sender<Delivery>,
    store: Option<Arc<dyn Store>>,
    forward: Option<Arc<dyn Forward>>,
    must_store: bool,
    closing: CancellationToken,
}

/// A place inside: memory, and a slot in the queue.
struct Room<'door> {
    held: Held,
    slot: mpsc::Permit<'door, Delivery>,
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
        store: None,
        forward: None,
        must_store: config.acknowledge == Acknowledge::Stored,
        closing: CancellationToken::new(),
    };
    (door, deliveries)
}

impl Door {
    /// The same door, but requests that come with their bytes are stored before they are admitted. With `acknowledge: stored` a
    /// door without a store refuses them.
    pub fn storing(self, store: impl Store + 'static) -> Self {
        Self { store: Some(Arc::new(store)), ..self }
    }

    /// The same door, but the requests that it [`admit`](Self::admit)s go to `forward`, within the same budget, and not inside.
    pub fn forwarding(self, forward: impl Forward + 'static) -> Self {
        Self { forward: Some(Arc::new(forward)), ..self }
    }

    /// Admits spans for which `held` is held so far, or says within `receive.wait` why not. A refused promise is a retry.
    pub async fn admit(&self, arrival: Arrival, held: Held) -> Result<LeftOut, Refusal> {
        // Whatever happens to this future, the source must not hear "done" before the spans are inside.
        let ticket = arrival.promise.ticket();
        if let Some(forward) = &self.forward {
            let left_out = self.pass_on(&**forward, arrival, held).await?;
            ticket.settle(Outcome::Done);
            return Ok(left_out);
        }
        let room = tokio::time::timeout(self.wait, self.room(&arrival, held)).await;
        self.enter(arrival, room.unwrap_or(Err(Refusal::Full))?, ticket).await?;
        Ok(LeftOut::default())
    }

    /// Admits spans when there is room, however long that takes: for sources that can be paused.
    pub async fn admit_waiting(&self, arrival: Arrival, held: Held) -> Result<(), Refusal> {
        let ticket = arrival.promise.ticket();
        let room = self.room(&arrival, held).await?;
        self.enter(arrival, room, ticket).await
    }

    /// Admits spans of so many bytes now, or gives them back: for sources that must not wait. They are not stored, for such
    /// a source keeps them itself.
    pub fn try_admit(&self, arrival: Arrival, bytes: usize, fence: &Fence) -> Result<(), Arrival> {
        let mut held = Held::default();
        if self.grow(&mut held, bytes).is_err() {
            return Err(arrival);
        }
        let Ok(slot) = self.queue.try_reserve() else { return Err(arrival) };
        let Arrival { spans, logs, promise, .. } = arrival;
        slot.send(Delivery { spans, logs, stakes: Stakes { promise, held, fence: fence.clone() } });
        Ok(())
    }

    /// Whether so many bytes would fit into an empty house.
    pub(super) fn fits(&self, bytes: usize) -> Result<(), Refusal> {
        if bytes > self.limit { Err(Refusal::TooLarge { bytes, limit: self.limit }) } else { Ok(()) }
    }

    /// Whether there is room to spare: a source that paused because the door was full may begin again.
    pub(super) fn is_calm(&self) -> bool {
        let has_memory = self.held_bytes() <= self.limit / 8 * 7;
        has_memory && self.queue.capacity() >= self.queue.max_capacity() / 2
    }

    async fn room(&self, arrival: &Arrival, mut held: Held) -> Result<Room<'_>, Refusal> {
        let bytes = arrival.weight();
        self.fits(bytes)?;
        let room = async {
            self.resize(&mut held, bytes).await;
            let slot = self.queue.reserve().await.map_err(|_| Refusal::Closing)?;
            Ok(Room { held, slot })
        };
        tokio::select! {
            biased;
            () = self.closing.cancelled() => Err(Refusal::Closing),
            room = room => room,
        }
    }

    /// Holds memory for the request until whoever takes it has it.
    async fn pass_on(
        &self,
        forward: &dyn Forward,
        arrival: Arrival,
        mut held: Held,
    ) -> Result<LeftOut, Refusal> {
        let weight = arrival.weight();
        // What did not come as a request has no bytes to pass on.
        let Some(raw) = arrival.raw else { return Err(Refusal::NotStored) };
        let bytes = weight.max(raw.body.len());
        self.fits(bytes)?;
        let growing = tokio::time::timeout(self.wait, self.resize(&mut held, bytes));
        tokio::select! {
            biased;
            () = self.closing.cancelled() => return Err(Refusal::Closing),
            grown = growing => grown.map_err(|_| Refusal::Full)?,
        }
        forward(raw).await
    }

    /// Stores and hands over. The room is taken first: what is stored is always let in, and never refused afterwards.
    async fn enter(&self, arrival: Arrival, room: Room<'_>, ticket: Ticket) -> Result<(), Refusal> {
        let Arrival { spans, logs, promise, raw } = arrival;
        let promise = match (&self.store, raw) {
            (Some(store), Some(raw)) => store(raw).await?,
            (None, Some(_)) if self.must_store => return Err(Refusal::NotStored),
            _ => promise,
        };
        let stakes = Stakes { promise, held: room.held, fence: Fence::default() };
        room.slot.send(Delivery { spans, logs, stakes });
        ticket.settle(Outcome::Done);
        Ok(())
    }

    /// From now on nothing is admitted.
    pub fn close(&self) {
        self.closing.cancel();
    }

    /// Cancelled when the door closes, for whoever takes what it admits: then nothing comes any more but what is on its way,
    /// whoever still holds a clone of it.
    pub fn closing(&self) -> CancellationToken {
        self.closing.clone()
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

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door")
            .field("limit", &self.limit)
            .field("held", &self.held_bytes())
            .field("stores", &self.store.is_some())
            .finish_non_exhaustive()
    }
}

impl Held {
    /// How many bytes.
    pub fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    /// So many of them, or all if there are fewer.
    pub(super) fn split(&mut self, bytes: usize) -> Held {
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
            Refusal::Full | Refusal::NotStored | Refusal::Closing => Fault::Transient,
            Refusal::TooLarge { .. } => Fault::Poison,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc as reports;

    use super::*;
    use crate::domain::{ByteSize, LogRecord, Period, Span, SpanId, TraceId};
    use crate::otlp::{Encoding, Signal};
    use crate::receive::sample::logs;

    fn config(max_bytes: u64) -> Config {
        Config { max_bytes: ByteSize(max_bytes), wait: Period::millis(10), ..Config::default() }
    }

    fn trace_id() -> TraceId {
        TraceId::try_from(&[1; 16][..]).unwrap()
    }

    fn record() -> LogRecord {
        LogRecord::new(trace_id())
    }

    fn span() -> Span {
        Span::new(trace_id(), SpanId::try_from(&[1; 8][..]).unwrap())
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
    async fn a_stored_request_is_kept_until_its_traces_are_done_and_can_be_read_again() {
        let (report, reports) = reports::channel();
        let (door, mut deliveries) = open(&config(1 << 20));
        let door = door.storing(move |raw: Raw| -> BoxFuture<'static, Result<Promise, Refusal>> {
            let report = report.clone();
            Box::pin(async move {
                let promise =
                    Promise::new(move |outcome| report.send((raw.kind(), raw.body, outcome)).unwrap());
                Ok(promise)
            })
        });
        let (arrival, sent) = logs(&[1]);
        door.admit(arrival, Held::default()).await.unwrap();
        let (_, records, mut stakes) = deliveries.recv().await.unwrap().into_parts();
        let stake = stakes.cut(0);
        drop(stakes);
        assert!(reports.try_recv().is_err());
        stake.settle(Outcome::Done);
        let (kind, body, outcome) = reports.try_recv().unwrap();
        assert_eq!((kind, &body, outcome), (sent.kind(), &sent.body, Outcome::Done));
        let again = Arrival::read(&Raw::new(kind, body).unwrap(), Promise::unheard()).unwrap();
        assert_eq!(again.logs, records);
    }

    #[tokio::test]
    async fn a_door_that_must_store_and_cannot_refuses() {
        let config = Config { acknowledge: Acknowledge::Stored, ..config(1 << 20) };
        let (door, _deliveries) = open(&config);
        assert_eq!(door.admit(logs(&[1]).0, Held::default()).await, Err(Refusal::NotStored));
    }

    #[tokio::test]
    async fn what_cannot_be_stored_is_refused_and_holds_nothing() {
        let (door, mut deliveries) = open(&config(1 << 20));
        let store = |_: Raw| -> BoxFuture<'static, Result<Promise, Refusal>> {
            Box::pin(async { Err(Refusal::NotStored) })
        };
        let door = door.storing(store);
        assert_eq!(door.admit(logs(&[1]).0, Held::default()).await, Err(Refusal::NotStored));
        assert_eq!(door.held_bytes(), 0);
        assert!(deliveries.try_recv().is_err());
        door.admit(arrival(1).0, Held::default()).await.unwrap();
        assert!(deliveries.try_recv().is_ok(), "without its bytes it is not for the store");
    }

    #[tokio::test]
    async fn what_is_passed_on_holds_memory_until_it_is_safe_and_is_refused_if_it_is_not() {
        let one = span().weight();
        let (door, _inside) = open(&config(2 * one as u64));
        let (release, released) = tokio::sync::oneshot::channel::<Result<LeftOut, Refusal>>();
        let released = std::sync::Mutex::new(Some(released));
        let came = || {
            let raw = Raw { signal: Signal::Traces, encoding: Encoding::Protobuf, body: vec![7; one].into() };
            Arrival { raw: Some(raw), ..arrival(2).0 }
        };
        let door = door.forwarding(move |raw: Raw| -> BoxFuture<'static, _> {
            assert_eq!(raw.body, vec![7; one]);
            let released = released.lock().unwrap().take();
            Box::pin(async move { released.ok_or(Refusal::NotStored)?.await.unwrap() })
        });
        let waiting = tokio::spawn({
            let (door, came) = (door.clone(), came());
            async move { door.admit(came, Held::default()).await }
        });
        while door.held_bytes() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(door.admit(came(), Held::default()).await, Err(Refusal::Full));
        let left_out = LeftOut { items: 1, message: "too large".into() };
        release.send(Ok(left_out.clone())).unwrap();
        assert_eq!(waiting.await.unwrap(), Ok(left_out));
        assert_eq!(door.admit(came(), Held::default()).await, Err(Refusal::NotStored));
        assert_eq!(door.held_bytes(), 0);
    }

    #[tokio::test]
    async fn a_source_that_must_not_wait_gets_its_spans_back_and_comes_again_when_there_is_room_to_spare() {
        let one = span().weight();
        let (door, mut deliveries) = open(&config(8 * one as u64));
        let (first, reports) = arrival(8);
        let fence = Fence::of_keeper();
        door.try_admit(first, 8 * one, &fence).unwrap();
        let second = door.try_admit(arrival(1).0, one, &fence).unwrap_err();
        assert!(!door.is_calm());
        drop(deliveries.recv().await.unwrap());
        assert_eq!(reports.try_recv(), Ok(Outcome::Done));
        assert!(door.is_calm());
        door.try_admit(second, one, &fence).unwrap();
        let stake = deliveries.recv().await.unwrap().into_parts().2.cut(one);
        assert!(stake.is_kept() && !stake.is_fenced());
        fence.close();
        assert!(stake.is_fenced());
        assert_eq!(door.fits(9 * one).unwrap_err().fault(), Fault::Poison);
    }

    #[tokio::test]
    async fn a_source_that_waits_is_let_in_when_there_is_room() {
        let one = record().weight();
        let (door, mut deliveries) = open(&config(one as u64));
        let one_record =
            || Arrival { spans: Vec::new(), logs: vec![record()], promise: Promise::unheard(), raw: None };
        door.admit(one_record(), Held::default()).await.unwrap();
        let waiting = tokio::spawn({
            let door = door.clone();
            async move { door.admit_waiting(one_record(), Held::default()).await }
        });
        drop(deliveries.recv().await.unwrap());
        assert_eq!(waiting.await.unwrap(), Ok(()));
    }
}
