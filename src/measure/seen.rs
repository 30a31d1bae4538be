//! What a decision model said of labelled records, as fitting and reporting look at it.

use super::Fitted;
use super::temperature::scaled;
use crate::domain::{Decision, Kind};

/// What was said of one record, and what is right.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// An answer, by its claims.
    Answer {
        /// The claims that have probabilities.
        claims: Vec<SeenClaim>,
        /// Whether something in it does not stand.
        is_bad: bool,
    },
    /// A typed question.
    Question {
        /// Its id.
        id: String,
        /// What it is calibrated by if it has no temperature of its own.
        key: &'static str,
        /// Its kind.
        kind: Kind,
        /// One probability per label.
        probabilities: Vec<f64>,
        /// The position of the right label.
        truth: usize,
    },
    /// A verdict that was given before: only its numbers are known.
    Given {
        /// Whether it is about one claim.
        is_claim: bool,
        /// The probability that something does not stand.
        p: Option<f64>,
        /// How sure the model was.
        confidence: Option<f64>,
        /// Whether it was said that something does not stand; none where it was left open.
        said: Option<bool>,
        /// Whether something does not stand.
        is_bad: bool,
    },
}

/// A claim, as the decision model saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenClaim {
    /// One probability per standing.
    pub probabilities: Vec<f64>,
    /// Which of the standings support it.
    pub supports: Vec<bool>,
    /// The kind of its evidence, by name.
    pub evidence_type: &'static str,
}

impl SeenClaim {
    /// The probability that it does not stand.
    pub(super) fn doubt(&self, temperature: f64) -> f64 {
        let p = scaled(&self.probabilities, temperature);
        let supported: f64 =
            p.iter().zip(&self.supports).filter(|(_, supports)| **supports).map(|(p, _)| p).sum();
        (1.0 - supported).clamp(0.0, 1.0)
    }

    /// How sure the pick is, and whether it says that the claim does not stand.
    pub(super) fn stand(&self, temperature: f64) -> (f64, bool) {
        let decision = Decision { probabilities: scaled(&self.probabilities, temperature), tokens: 0 };
        let kind = Kind::Choice { options: Vec::new() };
        let stands = self.supports.get(decision.pick()).copied().unwrap_or(false);
        (decision.confidence(&kind), !stands)
    }
}

/// The largest doubt over the claims, as a verdict has it.
pub(super) fn hallucination(claims: &[SeenClaim], temperature: f64) -> Option<f64> {
    claims.iter().map(|claim| claim.doubt(temperature)).reduce(f64::max)
}

pub(super) fn temperature_of(fitted: &Fitted, keys: &[&str]) -> f64 {
    keys.iter().find_map(|key| fitted.temperatures.get(*key)).copied().unwrap_or(1.0)
}

/// Whole answers: the probability that something does not stand, and whether it does not.
pub(super) fn answers(seen: &[Seen], fitted: &Fitted) -> Vec<(f64, bool)> {
    let temperature = temperature_of(fitted, &["grounding"]);
    let one = |seen: &Seen| match seen {
        Seen::Answer { claims, is_bad } => Some((hallucination(claims, temperature)?, *is_bad)),
        Seen::Given { is_claim: false, p, is_bad, .. } => Some(((*p)?, *is_bad)),
        Seen::Given { .. } | Seen::Question { .. } => None,
    };
    seen.iter().filter_map(one).collect()
}

/// Single decisions as the cascade settles them: how sure, and whether right. Of an answer's claims those of which the label
/// of the answer says enough: all of a good answer, the only one of a bad answer.
pub(super) fn settled(seen: &[Seen], fitted: &Fitted) -> Vec<(f64, bool)> {
    let mut settled = Vec::new();
    for one in seen {
        match one {
            Seen::Answer { claims, is_bad } if !is_bad || claims.len() == 1 => {
                let temperature = temperature_of(fitted, &["grounding"]);
                settled.extend(claims.iter().map(|claim| {
                    let (confidence, said_bad) = claim.stand(temperature);
                    (confidence, said_bad == *is_bad)
                }));
            }
            Seen::Question { id, key, kind, probabilities, truth } => {
                let probabilities = scaled(probabilities, temperature_of(fitted, &[id, key]));
                let decision = Decision { probabilities, tokens: 0 };
                settled.push((decision.confidence(kind), decision.pick() == *truth));
            }
            Seen::Given {
                confidence: Some(confidence), said: Some(said), is_bad, is_claim: true, ..
            } => {
                settled.push((*confidence, said == is_bad));
            }
            Seen::Answer { .. } | Seen::Given { .. } => {}
        }
    }
    settled
}
