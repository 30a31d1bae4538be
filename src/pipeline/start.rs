//! Why the daemon, or an evaluation without it, could not start.

use std::io;
use std::net::SocketAddr;

use crate::decide::LoadError;
use crate::emit::EmitError;
use crate::feedback::FeedbackError;
use crate::judge::BuildError;
use crate::spool::SpoolError;

/// Why nothing runs.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address} for {what}: {source}")]
    Listen {
        /// What would have been served there; also the key in the configuration.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The decision model cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The decision model loaded but does not answer.
    #[error("the decision model {model} does not answer; the log says why")]
    Model {
        /// Its name.
        model: String,
    },
    /// The judge's client cannot be made.
    #[error(transparent)]
    Judge(#[from] BuildError),
    /// A sink cannot be opened.
    #[error(transparent)]
    Sink(#[from] EmitError),
    /// The spool cannot be opened.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// What people said before cannot be read.
    #[error(transparent)]
    Feedback(#[from] FeedbackError),
    /// The admin listener cannot be guarded.
    #[error(transparent)]
    Access(#[from] crate::serve::AccessError),
    /// The OTLP listeners cannot be guarded.
    #[error(transparent)]
    Guard(#[from] crate::receive::GuardError),
    /// The runs of GSAR's loop cannot be read.
    #[error(transparent)]
    Runs(#[from] crate::gsar::StoreError),
    /// The clients for callbacks cannot be made.
    #[error(transparent)]
    Agent(#[from] crate::gsar::CallbackSetupError),
    /// Kafka cannot be read, or can no longer be.
    #[error(transparent)]
    Kafka(#[from] crate::receive::KafkaFailure),
    /// The way to Kafka cannot be made.
    #[error(transparent)]
    Relay(#[from] crate::relay::RelayError),
    /// What must be masked cannot be.
    #[error(transparent)]
    Redact(#[from] crate::redact::PatternError),
    /// Metrics cannot be kept.
    #[error(transparent)]
    Metrics(#[from] crate::metrics::AlreadyInstalled),
    /// A thread cannot be started.
    #[error("cannot start the thread {name}: {source}")]
    Thread {
        /// Its name.
        name: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A receiver ended by itself.
    #[error("the {receiver} receiver ended: {source}")]
    Receiver {
        /// Which.
        receiver: &'static str,
        /// What the system said.
        source: io::Error,
    },
}
