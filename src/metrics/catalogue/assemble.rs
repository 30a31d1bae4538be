//! From spans to traces and conversations.

use super::{AGENT, SERVICE, closed, counter, gauge};
use crate::domain::{Closed, Label};
use crate::metrics::labels;
use crate::metrics::metric::Metric;

pub(super) const METRICS: &[Metric] = &[
    LIVE_TRACES,
    LIVE_BYTES,
    CLOSED,
    OPEN_SESSIONS,
    SESSION_VERDICTS,
    HANDED_OVER,
    LATE_SPANS,
    DROPPED_SPANS,
];

const SESSION_VERDICTS: Metric = counter(
    "assayd_session_verdicts_total",
    "verdicts",
    &[SERVICE, AGENT, closed("label", &["faithful", "hallucination", "unsure", "none"])],
    "Verdicts on conversations that reached every sink; label is the worst of their traces'. They count nowhere else.",
);

/// A verdict on a conversation reached every sink.
pub fn session_verdict(service: Option<&str>, agent: Option<&str>, label: Option<Label>) {
    let (service, agent) = labels::service_and_agent(service, agent);
    let label = label.map_or("none", Label::as_str);
    SESSION_VERDICTS.add(1, [service.into(), agent.into(), label.into()]);
}

const LIVE_TRACES: Metric =
    gauge("assayd_assemble_live_traces", "traces", &[], "Traces that are still open.");

const LIVE_BYTES: Metric =
    gauge("assayd_assemble_live_bytes", "bytes", &[], "Bytes of the spans of open traces.");

/// Open traces, and the bytes of their spans.
pub fn assemble_live(traces: usize, bytes: usize) {
    LIVE_TRACES.set(traces as f64, []);
    LIVE_BYTES.set(bytes as f64, []);
}

const OPEN_SESSIONS: Metric = gauge(
    "assayd_assemble_open_sessions",
    "conversations",
    &[],
    "Conversations (assemble.sessions) that are not over.",
);

/// Conversations that are going on.
pub fn assemble_sessions(open: usize) {
    OPEN_SESSIONS.set(open as f64, []);
}

const CLOSED: Metric = counter(
    "assayd_assemble_closed_total",
    "traces",
    &[closed("reason", &["root", "idle", "age", "evict", "end", "shutdown"])],
    "Traces that were taken as complete, by the reason; evict means that the store was full.",
);

/// A trace was taken as complete.
pub fn assemble_closed(reason: Closed) {
    CLOSED.add(1, [reason.as_str().into()]);
}

const HANDED_OVER: Metric = counter(
    "assayd_assemble_handed_over_total",
    "traces",
    &[],
    "Traces from Kafka that were open when their partitions went to another replica, which evaluates them.",
);

/// A trace was left to the replica that has its partitions now.
pub fn assemble_handed_over() {
    HANDED_OVER.add(1, []);
}

const LATE_SPANS: Metric = counter(
    "assayd_assemble_late_spans_total",
    "spans",
    &[closed("action", &["revised", "ignored"])],
    "Spans that arrived after their trace was closed, by what was done: the trace was opened again, or not.",
);

/// Spans arrived after their trace was closed; `action` is `revised` or `ignored`.
pub fn assemble_late_spans(action: &'static str, spans: usize) {
    LATE_SPANS.add(spans as u64, [action.into()]);
}

const DROPPED_SPANS: Metric = counter(
    "assayd_assemble_dropped_spans_total",
    "spans",
    &[closed("reason", &["duplicate", "limit"])],
    "Spans that were left out of their trace: sent twice, or beyond the limit of spans or bytes per trace.",
);

/// Spans were left out of their trace; `reason` is `duplicate` or `limit`.
pub fn assemble_dropped_spans(reason: &'static str, spans: usize) {
    DROPPED_SPANS.add(spans as u64, [reason.into()]);
}
