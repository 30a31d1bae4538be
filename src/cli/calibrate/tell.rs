//! The report of a calibration, for people.

use std::fmt::Write;
use std::path::Path;

use serde::Serialize;

use super::grade::Graded;
use crate::cli::table::clipped;
use crate::measure::{Fitted, Measured, Report, RiskPoint, Seen, Thresholds, report};

/// Wrong answers that are named of each sort.
const NAMED: usize = 10;

/// The report.
pub fn text(fitted: &Fitted, told: &Report, wrong: &[Wrong], fitted_on: usize, out: &Path) -> String {
    let word = if fitted.calibrated { "calibrated" } else { "UNCALIBRATED" };
    let by: Vec<String> = fitted.labeled_by.iter().map(|(by, count)| format!("{count} by {by}")).collect();
    let mut text = format!(
        "{word}: {}, fitted on {fitted_on} and reported on {} records (labels: {})\n",
        fitted.model,
        told.records,
        by.join(", ")
    );
    for (key, temperature) in &fitted.temperatures {
        let _ = writeln!(text, "temperature {key:<16} {temperature:.3}");
    }
    for (kind, weight) in &fitted.weights {
        let _ = writeln!(text, "weight      {kind:<16} {weight:.2}");
    }
    if let Some(answers) = &told.answers {
        measures(&mut text, "answers (does something not stand?)", answers);
    }
    for (key, measured) in &told.questions {
        measures(&mut text, &format!("questions: {key}"), measured);
    }
    if !told.decisions.is_empty() {
        let _ = writeln!(text, "\nsingle decisions, as the cascade settles them");
        risk(&mut text, &told.decisions);
    }
    thresholds(&mut text, fitted, told);
    tell_wrong(&mut text, wrong);
    let _ = writeln!(
        text,
        "\nwritten to {}; put it in force with `decide: {{ calibration: {} }}`",
        out.display(),
        out.display()
    );
    text
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
}

fn measures(text: &mut String, what: &str, measured: &Measured) {
    let _ = writeln!(
        text,
        "\n{what}: {}\n  accuracy {}  kappa {}  AUROC {}  ECE {} (before {})  Brier {} (before {})",
        measured.count,
        percent(measured.accuracy),
        number(measured.kappa),
        number(measured.auroc),
        number(measured.ece),
        number(measured.ece_before),
        number(measured.brier),
        number(measured.brier_before)
    );
    if let Some(counts) = &measured.confusion {
        let _ = writeln!(
            text,
            "  said yes: {} right, {} wrong; said no: {} right, {} wrong",
            counts.true_positives, counts.false_positives, counts.true_negatives, counts.false_negatives
        );
    }
    risk(text, &measured.risk_coverage);
}

fn risk(text: &mut String, points: &[RiskPoint]) {
    let _ = writeln!(text, "  {:>10} {:>9} {:>8} {:>8}", "confidence", "coverage", "answers", "wrong");
    for point in points {
        let (coverage, wrong) = (percent(Some(point.coverage)), percent(point.risk));
        let _ = writeln!(text, "  {:>10.2} {coverage:>9} {:>8} {wrong:>8}", point.threshold, point.answers);
    }
}

fn thresholds(text: &mut String, fitted: &Fitted, told: &Report) {
    let _ = writeln!(
        text,
        "\n{:<20} {:>9} {:>9} {:>9}  right, with its interval of 95 %",
        "threshold", "value", "from", "coverage"
    );
    let names = fitted.thresholds.named();
    let is_fitted = |name: &str| names.iter().any(|(fitted, _)| name.ends_with(fitted));
    for (name, promise) in &told.thresholds {
        let from = if is_fitted(name) { "the fit" } else { "config" };
        let _ = writeln!(
            text,
            "{name:<20} {:>9.3} {from:>9} {:>9}  {} ({} to {}) of {}",
            promise.threshold,
            percent(Some(promise.coverage)),
            percent(promise.accuracy),
            percent(Some(promise.interval[0])),
            percent(Some(promise.interval[1])),
            promise.answers
        );
    }
}

/// An answer that the calibrated probability puts on the wrong side, so that a person can look at it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Wrong {
    /// Whether something does not stand and was not seen; else nothing is wrong and something was seen.
    pub missed: bool,
    /// How far the probability is off.
    pub off: f64,
    /// The line, and the trace if it is known.
    pub place: String,
    /// The beginning of the response.
    pub text: String,
}

/// The wrong answers among records, the most wrong first.
pub fn wrong(fitted: &Fitted, records: &[&Graded]) -> Vec<Wrong> {
    let mut wrong: Vec<Wrong> = records
        .iter()
        .filter_map(|graded| {
            let missed = match &graded.seen {
                Seen::Answer { is_bad, .. } | Seen::Given { is_bad, is_claim: false, .. } => *is_bad,
                Seen::Given { .. } | Seen::Question { .. } => return None,
            };
            let alone = report(std::slice::from_ref(&graded.seen), fitted, Thresholds::default());
            // The Brier score of one answer is the square of how far it is off.
            let off = alone.answers.and_then(|measured| measured.brier).map(f64::sqrt)?;
            let text = clipped(&graded.text, 80);
            (off > 0.5).then(|| Wrong { missed, off, place: graded.place.clone(), text })
        })
        .collect();
    wrong.sort_by(|one, other| other.off.total_cmp(&one.off));
    wrong
}

fn tell_wrong(text: &mut String, wrong: &[Wrong]) {
    for (missed, title) in [(false, "false alarms"), (true, "missed")] {
        let these: Vec<&Wrong> = wrong.iter().filter(|wrong| wrong.missed == missed).collect();
        if these.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n{title}: {}", these.len());
        for wrong in these.iter().take(NAMED) {
            let _ = writeln!(text, "  {:.2}  {}  {}", wrong.off, wrong.place, wrong.text);
        }
    }
}
