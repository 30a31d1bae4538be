//! How good a calibration is on records that its fit has not seen.

use std::collections::BTreeMap;

use serde::Serialize;

use super::seen::{answers, settled, temperature_of};
use super::temperature::scaled;
use super::{Confusion, Fitted, Graded, RiskPoint, Seen, Thresholds};
use super::{accuracy, auroc, brier, ece, kappa, risk_coverage, wilson};
use crate::domain::Decision;

/// Bins of the calibration error.
const BINS: usize = 10;

/// Confidences at which risk and coverage are told.
pub(super) const STEPS: [f64; 11] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95];

/// How good a calibration is on some records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Records.
    pub records: usize,
    /// Whole answers: does something not stand?
    pub answers: Option<Measured>,
    /// Typed questions, by what they are calibrated by.
    pub questions: BTreeMap<String, Measured>,
    /// Single decisions, as the cascade settles them: risk and coverage by their confidence.
    pub decisions: Vec<RiskPoint>,
    /// What the thresholds do here.
    pub thresholds: BTreeMap<String, Promise>,
}

/// Measures of one kind of answers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// How many.
    pub count: usize,
    /// The share of right ones.
    pub accuracy: Option<f64>,
    /// Expected calibration error, 10 bins.
    pub ece: Option<f64>,
    /// The same with the model's own probabilities.
    pub ece_before: Option<f64>,
    /// Brier score.
    pub brier: Option<f64>,
    /// The same with the model's own probabilities.
    pub brier_before: Option<f64>,
    /// Cohen's kappa with the labels.
    pub kappa: Option<f64>,
    /// Area under the ROC curve, of yes and no.
    pub auroc: Option<f64>,
    /// Counts, of yes and no.
    pub confusion: Option<Confusion>,
    /// What a threshold on the confidence costs and brings.
    pub risk_coverage: Vec<RiskPoint>,
}

/// A threshold and what it does.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Promise {
    /// The threshold.
    pub threshold: f64,
    /// The share of answers that reach it.
    pub coverage: f64,
    /// How many these are.
    pub answers: usize,
    /// The share of right ones among them.
    pub accuracy: Option<f64>,
    /// Its interval of 95 %.
    pub interval: [f64; 2],
}

impl Promise {
    fn of(answers: &[(f64, bool)], total: usize, threshold: f64) -> Self {
        let reached = answers.iter().filter(|(confidence, _)| *confidence >= threshold);
        let (count, right) =
            reached.fold((0, 0), |(count, right), (_, is_right)| (count + 1, right + usize::from(*is_right)));
        Self {
            threshold,
            coverage: count as f64 / total.max(1) as f64,
            answers: count,
            accuracy: (count > 0).then(|| right as f64 / count as f64),
            interval: wilson(right, count),
        }
    }
}

/// Reports on records, with the thresholds that are in force: the fitted ones, else `configured`.
pub fn report(seen: &[Seen], fitted: &Fitted, configured: Thresholds) -> Report {
    let plain = Fitted { temperatures: BTreeMap::new(), ..fitted.clone() };
    let (after, before) = (answers(seen, fitted), answers(seen, &plain));
    let binary =
        |answers: &[(f64, bool)]| answers.iter().map(|(p, bad)| Graded::binary(*p, *bad)).collect::<Vec<_>>();
    let decisions = settled(seen, fitted);
    let mut thresholds = BTreeMap::new();
    let mut promise = |name: &str, threshold: Option<f64>, answers: &[(f64, bool)]| {
        if let Some(threshold) = threshold.filter(|_| !answers.is_empty()) {
            thresholds.insert(name.to_owned(), Promise::of(answers, answers.len(), threshold));
        }
    };
    let now = &fitted.thresholds;
    promise("min_confidence", now.min_confidence.or(configured.min_confidence), &decisions);
    let bad: Vec<(f64, bool)> = after.clone();
    let good: Vec<(f64, bool)> = after.iter().map(|(p, is_bad)| (1.0 - p, !is_bad)).collect();
    promise("label.hallucination", now.hallucination.or(configured.hallucination), &bad);
    promise("label.faithful", now.faithful.or(configured.faithful), &good);
    Report {
        records: seen.len(),
        answers: (!after.is_empty()).then(|| Measured::of(&binary(&after), &binary(&before))),
        questions: questions(seen, fitted, &plain),
        decisions: if decisions.is_empty() { Vec::new() } else { risk_coverage(&decisions, &STEPS) },
        thresholds,
    }
}

fn questions(seen: &[Seen], fitted: &Fitted, plain: &Fitted) -> BTreeMap<String, Measured> {
    let graded = |fitted: &Fitted| {
        let mut graded: BTreeMap<String, Vec<Graded>> = BTreeMap::new();
        for one in seen {
            let Seen::Question { id, key, kind, probabilities, truth } = one else { continue };
            let probabilities = scaled(probabilities, temperature_of(fitted, &[id, key]));
            let decision = Decision { probabilities, tokens: 0 };
            let confidence = decision.confidence(kind);
            let answer = Graded { probabilities: decision.probabilities, truth: *truth, confidence };
            graded.entry((*key).to_owned()).or_default().push(answer);
        }
        graded
    };
    let (after, before) = (graded(fitted), graded(plain));
    after.into_iter().map(|(key, answers)| (key.clone(), Measured::of(&answers, &before[&key]))).collect()
}

impl Measured {
    fn of(answers: &[Graded], before: &[Graded]) -> Self {
        let is_binary = answers.iter().all(|answer| answer.probabilities.len() == 2);
        let pairs: Vec<(usize, usize)> = answers.iter().map(|answer| (answer.pick(), answer.truth)).collect();
        let scores: Vec<(f64, bool)> =
            answers.iter().map(|answer| (answer.probabilities[1], answer.truth == 1)).collect();
        let right: Vec<(f64, bool)> =
            answers.iter().map(|answer| (answer.confidence, answer.is_right())).collect();
        Self {
            count: answers.len(),
            accuracy: accuracy(answers),
            ece: ece(answers, BINS),
            ece_before: ece(before, BINS),
            brier: brier(answers),
            brier_before: brier(before),
            kappa: kappa(&pairs),
            auroc: if is_binary { auroc(&scores) } else { None },
            confusion: is_binary
                .then(|| Confusion::of(pairs.iter().map(|(pick, truth)| (*pick == 1, *truth == 1)))),
            risk_coverage: risk_coverage(&right, &STEPS),
        }
    }
}
