//! What a gateway sends on.

use std::time::Duration;

use super::{SECONDS, closed, counter, gauge, histogram};
use crate::metrics::metric::Metric;

pub(super) const METRICS: &[Metric] = &[RECORDS, LEFT_OUT, REQUEST_SECONDS, CONNECTED];

const RECORDS: Metric = counter(
    "assayd_relay_records_total",
    "records",
    &[closed("result", &["ok", "split", "failed"])],
    "Records that a gateway sent to Kafka; split ones were too large for the topic and went again in parts.",
);

/// A record that a gateway sent: `result` is `ok`, `split` or `failed`.
pub fn relay_record(result: &'static str) {
    RECORDS.add(1, [result.into()]);
}

const LEFT_OUT: Metric = counter(
    "assayd_relay_left_out_items_total",
    "items",
    &[],
    "Spans and log records that are larger by themselves than a record may be; their senders were told.",
);

/// Items of a request that are too large by themselves.
pub fn relay_left_out(items: u64) {
    LEFT_OUT.add(items, []);
}

const REQUEST_SECONDS: Metric = histogram(
    "assayd_relay_seconds",
    "seconds",
    SECONDS,
    &[],
    "Until the brokers had all of a request, by which its sender was answered.",
);

/// Until the brokers had all of a request.
pub fn relay_seconds(took: Duration) {
    REQUEST_SECONDS.record(took.as_secs_f64(), []);
}

const CONNECTED: Metric = gauge(
    "assayd_relay_connected",
    "state",
    &[],
    "1 while a gateway can reach a Kafka broker, 0 while it cannot or this is no gateway.",
);

/// Whether a gateway can reach a broker.
pub fn relay_connected(is_connected: bool) {
    CONNECTED.set(f64::from(u8::from(is_connected)), []);
}
