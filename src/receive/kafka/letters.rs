//! Dead letters: copies of records that cannot be read or done, with where they came from and why.

use std::sync::mpsc::Sender;
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, Message, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};

use super::{Kafka, KafkaFailure};
use crate::receive::ledger::Receipt;
use crate::ticket::Outcome;

/// How long a letter may be on its way before its record is tried again.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Memory for letters that are on their way.
const BUFFER_KIB: usize = 32 * 1024;
/// An error's text in a header, in characters.
const ERROR_CHARS: usize = 500;

/// Why a record is set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// It is no OTLP request.
    Unreadable,
    /// It is larger than one request may be.
    TooLarge,
    /// It got no verdict for too long.
    OverAge,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Unreadable => "unreadable",
            Reason::TooLarge => "too_large",
            Reason::OverAge => "over_age",
        }
    }
}

/// What became of a record, for the reader.
#[derive(Debug)]
pub(super) struct Settlement {
    pub receipt: Receipt,
    pub outcome: Outcome,
    /// Only this trace's share of it is meant, which is done.
    pub share: Option<u128>,
    /// Its dead letter is too large for its topic: the next one goes without the value.
    pub is_too_large: bool,
}

/// A topic for dead letters.
pub(super) struct Letters {
    topic: String,
    producer: ThreadedProducer<Context>,
}

struct Context(Sender<Settlement>);

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(target: "librdkafka", ?level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", %error, reason);
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = Box<Receipt>;

    fn delivery(&self, result: &DeliveryResult<'_>, receipt: Box<Receipt>) {
        let error = result.as_ref().err().map(|(error, _)| error);
        if let Some(error) = error {
            let (place, offset) = (receipt.place(), receipt.offset());
            tracing::warn!(%place, offset, %error, "a dead letter was not delivered; its record is tried again");
        }
        let outcome = if error.is_none() { Outcome::Done } else { Outcome::Retry };
        let is_too_large = error.is_some_and(is_too_large);
        // The reader is gone only when nothing is committed any more.
        let _ = self.0.send(Settlement { receipt: *receipt, outcome, share: None, is_too_large });
    }
}

impl Letters {
    /// Makes the producer. The brokers need not be there yet.
    pub fn open(config: &Kafka, topic: &str, settlements: Sender<Settlement>) -> Result<Self, KafkaFailure> {
        let mut client = config.connection().client()?;
        client
            .set("acks", "all")
            .set("message.timeout.ms", TIMEOUT.as_millis().to_string())
            // Whether a letter is too large is for its topic to say.
            .set("message.max.bytes", "1000000000")
            .set("queue.buffering.max.kbytes", BUFFER_KIB.to_string())
            .set("compression.type", "zstd");
        let producer = client.create_with_context(Context(settlements))?;
        Ok(Self { topic: topic.to_owned(), producer })
    }

    /// Sends a record away; the outcome comes as a settlement. False if there is no room now.
    pub fn send(
        &self,
        record: &OwnedMessage,
        receipt: &Receipt,
        reason: Reason,
        error: &str,
        with_value: bool,
    ) -> Result<bool, KafkaError> {
        let headers = headers(record, receipt, reason, error, with_value);
        let opaque = Box::new(receipt.clone());
        let mut letter: BaseRecord<'_, [u8], [u8], Box<Receipt>> =
            BaseRecord::with_opaque_to(&self.topic, opaque).headers(headers);
        if let Some(key) = record.key() {
            letter = letter.key(key);
        }
        if let Some(value) = record.payload().filter(|_| with_value) {
            letter = letter.payload(value);
        }
        match self.producer.send(letter) {
            Ok(()) => Ok(true),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => Ok(false),
            Err((error, _)) => Err(error),
        }
    }

    /// Waits for letters on their way.
    pub fn flush(&self, patience: Duration) {
        if let Err(error) = self.producer.flush(patience) {
            tracing::warn!(%error, "dead letters were still on their way; their records are read again");
        }
    }
}

/// Whether a letter must go without its value.
pub(super) fn is_too_large(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidMessageSize)
    )
}

/// The record's own headers, then ours.
fn headers(
    record: &OwnedMessage,
    receipt: &Receipt,
    reason: Reason,
    error: &str,
    with_value: bool,
) -> OwnedHeaders {
    let error: String = error.chars().take(ERROR_CHARS).collect();
    let place = receipt.place();
    let own = [
        ("assayd.dead_letter.topic", place.topic.to_string()),
        ("assayd.dead_letter.partition", place.partition.to_string()),
        ("assayd.dead_letter.offset", receipt.offset().to_string()),
        ("assayd.dead_letter.reason", reason.as_str().to_owned()),
        ("assayd.dead_letter.error", error),
    ];
    let mut headers = record.headers().cloned().unwrap_or_else(|| OwnedHeaders::new_with_capacity(own.len()));
    for (key, value) in &own {
        headers = headers.insert(Header { key, value: Some(value) });
    }
    if !with_value {
        let bytes = record.payload().map_or(0, <[u8]>::len).to_string();
        headers =
            headers.insert(Header { key: "assayd.dead_letter.value_left_out_bytes", value: Some(&bytes) });
    }
    headers
}
