use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::{ByteSize, Period};
use crate::kafka::{Compression, Connection, Producer, SaslConfig, TlsConfig, check_topic};

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

impl Config {
    /// How its records are gathered and delivered.
    pub(super) fn producer(&self) -> Producer<'_> {
        Producer {
            connection: Connection {
                section: "relay",
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

    /// Adds what is wrong with this section.
    pub fn check(&self, problems: &mut Vec<String>) {
        self.producer().check(&["statistics.interval.ms"], problems);
        check_topic("relay.topic", &self.topic, problems);
    }
}
