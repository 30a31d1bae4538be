//! What can go wrong with a decision model, when it is loaded and when it is asked.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use super::StrandsLoadError;
use super::hub::HubError;
use crate::error::Fault;

/// Why a decision model did not answer. Cheap to clone: callers that shared a batch share its error.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DecideError {
    /// The inference thread has ended.
    #[error("the decision model has been shut down")]
    Closed,
    /// An inquiry could not be made ready for the model.
    #[error("cannot encode the inquiry: {source}")]
    Encode {
        /// What the encoder met.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The forward pass failed.
    #[error("the forward pass failed: {source}")]
    Forward {
        /// What the model's engine said.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The model, or its encoder, panicked on this inquiry.
    #[error("the decision model panicked: {message}")]
    Panicked {
        /// The panic's text.
        message: String,
    },
    /// The model gave another number of replies than it was asked for.
    #[error("the decision model gave {found} replies to {wanted} inquiries")]
    Miscounted {
        /// Inquiries.
        wanted: usize,
        /// Replies.
        found: usize,
    },
    /// The model computed something that is no number.
    #[error("the decision model's output is not finite")]
    NotFinite,
    /// A remote decision model could not be asked.
    #[error("the remote decision model failed: {source}")]
    Remote {
        /// What its client said.
        source: Arc<dyn Error + Send + Sync>,
        /// Whether another try may help.
        fault: Fault,
    },
}

impl DecideError {
    /// A failed forward pass.
    pub fn forward(source: impl Error + Send + Sync + 'static) -> Self {
        Self::Forward { source: Arc::new(source) }
    }

    /// A failed encoding.
    pub fn encode(source: impl Error + Send + Sync + 'static) -> Self {
        Self::Encode { source: Arc::new(source) }
    }

    /// Who must act.
    pub fn fault(&self) -> Fault {
        match self {
            DecideError::Closed | DecideError::Forward { .. } => Fault::Transient,
            DecideError::Encode { .. }
            | DecideError::Panicked { .. }
            | DecideError::Miscounted { .. }
            | DecideError::NotFinite => Fault::Poison,
            DecideError::Remote { fault, .. } => *fault,
        }
    }
}

/// Why a decision model could not be loaded. Fatal: a person must change the configuration or the files.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Nothing here knows a model of this name.
    #[error(
        "there is no decision model {name:?}: it is no folder here, nor `embedded`, nor the name of a checkpoint on the Hub \
         (OWNER/NAME), nor a server (systemone:URL, decisions:URL)"
    )]
    Unknown {
        /// As configured.
        name: String,
    },
    /// A Strands Decider checkpoint cannot be loaded.
    #[error(transparent)]
    Strands(#[from] StrandsLoadError),
    /// A model cannot be had from the Hub.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// The address of a remote model is none.
    #[error("{url:?} is no address of a decision model: it must start with http:// or https://")]
    RemoteUrl {
        /// As configured.
        url: String,
    },
    /// The key for a remote model cannot be read.
    #[error("the key for decide.model.{api} cannot be read: {source}")]
    RemoteKey {
        /// `systemone` or `decisions`.
        api: &'static str,
        /// Why not.
        source: crate::secret::SecretError,
    },
    /// The TLS files for a remote model cannot be used.
    #[error("decide.model.{api}.tls: {source}")]
    RemoteTls {
        /// `systemone` or `decisions`.
        api: &'static str,
        /// Why not.
        source: crate::net::TlsError,
    },
    /// The client of a remote model cannot be made.
    #[error("cannot make the client of the remote decision model: {source}")]
    RemoteClient {
        /// What it said.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A file of the model is not what it should be.
    #[error("{file} is not valid: {source}")]
    Invalid {
        /// Which file.
        file: String,
        /// What its reader said.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A tensor is not in the weights.
    #[error("{file} has no tensor {tensor}")]
    NoTensor {
        /// Which file.
        file: String,
        /// The tensor's name.
        tensor: String,
    },
    /// A tensor has another shape, or another type of numbers, than the model's configuration asks for.
    #[error("{file}: tensor {tensor} is {found}, expected {expected}")]
    Shape {
        /// Which file.
        file: String,
        /// The tensor's name.
        tensor: String,
        /// Type and shape wanted.
        expected: String,
        /// Type and shape found.
        found: String,
    },
    /// A calibration file cannot be used.
    #[error("the calibration {path} cannot be used: {source}")]
    Calibration {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The inference thread could not be started.
    #[error("cannot start the inference thread: {source}")]
    Thread {
        /// What the system said.
        source: Box<dyn Error + Send + Sync>,
    },
}
