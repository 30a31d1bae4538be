//! What comes to the door, and what leaves it for the assembler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use crate::domain::{LogRecord, Span, TraceId};
use crate::otlp::{self, DecodeError, Encoding, Signal};
use crate::ticket::{self, Outcome, Promise, Ticket};

use super::door::Held;
use super::intake::drop_own;

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
    pub(super) spans: Vec<Span>,
    pub(super) logs: Vec<LogRecord>,
    pub(super) stakes: Stakes,
}

/// What a delivery has to give to the traces that it touches: a ticket of its promise and its share of the memory.
#[derive(Debug)]
pub struct Stakes {
    pub(super) promise: Promise,
    pub(super) held: Held,
    pub(super) fence: Fence,
}

/// Says whether somebody else answers for a delivery by now. The default: nobody but us can, as with OTLP.
#[derive(Debug, Clone, Default)]
pub struct Fence(Option<Arc<AtomicBool>>);

/// One trace's stake in a delivery. Dropped without [`settle`](Self::settle) it means [`Outcome::Retry`]; its memory is free then
/// in any case.
#[derive(Debug)]
#[must_use = "a stake that is dropped means Retry"]
pub struct Stake {
    ticket: Ticket,
    _held: Held,
    fence: Fence,
}

impl Arrival {
    /// Leaves out the traces of these shares: their part of the delivery is done.
    pub fn without(&mut self, done: &[u128]) {
        if !done.is_empty() {
            self.spans.retain(|span| !done.contains(&share(span.trace_id)));
            self.logs.retain(|record| !done.contains(&share(record.trace_id)));
        }
    }

    /// Bytes that its spans and log records hold in memory, roughly.
    pub fn weight(&self) -> usize {
        let spans: usize = self.spans.iter().map(Span::weight).sum();
        let logs: usize = self.logs.iter().map(LogRecord::weight).sum();
        spans + logs
    }

    /// Reads a stored request again. The promise is the store's.
    pub fn read(raw: &Raw, promise: Promise) -> Result<Self, DecodeError> {
        let mut decoded = otlp::decode(raw.signal, raw.encoding, &raw.body)?;
        drop_own(&mut decoded);
        Ok(Self { spans: decoded.spans, logs: decoded.logs, promise, raw: None })
    }
}

impl Raw {
    /// Signal and encoding as one number, which [`Raw::new`] understands; part of what is on disk.
    pub fn kind(&self) -> u8 {
        match (self.signal, self.encoding) {
            (Signal::Traces, Encoding::Protobuf) => 1,
            (Signal::Traces, Encoding::Json) => 2,
            (Signal::Logs, Encoding::Protobuf) => 3,
            (Signal::Logs, Encoding::Json) => 4,
        }
    }

    /// A request of this kind; none for a number that no version of assayd wrote.
    pub fn new(kind: u8, body: Bytes) -> Option<Self> {
        let (signal, encoding) = match kind {
            1 => (Signal::Traces, Encoding::Protobuf),
            2 => (Signal::Traces, Encoding::Json),
            3 => (Signal::Logs, Encoding::Protobuf),
            4 => (Signal::Logs, Encoding::Json),
            _ => return None,
        };
        Some(Self { signal, encoding, body })
    }
}

impl Delivery {
    /// Its spans, its log records, and what it has to give to their traces.
    pub fn into_parts(self) -> (Vec<Span>, Vec<LogRecord>, Stakes) {
        (self.spans, self.logs, self.stakes)
    }
}

impl Stakes {
    /// A stake with so many bytes of the memory. What nobody took is free when this is dropped.
    pub fn cut(&mut self, bytes: usize) -> Stake {
        Stake { ticket: self.promise.ticket(), _held: self.held.split(bytes), fence: self.fence.clone() }
    }

    /// The same for a trace, whose share its source can note when the rest of the delivery is not done.
    pub fn cut_for(&mut self, trace_id: TraceId, bytes: usize) -> Stake {
        Stake { ticket: self.promise.ticket_of(share(trace_id)), ..self.cut(bytes) }
    }
}

/// The name of a trace's share in the promises of its deliveries.
pub fn share(trace_id: TraceId) -> u128 {
    u128::from_be_bytes(*trace_id.as_bytes())
}

impl Fence {
    /// For a source that keeps what it delivered and can deliver it to another replica.
    pub(super) fn of_keeper() -> Self {
        Self(Some(Arc::default()))
    }

    /// From now on another replica answers for it.
    pub(super) fn close(&self) {
        if let Some(closed) = &self.0 {
            closed.store(true, Ordering::Release);
        }
    }
}

impl Stake {
    /// Whether the source keeps the delivery, for us or another replica to read again.
    pub fn is_kept(&self) -> bool {
        self.fence.0.is_some()
    }

    /// Whether another replica answers for the delivery by now.
    pub fn is_fenced(&self) -> bool {
        self.fence.0.as_ref().is_some_and(|closed| closed.load(Ordering::Acquire))
    }

    /// Says what became of the trace's share of the delivery, and frees its memory.
    pub fn settle(self, outcome: Outcome) {
        self.ticket.settle(outcome);
    }

    /// Settles all stakes of a verdict, so that no source notes some of them without the others.
    pub fn settle_all(stakes: impl IntoIterator<Item = Self>, outcome: Outcome) {
        ticket::together(|| stakes.into_iter().for_each(|stake| stake.settle(outcome)));
    }
}
