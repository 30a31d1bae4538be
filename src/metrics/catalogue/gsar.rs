//! GSAR's loop.

use super::{closed, counter, gauge};
use crate::domain::{Ended, Tier};
use crate::metrics::metric::Metric;

pub(super) const METRICS: &[Metric] = &[ROUNDS, RUNS, OPEN_RUNS];

const ROUNDS: Metric = counter(
    "assayd_gsar_rounds_total",
    "rounds",
    &[closed("decision", &["proceed", "regenerate", "replan", "abstain"])],
    "Judged rounds of GSAR's loop by decision.",
);

/// A judged round of GSAR's loop.
pub fn gsar_round(decision: Tier) {
    ROUNDS.add(1, [decision.as_str().into()]);
}

const RUNS: Metric = counter(
    "assayd_gsar_runs_total",
    "runs",
    &[closed(
        "ended",
        &[
            "proceeded",
            "replans_spent",
            "rounds_spent",
            "budget_spent",
            "expired",
            "cancelled",
            "callback_failed",
        ],
    )],
    "Runs of GSAR's loop that ended, by reason. All but proceeded are degraded.",
);

/// A run of GSAR's loop that ended.
pub fn gsar_run(ended: Ended) {
    RUNS.add(1, [ended.as_str().into()]);
}

const OPEN_RUNS: Metric =
    gauge("assayd_gsar_open_runs", "runs", &[], "Runs of GSAR's loop that have not ended.");

/// Runs of GSAR's loop that are open.
pub fn gsar_open_runs(runs: usize) {
    OPEN_RUNS.set(runs as f64, []);
}
