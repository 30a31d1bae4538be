//! From claim and evidence to what the starter model reads, exactly as its PREPARE.md says. Pure: text in, numbers out.

mod claim;
mod evidence;
mod features;
mod json;
mod select;
mod text;
mod tokens;
mod units;

use std::collections::HashMap;

use serde::Deserialize;

pub use evidence::Evidence;
pub use features::Features;

use claim::ClaimTokens;
use select::{Candidate, select};

/// Makes word pieces of text: the model's tokenizer, without special tokens.
pub trait WordPieces {
    /// The ids of the pieces of `text`.
    fn pieces(&self, text: &str) -> Result<Vec<u32>, PieceError>;
}

/// Why a tokenizer made no pieces of a text.
#[derive(Debug, thiserror::Error)]
#[error("cannot tokenize: {0}")]
pub struct PieceError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// How rare words are: the model's `idf.json`.
#[derive(Debug, Deserialize)]
pub struct Idf {
    default: f64,
    idf: HashMap<String, f64>,
}

impl Idf {
    /// The weight of a stem.
    fn of(&self, stem: &str) -> f64 {
        self.idf.get(stem).copied().unwrap_or(self.default)
    }
}

/// How much the model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Tokens of the whole input, three special ones among them.
    pub tokens: usize,
    /// Word pieces of the claim.
    pub claim: usize,
}

/// What the model reads of a claim and its evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// Word pieces of the claim.
    pub claim: Vec<u32>,
    /// Word pieces of the evidence.
    pub evidence: Vec<u32>,
    /// The chosen units' texts, a line each.
    pub text: String,
    /// Units that were chosen.
    pub selected: usize,
    /// Units that there are.
    pub units: usize,
    /// Whether a chosen unit, or the claim, was cut.
    pub cut: bool,
    /// What the calibrated layer sees beside the model's logits.
    pub features: Features,
}

/// Chooses of `evidence` what the model should read for `claim`.
pub fn prepare(
    claim: &str,
    evidence: &Evidence,
    idf: &Idf,
    limits: Limits,
    by: &dyn WordPieces,
) -> Result<Prepared, PieceError> {
    let mut claim_pieces = by.pieces(claim)?;
    let claim_cut = claim_pieces.len() > limits.claim;
    claim_pieces.truncate(limits.claim);
    let budget = limits.tokens.saturating_sub(3 + claim_pieces.len());
    let tokens = ClaimTokens::of(claim, idf);
    let candidates = Candidate::all(evidence, &tokens);
    let features = Features::of(&tokens, evidence, &candidates);
    let selection = select(candidates, &tokens, budget, by)?;
    Ok(Prepared {
        claim: claim_pieces,
        evidence: selection.pieces,
        text: selection.texts.join("\n"),
        selected: selection.texts.len(),
        units: evidence.units.len(),
        cut: claim_cut || selection.cut,
        features,
    })
}

/// The sentences of a claim that stand for themselves: lines, then sentences, those of up to three words left out.
pub fn sentences(claim: &str) -> Vec<String> {
    let sentences = claim.split('\n').flat_map(|line| text::sentences(&text::collapse(line)));
    sentences.filter(|sentence| text::words(sentence).count() > 3).collect()
}
