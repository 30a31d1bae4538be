//! Claims of an answer, their evidence, and GSAR's four-way partition (Grounded, Ungrounded, Contradicted, Complementary).

use serde::{Deserialize, Serialize};

use super::SpanId;

/// Where a claim stands against the evidence: GSAR's G, U, X, K.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// The evidence supports it (G).
    Grounded,
    /// The evidence does not speak of it (U).
    Ungrounded,
    /// The evidence says otherwise (X).
    Contradicted,
    /// Not from the evidence, but consistent with it and of use (K).
    Complementary,
}

impl Standing {
    /// All four, in GSAR's order.
    pub const ALL: [Standing; 4] =
        [Standing::Grounded, Standing::Ungrounded, Standing::Contradicted, Standing::Complementary];

    /// The word that metrics, questions and verdicts use.
    pub fn as_str(self) -> &'static str {
        match self {
            Standing::Grounded => "grounded",
            Standing::Ungrounded => "ungrounded",
            Standing::Contradicted => "contradicted",
            Standing::Complementary => "complementary",
        }
    }

    /// The standing with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|standing| standing.as_str() == word)
    }
}

/// What kind of evidence a claim rests on; GSAR gives each kind a weight.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceType {
    /// A tool's result says it literally.
    ToolMatch,
    /// A specific figure, name or date of the evidence.
    SpecificData,
    /// A signal of the request or context.
    SignalMatch,
    /// A finding beside the evidence, consistent with it.
    ComplementaryFinding,
    /// Several pieces of evidence put together.
    Synthesis,
    /// The absence of something in the evidence.
    NegEvidence,
    /// Concluded from the evidence.
    Inference,
    /// Domain knowledge.
    Domain,
    /// Not determined.
    Unknown,
}

impl EvidenceType {
    /// All kinds, in the order of GSAR's table.
    pub const ALL: [EvidenceType; 9] = [
        EvidenceType::ToolMatch,
        EvidenceType::SpecificData,
        EvidenceType::SignalMatch,
        EvidenceType::ComplementaryFinding,
        EvidenceType::Synthesis,
        EvidenceType::NegEvidence,
        EvidenceType::Inference,
        EvidenceType::Domain,
        EvidenceType::Unknown,
    ];

    /// The word that config and verdicts use.
    pub fn as_str(self) -> &'static str {
        match self {
            EvidenceType::ToolMatch => "tool_match",
            EvidenceType::SpecificData => "specific_data",
            EvidenceType::SignalMatch => "signal_match",
            EvidenceType::ComplementaryFinding => "complementary_finding",
            EvidenceType::Synthesis => "synthesis",
            EvidenceType::NegEvidence => "neg_evidence",
            EvidenceType::Inference => "inference",
            EvidenceType::Domain => "domain",
            EvidenceType::Unknown => "unknown",
        }
    }
}

/// A piece of an observation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceRef {
    /// Index of the step in the story.
    pub step: usize,
    /// The span that told the step.
    pub span_id: Option<SpanId>,
    /// Characters (Unicode code points) of the step's text, from and up to.
    pub range: [usize; 2],
}

/// One factual statement of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Its text, as it stands in the answer.
    pub text: String,
    /// Characters (Unicode code points) of the answer, from and up to.
    pub range: [usize; 2],
    /// What kind of evidence it rests on.
    pub evidence_type: EvidenceType,
    /// Where that evidence is; the most relevant piece first.
    pub evidence: Vec<EvidenceRef>,
    /// What follows from the evidence by counting and simple arithmetic and was put to the models with it, line by line.
    pub derived: Vec<String>,
}

/// Claims by standing, each claim's index in exactly one part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Partition {
    /// G.
    pub grounded: Vec<usize>,
    /// U.
    pub ungrounded: Vec<usize>,
    /// X.
    pub contradicted: Vec<usize>,
    /// K.
    pub complementary: Vec<usize>,
}
