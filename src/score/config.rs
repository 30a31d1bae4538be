//! The settings of scoring, and what makes them inconsistent.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::services::{ServiceConfig, matcher};
use crate::domain::EvidenceType;

/// How claims become a score, a decision and a label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// From this score on, the answer can go out.
    pub proceed: f64,
    /// From this score on (and below `proceed`), the answer should be written again from the same evidence; below it, new evidence is needed.
    pub regenerate: f64,
    /// How much a contradicted claim weighs in the score's denominator (GSAR's rho), from 0 to 1; 1 is as much as an ungrounded one.
    pub contradiction_penalty: f64,
    /// The weight of a claim by the kind of evidence that it rests on.
    pub weights: Weights,
    /// When the label says `hallucination` or `faithful` rather than `unsure`.
    pub label: LabelThresholds,
    /// The share of an answer's claims, from 0 to 1, that must have been answered; with fewer the tier is `abstain`.
    pub min_answered: f64,
    /// What differs for single services, by their `service.name` or a pattern such as `shop-*`. Of several that match, a name
    /// written out beats a pattern, and a longer pattern a shorter one.
    pub services: BTreeMap<String, ServiceConfig>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            proceed: 0.80,
            regenerate: 0.65,
            contradiction_penalty: 0.5,
            weights: Weights::default(),
            label: LabelThresholds::default(),
            min_answered: 0.5,
            services: BTreeMap::new(),
        }
    }
}

/// The weight of a claim in the score, by the kind of evidence that it rests on. Only ratios matter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Weights {
    /// A tool's result says it literally.
    pub tool_match: f64,
    /// A specific figure, name or date of the evidence.
    pub specific_data: f64,
    /// A signal of the request or context.
    pub signal_match: f64,
    /// A finding beside the evidence, consistent with it.
    pub complementary_finding: f64,
    /// Several pieces of evidence put together.
    pub synthesis: f64,
    /// The absence of something in the evidence.
    pub neg_evidence: f64,
    /// Concluded from the evidence.
    pub inference: f64,
    /// Domain knowledge.
    pub domain: f64,
    /// Not determined.
    pub unknown: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            tool_match: 1.00,
            specific_data: 0.95,
            signal_match: 0.90,
            complementary_finding: 0.85,
            synthesis: 0.80,
            neg_evidence: 0.70,
            inference: 0.60,
            domain: 0.60,
            unknown: 0.60,
        }
    }
}

impl Weights {
    /// Sets the weight of a kind of evidence by its name; false if there is no such kind.
    pub fn set(&mut self, kind: &str, weight: f64) -> bool {
        let place = match kind {
            "tool_match" => &mut self.tool_match,
            "specific_data" => &mut self.specific_data,
            "signal_match" => &mut self.signal_match,
            "complementary_finding" => &mut self.complementary_finding,
            "synthesis" => &mut self.synthesis,
            "neg_evidence" => &mut self.neg_evidence,
            "inference" => &mut self.inference,
            "domain" => &mut self.domain,
            "unknown" => &mut self.unknown,
            _ => return false,
        };
        *place = weight;
        true
    }

    /// The weight of a claim that rests on evidence of this kind.
    pub fn of(&self, kind: EvidenceType) -> f64 {
        match kind {
            EvidenceType::ToolMatch => self.tool_match,
            EvidenceType::SpecificData => self.specific_data,
            EvidenceType::SignalMatch => self.signal_match,
            EvidenceType::ComplementaryFinding => self.complementary_finding,
            EvidenceType::Synthesis => self.synthesis,
            EvidenceType::NegEvidence => self.neg_evidence,
            EvidenceType::Inference => self.inference,
            EvidenceType::Domain => self.domain,
            EvidenceType::Unknown => self.unknown,
        }
    }
}

/// How probable it must be that a claim is bad, or good, for the answer's label. Claims that the judge picked count as they stand.
///
/// The defaults suit the embedded model, which is rarely sure: on 807 human-labelled rows (`tests/quality.rs`, `dev`, 120
/// rows of each source) `hallucination` is said of 28 % and right for 82 % of those, `faithful` of 26 % and right for 77 %;
/// the rest is `unsure`. With 0.85 and 0.75 it is 14 % (92 %) and 17 % (83 %). A stronger model deserves higher ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LabelThresholds {
    /// `hallucination`: a claim stands ungrounded or contradicted, and it is at least this probable that it is neither grounded nor complementary.
    pub hallucination: f64,
    /// `faithful`: every claim stands grounded or complementary, and for each that is at least this probable.
    pub faithful: f64,
}

impl Default for LabelThresholds {
    fn default() -> Self {
        Self { hallucination: 0.75, faithful: 0.60 }
    }
}

/// Weights beyond this are a slip of the keyboard; it also keeps sums finite.
const HEAVIEST: f64 = 1e6;

impl Config {
    /// Adds a message for each value that makes no sense, alone or with another.
    pub fn check(&self, problems: &mut Vec<String>) {
        self.check_as("score", problems);
        for (pattern, service) in &self.services {
            let name = format!("score.services.{pattern}");
            if let Err(error) = matcher(pattern) {
                problems.push(format!("{name}: is no pattern: {error}"));
            }
            service.over(self).check_as(&name, problems);
        }
    }

    fn check_as(&self, section: &str, problems: &mut Vec<String>) {
        let shares = [
            ("proceed", self.proceed),
            ("regenerate", self.regenerate),
            ("contradiction_penalty", self.contradiction_penalty),
            ("label.hallucination", self.label.hallucination),
            ("label.faithful", self.label.faithful),
            ("min_answered", self.min_answered),
        ];
        for (name, share) in shares {
            if !(0.0..=1.0).contains(&share) {
                problems.push(format!("{section}.{name} ({share}) must be from 0 to 1"));
            }
        }
        if self.regenerate >= self.proceed {
            problems.push(format!(
                "{section}.regenerate ({}) must be below {section}.proceed ({})",
                self.regenerate, self.proceed
            ));
        }
        let mut heaviest = 0.0_f64;
        for kind in EvidenceType::ALL {
            let weight = self.weights.of(kind);
            if !(0.0..=HEAVIEST).contains(&weight) {
                problems.push(format!(
                    "{section}.weights.{} ({weight}) must be from 0 to {HEAVIEST}",
                    kind.as_str()
                ));
            }
            heaviest = heaviest.max(weight);
        }
        if heaviest <= 0.0 {
            problems.push(format!("{section}.weights: at least one must be above 0"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(change: impl FnOnce(&mut Config)) -> Vec<String> {
        let mut config = Config::default();
        change(&mut config);
        let mut problems = Vec::new();
        config.check(&mut problems);
        problems
    }

    #[test]
    fn the_defaults_are_gsars_and_consistent() {
        assert_eq!(problems(|_| ()), Vec::<String>::new());
        let weights = Weights::default();
        let table: Vec<f64> = EvidenceType::ALL.iter().map(|kind| weights.of(*kind)).collect();
        assert_eq!(table, [1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.6, 0.6]);
        let mut set = Weights::default();
        assert!(EvidenceType::ALL.iter().all(|kind| set.set(kind.as_str(), 0.5) && set.of(*kind) == 0.5));
        assert!(!set.set("rumour", 1.0));
    }

    #[test]
    fn all_that_is_inconsistent_is_said_at_once() {
        let found = problems(|config| {
            config.regenerate = 0.9;
            config.contradiction_penalty = 1.5;
            config.weights.domain = -1.0;
            config.label.faithful = f64::NAN;
        });
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found.contains(&"score.regenerate (0.9) must be below score.proceed (0.8)".to_owned()));
        assert!(found.contains(&"score.contradiction_penalty (1.5) must be from 0 to 1".to_owned()));
    }

    #[test]
    fn equal_thresholds_leave_no_room_to_regenerate() {
        assert_eq!(problems(|config| config.regenerate = config.proceed).len(), 1);
    }

    #[test]
    fn an_unknown_kind_of_evidence_is_refused() {
        assert!(serde_json::from_str::<Config>(r#"{"weights":{"tool_match":1,"rumour":2}}"#).is_err());
    }

    #[test]
    fn what_a_service_changes_must_fit_the_rest() {
        let yaml = "services: { 'shop-*': { proceed: 0.6 }, 'a[': { weights: { domain: -1 } } }";
        let mut found = Vec::new();
        serde_saphyr::from_str::<Config>(yaml).unwrap().check(&mut found);
        assert_eq!(found.len(), 3, "{found:#?}");
        assert!(
            found.iter().any(|problem| problem.starts_with("score.services.shop-*.regenerate (0.65)")),
            "{found:#?}"
        );
    }
}
