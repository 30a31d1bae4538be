//! The decision model: answers typed questions about a state, with calibrated probabilities, locally or over HTTP.

use crate::domain::{Decision, Inquiry, Nobody};

/// Answers a batch of inquiries. Lives on the inference thread; needs no `Sync`.
pub trait Decider: Send {
    /// One reply per inquiry, in order. `Err` is a failure of the model itself, not of one inquiry.
    fn decide(&mut self, batch: &Batch) -> Result<Vec<Reply>, DecideError>;
}

/// Inquiries of different callers that share a forward pass.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    /// The inquiries.
    pub inquiries: Vec<Inquiry>,
}

/// The answers to one inquiry.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// One per question, in order: a decision, or why there is none.
    pub decisions: Vec<Result<Decision, Nobody>>,
    /// Tokens that the model read for the whole inquiry (shared state counted once).
    pub input_tokens: u64,
}

/// Why a decision model failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DecideError {}
