//! From a request's bytes to admitted spans; the same for both transports.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::sync::Semaphore;

use crate::domain::{LogRecord, Resource, Scope, Span, Time};
use crate::metrics;
use crate::otlp::{self, DecodeError, Decoded, Encoding, Signal};
use crate::ticket::Promise;

use super::body::{self, Compression};
use super::delivery::{Arrival, Raw};
use super::door::{Door, Held, LeftOut, Refusal};

/// What may be read without leaving the async thread: well under a millisecond of work.
const INLINE_BYTES: usize = 128 * 1024;
/// The same for compressed bytes, which may become many more.
const INLINE_COMPRESSED_BYTES: usize = 4 * 1024;

/// Bodies up to this size are decoded without counting first what they become: a few megabytes at worst.
pub(super) const UNCOUNTED_BYTES: usize = 128 * 1024;

/// The name under which assayd sends telemetry of its own.
const OWN_NAME: &str = "assayd";

/// Reads requests of one receiver and brings them to the door.
#[derive(Debug, Clone)]
pub(super) struct Intake {
    receiver: &'static str,
    max_message: usize,
    door: Door,
    /// Bounds the requests that are being read at once, and so the memory for what is between bytes and spans.
    readers: Arc<Semaphore>,
}

/// A request's content, as it came over the wire.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) signal: Signal,
    pub(super) encoding: Encoding,
    pub(super) compression: Compression,
    pub(super) body: Bytes,
    /// Memory that is held for the body so far.
    pub(super) held: Held,
}

/// An admitted request: how many spans or log records were left out, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Accepted {
    pub(super) rejected: u64,
    pub(super) message: String,
}

/// Why a request was refused as a whole.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error(transparent)]
    Door(#[from] Refusal),
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    #[error("the body is not {}: {source}", compression.as_str())]
    Garbled { compression: Compression, source: std::io::Error },
    #[error(
        "the request is larger than receive.max_message, {limit} bytes after decompression; send smaller ones"
    )]
    Oversized { limit: usize },
    #[error("the request did not arrive within receive.request_timeout, {}s", limit.as_secs_f64())]
    Slow { limit: Duration },
    #[error("the body ended early: {0}")]
    Broken(String),
    #[error("content type {found:?} is not supported; send application/x-protobuf or application/json")]
    ContentType { found: String },
    #[error("content encoding {found:?} is not supported; send gzip, zstd or none")]
    ContentEncoding { found: String },
    #[error("this receiver needs a token of receive.tokens: send authorization: Bearer TOKEN")]
    Unauthenticated,
}

impl Refused {
    /// The word that metrics use.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Refused::Door(Refusal::Full) => "full",
            Refused::Door(Refusal::NotStored) => "not_stored",
            Refused::Door(Refusal::Closing) => "closing",
            Refused::Door(Refusal::TooLarge { .. }) | Refused::Oversized { .. } => "too_large",
            Refused::Malformed(_) | Refused::Garbled { .. } | Refused::Broken(_) => "malformed",
            Refused::Slow { .. } => "timeout",
            Refused::ContentType { .. } => "content_type",
            Refused::ContentEncoding { .. } => "encoding",
            Refused::Unauthenticated => "unauthenticated",
        }
    }
}

impl Accepted {
    fn leave_out(&mut self, receiver: &'static str, left_out: LeftOut) {
        if left_out.items == 0 {
            return;
        }
        metrics::receive_rejected(receiver, "too_large", to_usize(left_out.items));
        self.rejected += left_out.items;
        if !self.message.is_empty() {
            self.message.push_str("; ");
        }
        self.message.push_str(&left_out.message);
    }
}

impl Intake {
    pub(super) fn new(receiver: &'static str, max_message: usize, door: Door) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { receiver, max_message, door, readers: Arc::new(Semaphore::new(2 * cores)) }
    }

    pub(super) fn door(&self) -> &Door {
        &self.door
    }

    pub(super) fn max_message(&self) -> usize {
        self.max_message
    }

    /// Counts a refusal.
    pub(super) fn refused(&self, refused: &Refused) {
        metrics::receive_refused(self.receiver, refused.reason());
        // As a quoted field: the message may cite the sender's content.
        let error = refused.to_string();
        tracing::debug!(receiver = self.receiver, reason = refused.reason(), ?error, "request refused");
    }

    /// Reads a request and admits its spans.
    pub(super) async fn take(&self, content: Content) -> Result<Accepted, Refused> {
        let signal = content.signal;
        let (read, held) = self.read(content).await?;
        let Read { decoded, raw, own } = read;
        count_content(self.receiver, signal.as_str(), &decoded, raw.body.len(), own);
        let mut accepted = Accepted { rejected: decoded.rejects.count, message: decoded.rejects.to_string() };
        let (spans, logs) = (decoded.spans.len(), decoded.logs.len());
        if spans + logs > 0 {
            let arrival = Arrival {
                spans: decoded.spans,
                logs: decoded.logs,
                promise: Promise::unheard(),
                raw: Some(raw),
            };
            let left_out = self.door.admit(arrival, held).await?;
            accepted.leave_out(self.receiver, left_out);
        }
        metrics::receive_request(self.receiver, signal.as_str());
        metrics::receive_spans(self.receiver, spans);
        metrics::receive_logs(self.receiver, logs);
        metrics::receive_held_bytes(self.door.held_bytes());
        Ok(accepted)
    }

    async fn read(&self, content: Content) -> Result<(Read, Held), Refused> {
        let inline = match content.compression {
            Compression::None => INLINE_BYTES,
            Compression::Gzip | Compression::Zstd => INLINE_COMPRESSED_BYTES,
        };
        let (door, limit) = (self.door.clone(), self.max_message);
        if content.body.len() <= inline {
            return read(content, &door, limit);
        }
        let _reader = self.readers.acquire().await.expect("nobody closes it");
        let reading = tokio::task::spawn_blocking(move || read(content, &door, limit));
        // A reader that is cancelled or panics has lost this request; the sender still has it.
        reading.await.unwrap_or_else(|_| Err(Refused::Door(Refusal::Closing)))
    }
}

/// Counts what was in a request or message, and what is left out of it; `own` are the items of assayd itself.
pub(super) fn count_content(
    receiver: &'static str,
    signal: &'static str,
    decoded: &Decoded,
    bytes: usize,
    own: u64,
) {
    metrics::receive_bytes(receiver, bytes);
    metrics::receive_base64_ids(receiver, to_usize(decoded.base64_ids));
    let dropped = [
        ("bad_id", decoded.rejects.count),
        ("no_trace_id", decoded.logs_without_trace),
        ("own_telemetry", own),
    ];
    for (reason, items) in dropped.into_iter().filter(|(_, items)| *items > 0) {
        metrics::receive_rejected(receiver, reason, to_usize(items));
    }
    if !decoded.rejects.is_empty() {
        tracing::debug!(
            receiver,
            signal,
            count = decoded.rejects.count,
            "items rejected: {}",
            decoded.rejects
        );
    }
    let latest_end = decoded.spans.iter().map(|span| span.end).max().filter(|end| end.is_known());
    if let Some(end) = latest_end {
        metrics::receive_lateness(receiver, now().since(end));
    }
}

struct Read {
    decoded: Decoded,
    raw: Raw,
    /// Spans and log records of assayd itself, left out.
    own: u64,
}

fn read(content: Content, door: &Door, limit: usize) -> Result<(Read, Held), Refused> {
    let Content { signal, encoding, compression, body, mut held } = content;
    let body = body::decompress(compression, body, limit, |more| door.grow(&mut held, more))?;
    if body.len() > UNCOUNTED_BYTES {
        // Held until it is known what the spans really weigh.
        let swell = otlp::swell(signal, encoding, &body);
        door.fits(body.len().saturating_add(swell))?;
        door.grow(&mut held, swell)?;
    }
    let mut decoded = otlp::decode(signal, encoding, &body)?;
    let own = drop_own(&mut decoded);
    Ok((Read { decoded, raw: Raw { signal, encoding, body }, own }, held))
}

/// Whether a span or log record is assayd's own telemetry. An evaluator that evaluates itself never stops.
pub fn is_own(resource: &Resource, scope: &Scope) -> bool {
    resource.is_own() || resource.service() == Some(OWN_NAME) || scope.name.starts_with(OWN_NAME)
}

/// Leaves assayd's own telemetry out, and says how much that was.
pub(super) fn drop_own(decoded: &mut Decoded) -> u64 {
    let before = decoded.spans.len() + decoded.logs.len();
    decoded.spans.retain(|span: &Span| !is_own(&span.resource, &span.scope));
    decoded.logs.retain(|record: &LogRecord| !is_own(&record.resource, &record.scope));
    (before - decoded.spans.len() - decoded.logs.len()) as u64
}

fn now() -> Time {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::default() + since_epoch
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
