//! What is stored until it is done.

use std::time::Duration;

use super::{POWERS, SECONDS, closed, counter, gauge, histogram};
use crate::metrics::metric::Metric;

pub(super) const METRICS: &[Metric] = &[
    APPENDS,
    COMMIT_DELIVERIES,
    BYTES,
    COMMIT_SECONDS,
    HELD_BYTES,
    HELD_DELIVERIES,
    LIMIT,
    REPLAYED,
    LOST_BYTES,
];

const APPENDS: Metric = counter(
    "assayd_spool_appends_total",
    "deliveries",
    &[closed("result", &["ok", "full", "too_large", "failed"])],
    "Deliveries that were to be stored; all but ok were refused and not acknowledged.",
);

/// Deliveries that were to be stored: `result` is `ok`, `full`, `too_large` or `failed`.
pub fn spool_appends(result: &'static str, deliveries: usize) {
    APPENDS.add(deliveries as u64, [result.into()]);
}

const COMMIT_DELIVERIES: Metric = histogram(
    "assayd_spool_commit_deliveries",
    "deliveries",
    POWERS,
    &[],
    "Deliveries that became durable with one sync.",
);

const BYTES: Metric =
    counter("assayd_spool_written_bytes_total", "bytes", &[], "Bytes that were written to the spool.");

const COMMIT_SECONDS: Metric = histogram(
    "assayd_spool_commit_seconds",
    "seconds",
    SECONDS,
    &[],
    "Time of one write and one sync of the spool.",
);

/// A commit of the spool: one write and one sync.
pub fn spool_commit(deliveries: usize, bytes: usize, took: Duration) {
    COMMIT_DELIVERIES.record(deliveries as f64, []);
    BYTES.add(bytes as u64, []);
    COMMIT_SECONDS.record(took.as_secs_f64(), []);
}

const HELD_BYTES: Metric =
    gauge("assayd_spool_held_bytes", "bytes", &[], "Disk space of the spool; spool.max_bytes bounds it.");

const HELD_DELIVERIES: Metric =
    gauge("assayd_spool_held_deliveries", "deliveries", &[], "Stored deliveries that are not done.");

/// What the spool holds now: bytes on disk, and deliveries that are not done.
pub fn spool_held(bytes: u64, deliveries: usize) {
    HELD_BYTES.set(bytes as f64, []);
    HELD_DELIVERIES.set(deliveries as f64, []);
}

const LIMIT: Metric =
    gauge("assayd_spool_limit_bytes", "bytes", &[], "The setting spool.max_bytes; 0 if there is no spool.");

/// The most bytes on disk that the spool may hold; 0 if there is no spool.
pub fn spool_limit(bytes: u64) {
    LIMIT.set(bytes as f64, []);
}

const REPLAYED: Metric = counter(
    "assayd_spool_replayed_total",
    "deliveries",
    &[],
    "Deliveries of an earlier process that were found not done.",
);

const LOST_BYTES: Metric = counter(
    "assayd_spool_lost_bytes_total",
    "bytes",
    &[closed("why", &["damaged", "torn"])],
    "Bytes of the spool that could not be read: damaged may have been acknowledged, torn was not.",
);

/// What was found at the start: deliveries to replay, bytes that are damaged, and bytes of writes that were cut off.
pub fn spool_recovered(deliveries: usize, damaged_bytes: u64, torn_bytes: u64) {
    REPLAYED.add(deliveries as u64, []);
    LOST_BYTES.add(damaged_bytes, ["damaged".into()]);
    LOST_BYTES.add(torn_bytes, ["torn".into()]);
}
