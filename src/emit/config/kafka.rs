//! The section `emit.kafka`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::{ByteSize, Period};
use crate::kafka::{Compression, Connection, Producer, SaslConfig, TlsConfig, check_topic};

/// A Kafka topic. The producer is idempotent and waits for all in-sync replicas (`acks=all`); the key is the trace id in hex.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KafkaConfig {
    /// Brokers to begin with, as `host:port`.
    pub brokers: Vec<String>,
    /// The topic. Make it before the start, unless the brokers make topics by themselves.
    pub topic: String,
    /// The value: `json`, or `protobuf` (`proto/assayd/v1/verdict.proto`). The header `content-type` says which.
    pub format: ValueFormat,
    /// How batches are compressed: `zstd`, `lz4`, `snappy`, `gzip` or `none`.
    pub compression: Compression,
    /// How long a verdict may wait for company before it is sent.
    pub linger: Period,
    /// Largest message before compression. Larger verdicts lose evidence references and probabilities, and say so in
    /// `truncated`. Must not be above the topic's `max.message.bytes`.
    pub max_message_bytes: ByteSize,
    /// Memory for verdicts that were not delivered yet. When it is full, writing waits.
    pub buffer: ByteSize,
    /// How long one attempt to deliver may take before it counts as failed and is tried again.
    pub delivery_timeout: Period,
    /// What becomes of verdicts that the topic never takes.
    pub dead_letters: VerdictLetters,
    /// Encryption. Not set means none.
    pub tls: Option<TlsConfig>,
    /// Login. Not set means none.
    pub sasl: Option<SaslConfig>,
    /// Other properties of librdkafka, by name, such as `client.rack`. Those that this section sets itself are refused.
    pub properties: BTreeMap<String, String>,
}

impl Default for KafkaConfig {
    fn default() -> Self {
        Self {
            brokers: vec!["localhost:9092".to_owned()],
            topic: "verdicts".to_owned(),
            format: ValueFormat::Json,
            compression: Compression::Zstd,
            linger: Period::millis(5),
            max_message_bytes: ByteSize(1_000_000),
            buffer: ByteSize::mib(32),
            delivery_timeout: Period::seconds(30),
            dead_letters: VerdictLetters::default(),
            tls: None,
            sasl: None,
            properties: BTreeMap::new(),
        }
    }
}

/// What becomes of verdicts that the topic never takes, because they are too large even when they are cut, or because it refuses
/// them. They are logged and counted in any case.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VerdictLetters {
    /// A topic for what is left of them: ids, outcome, score and counts, with the reason, the size and all ids in headers. The
    /// verdict counts as handled when the brokers have its letter. Not set means none.
    pub topic: Option<String>,
}

/// How a verdict is written as a Kafka value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ValueFormat {
    /// The same object as a JSON line.
    Json,
    /// `assayd.v1.Verdict`.
    Protobuf,
}

/// What makes the producer idempotent, which the section sets itself.
const IDEMPOTENCE: [&str; 2] = ["enable.idempotence", "enable.gapless.guarantee"];

impl KafkaConfig {
    /// How its records are gathered and delivered.
    pub(in crate::emit) fn producer(&self) -> Producer<'_> {
        Producer {
            connection: Connection {
                section: "emit.kafka",
                brokers: &self.brokers,
                tls: self.tls.as_ref(),
                sasl: self.sasl.as_ref(),
                properties: &self.properties,
            },
            compression: self.compression,
            linger: self.linger,
            max_message_bytes: self.max_message_bytes,
            buffer: self.buffer,
            delivery_timeout: self.delivery_timeout,
        }
    }

    pub(super) fn check(&self, problems: &mut Vec<String>) {
        self.producer().check(&IDEMPOTENCE, problems);
        check_topic("emit.kafka.topic", &self.topic, problems);
        if let Some(topic) = &self.dead_letters.topic {
            check_topic("emit.kafka.dead_letters.topic", topic, problems);
            if *topic == self.topic {
                problems.push(format!(
                    "emit.kafka.dead_letters.topic ({topic}) must not be emit.kafka.topic itself"
                ));
            }
        }
        if self.delivery_timeout < Period::seconds(1) {
            problems
                .push(format!("emit.kafka.delivery_timeout ({}) must be at least 1s", self.delivery_timeout));
        }
    }
}
