//! What an LLM judge says of all claims at once, and the two views of a partition: the decision model's and the judge's.

use serde::{Deserialize, Serialize};

use super::{Counts, EvidenceType, Standing, Tier};

/// Whether a judge could decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecisionStatus {
    /// It did.
    Resolved,
    /// It could not; nothing is known.
    #[default]
    Abstain,
}

impl DecisionStatus {
    /// The word that judges and verdicts use.
    pub fn as_str(self) -> &'static str {
        match self {
            DecisionStatus::Resolved => "resolved",
            DecisionStatus::Abstain => "abstain",
        }
    }

    /// The status with this word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Resolved, Self::Abstain].into_iter().find(|status| status.as_str() == word)
    }
}

/// A claim in one of the judge's four lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Placed {
    /// Position of the claim in the answer's claims.
    pub claim: usize,
    /// The list.
    pub standing: Standing,
    /// What kind of evidence the judge says it rests on.
    pub evidence_type: EvidenceType,
    /// Passages of the evidence that the judge relies on; those that are not there are left out.
    pub refs: Vec<String>,
    /// Why.
    pub reasoning: Option<String>,
}

/// A judge's partition of the claims that it was asked about. The default is the safe one: nothing is known.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JudgedPartition {
    /// The claims that it was asked about, by position.
    pub asked: Vec<usize>,
    /// Those that it listed, each once, in order.
    pub placed: Vec<Placed>,
    /// Whether it could decide.
    pub status: DecisionStatus,
    /// Why, or why not.
    pub reason: Option<String>,
    /// The score that it wrote itself, from 0 to 1. Kept for audit; nothing is made of it.
    pub reported_score: Option<f64>,
    /// Whether it calls the answer grounded.
    pub is_grounded: Option<bool>,
    /// What the evidence lacks.
    pub gaps: Vec<String>,
    /// Where evidence and answer, or pieces of evidence, contradict each other.
    pub contradictions: Vec<String>,
    /// Whether someone should look.
    pub verification_needed: bool,
    /// Why.
    pub verification_reason: Option<String>,
    /// What it made of it all.
    pub explanation: Option<String>,
    /// What was wrong with its lists and was put right, in words.
    pub repairs: Vec<String>,
}

/// The decision model's partition, before the judge was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LocalView {
    /// S over its standings.
    pub score: f64,
    /// The decision on that.
    pub tier: Tier,
    /// How many claims stand where.
    pub counts: Counts,
    /// Where each claim stands, in order; null where it could not say.
    pub standings: Vec<Option<Standing>>,
}

/// The judge's partition of the claims that it was asked about; each of them is in exactly one part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgeView {
    /// S over its lists with the weights of its evidence types; 0.5 if it abstains.
    pub score: f64,
    /// The decision on that; `abstain` if it abstains.
    pub tier: Tier,
    /// How many claims are in which list.
    pub counts: Counts,
    /// Whether it could decide.
    pub decision_status: DecisionStatus,
    /// Why, or why not.
    pub decision_reason: Option<String>,
    /// The score that it wrote itself; for audit only.
    pub reported_score: Option<f64>,
    /// Whether it calls the answer grounded.
    pub is_grounded: Option<bool>,
    /// The claims in its lists.
    pub claims: Vec<Placed>,
    /// What the evidence lacks.
    pub gaps: Vec<String>,
    /// Contradictions that it found.
    pub contradictions: Vec<String>,
    /// Whether someone should look.
    pub verification_needed: bool,
    /// Why.
    pub verification_reason: Option<String>,
    /// What it made of it all.
    pub explanation: Option<String>,
    /// What was wrong with its lists and was put right, in words.
    pub repairs: Vec<String>,
}

/// Both views of one answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Views {
    /// The decision model's.
    pub local: LocalView,
    /// The judge's.
    pub judge: JudgeView,
}
