//! What makes a verdict: models, questions and thresholds, under one hash.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::Config;
use super::services::Services;
use crate::domain::{Json, Provenance};

/// All that two verdicts must share to be comparable.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// How claims are scored.
    pub score: Config,
    /// The decision model's name.
    pub decider: String,
    /// The judge's model, if one is configured.
    pub judge: Option<String>,
    /// The confidence below which an answer goes to the judge.
    pub min_confidence: f64,
    /// What the probabilities were calibrated by, if they were ([`crate::domain::Provenance::calibration`]). Whoever sets it
    /// puts it into the hash too, with `questions`.
    pub calibration: Option<String>,
    /// Digest of the judge's prompt templates, if there is a judge; set as `calibration` is.
    pub prompts: Option<String>,
    /// Hash of all of the above and of the questions; 32 hex digits.
    pub hash: String,
    services: Services,
}

impl Plan {
    /// A plan. `questions` is all that shapes what is asked (`ask::fingerprint`), prompts included; it only enters the hash.
    pub fn new(
        score: Config,
        questions: &Json,
        decider: impl Into<String>,
        judge: Option<String>,
        min_confidence: f64,
    ) -> Self {
        let decider = decider.into();
        let all = serde_json::json!({
            "score": score,
            "questions": questions,
            "decider": decider,
            "judge": judge,
            "min_confidence": min_confidence,
        });
        let hash = digest(&["plan", &all.to_string()]);
        let services = Services::new(&score);
        Self { score, decider, judge, min_confidence, calibration: None, prompts: None, hash, services }
    }

    /// The plan with the scoring of this service; its hash is that of the whole plan.
    pub(super) fn of(&self, service: Option<&str>) -> Cow<'_, Self> {
        match self.services.of(service) {
            Some(score) => Cow::Owned(Self { score: score.clone(), ..self.clone() }),
            None => Cow::Borrowed(self),
        }
    }

    /// What a verdict says of its making. `judge` is the judge's model if this verdict's judge was asked.
    pub fn provenance(&self, judge: Option<String>) -> Provenance {
        let prompts = self.prompts.clone().filter(|_| judge.is_some());
        Provenance {
            decider: self.decider.clone(),
            judge,
            plan: self.hash.clone(),
            thresholds: self.thresholds(),
            calibration: self.calibration.clone(),
            prompts,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    fn thresholds(&self) -> BTreeMap<String, f64> {
        let named = [
            ("min_confidence", self.min_confidence),
            ("proceed", self.score.proceed),
            ("regenerate", self.score.regenerate),
            ("contradiction_penalty", self.score.contradiction_penalty),
            ("label.hallucination", self.score.label.hallucination),
            ("label.faithful", self.score.label.faithful),
            ("min_answered", self.score.min_answered),
        ];
        named.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

/// 32 hex digits of a hash over `parts`; no two lists of parts run into each other.
pub(super) fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    hash.update(b"assayd 1");
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(score: Config, questions: Json, decider: &str, judge: Option<String>) -> Plan {
        Plan::new(score, &questions, decider, judge, 0.9)
    }

    #[test]
    fn equal_plans_have_equal_hashes_and_each_part_counts() {
        let base = plan(Config::default(), Json::Null, "embedded", None);
        assert_eq!(base.hash, plan(Config::default(), Json::Null, "embedded", None).hash);
        assert_eq!(base.hash.len(), 32);
        let others = [
            plan(Config { proceed: 0.9, ..Config::default() }, Json::Null, "embedded", None),
            plan(Config::default(), Json::Bool(true), "embedded", None),
            plan(Config::default(), Json::Null, "embedded2", None),
            plan(Config::default(), Json::Null, "embedded", Some("large".to_owned())),
            Plan::new(Config::default(), &Json::Null, "embedded", None, 0.8),
        ];
        for other in others {
            assert_ne!(base.hash, other.hash);
        }
    }

    #[test]
    fn parts_of_a_hash_do_not_run_into_each_other() {
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
    }
}
