//! The section `receive.kafka`.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::{ByteSize, Period};
use crate::kafka::{Connection, SaslConfig, TlsConfig, check_topic};
use crate::secret::Secret;

/// Topics that hold OTLP requests, one a record, as the OpenTelemetry Collector's Kafka exporter and `role: gateway` write them.
/// Replicas with the same group share the partitions. Records of Kafka are not kept in the spool: Kafka keeps them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Kafka {
    /// Brokers to begin with, as `host:port`.
    pub brokers: Vec<String>,
    /// The topics, of spans and of log records. All spans of a trace must be in one partition: use the trace id as key.
    pub topics: Vec<String>,
    /// The consumer group. Its committed offsets say what is done.
    pub group: String,
    /// How the values are written: `auto` (the content decides), `otlp_proto` or `otlp_json`.
    pub encoding: ValueEncoding,
    /// Where a group without committed offsets begins: `earliest` or `latest`.
    pub start: StartAt,
    /// A name for this replica that it keeps over a restart (Kafka's `group.instance.id`): its partitions then wait for it, up
    /// to `session`, and are not given to others. `{ env: NAME }` or `{ file: PATH }`, since each replica needs its own.
    /// Not set means none.
    pub instance: Option<Secret>,
    /// A replica that is silent for so long has left the group, and others get its partitions.
    pub session: Period,
    /// Memory for records that were fetched and wait to be read, beside `receive.max_bytes`.
    pub prefetch: ByteSize,
    /// How often offsets are committed.
    pub commit: Period,
    /// How much of a commit's metadata may be used to note which records above the offset are done, so that whoever gets the
    /// partition next does not judge them again. Brokers take 4096 bytes unless their `offset.metadata.max.bytes` says
    /// otherwise; if they refuse a commit for it, less is noted until they take it. 0 notes nothing.
    pub commit_metadata: ByteSize,
    /// When a record whose traces got no verdict is read again.
    pub retry: RetryConfig,
    /// What becomes of records that cannot be read, or not be done.
    pub dead_letters: DeadLetters,
    /// Encryption. Not set means none.
    pub tls: Option<TlsConfig>,
    /// Login. Not set means none.
    pub sasl: Option<SaslConfig>,
    /// Other properties of librdkafka, by name, such as `client.rack`. Those that this section sets itself are refused.
    pub properties: BTreeMap<String, String>,
}

/// How a record's value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ValueEncoding {
    /// The content of each record decides.
    Auto,
    /// `ExportTraceServiceRequest` or `ExportLogsServiceRequest` in protobuf.
    OtlpProto,
    /// The same as OTLP/JSON.
    OtlpJson,
}

/// Where a group without committed offsets begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StartAt {
    /// At the oldest record that there is.
    Earliest,
    /// At records that are written from now on.
    Latest,
}

/// How long to wait before a record is read again: at first `first`, twice as long each time that it does not help, at most
/// `longest`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetryConfig {
    /// The first wait.
    pub first: Period,
    /// The longest wait.
    pub longest: Period,
    /// Records of a partition that may wait to be read again; with so many the partition stands still until they are.
    pub max_records: NonZeroU32,
}

/// What becomes of records that cannot be read, or not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DeadLetters {
    /// The topic that they are copied to, with key, value and headers, and with where they came from and why in further
    /// headers. Not set means none.
    pub topic: Option<String>,
    /// A record that got no verdict for so long since it was first read goes there, too. Counts only if there is a topic;
    /// without one such records are tried again for ever.
    pub max_age: Period,
    /// Without a topic, a record that cannot be read is counted and logged with its partition and offset, and then
    /// `skip`: passed over (it stays in Kafka for as long as its topic keeps it), or `retry`: read again and again, with
    /// offsets committed only up to it.
    pub without_topic: WithoutTopic,
}

/// What becomes of a record that cannot be read if there is no topic for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WithoutTopic {
    /// Count it, log where it is, and go on.
    Skip,
    /// Try it again.
    Retry,
}

impl Default for Kafka {
    fn default() -> Self {
        Self {
            brokers: vec!["localhost:9092".to_owned()],
            topics: vec!["otlp_spans".to_owned()],
            group: "assayd".to_owned(),
            encoding: ValueEncoding::Auto,
            start: StartAt::Earliest,
            instance: None,
            session: Period::seconds(30),
            prefetch: ByteSize::mib(16),
            commit: Period::seconds(1),
            commit_metadata: ByteSize(4000),
            retry: RetryConfig::default(),
            dead_letters: DeadLetters::default(),
            tls: None,
            sasl: None,
            properties: BTreeMap::new(),
        }
    }
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self {
            first: Period::seconds(1),
            longest: Period::seconds(60),
            max_records: NonZeroU32::new(10_000).expect("a number above zero"),
        }
    }
}

impl Default for DeadLetters {
    fn default() -> Self {
        Self { topic: None, max_age: Period::seconds(3600), without_topic: WithoutTopic::Skip }
    }
}

/// What a string in Kafka's protocol can hold.
const MOST_METADATA: u64 = i16::MAX as u64;

/// Properties that the section sets itself, or on which its promises rest.
const OWN_PROPERTIES: [&str; 16] = [
    "group.id",
    "group.instance.id",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "auto.offset.reset",
    "auto.commit.enable",
    "auto.commit.interval.ms",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "isolation.level",
    "queued.max.messages.kbytes",
    "receive.message.max.bytes",
    "statistics.interval.ms",
    "check.crcs",
    "topic.blacklist",
];

impl Kafka {
    /// Which brokers, and how to be let in.
    pub(super) fn connection(&self) -> Connection<'_> {
        Connection {
            section: "receive.kafka",
            brokers: &self.brokers,
            tls: self.tls.as_ref(),
            sasl: self.sasl.as_ref(),
            properties: &self.properties,
        }
    }

    /// Adds what is wrong with this section.
    pub(in crate::receive) fn check(&self, problems: &mut Vec<String>) {
        self.connection().check(&OWN_PROPERTIES, problems);
        if self.topics.is_empty() {
            problems.push("receive.kafka.topics must name at least one topic".to_owned());
        }
        for topic in &self.topics {
            check_topic("receive.kafka.topics", topic, problems);
        }
        if self.group.trim().is_empty() {
            problems.push("receive.kafka.group must not be empty".to_owned());
        }
        if let Some(topic) = &self.dead_letters.topic {
            check_topic("receive.kafka.dead_letters.topic", topic, problems);
            if self.topics.contains(topic) {
                problems.push(format!(
                    "receive.kafka.dead_letters.topic ({topic}) must not be one of receive.kafka.topics: \
                     what cannot be read would be read again for ever"
                ));
            }
        }
        if self.session < Period::seconds(1) {
            problems.push(format!("receive.kafka.session ({}) must be at least 1s", self.session));
        }
        if self.commit.0.is_zero() {
            problems.push("receive.kafka.commit (0s) must be longer than nothing".to_owned());
        }
        if self.commit_metadata.0 > MOST_METADATA {
            problems.push(format!(
                "receive.kafka.commit_metadata ({}) must not be larger than {MOST_METADATA}: Kafka's protocol has no room for more",
                self.commit_metadata
            ));
        }
        if self.retry.first.0.is_zero() || self.retry.first > self.retry.longest {
            problems.push(format!(
                "receive.kafka.retry.first ({}) must be longer than nothing and not longer than \
                 receive.kafka.retry.longest ({})",
                self.retry.first, self.retry.longest
            ));
        }
        if !(64 << 10..=1 << 30).contains(&self.prefetch.0) {
            problems
                .push(format!("receive.kafka.prefetch ({}) must be between 64KiB and 1GiB", self.prefetch));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(yaml: &str) -> Vec<String> {
        let config: Kafka = serde_saphyr::from_str(yaml).unwrap();
        let mut problems = Vec::new();
        config.check(&mut problems);
        problems
    }

    #[test]
    fn a_short_section_is_enough() {
        assert_eq!(problems("{ brokers: [kafka:9092], topics: [otlp_spans, otlp_logs] }"), [""; 0]);
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let found = problems(
            "{ brokers: [], topics: ['^spans.*', dead], group: '', session: 10ms, commit: 0s, commit_metadata: 1MiB, prefetch: 1KiB, \
             retry: { first: 2m }, dead_letters: { topic: dead }, \
             properties: { enable.auto.commit: 'true', sasl.password: x } }",
        );
        assert_eq!(found.len(), 11, "{found:#?}");
        assert!(found.iter().any(|problem| problem.contains("must not be one of receive.kafka.topics")));
        assert!(found.iter().any(|problem| problem.contains("enable.auto.commit: receive.kafka sets it")));
    }
}
