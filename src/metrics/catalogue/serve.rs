//! The admin listener.

use super::{closed, counter, gauge, open};
use crate::metrics::labels;
use crate::metrics::metric::Metric;

pub(super) const METRICS: &[Metric] = &[REQUESTS, FULL, FEED_READERS, FEED_MISSED];

const REQUESTS: Metric = counter(
    "assayd_serve_requests_total",
    "requests",
    &[
        open("route", "the route's pattern, unmatched for others; bounded by the routes"),
        closed("status", &["2xx", "3xx", "4xx", "5xx"]),
    ],
    "HTTP requests to the admin listener by route and class of status.",
);

/// A request to the admin listener; `route` is the route's pattern.
pub fn serve_request(route: &str, status: u16) {
    let class = match status {
        0..=299 => "2xx",
        300..=399 => "3xx",
        400..=499 => "4xx",
        _ => "5xx",
    };
    REQUESTS.add(1, [labels::word("route", route).into(), class.into()]);
}

const FULL: Metric = counter(
    "assayd_serve_full_total",
    "requests",
    &[],
    "Requests that were asked to come back because other requests' bodies filled serve.max_held_bytes.",
);

/// A request found no room for its body.
pub fn serve_full() {
    FULL.add(1, []);
}

const FEED_READERS: Metric =
    gauge("assayd_serve_feed_readers", "readers", &[], "Readers of the live verdict feed.");

/// The number of readers of the live feed changes.
pub fn serve_feed_readers(change: i32) {
    FEED_READERS.shift(f64::from(change), []);
}

const FEED_MISSED: Metric = counter(
    "assayd_serve_feed_missed_total",
    "verdicts",
    &[],
    "Verdicts that readers of the live feed missed because they were slow; each reader is told.",
);

/// A slow reader of the live feed missed verdicts.
pub fn serve_feed_missed(verdicts: u64) {
    FEED_MISSED.add(verdicts, []);
}
