//! The section `emit`.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::{ByteSize, Period};
use crate::secret::Secret;

/// Where verdicts go. With nothing configured they go to standard output as JSON lines.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Verdicts as JSON lines on standard output. Not set means: only if there is no other sink.
    pub stdout: Option<bool>,
    /// A file of JSON lines. Not set means none.
    pub jsonl: Option<JsonlConfig>,
    /// A Kafka topic. Not set means none.
    pub kafka: Option<KafkaConfig>,
    /// How a write that failed for now is tried again. It is tried until it works or the daemon stops.
    pub retry: RetryConfig,
    /// The recent verdicts that `GET /v1/verdicts` shows.
    pub recent: RecentConfig,
}

/// A file of JSON lines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JsonlConfig {
    /// The file. It is appended to; its folder is made if it is missing.
    pub path: PathBuf,
    /// `always`: a verdict counts as written when it is on the disk (verdicts that wait together share one fsync).
    /// `never`: when the operating system has it; a crash of the machine can lose it.
    pub fsync: Fsync,
    /// When to begin a new file.
    pub rotate: RotateConfig,
}

impl Default for JsonlConfig {
    fn default() -> Self {
        Self { path: PathBuf::from("verdicts.jsonl"), fsync: Fsync::Always, rotate: RotateConfig::default() }
    }
}

/// When a verdict in a file counts as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Fsync {
    /// When it is on the disk.
    Always,
    /// When the operating system has it.
    Never,
}

/// When a file of JSON lines is set aside and a new one begun. `verdicts.jsonl` becomes `verdicts.000001.jsonl`, and so on;
/// the highest number is the newest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RotateConfig {
    /// Before the file grows beyond this. A single larger verdict has a file of its own. `null` means never.
    pub max_bytes: Option<ByteSize>,
    /// At the first verdict after the file has become this old. `null` means never.
    pub max_age: Option<Period>,
    /// How many files are kept beside the current one; the oldest go first. `null` means all.
    pub keep: Option<NonZeroUsize>,
}

impl Default for RotateConfig {
    fn default() -> Self {
        Self { max_bytes: Some(ByteSize::mib(256)), max_age: None, keep: NonZeroUsize::new(10) }
    }
}

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

/// How long to wait before a failed write is tried again: at first `first`, twice as long each time, at most `longest`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetryConfig {
    /// The first wait.
    pub first: Period,
    /// The longest wait.
    pub longest: Period,
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self { first: Period::millis(100), longest: Period::seconds(10) }
    }
}

/// How many verdicts are remembered; whichever limit is met first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RecentConfig {
    /// Most verdicts.
    pub max_verdicts: NonZeroUsize,
    /// Most bytes of JSON.
    pub max_bytes: ByteSize,
}

impl Default for RecentConfig {
    fn default() -> Self {
        Self {
            max_verdicts: NonZeroUsize::new(1_000).expect("a thousand is not zero"),
            max_bytes: ByteSize::mib(16),
        }
    }
}

/// Properties that the section sets itself, or on which its promises rest.
const OWN_PROPERTIES: [&str; 24] = [
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

impl Config {
    /// No sink at all: verdicts are only remembered. For programs that read them there; a configuration file may not say so.
    pub fn nowhere() -> Self {
        Self { stdout: Some(false), ..Self::default() }
    }

    /// Whether verdicts go to standard output.
    pub fn to_stdout(&self) -> bool {
        self.stdout.unwrap_or(self.jsonl.is_none() && self.kafka.is_none())
    }

    /// Adds what is wrong with this section.
    pub fn check(&self, problems: &mut Vec<String>) {
        if self.stdout == Some(false) && self.jsonl.is_none() && self.kafka.is_none() {
            problems.push("emit has no sink: stdout is false, and neither jsonl nor kafka is set".to_owned());
        }
        if self.retry.first.0.is_zero() {
            problems.push("emit.retry.first (0s) must be longer than nothing".to_owned());
        }
        if self.retry.first > self.retry.longest {
            problems.push(format!(
                "emit.retry.first ({}) must not be longer than emit.retry.longest ({})",
                self.retry.first, self.retry.longest
            ));
        }
        if let Some(jsonl) = &self.jsonl {
            jsonl.check(problems);
        }
        if let Some(kafka) = &self.kafka {
            kafka.check(problems);
        }
    }
}

impl JsonlConfig {
    fn check(&self, problems: &mut Vec<String>) {
        if self.path.file_name().is_none() {
            problems.push(format!("emit.jsonl.path ({}) is not the name of a file", self.path.display()));
        }
        if self.rotate.max_bytes == Some(ByteSize(0)) {
            problems.push("emit.jsonl.rotate.max_bytes (0B) must be above 0; null means never".to_owned());
        }
        if self.rotate.max_age == Some(Period::seconds(0)) {
            problems.push("emit.jsonl.rotate.max_age (0s) must be above 0; null means never".to_owned());
        }
    }
}

impl KafkaConfig {
    fn check(&self, problems: &mut Vec<String>) {
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

    fn problems(yaml: &str) -> Vec<String> {
        let config: Config = serde_saphyr::from_str(yaml).unwrap();
        let mut problems = Vec::new();
        config.check(&mut problems);
        problems
    }

    #[test]
    fn no_configuration_is_a_working_one() {
        let config: Config = serde_saphyr::from_str("{}").unwrap();
        assert_eq!(config, Config::default());
        assert!(config.to_stdout());
        assert_eq!(problems("{}"), Vec::<String>::new());
    }

    #[test]
    fn another_sink_silences_stdout_unless_it_is_asked_for() {
        let config: Config = serde_saphyr::from_str("jsonl: { path: v.jsonl }").unwrap();
        assert!(!config.to_stdout());
        let config: Config = serde_saphyr::from_str("{ stdout: true, jsonl: { path: v.jsonl } }").unwrap();
        assert!(config.to_stdout());
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let found = problems(
            "retry: { first: 1m, longest: 1s }\n\
             jsonl: { path: '..', rotate: { max_bytes: 0B } }\n\
             kafka: { brokers: [], topic: 'a b', buffer: 1KiB, properties: { acks: '1', sasl.password: x } }\n",
        );
        assert_eq!(found.len(), 8, "{found:#?}");
        assert!(
            found.contains(
                &"emit.retry.first (1m) must not be longer than emit.retry.longest (1s)".to_owned()
            )
        );
        assert!(found.iter().any(|problem| problem.contains("acks: emit.kafka sets it itself")));
    }

    #[test]
    fn a_house_without_any_sink_is_refused() {
        assert_eq!(problems("stdout: false").len(), 1);
        assert!(!Config::nowhere().to_stdout());
    }

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
