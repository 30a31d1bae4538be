use std::fmt;

use crate::domain::{IdError, LogRecord, Span};
use crate::error::Fault;

use super::{json, protobuf};

/// What a request carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// `ExportTraceServiceRequest`.
    Traces,
    /// `ExportLogsServiceRequest`.
    Logs,
}

impl Signal {
    /// The word that metrics and messages use.
    pub fn as_str(self) -> &'static str {
        match self {
            Signal::Traces => "traces",
            Signal::Logs => "logs",
        }
    }
}

/// How a request is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Binary protobuf.
    Protobuf,
    /// OTLP/JSON.
    Json,
}

impl Encoding {
    /// The word that metrics and messages use.
    pub fn as_str(self) -> &'static str {
        match self {
            Encoding::Protobuf => "protobuf",
            Encoding::Json => "json",
        }
    }
}

/// Why a body could not be read at all.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It is no protobuf of this kind; a string that is not UTF-8 ends here too.
    #[error("not an OTLP {} request in protobuf: {source}", signal.as_str())]
    Protobuf {
        /// What it was read as.
        signal: Signal,
        /// What prost said.
        source: prost::DecodeError,
    },
    /// It is no OTLP/JSON.
    #[error("not an OTLP/JSON request: {source}")]
    Json {
        /// What serde_json said, with line and column.
        source: serde_json::Error,
    },
    /// JSON must be UTF-8.
    #[error("not an OTLP/JSON request: the byte at {position} is not UTF-8")]
    NotUtf8 {
        /// Bytes before the first wrong one.
        position: usize,
    },
    /// A JSON object with keys, but none that holds spans or log records: silence would be loss.
    #[error("not an OTLP/JSON request: it has neither resourceSpans nor resourceLogs")]
    NoSignal,
}

impl DecodeError {
    /// The same bytes will never be readable.
    pub fn fault(&self) -> Fault {
        Fault::Poison
    }
}

/// Why one span or log record was set aside.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {name:?}: {id} id {source}")]
pub struct Reject {
    /// `span` or `log record`.
    pub what: &'static str,
    /// Its name, cut to a readable length.
    pub name: String,
    /// Which of its ids is wrong: `trace`, `span` or `parent span`.
    pub id: &'static str,
    /// What is wrong with it.
    pub source: IdError,
}

/// The spans or log records of a request that were set aside: how many, and the first few reasons.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rejects {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub first: Vec<Reject>,
}

impl Rejects {
    const KEPT: usize = 3;
    const NAME_CHARS: usize = 80;

    pub(super) fn add(&mut self, what: &'static str, name: &str, id: &'static str, source: IdError) {
        self.count += 1;
        if self.first.len() < Self::KEPT {
            let name = name.chars().take(Self::NAME_CHARS).collect();
            self.first.push(Reject { what, name, id, source });
        }
    }

    /// Whether nothing was set aside.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// The text of `partial_success`: the first reasons, then how many more.
impl fmt::Display for Rejects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, reject) in self.first.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{reject}")?;
        }
        match self.count - self.first.len() as u64 {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// What a request held.
#[derive(Debug, Default)]
pub struct Decoded {
    /// Its good spans, in order.
    pub spans: Vec<Span>,
    /// Its good log records that belong to a trace, in order.
    pub logs: Vec<LogRecord>,
    /// What was set aside.
    pub rejects: Rejects,
    /// Log records without a trace id. They are nothing to us and nobody's mistake.
    pub logs_without_trace: u64,
    /// Ids that came as base64 where OTLP/JSON asks for hexadecimal.
    pub base64_ids: u64,
}

impl Decoded {
    /// Bytes that spans and log records hold in memory, roughly.
    pub fn weight(&self) -> usize {
        let spans: usize = self.spans.iter().map(Span::weight).sum();
        let logs: usize = self.logs.iter().map(LogRecord::weight).sum();
        spans + logs
    }

    /// Whether nothing at all was in it, good or bad.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
            && self.logs.is_empty()
            && self.rejects.is_empty()
            && self.logs_without_trace == 0
    }
}

/// Reads a request of a known kind. JSON names its signals itself: a JSON request may hold either, or both.
pub fn decode(signal: Signal, encoding: Encoding, body: &[u8]) -> Result<Decoded, DecodeError> {
    match (encoding, signal) {
        (Encoding::Json, _) => json::decode(body),
        (Encoding::Protobuf, Signal::Traces) => protobuf::decode_traces(body),
        (Encoding::Protobuf, Signal::Logs) => protobuf::decode_logs(body),
    }
}

/// Reads a request of which only the bytes are known, as of a file: protobuf or JSON, traces or logs. The content decides.
pub fn decode_any(body: &[u8]) -> Result<Decoded, DecodeError> {
    // A protobuf request starts with the byte 0x0a, which is a line feed: only what follows tells it from JSON.
    if body.trim_ascii_start().first() == Some(&b'{') {
        match json::decode(body) {
            Err(DecodeError::Json { .. } | DecodeError::NotUtf8 { .. }) if body[0] == b'\n' => {}
            result => return result,
        }
    }
    decode_protobuf(body)
}

/// Reads a request in protobuf of which it is not known whether it holds spans or log records. The content decides.
pub fn decode_protobuf(body: &[u8]) -> Result<Decoded, DecodeError> {
    let as_traces = protobuf::decode_traces(body);
    if matches!(&as_traces, Ok(decoded) if !decoded.spans.is_empty() || body.is_empty()) {
        return as_traces;
    }
    match protobuf::decode_logs(body) {
        Ok(decoded) if !decoded.logs.is_empty() || decoded.logs_without_trace > 0 => Ok(decoded),
        _ => as_traces,
    }
}
