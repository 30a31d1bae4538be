//! The judge.

use std::time::Duration;

use metrics::SharedString;

use super::{LONG_SECONDS, closed, counter, gauge, histogram, open};
use crate::metrics::labels;
use crate::metrics::metric::{Kind, Label, Metric};

pub(super) const METRICS: &[Metric] = &[REQUESTS, REQUEST_SECONDS, LIMIT, SPACING, TOKENS, COST, STATEMENTS];

const PROVIDER: Label = open("provider", "the judge's name in the configuration");

const REQUESTS: Metric = counter(
    "assayd_judge_requests_total",
    "requests",
    &[
        PROVIDER,
        closed(
            "result",
            &[
                "ok",
                "invalid",
                "refused",
                "rate_limited",
                "timeout",
                "unavailable",
                "unsupported",
                "too_long",
                "auth",
                "quota",
                "error",
                "budget",
                "resting",
                "deadline",
                "cached",
            ],
        ),
    ],
    "Requests to the judge by result, each attempt counted, and those that were not sent: budget, resting, deadline, cached.",
);

/// An attempt to ask the judge, or an ask that was not sent: for the values of `result` see [`crate::metrics::all`].
pub fn judge_request(provider: &str, result: &'static str) {
    REQUESTS.add(1, [labels::word("provider", provider).into(), result.into()]);
}

const REQUEST_SECONDS: Metric = histogram(
    "assayd_judge_seconds",
    "seconds",
    LONG_SECONDS,
    &[PROVIDER],
    "Time of a request to the judge.",
);

/// Time of an attempt to ask the judge.
pub fn judge_seconds(provider: &str, took: Duration) {
    REQUEST_SECONDS.record(took.as_secs_f64(), [labels::word("provider", provider).into()]);
}

const LIMIT: Metric = gauge(
    "assayd_judge_limit_calls",
    "calls",
    &[PROVIDER],
    "Calls to the judge that may be in flight now: judge.concurrency, halved at each overload, won back step by step.",
);

const SPACING: Metric = gauge(
    "assayd_judge_spacing_seconds",
    "seconds",
    &[PROVIDER],
    "Time that is left before each call to the judge; 0 unless one call at a time is too much for it.",
);

/// Calls to the judge that may be in flight, and the time that is left before each.
pub fn judge_limit(provider: &str, calls: usize, spacing: Duration) {
    let provider: SharedString = labels::word("provider", provider).into();
    LIMIT.set(calls as f64, [provider.clone()]);
    SPACING.set(spacing.as_secs_f64(), [provider]);
}

const TOKENS: Metric = counter(
    "assayd_judge_tokens_total",
    "tokens",
    &[PROVIDER, closed("direction", &["input", "output"])],
    "Tokens to and from the judge, over all attempts.",
);

/// Tokens of an attempt.
pub fn judge_tokens(provider: &str, input: u64, output: u64) {
    let provider: SharedString = labels::word("provider", provider).into();
    TOKENS.add(input, [provider.clone(), "input".into()]);
    TOKENS.add(output, [provider, "output".into()]);
}

const COST: Metric = Metric {
    name: "assayd_judge_cost_usd_total",
    kind: Kind::Sum,
    unit: "usd",
    labels: &[],
    help: "What the judge cost by the price table in the configuration, over all attempts.",
};

/// Money that an attempt cost.
pub fn judge_cost(usd: f64) {
    COST.add_fraction(usd, []);
}

const STATEMENTS: Metric = counter(
    "assayd_judge_budget_writes_total",
    "writes",
    &[closed("result", &["ok", "failed"])],
    "Writes of what was spent under a budget to data_dir; after a failed one, a restart would forget it.",
);

/// What was spent was written down: `result` is `ok` or `failed`.
pub fn judge_statement(result: &'static str) {
    STATEMENTS.add(1, [result.into()]);
}
