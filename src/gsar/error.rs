//! What can go wrong with a run's file and with an agent's callback.

use std::io;
use std::path::PathBuf;

/// Why a run could not be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk said no.
    #[error("cannot {action} {path}: {source}")]
    Disk {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file holds something else.
    #[error("{path} holds no run: {source}")]
    Content {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// Why the clients for callbacks cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CallbackSetupError {
    /// The TLS files of a place cannot be used.
    #[error("gsar.callbacks, the tls of {url}: {source}")]
    Tls {
        /// The place.
        url: String,
        /// Why not.
        source: crate::net::TlsError,
    },
    /// A client cannot be made.
    #[error("cannot make the client for callbacks: {0}")]
    Client(reqwest::Error),
}

/// Why an agent's callback brought no new answer.
#[derive(Debug, thiserror::Error)]
pub enum CallbackError {
    /// The URL is none.
    #[error("{url} is not an http or https URL")]
    Url {
        /// What was given.
        url: String,
    },
    /// The URL is not below one that may be called.
    #[error("{url} is not below one of gsar.callbacks")]
    NotAllowed {
        /// What was given.
        url: String,
    },
    /// The key for it cannot be read.
    #[error("the key for {url}: {source}")]
    Key {
        /// The place.
        url: String,
        /// Why.
        source: crate::secret::SecretError,
    },
    /// The call failed on its way.
    #[error("the call to {url} failed: {reason}")]
    Call {
        /// The place, without its query.
        url: String,
        /// Why.
        reason: String,
    },
    /// The place's name leads to an address that is not called.
    #[error("{url} is not called: {reason}")]
    Refused {
        /// The place, without its query.
        url: String,
        /// Why.
        reason: String,
    },
    /// The agent answered with an error.
    #[error("{url} answered {status}")]
    Status {
        /// The place.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// The agent's answer is not of the form.
    #[error("{url} answered with something that is no {{\"synthesis\": …}}: {reason}")]
    Reply {
        /// The place.
        url: String,
        /// What is wrong.
        reason: String,
    },
}

impl CallbackError {
    /// Whether the same call may go through later.
    pub fn is_transient(&self) -> bool {
        match self {
            CallbackError::Call { .. } => true,
            CallbackError::Status { status, .. } => matches!(status, 408 | 429 | 500..),
            _ => false,
        }
    }
}
