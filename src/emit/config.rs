//! The section `emit`.

mod kafka;
mod otlp;
mod receiver;
mod traces;
mod webhook;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::kafka::{KafkaConfig, ValueFormat, VerdictLetters};
pub use self::otlp::OtlpConfig;
pub(super) use self::receiver::Receiver;
pub use self::receiver::{OtlpCompression, OtlpProtocol};
pub use self::traces::TracesConfig;
pub use self::webhook::WebhookConfig;

use crate::domain::{ByteSize, Period};

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
    /// An OTLP receiver, for verdicts beside the traces. Not set means none.
    pub otlp: Option<OtlpConfig>,
    /// An address that failing verdicts are posted to. Not set means none.
    pub webhook: Option<WebhookConfig>,
    /// An OTLP receiver for spans of assayd's own work. Not set means none.
    pub traces: Option<TracesConfig>,
    /// How a write that failed for now is tried again. It is tried until it works or the daemon stops.
    pub retry: RetryConfig,
    /// The recent verdicts that `GET /v1/verdicts` and the console show.
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

/// How long to wait before a failed write is tried again: at first `first`, twice as long each time, at most `longest`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetryConfig {
    /// The first wait.
    pub first: Period,
    /// The longest wait.
    pub longest: Period,
}

impl RetryConfig {
    /// The waits between attempts, without end.
    pub(super) fn waits(&self) -> ExponentialBackoff {
        ExponentialBuilder::default()
            .with_min_delay(self.first.0)
            .with_max_delay(self.longest.0)
            .without_max_times()
            .with_jitter()
            .build()
    }
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
    /// Memory for the stories of these verdicts, which the console shows; a story above a quarter of it is not kept.
    /// 0B keeps none.
    pub story_bytes: ByteSize,
}

impl Default for RecentConfig {
    fn default() -> Self {
        Self {
            max_verdicts: NonZeroUsize::new(1_000).expect("a thousand is not zero"),
            max_bytes: ByteSize::mib(16),
            story_bytes: ByteSize::mib(32),
        }
    }
}

impl Config {
    /// No sink at all: verdicts are only remembered. For programs that read them there; a configuration file may not say so.
    pub fn nowhere() -> Self {
        Self { stdout: Some(false), ..Self::default() }
    }

    /// Whether verdicts go to standard output.
    pub fn to_stdout(&self) -> bool {
        self.stdout.unwrap_or(!self.has_other_than_stdout())
    }

    /// A webhook gets failing verdicts only, so it does not stand in for the others.
    fn has_other_than_stdout(&self) -> bool {
        self.jsonl.is_some() || self.kafka.is_some() || self.otlp.is_some()
    }

    /// Adds what is wrong with this section.
    pub fn check(&self, problems: &mut Vec<String>) {
        if self.stdout == Some(false) && !self.has_other_than_stdout() {
            problems.push(
                "emit has no sink for all verdicts: stdout is false, and neither jsonl, kafka nor otlp is set"
                    .to_owned(),
            );
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
        if let Some(otlp) = &self.otlp {
            otlp.check(problems);
        }
        if let Some(webhook) = &self.webhook {
            webhook.check(problems);
        }
        if let Some(traces) = &self.traces {
            traces.check(problems);
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
             kafka: { brokers: [], topic: 'a b', buffer: 1KiB, dead_letters: { topic: 'a b' },
                      properties: { acks: '1', sasl.password: x } }\n",
        );
        assert_eq!(found.len(), 10, "{found:#?}");
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
}
