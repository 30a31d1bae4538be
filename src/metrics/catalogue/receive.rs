//! What comes in.

use std::time::Duration;

use super::{LONG_SECONDS, closed, counter, gauge, histogram, open};
use crate::metrics::labels;
use crate::metrics::metric::{Label, Metric};

pub(super) const METRICS: &[Metric] = &[
    REQUESTS,
    SPANS,
    LOGS,
    BYTES,
    REFUSED,
    REJECTED,
    BASE64_IDS,
    LATENESS,
    HELD_BYTES,
    LIMIT,
    DEAD_LETTERS,
    KAFKA_LAG,
    KAFKA_PARTITIONS,
    KAFKA_CONNECTED,
    KAFKA_PAUSED,
    KAFKA_REBALANCES,
    KAFKA_COMMITS,
    KAFKA_REDELIVERIES,
    KAFKA_VANISHED,
    KAFKA_NOTE_CUT,
];

const RECEIVER: Label = closed("receiver", &["grpc", "http", "kafka", "files"]);
const REFUSAL: Label = closed(
    "reason",
    &[
        "full",
        "not_stored",
        "closing",
        "too_large",
        "malformed",
        "content_type",
        "encoding",
        "unauthenticated",
        "timeout",
        "unauthorized",
    ],
);

const REQUESTS: Metric = counter(
    "assayd_receive_requests_total",
    "requests",
    &[RECEIVER, closed("signal", &["traces", "logs"])],
    "Requests or messages that were admitted, in whole or in part.",
);

/// A request was admitted: `receiver` is `grpc`, `http`, `kafka` or `files`, `signal` is `traces` or `logs`.
pub fn receive_request(receiver: &'static str, signal: &'static str) {
    REQUESTS.add(1, [receiver.into(), signal.into()]);
}

const SPANS: Metric =
    counter("assayd_receive_spans_total", "spans", &[RECEIVER], "Spans that were admitted.");

/// Spans were admitted.
pub fn receive_spans(receiver: &'static str, spans: usize) {
    SPANS.add(spans as u64, [receiver.into()]);
}

const LOGS: Metric = counter(
    "assayd_receive_log_records_total",
    "records",
    &[RECEIVER],
    "Log records of traces that were admitted.",
);

/// Log records were admitted.
pub fn receive_logs(receiver: &'static str, records: usize) {
    LOGS.add(records as u64, [receiver.into()]);
}

const BYTES: Metric = counter(
    "assayd_receive_bytes_total",
    "bytes",
    &[RECEIVER],
    "Bytes of requests or messages, after decompression.",
);

/// Bytes of a request, after decompression.
pub fn receive_bytes(receiver: &'static str, bytes: usize) {
    BYTES.add(bytes as u64, [receiver.into()]);
}

const REFUSED: Metric = counter(
    "assayd_receive_refused_total",
    "requests",
    &[RECEIVER, REFUSAL],
    "Requests that were refused as a whole; full, not_stored and closing ask the sender to come back.",
);

/// A request was refused as a whole: for the values of `reason` see [`crate::metrics::all`].
pub fn receive_refused(receiver: &'static str, reason: &'static str) {
    REFUSED.add(1, [receiver.into(), reason.into()]);
}

const REJECTED: Metric = counter(
    "assayd_receive_rejected_items_total",
    "items",
    &[
        RECEIVER,
        open(
            "reason",
            "why the span or record is unusable, a word of the receiver; a bounded number, then other",
        ),
    ],
    "Spans and log records that were left out of an admitted request and reported as partial success.",
);

/// Spans or records were left out of an admitted request; `reason` is a word such as `zero_trace_id`.
pub fn receive_rejected(receiver: &'static str, reason: &'static str, items: usize) {
    REJECTED.add(items as u64, [receiver.into(), labels::word("rejected", reason).into()]);
}

const BASE64_IDS: Metric = counter(
    "assayd_receive_base64_ids_total",
    "ids",
    &[RECEIVER],
    "Trace and span ids in OTLP/JSON that were base64 and not hexadecimal as the specification demands.",
);

/// Ids came in base64.
pub fn receive_base64_ids(receiver: &'static str, ids: usize) {
    BASE64_IDS.add(ids as u64, [receiver.into()]);
}

const LATENESS: Metric = histogram(
    "assayd_receive_lateness_seconds",
    "seconds",
    LONG_SECONDS,
    &[RECEIVER],
    "From a span's end by the sender's clock until its arrival, one sample per request: its latest-ended span.",
);

/// How long after its end the latest span of a request arrived.
pub fn receive_lateness(receiver: &'static str, lateness: Duration) {
    LATENESS.record(lateness.as_secs_f64(), [receiver.into()]);
}

const HELD_BYTES: Metric = gauge(
    "assayd_receive_held_bytes",
    "bytes",
    &[],
    "Bytes of admitted spans that have no verdict yet; the door closes at receive.max_bytes.",
);

/// Bytes of admitted spans without a verdict.
pub fn receive_held_bytes(bytes: usize) {
    HELD_BYTES.set(bytes as f64, []);
}

const LIMIT: Metric = gauge("assayd_receive_limit_bytes", "bytes", &[], "The setting receive.max_bytes.");

/// The most bytes that may be held.
pub fn receive_limit(bytes: usize) {
    LIMIT.set(bytes as f64, []);
}

const DEAD_LETTERS: Metric = counter(
    "assayd_receive_dead_letters_total",
    "messages",
    &[RECEIVER, closed("reason", &["unreadable", "too_large", "over_age"])],
    "Messages that were set aside: no OTLP, larger than a request may be, or without a verdict for too long.",
);

/// A message was set aside: `reason` is `unreadable`, `too_large` or `over_age`.
pub fn receive_dead_letter(receiver: &'static str, reason: &'static str) {
    DEAD_LETTERS.add(1, [receiver.into(), reason.into()]);
}

const KAFKA_LAG: Metric = gauge(
    "assayd_receive_kafka_lag_records",
    "records",
    &[
        open("topic", "the topics of receive.kafka.topics"),
        open("partition", "the partitions of these topics"),
    ],
    "Records of a partition that are not done yet, those under way included; 0 for partitions that others have.",
);

/// Records of a partition that are not done yet. Topics and partitions are as many as the configuration and the brokers say.
pub fn receive_kafka_lag(topic: &str, partition: i32, records: i64) {
    let values = [topic.to_owned().into(), partition.to_string().into()];
    KAFKA_LAG.set(records as f64, values);
}

const KAFKA_PARTITIONS: Metric =
    gauge("assayd_receive_kafka_partitions", "partitions", &[], "Partitions that this replica reads.");

/// Partitions that this replica reads.
pub fn receive_kafka_partitions(partitions: usize) {
    KAFKA_PARTITIONS.set(partitions as f64, []);
}

const KAFKA_CONNECTED: Metric = gauge(
    "assayd_receive_kafka_connected",
    "state",
    &[],
    "1 while a Kafka broker can be reached, 0 while none can or Kafka is not a source.",
);

/// Whether a Kafka broker can be reached.
pub fn receive_kafka_connected(is_connected: bool) {
    KAFKA_CONNECTED.set(f64::from(u8::from(is_connected)), []);
}

const KAFKA_PAUSED: Metric = gauge(
    "assayd_receive_kafka_paused",
    "state",
    &[],
    "1 while the partitions are paused because there is no room for more spans.",
);

/// Whether the partitions are paused for lack of room.
pub fn receive_kafka_paused(is_paused: bool) {
    KAFKA_PAUSED.set(f64::from(u8::from(is_paused)), []);
}

const KAFKA_REBALANCES: Metric = counter(
    "assayd_receive_kafka_rebalances_total",
    "rebalances",
    &[closed("kind", &["assigned", "revoked", "lost"])],
    "Partitions given to this replica, taken from it, or lost because the group took it for dead.",
);

/// The group gave or took partitions: `kind` is `assigned`, `revoked` or `lost`.
pub fn receive_kafka_rebalance(kind: &'static str) {
    KAFKA_REBALANCES.add(1, [kind.into()]);
}

const KAFKA_COMMITS: Metric = counter(
    "assayd_receive_kafka_commits_total",
    "commits",
    &[closed("result", &["ok", "failed", "note_refused"])],
    "Commits of a partition's offset that the brokers took, or did not; a failed one is tried again. `note_refused` counts answers after which less is noted beside offsets, because the brokers' `offset.metadata.max.bytes` is below `receive.kafka.commit_metadata`.",
);

/// A commit of a partition's offset: `result` is `ok`, `failed` or `note_refused`.
pub fn receive_kafka_commit(result: &'static str) {
    KAFKA_COMMITS.add(1, [result.into()]);
}

const KAFKA_REDELIVERIES: Metric = counter(
    "assayd_receive_kafka_redeliveries_total",
    "records",
    &[],
    "Records that were read and delivered again because a trace of theirs got no verdict.",
);

/// A record was delivered again.
pub fn receive_kafka_redelivery() {
    KAFKA_REDELIVERIES.add(1, []);
}

const KAFKA_VANISHED: Metric = counter(
    "assayd_receive_kafka_vanished_total",
    "records",
    &[],
    "Records that were to be read again and were gone from their topic: its retention is too short.",
);

/// A record that was to be read again is gone.
pub fn receive_kafka_vanished() {
    KAFKA_VANISHED.add(1, []);
}

const KAFKA_NOTE_CUT: Metric = counter(
    "assayd_receive_kafka_note_cut_total",
    "commits",
    &[],
    "Commits of a partition whose metadata had no room (`receive.kafka.commit_metadata`) for all that is done above the offset: if a crash follows, some of it is judged again, and some traces without their first spans, as verdicts of their own.",
);

/// A commit without room for all that is done above its offset.
pub fn receive_kafka_note_cut() {
    KAFKA_NOTE_CUT.add(1, []);
}
