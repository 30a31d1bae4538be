use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use futures::future::try_join_all;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{FutureProducer, FutureRecord};

use super::Config;
use super::context::{Context, STATISTICS};
use super::pieces::{Cut, Piece, cut};
use crate::domain::{Resource, Scope};
use crate::metrics;
use crate::otlp::{self, DecodeError, Encoding, Signal};
use crate::secret::SecretError;

/// What may be cut without leaving the async thread: well under a millisecond of work.
const INLINE_BYTES: usize = 128 * 1024;
/// What key and headers may add to a record.
const OVERHEAD: usize = 512;

/// A topic that spans go to.
pub struct Relay {
    config: Config,
    producer: FutureProducer<Context>,
    /// Whether the last delivery failed; so that an outage is one line in the log and not one per request.
    failing: AtomicBool,
}

/// What became of a request: the brokers have all of it but this.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Forwarded {
    /// Spans and log records that are too large by themselves.
    pub left_out: u64,
    /// Why, for their sender; empty if none were.
    pub message: String,
}

/// Why spans did not reach the brokers. Some of a request's may have.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// A password cannot be read.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The producer cannot be made, or a delivery failed.
    #[error("kafka: {0}")]
    Kafka(#[from] KafkaError),
    /// The request cannot be read.
    #[error(transparent)]
    Unreadable(#[from] DecodeError),
    /// The thread that cuts requests was stopped.
    #[error("the gateway is stopping")]
    Stopping,
}

impl Relay {
    /// Makes the producer. The brokers need not be there yet.
    pub fn open(config: Config) -> Result<Self, RelayError> {
        let mut client = config.producer().client()?;
        client.set("statistics.interval.ms", STATISTICS);
        let producer = client.create_with_context(Context)?;
        Ok(Self { config, producer, failing: AtomicBool::new(false) })
    }

    /// Passes a request on as it came, but for spans and log records whose resource and scope `skip` names, or whose ids are bad.
    /// Returns when the brokers have all of it, but for what is too large. After an error the sender must send all of it again;
    /// what has arrived already is then there twice, which the workers notice.
    pub async fn forward(
        &self,
        signal: Signal,
        encoding: Encoding,
        body: Bytes,
        skip: fn(&Resource, &Scope) -> bool,
    ) -> Result<Forwarded, RelayError> {
        let began = Instant::now();
        let limit = self.config.max_message_bytes.as_usize().saturating_sub(OVERHEAD);
        let is_large = body.len() > INLINE_BYTES;
        let cutting = move || otlp::parts(signal, encoding, &body, skip).map(|parts| cut(parts, limit));
        let cut = match is_large {
            true => tokio::task::spawn_blocking(cutting).await.map_err(|_| RelayError::Stopping)??,
            false => cutting()?,
        };
        let mut left_out = cut.left_out;
        let deliveries = try_join_all(cut.pieces.into_iter().map(|piece| self.deliver(piece))).await;
        match deliveries {
            Ok(counts) => left_out += counts.iter().sum::<u64>(),
            Err(error) => {
                self.failed(&error);
                return Err(error.into());
            }
        }
        self.recovered();
        metrics::relay_seconds(began.elapsed());
        metrics::relay_left_out(left_out);
        if left_out == 0 {
            return Ok(Forwarded::default());
        }
        let limit = self.config.max_message_bytes;
        let message = format!(
            "{left_out} spans or log records are larger by themselves than a record may be (relay.max_message_bytes is {limit})"
        );
        Ok(Forwarded { left_out, message })
    }

    /// Delivers a piece; says how many of its items are too large.
    async fn deliver(&self, piece: Piece) -> Result<u64, KafkaError> {
        let mut left_out = 0;
        let mut waiting = vec![piece];
        while let Some(piece) = waiting.pop() {
            match self.send(&piece).await {
                Ok(()) => metrics::relay_record("ok"),
                // The topic takes less than our own limit, which nobody told us.
                Err(error) if is_too_large(&error) => {
                    metrics::relay_record("split");
                    let mut smaller = Cut::again(piece);
                    left_out += smaller.left_out;
                    waiting.append(&mut smaller.pieces);
                }
                Err(error) => {
                    metrics::relay_record("failed");
                    return Err(error);
                }
            }
        }
        Ok(left_out)
    }

    async fn send(&self, piece: &Piece) -> Result<(), KafkaError> {
        let key = piece.trace_id.to_string();
        let record = FutureRecord::<str, [u8]>::to(&self.config.topic).key(&key).payload(&piece.value);
        // A full buffer is back-pressure: wait, but not longer than the sender does.
        let sent = self.producer.send(record, self.config.delivery_timeout.0).await;
        sent.map(|_| ()).map_err(|(error, _)| error)
    }

    fn failed(&self, error: &KafkaError) {
        if !self.failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "kafka does not take spans; senders are told to come back");
        }
    }

    fn recovered(&self) {
        if self.failing.load(Ordering::Relaxed) && self.failing.swap(false, Ordering::Relaxed) {
            tracing::info!("kafka takes spans again");
        }
    }
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay").field("topic", &self.config.topic).finish_non_exhaustive()
    }
}

fn is_too_large(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidMessageSize)
    )
}
