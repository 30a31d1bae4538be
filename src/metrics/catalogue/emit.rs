//! What goes out.

use std::time::Duration;

use super::{POWERS, SECONDS, closed, counter, gauge, histogram};
use crate::metrics::metric::{Label, Metric};

pub(super) const METRICS: &[Metric] =
    &[WRITES, WRITE_SECONDS, TRIMMED, DEAD_LETTERS, LETTERS, FILTERED, BATCH, REJECTED, OWN_SPANS, IN_FLIGHT];

const SINK: Label = closed("sink", &["stdout", "jsonl", "kafka", "otlp", "webhook"]);

const WRITES: Metric = counter(
    "assayd_emit_writes_total",
    "verdicts",
    &[SINK, closed("result", &["ok", "retried", "poison", "fatal", "abandoned"])],
    "Attempts to write a verdict: ok is durable, retried will be tried again, poison was refused for good, abandoned was \
     cut short by the shutdown.",
);

/// An attempt to write a verdict: `result` is `ok`, `retried`, `poison`, `fatal` or `abandoned`.
pub fn emit_write(sink: &'static str, result: &'static str) {
    WRITES.add(1, [sink.into(), result.into()]);
}

const WRITE_SECONDS: Metric = histogram(
    "assayd_emit_write_seconds",
    "seconds",
    SECONDS,
    &[SINK],
    "Until a verdict was durable in the sink, retries included.",
);

/// Until a verdict was durable in the sink.
pub fn emit_write_seconds(sink: &'static str, took: Duration) {
    WRITE_SECONDS.record(took.as_secs_f64(), [sink.into()]);
}

const TRIMMED: Metric = counter(
    "assayd_emit_trimmed_total",
    "verdicts",
    &[SINK],
    "Verdicts that were too large for the sink and lost evidence references or probabilities.",
);

/// A verdict was too large for the sink and was cut.
pub fn emit_trimmed(sink: &'static str) {
    TRIMMED.add(1, [sink.into()]);
}

const DEAD_LETTERS: Metric = counter(
    "assayd_emit_dead_letters_total",
    "verdicts",
    &[SINK],
    "Verdicts that the sink refuses for good, logged in short and set aside.",
);

/// A verdict was refused for good.
pub fn emit_dead_letter(sink: &'static str) {
    DEAD_LETTERS.add(1, [sink.into()]);
}

const LETTERS: Metric = counter(
    "assayd_emit_letters_total",
    "verdicts",
    &[SINK, closed("reason", &["too_large", "refused"])],
    "Of the verdicts that were set aside, those of which a dead letter is in emit.kafka.dead_letters.topic.",
);

/// What is left of a verdict that was refused for good is in a topic of its own: `reason` is `too_large` or `refused`.
pub fn emit_letter(sink: &'static str, reason: &'static str) {
    LETTERS.add(1, [sink.into(), reason.into()]);
}

const FILTERED: Metric = counter(
    "assayd_emit_filtered_total",
    "verdicts",
    &[SINK],
    "Verdicts that the sink is set not to take, such as faithful ones by a webhook; they count as ok among its writes.",
);

/// A sink is set not to take a verdict.
pub fn emit_filtered(sink: &'static str) {
    FILTERED.add(1, [sink.into()]);
}

const BATCH: Metric = histogram(
    "assayd_emit_batch_verdicts",
    "verdicts",
    POWERS,
    &[SINK],
    "Verdicts that were sent in one request, for sinks that put them together.",
);

/// Verdicts were sent in one request.
pub fn emit_batch(sink: &'static str, verdicts: usize) {
    BATCH.record(verdicts as f64, [sink.into()]);
}

const REJECTED: Metric = counter(
    "assayd_emit_rejected_records_total",
    "records",
    &[SINK],
    "Records that an OTLP receiver rejected out of a request that it took (partial success).",
);

/// A receiver left records out of a request that it took.
pub fn emit_rejected_records(sink: &'static str, records: u64) {
    REJECTED.add(records, [sink.into()]);
}

const OWN_SPANS: Metric = counter(
    "assayd_emit_own_spans_total",
    "spans",
    &[closed("result", &["sent", "dropped", "failed", "rejected"])],
    "Spans of the daemon's own work: sent, dropped since emit.traces.queue was full, failed since the receiver did not take them, or \
     rejected by it out of a request that it took.",
);

/// Spans of the daemon's own work; `result` is `sent`, `dropped`, `failed` or `rejected`.
pub fn emit_own_spans(result: &'static str, spans: u64) {
    OWN_SPANS.add(spans, [result.into()]);
}

const IN_FLIGHT: Metric =
    gauge("assayd_emit_in_flight_verdicts", "verdicts", &[], "Verdicts that are being written.");

/// The number of verdicts that are being written changes.
pub fn emit_in_flight(change: i32) {
    IN_FLIGHT.shift(f64::from(change), []);
}
