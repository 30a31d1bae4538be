//! From a trace to its questions: `convert` and `ask`.

use std::time::Duration;

use super::{SECONDS, counter, histogram};
use crate::metrics::metric::Metric;

pub(super) const METRICS: &[Metric] = &[CONVERT_WARNINGS, CONVERT_SECONDS, ASK_EVIDENCE_CUT];

const CONVERT_SECONDS: Metric =
    histogram("assayd_convert_seconds", "seconds", SECONDS, &[], "Time to turn a trace into a story.");

const CONVERT_WARNINGS: Metric = counter(
    "assayd_convert_warnings_total",
    "warnings",
    &[],
    "Things in traces that could not be read; the story names them.",
);

/// A trace was turned into a story.
pub fn convert(took: Duration, warnings: usize) {
    CONVERT_SECONDS.record(took.as_secs_f64(), []);
    CONVERT_WARNINGS.add(warnings as u64, []);
}

const ASK_EVIDENCE_CUT: Metric = counter(
    "assayd_ask_evidence_cut_total",
    "questions",
    &[],
    "Questions whose evidence was too long for the model, so that its most relevant parts were chosen.",
);

/// Questions whose evidence was cut.
pub fn ask_evidence_cut(questions: usize) {
    ASK_EVIDENCE_CUT.add(questions as u64, []);
}
