//! The section `emit.kafka`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::{ByteSize, Period};
use crate::secret::Secret;

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
    /// Encryption. Needs a build with the feature `kafka-tls`. Not set means none.
    pub tls: Option<TlsConfig>,
    /// Login. Not set means none. The mechanisms `scram-sha-256` and `scram-sha-512` need a build with the feature `kafka-tls`.
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
            tls: None,
            sasl: None,
            properties: BTreeMap::new(),
        }
    }
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

/// How Kafka batches are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Small and fast.
    Zstd,
    /// Fastest.
    Lz4,
    /// For old consumers.
    Snappy,
    /// For very old consumers.
    Gzip,
    /// Not at all.
    None,
}

impl Compression {
    /// librdkafka's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Compression::Zstd => "zstd",
            Compression::Lz4 => "lz4",
            Compression::Snappy => "snappy",
            Compression::Gzip => "gzip",
            Compression::None => "none",
        }
    }
}

/// Encryption between assayd and the brokers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// Certificates of the authorities to trust, as a PEM file. Not set means those of the system.
    pub ca: Option<PathBuf>,
    /// assayd's own certificate, as a PEM file, for brokers that ask for one.
    pub certificate: Option<PathBuf>,
    /// The key of that certificate, as a PEM file.
    pub key: Option<PathBuf>,
    /// The password of that key.
    pub key_password: Option<Secret>,
}

/// Login to the brokers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SaslConfig {
    /// `plain`, `scram-sha-256` or `scram-sha-512`.
    pub mechanism: Mechanism,
    /// The user.
    pub username: String,
    /// The password: `{ env: NAME }` or `{ file: PATH }`.
    pub password: Secret,
}

/// How to log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// Sends the password; use it with `tls` only.
    Plain,
    /// SCRAM with SHA-256.
    #[serde(rename = "scram-sha-256")]
    ScramSha256,
    /// SCRAM with SHA-512.
    #[serde(rename = "scram-sha-512")]
    ScramSha512,
}

impl Mechanism {
    /// Kafka's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
            Mechanism::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// Properties that the section sets itself, or on which its promises rest.
const OWN_PROPERTIES: [&str; 25] = [
    "bootstrap.servers",
    "metadata.broker.list",
    "acks",
    "request.required.acks",
    "enable.idempotence",
    "enable.gapless.guarantee",
    "compression.type",
    "compression.codec",
    "linger.ms",
    "queue.buffering.max.ms",
    "message.max.bytes",
    "batch.size",
    "queue.buffering.max.kbytes",
    "message.timeout.ms",
    "delivery.timeout.ms",
    "security.protocol",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "transactional.id",
    "partitioner",
    "delivery.report.only.error",
];

impl KafkaConfig {
    pub(super) fn check(&self, problems: &mut Vec<String>) {
        if self.brokers.is_empty() || self.brokers.iter().any(|broker| broker.trim().is_empty()) {
            problems.push("emit.kafka.brokers must name at least one broker, as host:port".to_owned());
        }
        let legal = |c: char| c.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&c);
        if self.topic.is_empty() || self.topic.len() > 249 || !self.topic.chars().all(legal) {
            problems.push(format!(
                "emit.kafka.topic ({:?}) is not a topic's name: 1 to 249 letters, digits, dots, underscores and hyphens",
                self.topic
            ));
        }
        if !(4_096..=1_000_000_000).contains(&self.max_message_bytes.0) {
            problems.push(format!(
                "emit.kafka.max_message_bytes ({}) must be between 4KiB and 1GB",
                self.max_message_bytes
            ));
        }
        if self.buffer < self.max_message_bytes {
            problems.push(format!(
                "emit.kafka.buffer ({}) must not be below emit.kafka.max_message_bytes ({})",
                self.buffer, self.max_message_bytes
            ));
        }
        if self.delivery_timeout.0 <= self.linger.0 || self.delivery_timeout < Period::seconds(1) {
            problems.push(format!(
                "emit.kafka.delivery_timeout ({}) must be at least 1s and longer than emit.kafka.linger ({})",
                self.delivery_timeout, self.linger
            ));
        }
        self.check_security(cfg!(feature = "kafka-tls"), problems);
        for name in self.properties.keys() {
            if OWN_PROPERTIES.contains(&name.as_str()) {
                problems
                    .push(format!("emit.kafka.properties must not set {name}: emit.kafka sets it itself"));
            } else if name.contains("password") || name.contains("secret") || name.ends_with(".pem") {
                problems.push(format!(
                    "emit.kafka.properties must not set {name}: secrets belong in emit.kafka.sasl or emit.kafka.tls"
                ));
            }
        }
    }

    fn check_security(&self, with_tls: bool, problems: &mut Vec<String>) {
        let missing = "needs a build with the feature kafka-tls (cargo build --release --features kafka-tls)";
        if self.tls.is_some() && !with_tls {
            problems.push(format!("emit.kafka.tls {missing}"));
        }
        if let Some(sasl) = &self.sasl
            && sasl.mechanism != Mechanism::Plain
            && !with_tls
        {
            problems.push(format!("emit.kafka.sasl.mechanism ({}) {missing}", sasl.mechanism.as_str()));
        }
        if let Some(tls) = &self.tls
            && tls.certificate.is_some() != tls.key.is_some()
        {
            problems.push("emit.kafka.tls needs both certificate and key, or neither".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_and_scram_are_refused_by_a_build_that_has_neither() {
        let yaml = "{ brokers: [a:9093], tls: {}, \
                    sasl: { mechanism: scram-sha-512, username: me, password: { env: PASSWORD } } }";
        let config: KafkaConfig = serde_saphyr::from_str(yaml).unwrap();
        let mut found = Vec::new();
        config.check_security(false, &mut found);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|problem| problem.contains("--features kafka-tls")), "{found:?}");
        found.clear();
        config.check_security(true, &mut found);
        assert_eq!(found, Vec::<String>::new());
    }
}
