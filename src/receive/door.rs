//! Admission: spans enter within the memory budget, or the sender is told to come back.

use crate::domain::{LogRecord, Span};
use crate::ticket::Promise;

/// Spans and log records of one request or message, and the promise to its source.
pub struct Delivery {
    /// The spans.
    pub spans: Vec<Span>,
    /// The log records that belong to a trace.
    pub logs: Vec<LogRecord>,
    /// What the source was promised.
    pub promise: Promise,
}

/// Why a delivery was not admitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The memory budget is spent; come back.
    #[error("the memory budget for spans is spent; retry later")]
    Full,
    /// The daemon is stopping.
    #[error("assayd is shutting down; retry elsewhere or later")]
    Closing,
}

/// The way in.
#[derive(Clone)]
pub struct Door {}
