//! What a decision model says of itself.

use serde_json::Map;

use crate::domain::{Json, Kind, Question, Subject};

/// Who a decision model is and what it can do.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// Its name, as configured or published: goes into verdicts and `GET /v1/models`.
    pub name: String,
    /// Which version of it: a commit, a digest; empty if unknown.
    pub revision: String,
    /// What its probabilities rest on.
    pub calibration: Calibration,
    /// Which questions it answers.
    pub capabilities: Capabilities,
    /// The most tokens that it reads for one question, state included; none if it does not say.
    pub max_tokens: Option<usize>,
    /// What else its kind of model says of itself, as JSON: goes into `GET /health`.
    pub facts: Map<String, Json>,
}

/// Whether a model's probabilities were fitted to labels that people gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Calibration {
    /// Fitted on this human-labelled data.
    Labelled {
        /// Which data.
        data: String,
    },
    /// Not, or it is not known.
    Uncalibrated,
}

/// The questions that a model answers: subjects and kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// [`Subject::General`].
    pub general: bool,
    /// [`Subject::Grounding`].
    pub grounding: bool,
    /// [`Subject::Relevance`].
    pub relevance: bool,
    /// [`Kind::Noul`].
    pub noul: bool,
    /// [`Kind::Choice`].
    pub choice: bool,
    /// [`Kind::Score`].
    pub score: bool,
}

impl Capabilities {
    /// Every subject in every kind.
    pub const ALL: Self =
        Self { general: true, grounding: true, relevance: true, noul: true, choice: true, score: true };

    /// Whether the subject and the kind of `question` are among them. The model may still decline one question.
    pub fn cover(&self, question: &Question) -> bool {
        let subject = match question.subject {
            Subject::General => self.general,
            Subject::Grounding { .. } => self.grounding,
            Subject::Relevance { .. } => self.relevance,
        };
        let kind = match question.kind {
            Kind::Noul { .. } => self.noul,
            Kind::Choice { .. } => self.choice,
            Kind::Score { .. } => self.score,
        };
        subject && kind
    }
}
