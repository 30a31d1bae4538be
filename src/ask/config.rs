//! The settings of asking.

use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How an answer is taken apart, and how much evidence is read with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Claims of one answer that are evaluated; of more, those with figures and names come first. The verdict says what was left out.
    pub max_claims: NonZeroUsize,
    /// Characters of evidence that a model gets to read; of more, the parts nearest to the claims are chosen. The embedded
    /// model chooses for itself again. For a decision model or a judge with a small window, set about three times its tokens.
    pub evidence_chars: NonZeroUsize,
    /// Pieces of evidence that a verdict names for one claim.
    pub max_references: NonZeroUsize,
}

impl Default for Config {
    fn default() -> Self {
        let some = |number| NonZeroUsize::new(number).unwrap_or(NonZeroUsize::MIN);
        Self { max_claims: some(50), evidence_chars: some(200_000), max_references: some(4) }
    }
}
