use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::{ByteSize, Period};
use crate::kafka::{Compression, Connection, SaslConfig, TlsConfig, check_topic};

/// Where `role: gateway` writes spans and log records: to one topic, as OTLP requests in protobuf, with the trace id in hex as
/// key, so that all of a trace is in one partition. A sender is answered when all in-sync replicas have its spans.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Brokers to begin with, as `host:port`.
    pub brokers: Vec<String>,
    /// The topic; the workers' `receive.kafka.topics`. Make it before the start, unless the brokers make topics by themselves.
    pub topic: String,
    /// How batches are compressed: `zstd`, `lz4`, `snappy`, `gzip` or `none`.
    pub compression: Compression,
    /// How long spans may wait for company before they are sent. Senders wait for it.
    pub linger: Period,
    /// Largest record before compression. What one request brings of a trace is split to fit; a single span that does not fit is
    /// left out, and its sender is told. Must not be above the topic's `max.message.bytes`.
    pub max_message_bytes: ByteSize,
    /// Memory for records that the brokers do not have yet. When it is full, requests wait, and then are refused.
    pub buffer: ByteSize,
    /// How long the brokers may take to have a request's spans. Then the sender is told to come back.
    pub delivery_timeout: Period,
    /// Encryption. Not set means none.
    pub tls: Option<TlsConfig>,
    /// Login. Not set means none.
    pub sasl: Option<SaslConfig>,
    /// Other properties of librdkafka, by name, such as `client.rack`. Those that this section sets itself are refused.
    pub properties: BTreeMap<String, String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            brokers: vec!["localhost:9092".to_owned()],
            topic: "otlp_spans".to_owned(),
            compression: Compression::Zstd,
            linger: Period::millis(5),
            max_message_bytes: ByteSize(1_000_000),
            buffer: ByteSize::mib(64),
            delivery_timeout: Period::seconds(5),
            tls: None,
            sasl: None,
            properties: BTreeMap::new(),
        }
    }
}

/// Properties that the section sets itself, or on which its promises rest.
const OWN_PROPERTIES: [&str; 15] = [
    "acks",
    "request.required.acks",
    "compression.type",
    "compression.codec",
    "linger.ms",
    "queue.buffering.max.ms",
    "message.max.bytes",
    "batch.size",
    "queue.buffering.max.kbytes",
    "message.timeout.ms",
    "delivery.timeout.ms",
    "transactional.id",
    "partitioner",
    "delivery.report.only.error",
    "statistics.interval.ms",
];

impl Config {
    /// Which brokers, and how to be let in.
    pub(super) fn connection(&self) -> Connection<'_> {
        Connection {
            section: "relay",
            brokers: &self.brokers,
            tls: self.tls.as_ref(),
            sasl: self.sasl.as_ref(),
            properties: &self.properties,
        }
    }

    /// Adds what is wrong with this section.
    pub fn check(&self, problems: &mut Vec<String>) {
        self.connection().check(&OWN_PROPERTIES, problems);
        check_topic("relay.topic", &self.topic, problems);
        if !(4_096..=1_000_000_000).contains(&self.max_message_bytes.0) {
            problems.push(format!(
                "relay.max_message_bytes ({}) must be between 4KiB and 1GB",
                self.max_message_bytes
            ));
        }
        if self.buffer < self.max_message_bytes {
            problems.push(format!(
                "relay.buffer ({}) must not be below relay.max_message_bytes ({})",
                self.buffer, self.max_message_bytes
            ));
        }
        if self.delivery_timeout.0 <= self.linger.0 {
            problems.push(format!(
                "relay.delivery_timeout ({}) must be longer than relay.linger ({})",
                self.delivery_timeout, self.linger
            ));
        }
    }
}
