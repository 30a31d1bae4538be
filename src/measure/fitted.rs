//! What a calibration file holds: `assayd calibrate` writes it, `decide.calibration` names it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::temperature::scaled;
use crate::domain::{Decision, Json, Question, Subject};

/// The version of the file's form.
const SCHEMA: u32 = 1;

/// What was fitted to labels, and on which.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// 1.
    pub schema: u32,
    /// Whether people gave all the labels. Only then are the probabilities called calibrated.
    pub calibrated: bool,
    /// The decision model that it was fitted for: it says nothing about another.
    pub model: String,
    /// Records that were used, by who labelled them.
    pub labeled_by: BTreeMap<String, usize>,
    /// Temperatures by what is asked: a question's own id, `grounding`, `relevance`, `noul`, `choice` or `score`.
    #[serde(default)]
    pub temperatures: BTreeMap<String, f64>,
    /// Thresholds; what is not here stays as configured.
    #[serde(default)]
    pub thresholds: Thresholds,
    /// Weights of claims by the kind of their evidence; what is not here stays as configured.
    #[serde(default)]
    pub weights: BTreeMap<String, f64>,
    /// How good it was on the records that the fit had not seen. Not read.
    #[serde(default)]
    pub report: Json,
}

/// Fitted thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Thresholds {
    /// In place of `decide.min_confidence`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_confidence: Option<f64>,
    /// In place of `score.label.hallucination`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hallucination: Option<f64>,
    /// In place of `score.label.faithful`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faithful: Option<f64>,
}

/// Why a text is no calibration.
#[derive(Debug, thiserror::Error)]
pub enum FittedError {
    /// Not JSON, or not of this form.
    #[error("it is not what `assayd calibrate` writes: {0}")]
    Json(#[from] serde_json::Error),
    /// Of another version.
    #[error("its schema is {found}; this version reads {SCHEMA}")]
    Schema {
        /// The file's.
        found: u32,
    },
    /// A value that makes no sense.
    #[error("{name} is {value}, which must be {wanted}")]
    Value {
        /// Which.
        name: String,
        /// What is there.
        value: f64,
        /// What would be right.
        wanted: &'static str,
    },
    /// It says that it is calibrated and names no human labels.
    #[error("it is called calibrated, but not all of its labels are by people: {labels}")]
    Unlabelled {
        /// Who labelled.
        labels: String,
    },
}

impl Fitted {
    /// A fit; it is called calibrated if people gave all labels, and there are any.
    pub fn new(model: impl Into<String>, labeled_by: BTreeMap<String, usize>) -> Self {
        Self {
            schema: SCHEMA,
            calibrated: is_human(&labeled_by),
            model: model.into(),
            labeled_by,
            temperatures: BTreeMap::new(),
            thresholds: Thresholds::default(),
            weights: BTreeMap::new(),
            report: Json::Null,
        }
    }

    /// Reads a file's text.
    pub fn read(text: &str) -> Result<Self, FittedError> {
        let fitted: Self = serde_json::from_str(text)?;
        if fitted.schema != SCHEMA {
            return Err(FittedError::Schema { found: fitted.schema });
        }
        if fitted.calibrated && !is_human(&fitted.labeled_by) {
            let by = fitted.labeled_by.iter().map(|(by, count)| format!("{count} by {by}"));
            let labels = by.collect::<Vec<_>>().join(", ");
            return Err(FittedError::Unlabelled {
                labels: if labels.is_empty() { "none".to_owned() } else { labels },
            });
        }
        for (name, value) in &fitted.temperatures {
            if !value.is_finite() || *value <= 0.0 {
                let name = format!("temperatures.{name}");
                return Err(FittedError::Value { name, value: *value, wanted: "above 0" });
            }
        }
        for (name, value) in fitted.thresholds.named() {
            if !(0.0..=1.0).contains(&value) {
                let name = format!("thresholds.{name}");
                return Err(FittedError::Value { name, value, wanted: "from 0 to 1" });
            }
        }
        for (name, value) in &fitted.weights {
            if !(0.0..=1e6).contains(value) {
                let name = format!("weights.{name}");
                return Err(FittedError::Value { name, value: *value, wanted: "from 0 to 1000000" });
            }
        }
        Ok(fitted)
    }

    /// The file's text.
    pub fn text(&self) -> String {
        // Text keys and plain values only: always JSON.
        format!("{}\n", serde_json::to_string_pretty(self).unwrap_or_default())
    }

    /// 16 hex digits over all that changes an answer or a verdict.
    pub fn digest(&self) -> String {
        let said = serde_json::json!([
            self.model,
            self.calibrated,
            self.temperatures,
            self.thresholds,
            self.weights
        ]);
        Sha256::digest(said.to_string().as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// What it is called in provenance: `calibrated:…` or `uncalibrated:…`, with the digest.
    pub fn name(&self) -> String {
        let word = if self.calibrated { "calibrated" } else { "uncalibrated" };
        format!("{word}:{}", self.digest())
    }

    /// The temperature for a question: that of its own id, else of its subject, else of its kind, else 1.
    pub fn temperature(&self, question: &Question) -> f64 {
        let keys = [question.id.as_str(), key(question)];
        keys.iter().find_map(|key| self.temperatures.get(*key)).copied().unwrap_or(1.0)
    }

    /// A decision with its probabilities by this calibration.
    pub fn apply(&self, question: &Question, decision: Decision) -> Decision {
        let probabilities = scaled(&decision.probabilities, self.temperature(question));
        Decision { probabilities, ..decision }
    }
}

/// What a question without a temperature of its own is calibrated by.
pub fn key(question: &Question) -> &'static str {
    match &question.subject {
        Subject::Grounding { .. } => "grounding",
        Subject::Relevance { .. } => "relevance",
        Subject::General => question.kind.as_str(),
    }
}

impl Thresholds {
    /// Those that are set, by name.
    pub fn named(&self) -> Vec<(&'static str, f64)> {
        let all = [
            ("min_confidence", self.min_confidence),
            ("hallucination", self.hallucination),
            ("faithful", self.faithful),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

fn is_human(labeled_by: &BTreeMap<String, usize>) -> bool {
    labeled_by.get("human").is_some_and(|count| *count > 0)
        && labeled_by.iter().all(|(by, count)| by == "human" || *count == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Kind;

    fn by(who: &str) -> BTreeMap<String, usize> {
        [(who.to_owned(), 100)].into()
    }

    fn question(id: &str, subject: Subject) -> Question {
        Question {
            id: id.to_owned(),
            kind: Kind::Noul { if_true: None, if_false: None },
            instructions: Json::Null,
            subject,
        }
    }

    #[test]
    fn only_human_labels_make_it_calibrated() {
        assert!(Fitted::new("m", by("human")).calibrated);
        assert!(!Fitted::new("m", by("model")).calibrated);
        assert!(!Fitted::new("m", BTreeMap::new()).calibrated);
        let mixed: BTreeMap<String, usize> = [("human".to_owned(), 90), ("model".to_owned(), 1)].into();
        assert!(!Fitted::new("m", mixed).calibrated);
        let forged = Fitted { calibrated: true, ..Fitted::new("m", by("model")) };
        assert!(Fitted::read(&forged.text()).unwrap_err().to_string().contains("100 by model"));
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_nonsense_is_refused() {
        let mut fitted = Fitted::new("m", by("human"));
        fitted.temperatures.insert("grounding".to_owned(), 1.5);
        fitted.thresholds.min_confidence = Some(0.8);
        assert_eq!(Fitted::read(&fitted.text()).unwrap(), fitted);
        for (change, wanted) in [
            ("\"schema\": 1|\"schema\": 2", "reads 1"),
            ("1.5|0", "above 0"),
            ("0.8|8", "from 0 to 1"),
            ("\"model\"|\"modell\"", "modell"),
        ] {
            let (from, to) = change.split_once('|').unwrap();
            let error = Fitted::read(&fitted.text().replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(wanted), "{change}: {error}");
        }
    }

    #[test]
    fn a_question_is_calibrated_by_its_own_temperature_first() {
        let mut fitted = Fitted::new("m", by("human"));
        fitted.temperatures =
            [("noul", 2.0), ("grounding", 3.0), ("tone", 4.0)].map(|(k, t)| (k.to_owned(), t)).into();
        assert_eq!(fitted.temperature(&question("x", Subject::General)), 2.0);
        assert_eq!(fitted.temperature(&question("tone", Subject::General)), 4.0);
        assert_eq!(
            fitted.temperature(&question("claim:0", Subject::Grounding { claim: String::new() })),
            3.0
        );
        assert_eq!(fitted.temperature(&question("x", Subject::Relevance { query: String::new() })), 1.0);
    }

    #[test]
    fn the_digest_follows_what_changes_an_answer() {
        let plain = Fitted::new("m", by("human"));
        let reported = Fitted { report: Json::Bool(true), ..plain.clone() };
        assert_eq!(plain.digest(), reported.digest());
        let warmer = Fitted { temperatures: [("noul".to_owned(), 2.0)].into(), ..plain.clone() };
        assert_ne!(plain.digest(), warmer.digest());
        assert!(plain.name().starts_with("calibrated:"));
    }
}
