//! What people say of verdicts.

use super::{closed, counter, gauge};
use crate::metrics::metric::{Label, Metric};

pub(super) const METRICS: &[Metric] =
    &[WORDS, VERDICTS, CLAIMS, KAPPA, FALSE_POSITIVES, FALSE_NEGATIVES, HELD_BYTES];

const MARKED_ANSWERS: Label = closed("label", &["faithful", "hallucination"]);
const MARKED_CLAIMS: Label = closed("label", &["grounded", "ungrounded", "contradicted", "complementary"]);
const TARGET: Label = closed("target", &["verdict", "claim"]);

const WORDS: Metric = counter(
    "assayd_feedback_words_total",
    "words",
    &[closed("result", &["stored", "repeated", "unknown_verdict", "full", "failed"])],
    "What people said of verdicts, by what became of it.",
);

/// A person said something of a verdict: `result` says what became of it.
pub fn feedback_word(result: &'static str) {
    WORDS.add(1, [result.into()]);
}

const VERDICTS: Metric = gauge(
    "assayd_feedback_verdicts",
    "labels",
    &[closed("predicted", &["faithful", "hallucination", "unsure"]), MARKED_ANSWERS],
    "Answers that people marked, by what assayd had said and what they say; the last word of each person.",
);

/// Answers for which assayd said `predicted` and people say `label`.
pub fn feedback_verdicts(predicted: &'static str, label: &'static str, count: u64) {
    VERDICTS.set(count as f64, [predicted.into(), label.into()]);
}

const CLAIMS: Metric = gauge(
    "assayd_feedback_claims",
    "labels",
    &[
        closed("predicted", &["grounded", "ungrounded", "contradicted", "complementary", "none"]),
        MARKED_CLAIMS,
    ],
    "Claims that people marked, by what assayd had said and what they say; the last word of each person.",
);

/// Claims for which assayd said `predicted` and people say `label`.
pub fn feedback_claims(predicted: &'static str, label: &'static str, count: u64) {
    CLAIMS.set(count as f64, [predicted.into(), label.into()]);
}

const KAPPA: Metric = gauge(
    "assayd_feedback_kappa",
    "kappa",
    &[TARGET],
    "Cohen's kappa of people and assayd on whether something does not stand, without what assayd left undecided; NaN where it is not defined.",
);

const FALSE_POSITIVES: Metric = gauge(
    "assayd_feedback_false_positives",
    "labels",
    &[TARGET],
    "Labels by people who find nothing wrong where assayd said that something does not stand.",
);

const FALSE_NEGATIVES: Metric = gauge(
    "assayd_feedback_false_negatives",
    "labels",
    &[TARGET],
    "Labels by people who find something wrong where assayd said that all stands.",
);

/// How far people and assayd agree on `verdict`s or `claim`s.
pub fn feedback_agreement(
    target: &'static str,
    kappa: Option<f64>,
    false_positives: u64,
    false_negatives: u64,
) {
    KAPPA.set(kappa.unwrap_or(f64::NAN), [target.into()]);
    FALSE_POSITIVES.set(false_positives as f64, [target.into()]);
    FALSE_NEGATIVES.set(false_negatives as f64, [target.into()]);
}

const HELD_BYTES: Metric = gauge(
    "assayd_feedback_held_bytes",
    "bytes",
    &[],
    "Size of the file of what people said; feedback is refused above feedback.max_bytes.",
);

/// The size of the file of feedback.
pub fn feedback_bytes(bytes: u64) {
    HELD_BYTES.set(bytes as f64, []);
}
