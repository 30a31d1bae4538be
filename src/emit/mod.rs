//! Where verdicts go: standard output, JSON lines, Kafka, an OTLP receiver, a webhook, and a short memory for those who look.
//! [`Sinks`] hands each verdict to all sinks that are configured and waits until all have it. [`Traces`] sends spans of the
//! daemon's own work.

mod config;
mod jsonl;
mod kafka;
mod lines;
mod masked;
mod otlp;
pub mod proto;
mod receiver;
mod recent;
#[cfg(test)]
pub(crate) mod sample;
mod sinks;
mod stdout;
mod traces;
mod trim;
mod web;
mod webhook;

use futures::future::BoxFuture;

use crate::domain::Verdict;
use crate::error::Fault;

pub use config::{
    Config, Fsync, JsonlConfig, KafkaConfig, OtlpCompression, OtlpConfig, OtlpProtocol, RecentConfig,
    RetryConfig, RotateConfig, TracesConfig, ValueFormat, VerdictLetters, WebhookConfig,
};
pub use jsonl::Jsonl;
pub use kafka::Kafka;
pub use otlp::Otlp;
pub use proto::{ProtoError, decode as from_protobuf, encode as to_protobuf};
pub use recent::{
    BaselineOf, Counted, Drift, Entry, Feed, Filter, Missed, Needle, Of, Pair, Point, Recent, Share, Tally,
    Told, Variant, VariantRate,
};
pub use sinks::Sinks;
pub use stdout::Stdout;
pub use traces::{Notes, Traces, TracesTask, stage, stage_now, stage_over};
pub use webhook::Webhook;

/// Takes verdicts out of the house. `Ok` means durable there.
pub trait Sink: Send + Sync {
    /// Writes one verdict; returns when it is safe.
    fn write<'a>(&'a self, verdict: &'a Verdict) -> BoxFuture<'a, Result<(), EmitError>>;
}

/// Why a verdict could not be written.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot write the verdict to {sink}: {message}")]
pub struct EmitError {
    /// The sink's name.
    pub sink: &'static str,
    /// What the sink said.
    pub message: String,
    /// What to do about it.
    pub fault: Fault,
}
