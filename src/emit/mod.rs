//! Where verdicts go: standard output, JSON lines, Kafka.

pub mod proto;
#[cfg(test)]
pub(crate) mod sample;

use futures::future::BoxFuture;

use crate::domain::Verdict;
use crate::error::Fault;

/// Takes verdicts out of the house. `Ok` means durable there.
pub trait Sink: Send + Sync {
    /// Writes one verdict; returns when it is safe.
    fn write<'a>(&'a self, verdict: &'a Verdict) -> BoxFuture<'a, Result<(), EmitError>>;
}

/// Why a verdict could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the verdict to {sink}: {message}")]
pub struct EmitError {
    /// The sink's name.
    pub sink: &'static str,
    /// What the sink said.
    pub message: String,
    /// What to do about it.
    pub fault: Fault,
}
