//! Why a model could not be had from the Hub.

use std::path::PathBuf;

use crate::error::Fault;

/// Why a model could not be had from the Hub.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// It is not in the cache, and the network must not be used.
    #[error("{id} is not in the cache at {} and HF_HUB_OFFLINE is set", cache.display())]
    Offline {
        /// The model.
        id: String,
        /// The cache.
        cache: PathBuf,
    },
    /// The Hub does not know it, or does not show it without a token.
    #[error(
        "the Hub has no {what} (status {status}): check the name and the revision, and set HF_TOKEN if it is private or gated"
    )]
    NotFound {
        /// Model, revision or file.
        what: String,
        /// 401, 403 or 404.
        status: u16,
    },
    /// The Hub answered with an error.
    #[error("the Hub answered {status} for {what}")]
    Status {
        /// Model, revision or file.
        what: String,
        /// The HTTP status.
        status: u16,
    },
    /// The Hub could not be reached, or the connection broke too often.
    #[error("cannot reach the Hub for {what}")]
    Transport {
        /// Model, revision or file.
        what: String,
        /// What the HTTP client said.
        source: reqwest::Error,
    },
    /// The Hub's answer makes no sense.
    #[error("the Hub's answer for {what} is not usable: {why}")]
    Answer {
        /// Model, revision or file.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// A downloaded file is not the one that the Hub promised.
    #[error("{what} arrived with SHA-256 {found}, expected {expected}; it was dropped, try again")]
    Hash {
        /// The file.
        what: String,
        /// What arrived.
        found: String,
        /// What was promised.
        expected: String,
    },
    /// The cache cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl HubError {
    /// Who must act.
    pub fn fault(&self) -> Fault {
        match self {
            HubError::Transport { .. } | HubError::Hash { .. } => Fault::Transient,
            HubError::Status { status, .. } if *status == 429 || *status >= 500 => Fault::Transient,
            _ => Fault::Fatal,
        }
    }
}
