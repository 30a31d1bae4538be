//! The comparison: a line per model and threshold.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::records::{Given, Kept, Line};
use crate::domain::{Decision, Question};
use crate::evaluate::{Backend, Item};
use crate::measure::{Case, Decided, Graded, Row, accuracy_of_answered, brier, ece, row};

/// Bins of the calibration error.
const BINS: usize = 10;

/// All models.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Items that were compared.
    items: usize,
    /// Labelled questions in them.
    questions: usize,
    /// The models, in the order of the command line.
    models: Vec<Model>,
    /// The judge alone, if there is one.
    judge: Option<Model>,
}

/// One model.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Model {
    /// The backend, as it was named.
    backend: String,
    /// The model's own name.
    model: String,
    /// What its probabilities are calibrated by.
    #[serde(skip_serializing_if = "Option::is_none")]
    calibration: Option<String>,
    /// The share of questions that it answered.
    answered: f64,
    /// Of the answered, the share of right ones.
    accuracy: Option<f64>,
    /// Expected calibration error, 10 bins; none without probabilities.
    ece: Option<f64>,
    /// Brier score; none without probabilities.
    brier: Option<f64>,
    /// Mean time for an item.
    seconds_per_check: f64,
    /// Mean cost of an item.
    usd_per_check: f64,
    /// What tokens were counted at, in words; none for a decision model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pricing: Option<String>,
    /// Why questions were not answered, and how many.
    unanswered: BTreeMap<String, usize>,
    /// What comes of each threshold.
    thresholds: Vec<Together>,
}

/// A threshold, with time and cost of an item where the judge answers what is not settled.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Together {
    #[serde(flatten)]
    row: Row,
    seconds_per_check: f64,
    usd_per_check: f64,
}

impl Report {
    /// Of what is kept.
    pub fn of(
        items: &[Item],
        models: &[Backend],
        judge: Option<&Backend>,
        thresholds: &[f64],
        kept: &Kept,
    ) -> Self {
        let judge = judge.map(Backend::to_string);
        let of = |backend: &str, judge: Option<&str>| model(items, backend, judge, thresholds, kept);
        Self {
            items: items.len(),
            questions: items.iter().map(|item| item.truths.iter().flatten().count()).sum(),
            models: models.iter().map(|backend| of(&backend.to_string(), judge.as_deref())).collect(),
            judge: judge.as_deref().map(|judge| Model { thresholds: Vec::new(), ..of(judge, None) }),
        }
    }

    /// The comparison for people.
    pub fn table(&self) -> String {
        let mut text = format!("{} labelled questions about {} states\n\n", self.questions, self.items);
        let width = self
            .models
            .iter()
            .chain(&self.judge)
            .map(|model| model.backend.chars().count())
            .max()
            .unwrap_or(0);
        let width = width.clamp(8, 48);
        let _ = writeln!(
            text,
            "{:<width$} {:>8} {:>8} {:>6} {:>6} | {:>9} {:>8} {:>8} {:>8} {:>9} {:>9} {:>10}",
            "model",
            "answered",
            "accuracy",
            "ECE",
            "Brier",
            "threshold",
            "settled",
            "right",
            "cascade",
            "to judge",
            "s/check",
            "USD/check"
        );
        for model in self.models.iter().chain(&self.judge) {
            let head = format!(
                "{:<width$} {:>8} {:>8} {:>6} {:>6} |",
                super::super::table::clipped(&model.backend, width),
                percent(Some(model.answered)),
                percent(model.accuracy),
                number(model.ece),
                number(model.brier)
            );
            if model.thresholds.is_empty() {
                let cost = format!("{:>9.4} {:>10.6}", model.seconds_per_check, model.usd_per_check);
                let _ = writeln!(
                    text,
                    "{head} {:>9} {:>8} {:>8} {:>8} {:>9} {cost}",
                    "alone", "-", "-", "-", "-"
                );
            }
            let blank = format!("{:<width$} {:>8} {:>8} {:>6} {:>6} |", "", "", "", "", "");
            for (at, together) in model.thresholds.iter().enumerate() {
                let row = &together.row;
                let _ = writeln!(
                    text,
                    "{} {:>9.2} {:>8} {:>8} {:>8} {:>9} {:>9.4} {:>10.6}",
                    if at == 0 { &head } else { &blank },
                    row.threshold,
                    percent(Some(row.settled)),
                    percent(row.accuracy_when_settled),
                    percent(row.cascade_accuracy),
                    percent(self.judge.as_ref().map(|_| row.judge_share)),
                    together.seconds_per_check,
                    together.usd_per_check
                );
            }
        }
        text.push_str(
            "\nright: share of right answers among the settled; cascade: of all, with the judge's answers for the rest;\n\
             to judge: share of questions that it gets; s/check and USD/check: for one state, the judge's part included.\n",
        );
        text
    }

    /// What a reader must know beside the numbers.
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        for model in self.models.iter().chain(&self.judge) {
            if let Some(pricing) = &model.pricing {
                complaints.push(format!("USD of {} are counted at {pricing}", model.backend));
            }
            for (why, count) in &model.unanswered {
                complaints.push(format!(
                    "{} left {count} of {} questions open: {why}",
                    model.backend, self.questions
                ));
            }
        }
        complaints
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
}

fn model(items: &[Item], backend: &str, judge: Option<&str>, thresholds: &[f64], kept: &Kept) -> Model {
    let mut cases = Vec::new();
    let mut unanswered: BTreeMap<String, usize> = BTreeMap::new();
    for (at, item) in items.iter().enumerate() {
        let line = kept.get(item, backend);
        let judged = judge.and_then(|judge| kept.get(item, judge));
        for (question, truth) in item.inquiry.questions.iter().zip(&item.truths) {
            let Some(truth) = *truth else { continue };
            let given = line.and_then(|line| line.answers.get(&question.id));
            let decided = given.and_then(|given| decided(question, given, truth));
            if decided.is_none() {
                let why =
                    given.and_then(|given| given.nobody.clone()).unwrap_or_else(|| "no answer".to_owned());
                *unanswered.entry(why).or_default() += 1;
            }
            let judged = judged
                .and_then(|line| line.answers.get(&question.id))
                .and_then(|given| pick(question, given));
            cases.push(Case { item: at, truth, decided, judged });
        }
    }
    let graded: Vec<Graded> = cases.iter().filter_map(Case::graded).cloned().collect();
    let answered = cases.iter().filter(|case| case.decided.is_some()).count();
    let lines: Vec<Option<&Line>> = items.iter().map(|item| kept.get(item, backend)).collect();
    let of_judge = |at: usize| judge.and_then(|judge| kept.get(&items[at], judge));
    let mean = |of: &dyn Fn(&Line) -> f64| {
        lines.iter().flatten().map(|line| of(line)).sum::<f64>() / items.len().max(1) as f64
    };
    let (seconds, cost) = (mean(&|line| line.seconds), mean(&|line| line.cost_usd));
    let together = |threshold: f64| {
        let row = row(&cases, threshold, judge.is_some());
        let mut asked: Vec<usize> =
            cases.iter().filter(|case| !case.is_settled(threshold)).map(|case| case.item).collect();
        asked.dedup();
        let more = |of: &dyn Fn(&Line) -> f64| {
            asked.iter().filter_map(|at| of_judge(*at)).map(of).sum::<f64>() / items.len().max(1) as f64
        };
        Together {
            row,
            seconds_per_check: seconds + more(&|line| line.seconds),
            usd_per_check: cost + more(&|line| line.cost_usd),
        }
    };
    let first = lines.iter().flatten().next();
    Model {
        backend: backend.to_owned(),
        model: first.map(|line| line.model.clone()).unwrap_or_default(),
        calibration: first.and_then(|line| line.calibration.clone()),
        answered: answered as f64 / cases.len().max(1) as f64,
        accuracy: accuracy_of_answered(&cases),
        ece: ece(&graded, BINS),
        brier: brier(&graded),
        seconds_per_check: seconds,
        usd_per_check: cost,
        pricing: first.and_then(|line| line.pricing.clone()),
        unanswered,
        thresholds: thresholds.iter().map(|threshold| together(*threshold)).collect(),
    }
}

fn decided(question: &Question, given: &Given, truth: usize) -> Option<Decided> {
    if let Some(probabilities) =
        given.probabilities.clone().filter(|p| p.len() == question.kind.labels().len())
    {
        let decision = Decision { probabilities, tokens: 0 };
        let confidence = decision.confidence(&question.kind);
        return Some(Decided::Graded(Graded { probabilities: decision.probabilities, truth, confidence }));
    }
    pick(question, given).map(Decided::Pick)
}

fn pick(question: &Question, given: &Given) -> Option<usize> {
    if let Some(probabilities) = &given.probabilities {
        return Some(Decision { probabilities: probabilities.clone(), tokens: 0 }.pick());
    }
    let label = given.label.as_ref()?;
    question.kind.labels().iter().position(|known| known == label)
}
