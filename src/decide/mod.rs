//! The decision model: answers typed questions about a state, with calibrated probabilities, locally or over HTTP.
//! Callers hold a [`Desk`]; behind it one thread owns queue, batcher and model ([`Decider`]), or a client asks a remote one.

mod answer;
mod batch;
mod calibrated;
mod config;
mod desk;
mod error;
mod hub;
mod info;
pub mod kernels;
mod locate;
mod models;
mod remote;
mod scripted;
mod start;
mod worker;

use std::sync::Arc;

pub use answer::answer_json;
pub use batch::{Layout, Size};
pub use config::{Config, ModelName, RunsOn};
pub use desk::{Backend, Desk, Health};
pub use error::{DecideError, LoadError};
pub use hub::{Cache, CachedModel, HubError, HubId, HubSettings, Progress, Pull, pull};
pub use info::{Calibration, Capabilities, ModelInfo};
pub use locate::{Located, locate};
pub use models::strands::{
    JsonError, LoadError as StrandsLoadError, Node, Verified, expected_level, float_repr, legend, round4,
    verify as verify_model,
};
#[doc(hidden)]
pub use remote::hold_laws;
pub use remote::{RemoteConfig, RemoteKind};
pub use scripted::Scripted;
pub use start::{start, start_with};

use crate::domain::{Decision, Inquiry, Nobody};

/// A local decision model. Lives on the inference thread, which owns it: needs no `Sync`.
pub trait Decider: Send + 'static {
    /// An inquiry made ready for the model (token ids and the like).
    type Work: Send + 'static;

    /// Who it is and what it can do; read once, at start.
    fn info(&self) -> ModelInfo;

    /// What makes work of inquiries, on the callers' threads.
    fn encoder(&self) -> Arc<dyn Encoder<Self::Work>>;

    /// How the forward pass lays out what shares it: decides how the batch budget is counted.
    fn layout(&self) -> Layout;

    /// One reply per piece of work, in order. `Err` is a failure of the model itself, not of one question: the worker then
    /// tries the pieces one by one, so that one poisonous inquiry fails only its own caller.
    fn decide(&mut self, batch: &[Self::Work]) -> Result<Vec<Reply>, DecideError>;

    /// Runs the largest shapes once, so that the first caller does not pay and a lack of memory shows at start.
    /// Also the probe after a failure: `Ok` means that the model works (again).
    fn warm_up(&mut self) -> Result<(), DecideError>;

    /// Called after a panic in [`Decider::decide`]: forget whatever may be half made (caches).
    fn recover(&mut self) {}
}

/// Makes work of inquiries: tokenization, selection of evidence. Pure computing; runs for many callers at once.
pub trait Encoder<W>: Send + Sync {
    /// The work, or the reply at once where the model has nothing to read.
    fn encode(&self, inquiry: Inquiry) -> Result<Encoded<W>, DecideError>;

    /// Whether [`Encoder::encode`] takes less than half a millisecond for this inquiry, so that it may run on an async thread.
    fn is_quick(&self, inquiry: &Inquiry) -> bool;
}

/// What became of an inquiry on the caller's side.
#[derive(Debug)]
pub enum Encoded<W> {
    /// It goes to the model.
    Work {
        /// For [`Decider::decide`].
        work: W,
        /// What it costs there.
        size: Size,
    },
    /// Nothing for the model to do: unsupported questions, no evidence.
    Done(Reply),
}

/// The answers to one inquiry.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// One per question, in order: a decision, or why there is none.
    pub decisions: Vec<Result<Decision, Nobody>>,
    /// Tokens that the model read for the whole inquiry (shared state counted once).
    pub input_tokens: u64,
    /// Whether some question was answered from a part of the state only, because all of it is too long for the model.
    pub truncated: bool,
}
