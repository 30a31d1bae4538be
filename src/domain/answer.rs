//! Answers to typed questions, and the one definition of confidence.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{JudgeMetric, JudgedPartition, Kind, Usage};

/// Why nobody answered a question. A recorded state, never a score.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nobody {
    /// The decision model does not answer questions of this kind.
    Unsupported,
    /// The decision model failed; the text says how.
    Failed(String),
    /// The question cannot be put to the decision model as it is; the text says why.
    Refused(String),
    /// There is no evidence to answer from.
    NoEvidence,
}

impl Nobody {
    /// The word that metrics use.
    pub fn reason(&self) -> &'static str {
        match self {
            Nobody::Unsupported => "unsupported",
            Nobody::Failed(_) => "failed",
            Nobody::Refused(_) => "refused",
            Nobody::NoEvidence => "no_evidence",
        }
    }
}

/// Who gave an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnswerBy {
    /// The decision model.
    Local,
    /// The LLM judge.
    Judge,
    /// A rule that needs no model: its answer is certain of what it found, and has no probabilities.
    Rule,
    /// Nobody, and why.
    Nobody(Nobody),
}

/// A decision model's answer: one probability per label of the question's kind ([`Kind::labels`]), in that order.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Calibrated probabilities; they sum to 1.
    pub probabilities: Vec<f64>,
    /// Tokens that the model read for this answer alone.
    pub tokens: u32,
}

impl Decision {
    /// The position of the most probable label, the first on ties.
    pub fn pick(&self) -> usize {
        let mut best = 0;
        for (index, probability) in self.probabilities.iter().enumerate() {
            if *probability > self.probabilities[best] {
                best = index;
            }
        }
        best
    }

    /// How sure the answer is, from 0 to 1, by TypeSafe's definition for every backend:
    /// choice `(p_max − 1/n)/(1 − 1/n)`; noul `|2p − 1|`;
    /// score `1 − Σ p·|i − mode| / mean|i − (n−1)/2|`, floored at 0.
    pub fn confidence(&self, kind: &Kind) -> f64 {
        let p = &self.probabilities;
        let n = p.len() as f64;
        if p.len() < 2 {
            return if p.is_empty() { 0.0 } else { 1.0 };
        }
        let mode = self.pick();
        let confidence = match kind {
            Kind::Noul { .. } => (2.0 * p[1] - 1.0).abs(),
            Kind::Choice { .. } => (p[mode] - 1.0 / n) / (1.0 - 1.0 / n),
            Kind::Score { .. } => {
                let spread: f64 = p.iter().enumerate().map(|(i, p)| p * (i as f64 - mode as f64).abs()).sum();
                let middle = (n - 1.0) / 2.0;
                let widest: f64 = (0..p.len()).map(|i| (i as f64 - middle).abs()).sum::<f64>() / n;
                1.0 - spread / widest
            }
        };
        confidence.clamp(0.0, 1.0)
    }
}

/// What the cascade says to one question.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The question's id.
    pub id: String,
    /// Who answered.
    pub by: AnswerBy,
    /// The picked label: one of [`Kind::labels`]; none if nobody answered.
    pub label: Option<String>,
    /// The decision model's answer; kept beside the judge's pick when both exist.
    pub decision: Option<Decision>,
    /// Of `decision`, by the one definition.
    pub confidence: Option<f64>,
    /// The judge's reasoning.
    pub reasoning: Option<String>,
    /// Whether the question was sent to the judge (answered or not).
    pub escalated: bool,
}

/// What the cascade says to all questions about one story.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answers {
    /// One per question, in order of the questions; those that nobody was asked come last.
    pub responses: Vec<Response>,
    /// What the judge said to the operator's own metrics, by name.
    pub metrics: BTreeMap<String, JudgeMetric>,
    /// The judge's partition of the claims, if it was asked for one.
    pub partition: Option<JudgedPartition>,
    /// What the answers cost.
    pub usage: Usage,
    /// The judge's model, if it was asked.
    pub judge: Option<String>,
    /// Why the judge did not answer all that it was asked.
    pub judge_error: Option<String>,
    /// Whether anything could not be answered as planned.
    pub degraded: bool,
    /// What was cut from the questions on their way, in words.
    pub truncated: Vec<String>,
}

impl Answers {
    /// The response to the question with this id.
    pub fn response(&self, id: &str) -> Option<&Response> {
        self.responses.iter().find(|response| response.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Json;

    fn decision(probabilities: &[f64]) -> Decision {
        Decision { probabilities: probabilities.to_vec(), tokens: 0 }
    }

    #[test]
    fn confidence_follows_the_one_definition() {
        let noul = Kind::Noul { if_true: None, if_false: None };
        let choice = Kind::Choice {
            options: vec![("a".into(), Json::Null), ("b".into(), Json::Null), ("c".into(), Json::Null)],
        };
        let score = Kind::Score { levels: vec![Json::Null; 3] };
        assert!((decision(&[0.05, 0.95]).confidence(&noul) - 0.9).abs() < 1e-12);
        assert!((decision(&[0.6, 0.2, 0.2]).confidence(&choice) - 0.4).abs() < 1e-12);
        // Spread around the mode 1: 0.2·1 + 0.1·1 = 0.3; mean distance from the middle: 2/3.
        assert!((decision(&[0.2, 0.7, 0.1]).confidence(&score) - 0.55).abs() < 1e-12);
        assert_eq!(decision(&[0.5, 0.0, 0.5]).confidence(&score), 0.0);
    }

    #[test]
    fn the_first_label_wins_a_tie() {
        assert_eq!(decision(&[0.4, 0.4, 0.2]).pick(), 0);
    }
}
