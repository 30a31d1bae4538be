//! Verdicts to a Kafka topic: idempotent, `acks=all`, keyed by trace id, and reported as written only when the brokers have them.

mod letters;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::util::Timeout;

use self::letters::Reason;
use super::config::{KafkaConfig, ValueFormat};
use super::{EmitError, Sink, proto, trim};
use crate::domain::Verdict;
use crate::error::Fault;
use crate::metrics;
use crate::secret::SecretError;

const SINK: &str = "kafka";
/// What key and headers may add to a message.
const OVERHEAD: usize = 512;
/// Below this, making a verdict smaller is given up.
const SMALLEST: usize = 1_024;

/// A topic that verdicts go to. When the brokers are away or the buffer is full, writing waits.
pub struct Kafka {
    config: KafkaConfig,
    /// Replaced when librdkafka declares it dead; held only to clone the handle.
    producer: Mutex<FutureProducer>,
    warned_of_limit: AtomicBool,
}

/// Why a verdict is not in its topic.
enum Undelivered {
    /// It cannot be made small enough.
    TooLarge { limit: usize },
    /// What the producer says.
    Kafka(KafkaError),
}

impl Kafka {
    /// Makes the producer. The brokers need not be there yet.
    pub fn open(config: KafkaConfig) -> Result<Self, EmitError> {
        let producer = Mutex::new(producer(&config)?);
        Ok(Self { config, producer, warned_of_limit: AtomicBool::new(false) })
    }

    async fn deliver(&self, verdict: &Verdict) -> Result<(), EmitError> {
        let (reason, error) = match self.deliver_fitted(verdict).await {
            Ok(()) => return Ok(()),
            Err(Undelivered::TooLarge { limit }) => (Reason::TooLarge, too_large(limit)),
            Err(Undelivered::Kafka(error)) => (Reason::Refused, self.judged(error)),
        };
        match &self.config.dead_letters.topic {
            Some(topic) if error.fault == Fault::Poison => {
                Err(self.write_letter(topic, verdict, reason, error).await)
            }
            _ => Err(error),
        }
    }

    /// Makes the verdict as small as it must be.
    async fn deliver_fitted(&self, verdict: &Verdict) -> Result<(), Undelivered> {
        let mut limit = self.config.max_message_bytes.as_usize().saturating_sub(OVERHEAD);
        loop {
            let Some(fitted) = trim::fit(verdict, limit, |verdict| self.encode(verdict)) else {
                return Err(Undelivered::TooLarge { limit });
            };
            match self.send(&self.config.topic, verdict, self.headers(verdict), Some(&fitted.bytes)).await {
                Ok(()) => {
                    if fitted.trimmed {
                        metrics::emit_trimmed(SINK);
                    }
                    return Ok(());
                }
                // The topic takes less than our own limit, which nobody told us.
                Err(error) if is_too_large(&error) => {
                    self.warn_of_limit();
                    limit = fitted.bytes.len() / 2;
                    if limit < SMALLEST {
                        return Err(Undelivered::TooLarge { limit });
                    }
                }
                Err(error) => return Err(Undelivered::Kafka(error)),
            }
        }
    }

    async fn send(
        &self,
        topic: &str,
        verdict: &Verdict,
        headers: OwnedHeaders,
        value: Option<&[u8]>,
    ) -> Result<(), KafkaError> {
        let producer = self.current();
        let key = verdict.trace_id.map(|id| id.to_string());
        let mut record = FutureRecord::<str, [u8]>::to(topic).headers(headers);
        if let Some(value) = value {
            record = record.payload(value);
        }
        if let Some(key) = &key {
            record = record.key(key);
        }
        // A full buffer is back-pressure: wait. The clone keeps the producer alive until the answer is here.
        producer.send(record, Timeout::Never).await.map(|_| ()).map_err(|(error, _)| error)
    }

    fn headers(&self, verdict: &Verdict) -> OwnedHeaders {
        let schema = verdict.schema.to_string();
        OwnedHeaders::new_with_capacity(2)
            .insert(Header { key: "content-type", value: Some(self.content_type()) })
            .insert(Header { key: "assayd-schema", value: Some(&schema) })
    }

    fn encode(&self, verdict: &Verdict) -> Vec<u8> {
        match self.config.format {
            ValueFormat::Json => {
                serde_json::to_vec(verdict).expect("a verdict has text keys only, so it is always JSON")
            }
            ValueFormat::Protobuf => proto::encode(verdict),
        }
    }

    fn content_type(&self) -> &'static str {
        match self.config.format {
            ValueFormat::Json => "application/json",
            ValueFormat::Protobuf => "application/x-protobuf; messageType=\"assayd.v1.Verdict\"",
        }
    }

    /// What an error asks of us; replaces a producer that will never work again.
    fn judged(&self, error: KafkaError) -> EmitError {
        let code = error.rdkafka_error_code();
        let fault = match code {
            Some(
                RDKafkaErrorCode::TopicAuthorizationFailed
                | RDKafkaErrorCode::ClusterAuthorizationFailed
                | RDKafkaErrorCode::SaslAuthenticationFailed
                | RDKafkaErrorCode::InvalidTopic
                | RDKafkaErrorCode::InvalidRequiredAcks
                | RDKafkaErrorCode::UnsupportedVersion,
            ) => Fault::Fatal,
            Some(RDKafkaErrorCode::InvalidRecord) => Fault::Poison,
            _ => Fault::Transient,
        };
        if is_dead(code) {
            self.replace();
        }
        EmitError { sink: SINK, message: error.to_string(), fault }
    }

    fn warn_of_limit(&self) {
        if !self.warned_of_limit.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                topic = self.config.topic,
                "the topic takes less than emit.kafka.max_message_bytes, so verdicts are cut; lower it to the topic's \
                 max.message.bytes"
            );
        }
    }

    fn current(&self) -> FutureProducer {
        self.producer.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// An idempotent producer that lost its place stays dead until it is made anew. Verdicts that were on their way may then
    /// arrive twice, with the same `verdict_id`.
    fn replace(&self) {
        let mut held = self.producer.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if rdkafka::producer::Producer::client(&*held).fatal_error().is_none() {
            // Another task has replaced it already.
            return;
        }
        match producer(&self.config) {
            Ok(fresh) => {
                tracing::warn!("made a new kafka producer, since the old one failed for good");
                *held = fresh;
            }
            Err(error) => tracing::error!(%error, "cannot make a new kafka producer"),
        }
    }
}

impl Sink for Kafka {
    fn write<'a>(&'a self, verdict: &'a Verdict) -> BoxFuture<'a, Result<(), EmitError>> {
        Box::pin(self.deliver(verdict))
    }
}

fn is_too_large(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidMessageSize)
    )
}

/// Purged messages had a dead producer, too: they were in it when it was replaced.
fn is_dead(code: Option<RDKafkaErrorCode>) -> bool {
    matches!(
        code,
        Some(
            RDKafkaErrorCode::Fatal
                | RDKafkaErrorCode::OutOfOrderSequenceNumber
                | RDKafkaErrorCode::InvalidProducerEpoch
                | RDKafkaErrorCode::ProducerFenced
                | RDKafkaErrorCode::PurgeQueue
                | RDKafkaErrorCode::PurgeInflight
        )
    )
}

fn too_large(limit: usize) -> EmitError {
    EmitError {
        sink: SINK,
        message: format!("it does not fit into {limit} bytes, not even without its claims"),
        fault: Fault::Poison,
    }
}

fn producer(config: &KafkaConfig) -> Result<FutureProducer, EmitError> {
    let properties = properties(config).map_err(|error| EmitError {
        sink: SINK,
        message: error.to_string(),
        fault: Fault::Fatal,
    })?;
    properties.create().map_err(|error| EmitError {
        sink: SINK,
        message: format!("cannot make a producer: {error}"),
        fault: Fault::Fatal,
    })
}

fn properties(config: &KafkaConfig) -> Result<ClientConfig, SecretError> {
    let mut properties = config.producer().client()?;
    properties.set("enable.idempotence", "true");
    Ok(properties)
}

#[cfg(test)]
mod tests;
