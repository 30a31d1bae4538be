//! The decision model.

use std::time::Duration;

use super::{POWERS, SECONDS, closed, counter, gauge, histogram};
use crate::error::Fault;
use crate::metrics::metric::{Label, Metric};

pub(super) const METRICS: &[Metric] = &[
    QUEUE,
    WAIT,
    BATCH_ROWS,
    BATCH_TOKENS,
    BATCH_SECONDS,
    TOKENS_READ,
    PREFIX,
    PREFIX_BYTES,
    FAILURES,
    REMOTE_REQUESTS,
    REMOTE_SECONDS,
];

const TOKENS: &[f64] = &[64.0, 256.0, 1024.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131_072.0];
const FAULT: Label = closed("fault", &["transient", "poison", "fatal"]);

const QUEUE: Metric =
    gauge("assayd_decide_queue_inquiries", "inquiries", &[], "Inquiries that wait for the decision model.");

/// Inquiries that wait for the decision model.
pub fn decide_queue(inquiries: usize) {
    QUEUE.set(inquiries as f64, []);
}

const WAIT: Metric = histogram(
    "assayd_decide_wait_seconds",
    "seconds",
    SECONDS,
    &[],
    "How long an inquiry waited for the decision model.",
);

/// An inquiry's wait.
pub fn decide_wait(waited: Duration) {
    WAIT.record(waited.as_secs_f64(), []);
}

const BATCH_ROWS: Metric =
    histogram("assayd_decide_batch_rows", "rows", POWERS, &[], "Questions that shared a forward pass.");

const BATCH_TOKENS: Metric =
    histogram("assayd_decide_batch_tokens", "tokens", TOKENS, &[], "Tokens of a forward pass, with padding.");

const BATCH_SECONDS: Metric =
    histogram("assayd_decide_batch_seconds", "seconds", SECONDS, &[], "Time of a forward pass.");

const TOKENS_READ: Metric = counter(
    "assayd_decide_tokens_total",
    "tokens",
    &[],
    "Tokens that the decision model read, without padding.",
);

/// A forward pass: its rows, its tokens with and without padding, its time.
pub fn decide_batch(rows: usize, padded_tokens: usize, tokens: u64, took: Duration) {
    BATCH_ROWS.record(rows as f64, []);
    BATCH_TOKENS.record(padded_tokens as f64, []);
    BATCH_SECONDS.record(took.as_secs_f64(), []);
    TOKENS_READ.add(tokens, []);
}

const PREFIX: Metric = counter(
    "assayd_decide_prefix_lookups_total",
    "states",
    &[closed("result", &["hit", "miss"])],
    "Distinct states of a batch, by whether the prefix cache had read them before.",
);

const PREFIX_BYTES: Metric =
    gauge("assayd_decide_prefix_bytes", "bytes", &[], "Memory that the prefix cache holds.");

/// Distinct states of a batch that the prefix cache knew, those that it did not, and the bytes that it now holds.
pub fn decide_prefix(hits: usize, misses: usize, held_bytes: usize) {
    PREFIX.add(hits as u64, ["hit".into()]);
    PREFIX.add(misses as u64, ["miss".into()]);
    PREFIX_BYTES.set(held_bytes as f64, []);
}

const REMOTE_REQUESTS: Metric = counter(
    "assayd_decide_remote_requests_total",
    "requests",
    &[closed(
        "result",
        &[
            "ok",
            "overloaded",
            "unreachable",
            "timeout",
            "error",
            "denied",
            "refused",
            "unexpected",
            "invalid",
        ],
    )],
    "HTTP requests to a remote decision model, each attempt counted; invalid: the answer made no sense.",
);

/// One HTTP request to a remote decision model: for the values of `result` see [`crate::metrics::all`].
pub fn decide_remote(result: &'static str) {
    REMOTE_REQUESTS.add(1, [result.into()]);
}

const REMOTE_SECONDS: Metric = histogram(
    "assayd_decide_remote_seconds",
    "seconds",
    SECONDS,
    &[],
    "Time of one HTTP request to a remote decision model.",
);

/// Its time.
pub fn decide_remote_seconds(took: Duration) {
    REMOTE_SECONDS.record(took.as_secs_f64(), []);
}

const FAILURES: Metric = counter(
    "assayd_decide_failures_total",
    "batches",
    &[FAULT],
    "Batches that the decision model failed on.",
);

/// The decision model failed on a batch.
pub fn decide_failure(fault: Fault) {
    FAILURES.add(1, [fault.as_str().into()]);
}
