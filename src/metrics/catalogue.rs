//! Every metric: name, kind, unit, labels with their possible values, and what it means. The documentation is made of this.

use super::metric::{Kind, Label, Metric, Values};

const fn counter(
    name: &'static str,
    unit: &'static str,
    labels: &'static [Label],
    help: &'static str,
) -> Metric {
    Metric { name, kind: Kind::Counter, unit, labels, help }
}

const fn gauge(
    name: &'static str,
    unit: &'static str,
    labels: &'static [Label],
    help: &'static str,
) -> Metric {
    Metric { name, kind: Kind::Gauge, unit, labels, help }
}

const fn histogram(
    name: &'static str,
    unit: &'static str,
    buckets: &'static [f64],
    labels: &'static [Label],
    help: &'static str,
) -> Metric {
    Metric { name, kind: Kind::Histogram { buckets }, unit, labels, help }
}

const fn closed(name: &'static str, values: &'static [&'static str]) -> Label {
    Label { name, values: Values::Closed(values) }
}

const fn open(name: &'static str, origin: &'static str) -> Label {
    Label { name, values: Values::Open(origin) }
}

const SECONDS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
const LONG_SECONDS: &[f64] =
    &[0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0];
const POWERS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
const TOKENS: &[f64] = &[64.0, 256.0, 1024.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131_072.0];
const SCORES: &[f64] = &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0];

const SERVICE: Label =
    open("service", "the trace's service.name; the first 200, then other; unknown if missing");
const AGENT: Label = open(
    "agent",
    "the agent that answered; the first 1000 with their service, then other; unknown if missing",
);
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
const SINK: Label = closed("sink", &["stdout", "jsonl", "kafka", "otlp", "webhook"]);
const QUESTION: Label =
    open("question", "grounding, or the question's id in the configuration; a bounded number, then other");
const EVALUATOR: Label = open(
    "evaluator",
    "the evaluator's or own metric's name in the configuration; a bounded number, then other",
);
const PROVIDER: Label = open("provider", "the judge's name in the configuration");
const FAULT: Label = closed("fault", &["transient", "poison", "fatal"]);

/// Verdicts.
pub const VERDICTS: Metric = counter(
    "assayd_verdicts_total",
    "verdicts",
    &[
        SERVICE,
        AGENT,
        closed("label", &["faithful", "hallucination", "unsure", "none"]),
        closed("tier", &["proceed", "regenerate", "replan", "abstain", "none"]),
    ],
    "Verdicts that reached every sink; label and tier are none if the trace was not scored.",
);
/// Hallucinations.
pub const HALLUCINATIONS: Metric = counter(
    "assayd_hallucinations_total",
    "verdicts",
    &[SERVICE, AGENT],
    "Verdicts with label hallucination; divide by assayd_scored_total for the rate.",
);
/// Scored traces, the denominator of the hallucination rate.
pub const SCORED: Metric = counter(
    "assayd_scored_total",
    "verdicts",
    &[SERVICE, AGENT],
    "Verdicts with outcome scored, whatever their label.",
);
/// Claims by standing.
pub const CLAIMS: Metric = counter(
    "assayd_claims_total",
    "claims",
    &[SERVICE, closed("standing", &["grounded", "ungrounded", "contradicted", "complementary", "none"])],
    "Claims of scored answers by their standing against the evidence; none if nobody could say.",
);
/// GSAR scores.
pub const SCORE: Metric =
    histogram("assayd_score_ratio", "ratio", SCORES, &[SERVICE], "Grounding scores S of scored answers.");
/// Answers by who gave them.
pub const CASCADE_ANSWERS: Metric = counter(
    "assayd_cascade_answers_total",
    "answers",
    &[QUESTION, closed("by", &["local", "judge", "rule", "nobody"])],
    "Answers to typed questions by who gave them.",
);
/// Questions sent to the judge.
pub const CASCADE_ESCALATIONS: Metric = counter(
    "assayd_cascade_escalations_total",
    "questions",
    &[QUESTION],
    "Questions that were sent to the judge, answered or not.",
);
/// What evaluators did with traces.
pub const EVALUATE_TRACES: Metric = counter(
    "assayd_evaluate_traces_total",
    "traces",
    &[
        EVALUATOR,
        closed(
            "result",
            &[
                "evaluated",
                "unanswered",
                "failed",
                "not_matched",
                "not_sampled",
                "no_claims",
                "no_request",
                "no_tool_calls",
                "no_observations",
                "no_thoughts",
            ],
        ),
    ],
    "Traces and checks that an evaluator was offered, by what became of them: unanswered means that nobody can answer its question, all from not_matched on that it was not asked.",
);
/// What evaluators found.
pub const EVALUATE_RESULTS: Metric = counter(
    "assayd_evaluate_results_total",
    "answers",
    &[EVALUATOR, closed("result", &["pass", "fail"])],
    "Answers of evaluators that have failing labels, by whether the label is one of them.",
);
/// Traces by how they ended.
pub const TRACE_OUTCOMES: Metric = counter(
    "assayd_trace_outcomes_total",
    "traces",
    &[
        closed("outcome", &["scored", "skipped", "failed"]),
        open(
            "reason",
            "none if scored; the first word of the verdict's reason; a bounded number, then other",
        ),
    ],
    "Admitted traces by how they ended; every admitted trace ends in exactly one outcome per revision.",
);
/// From completion to the durable verdict.
pub const VERDICT_LATENCY: Metric = histogram(
    "assayd_verdict_latency_seconds",
    "seconds",
    LONG_SECONDS,
    &[],
    "From the moment a trace was taken as complete until its verdict was safe in every sink.",
);
/// The oldest trace without a verdict.
pub const OLDEST_PENDING: Metric = gauge(
    "assayd_oldest_pending_seconds",
    "seconds",
    &[],
    "Age since completion of the oldest trace that has no verdict yet; 0 if there is none.",
);
/// Traces being evaluated.
pub const ASSAY_IN_FLIGHT: Metric =
    gauge("assayd_assay_in_flight_traces", "traces", &[], "Complete traces that are being evaluated now.");
/// Checks of the house by itself.
pub const SELF_CHECKS: Metric = counter(
    "assayd_self_check_runs_total",
    "checks",
    &[closed("result", &["ok", "wrong", "failed"])],
    "Checks of a known true and a known false answer: ok if the false one looks worse, wrong if not, failed if one was not \
     evaluated.",
);
/// When the house last evaluated its own check.
pub const SELF_CHECK_SUCCESS: Metric = gauge(
    "assayd_self_check_success_timestamp_seconds",
    "seconds",
    &[],
    "When the last self-check was evaluated, right or wrong, since the Unix epoch; 0 before the first.",
);
/// How often it checks.
pub const SELF_CHECK_INTERVAL: Metric = gauge(
    "assayd_self_check_interval_seconds",
    "seconds",
    &[],
    "The setting flow.self_check; 0 if there are none, as in a process that evaluates nothing.",
);
/// Time of a check.
pub const SELF_CHECK_SECONDS: Metric =
    histogram("assayd_self_check_seconds", "seconds", SECONDS, &[], "Time of a self-check.");

/// Requests received.
pub const RECEIVE_REQUESTS: Metric = counter(
    "assayd_receive_requests_total",
    "requests",
    &[RECEIVER, closed("signal", &["traces", "logs"])],
    "Requests or messages that were admitted, in whole or in part.",
);
/// Spans received.
pub const RECEIVE_SPANS: Metric =
    counter("assayd_receive_spans_total", "spans", &[RECEIVER], "Spans that were admitted.");
/// Log records received.
pub const RECEIVE_LOGS: Metric = counter(
    "assayd_receive_log_records_total",
    "records",
    &[RECEIVER],
    "Log records of traces that were admitted.",
);
/// Bytes received.
pub const RECEIVE_BYTES: Metric = counter(
    "assayd_receive_bytes_total",
    "bytes",
    &[RECEIVER],
    "Bytes of requests or messages, after decompression.",
);
/// Requests refused.
pub const RECEIVE_REFUSED: Metric = counter(
    "assayd_receive_refused_total",
    "requests",
    &[RECEIVER, REFUSAL],
    "Requests that were refused as a whole; full, not_stored and closing ask the sender to come back.",
);
/// Spans and records refused out of admitted requests.
pub const RECEIVE_REJECTED: Metric = counter(
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
/// Ids in base64.
pub const RECEIVE_BASE64_IDS: Metric = counter(
    "assayd_receive_base64_ids_total",
    "ids",
    &[RECEIVER],
    "Trace and span ids in OTLP/JSON that were base64 and not hexadecimal as the specification demands.",
);
/// How late spans arrive.
pub const RECEIVE_LATENESS: Metric = histogram(
    "assayd_receive_lateness_seconds",
    "seconds",
    LONG_SECONDS,
    &[RECEIVER],
    "From a span's end by the sender's clock until its arrival, one sample per request: its latest-ended span.",
);
/// Bytes held.
pub const RECEIVE_HELD_BYTES: Metric = gauge(
    "assayd_receive_held_bytes",
    "bytes",
    &[],
    "Bytes of admitted spans that have no verdict yet; the door closes at receive.max_bytes.",
);
/// The bound of the bytes held.
pub const RECEIVE_LIMIT: Metric =
    gauge("assayd_receive_limit_bytes", "bytes", &[], "The setting receive.max_bytes.");
/// Messages set aside.
pub const RECEIVE_DEAD_LETTERS: Metric = counter(
    "assayd_receive_dead_letters_total",
    "messages",
    &[RECEIVER, closed("reason", &["unreadable", "too_large", "over_age"])],
    "Messages that were set aside: no OTLP, larger than a request may be, or without a verdict for too long.",
);
/// Lag.
pub const RECEIVE_KAFKA_LAG: Metric = gauge(
    "assayd_receive_kafka_lag_records",
    "records",
    &[
        open("topic", "the topics of receive.kafka.topics"),
        open("partition", "the partitions of these topics"),
    ],
    "Records of a partition that are not done yet, those under way included; 0 for partitions that others have.",
);
/// Partitions.
pub const RECEIVE_KAFKA_PARTITIONS: Metric =
    gauge("assayd_receive_kafka_partitions", "partitions", &[], "Partitions that this replica reads.");
/// Connection.
pub const RECEIVE_KAFKA_CONNECTED: Metric = gauge(
    "assayd_receive_kafka_connected",
    "state",
    &[],
    "1 while a Kafka broker can be reached, 0 while none can or Kafka is not a source.",
);
/// Pauses.
pub const RECEIVE_KAFKA_PAUSED: Metric = gauge(
    "assayd_receive_kafka_paused",
    "state",
    &[],
    "1 while the partitions are paused because there is no room for more spans.",
);
/// Rebalances.
pub const RECEIVE_KAFKA_REBALANCES: Metric = counter(
    "assayd_receive_kafka_rebalances_total",
    "rebalances",
    &[closed("kind", &["assigned", "revoked", "lost"])],
    "Partitions given to this replica, taken from it, or lost because the group took it for dead.",
);
/// Commits.
pub const RECEIVE_KAFKA_COMMITS: Metric = counter(
    "assayd_receive_kafka_commits_total",
    "commits",
    &[closed("result", &["ok", "failed"])],
    "Commits of offsets that the brokers took, or did not; a failed one is tried again.",
);
/// Redeliveries.
pub const RECEIVE_KAFKA_REDELIVERIES: Metric = counter(
    "assayd_receive_kafka_redeliveries_total",
    "records",
    &[],
    "Records that were read and delivered again because a trace of theirs got no verdict.",
);
/// Records that are gone.
pub const RECEIVE_KAFKA_VANISHED: Metric = counter(
    "assayd_receive_kafka_vanished_total",
    "records",
    &[],
    "Records that were to be read again and were gone from their topic: its retention is too short.",
);
/// Commits whose note was cut.
pub const RECEIVE_KAFKA_NOTE_CUT: Metric = counter(
    "assayd_receive_kafka_note_cut_total",
    "commits",
    &[],
    "Commits of a partition whose metadata had no room (`receive.kafka.commit_metadata`) for all that is done above the offset: if a crash follows, some of it is judged again, and some traces without their first spans, as verdicts of their own.",
);
/// Records of a gateway.
pub const RELAY_RECORDS: Metric = counter(
    "assayd_relay_records_total",
    "records",
    &[closed("result", &["ok", "split", "failed"])],
    "Records that a gateway sent to Kafka; split ones were too large for the topic and went again in parts.",
);
/// Items that a gateway left out.
pub const RELAY_LEFT_OUT: Metric = counter(
    "assayd_relay_left_out_items_total",
    "items",
    &[],
    "Spans and log records that are larger by themselves than a record may be; their senders were told.",
);
/// Time of a request in a gateway.
pub const RELAY_SECONDS: Metric = histogram(
    "assayd_relay_seconds",
    "seconds",
    SECONDS,
    &[],
    "Until the brokers had all of a request, by which its sender was answered.",
);
/// Connection of a gateway.
pub const RELAY_CONNECTED: Metric = gauge(
    "assayd_relay_connected",
    "state",
    &[],
    "1 while a gateway can reach a Kafka broker, 0 while it cannot or this is no gateway.",
);
/// Deliveries stored.
pub const SPOOL_APPENDS: Metric = counter(
    "assayd_spool_appends_total",
    "deliveries",
    &[closed("result", &["ok", "full", "too_large", "failed"])],
    "Deliveries that were to be stored; all but ok were refused and not acknowledged.",
);
/// Deliveries per commit.
pub const SPOOL_COMMIT_DELIVERIES: Metric = histogram(
    "assayd_spool_commit_deliveries",
    "deliveries",
    POWERS,
    &[],
    "Deliveries that became durable with one sync.",
);
/// Bytes written.
pub const SPOOL_BYTES: Metric =
    counter("assayd_spool_written_bytes_total", "bytes", &[], "Bytes that were written to the spool.");
/// Time of commits.
pub const SPOOL_COMMIT_SECONDS: Metric = histogram(
    "assayd_spool_commit_seconds",
    "seconds",
    SECONDS,
    &[],
    "Time of one write and one sync of the spool.",
);
/// Space taken.
pub const SPOOL_HELD_BYTES: Metric =
    gauge("assayd_spool_held_bytes", "bytes", &[], "Disk space of the spool; spool.max_bytes bounds it.");
/// Deliveries stored and not done.
pub const SPOOL_HELD_DELIVERIES: Metric =
    gauge("assayd_spool_held_deliveries", "deliveries", &[], "Stored deliveries that are not done.");
/// The bound of the spool's space.
pub const SPOOL_LIMIT: Metric =
    gauge("assayd_spool_limit_bytes", "bytes", &[], "The setting spool.max_bytes; 0 if there is no spool.");
/// Deliveries replayed.
pub const SPOOL_REPLAYED: Metric = counter(
    "assayd_spool_replayed_total",
    "deliveries",
    &[],
    "Deliveries of an earlier process that were found not done.",
);
/// Bytes lost.
pub const SPOOL_LOST_BYTES: Metric = counter(
    "assayd_spool_lost_bytes_total",
    "bytes",
    &[closed("why", &["damaged", "torn"])],
    "Bytes of the spool that could not be read: damaged may have been acknowledged, torn was not.",
);
/// Open traces.
pub const ASSEMBLE_LIVE_TRACES: Metric =
    gauge("assayd_assemble_live_traces", "traces", &[], "Traces that are still open.");
/// Bytes of open traces.
pub const ASSEMBLE_LIVE_BYTES: Metric =
    gauge("assayd_assemble_live_bytes", "bytes", &[], "Bytes of the spans of open traces.");
/// Traces closed.
pub const ASSEMBLE_CLOSED: Metric = counter(
    "assayd_assemble_closed_total",
    "traces",
    &[closed("reason", &["root", "idle", "age", "evict", "end", "shutdown"])],
    "Traces that were taken as complete, by the reason; evict means that the store was full.",
);
/// Conversations going on.
pub const ASSEMBLE_OPEN_SESSIONS: Metric = gauge(
    "assayd_assemble_open_sessions",
    "conversations",
    &[],
    "Conversations (assemble.sessions) that are not over.",
);
/// Verdicts on conversations.
pub const SESSION_VERDICTS: Metric = counter(
    "assayd_session_verdicts_total",
    "verdicts",
    &[SERVICE, AGENT, closed("label", &["faithful", "hallucination", "unsure", "none"])],
    "Verdicts on conversations that reached every sink; label is the worst of their traces'. They count nowhere else.",
);
/// Traces that others evaluate.
pub const ASSEMBLE_HANDED_OVER: Metric = counter(
    "assayd_assemble_handed_over_total",
    "traces",
    &[],
    "Traces from Kafka that were open when their partitions went to another replica, which evaluates them.",
);
/// Late spans.
pub const ASSEMBLE_LATE_SPANS: Metric = counter(
    "assayd_assemble_late_spans_total",
    "spans",
    &[closed("action", &["revised", "ignored"])],
    "Spans that arrived after their trace was closed, by what was done: the trace was opened again, or not.",
);
/// Spans dropped.
pub const ASSEMBLE_DROPPED_SPANS: Metric = counter(
    "assayd_assemble_dropped_spans_total",
    "spans",
    &[closed("reason", &["duplicate", "limit"])],
    "Spans that were left out of their trace: sent twice, or beyond the limit of spans or bytes per trace.",
);
/// Conversion warnings.
pub const CONVERT_WARNINGS: Metric = counter(
    "assayd_convert_warnings_total",
    "warnings",
    &[],
    "Things in traces that could not be read; the story names them.",
);
/// Conversion time.
pub const CONVERT_SECONDS: Metric =
    histogram("assayd_convert_seconds", "seconds", SECONDS, &[], "Time to turn a trace into a story.");
/// Cut evidence.
pub const ASK_EVIDENCE_CUT: Metric = counter(
    "assayd_ask_evidence_cut_total",
    "questions",
    &[],
    "Questions whose evidence was too long for the model, so that its most relevant parts were chosen.",
);

/// Queue of the decision model.
pub const DECIDE_QUEUE: Metric =
    gauge("assayd_decide_queue_inquiries", "inquiries", &[], "Inquiries that wait for the decision model.");
/// Waiting time.
pub const DECIDE_WAIT: Metric = histogram(
    "assayd_decide_wait_seconds",
    "seconds",
    SECONDS,
    &[],
    "How long an inquiry waited for the decision model.",
);
/// Batch sizes.
pub const DECIDE_BATCH_ROWS: Metric =
    histogram("assayd_decide_batch_rows", "rows", POWERS, &[], "Questions that shared a forward pass.");
/// Batch tokens.
pub const DECIDE_BATCH_TOKENS: Metric =
    histogram("assayd_decide_batch_tokens", "tokens", TOKENS, &[], "Tokens of a forward pass, with padding.");
/// Batch time.
pub const DECIDE_BATCH_SECONDS: Metric =
    histogram("assayd_decide_batch_seconds", "seconds", SECONDS, &[], "Time of a forward pass.");
/// Tokens read.
pub const DECIDE_TOKENS: Metric = counter(
    "assayd_decide_tokens_total",
    "tokens",
    &[],
    "Tokens that the decision model read, without padding.",
);
/// Prefix states.
pub const DECIDE_PREFIX: Metric = counter(
    "assayd_decide_prefix_lookups_total",
    "states",
    &[closed("result", &["hit", "miss"])],
    "Distinct states of a batch, by whether the prefix cache had read them before.",
);
/// Memory of the prefix cache.
pub const DECIDE_PREFIX_BYTES: Metric =
    gauge("assayd_decide_prefix_bytes", "bytes", &[], "Memory that the prefix cache holds.");
/// Failures.
pub const DECIDE_FAILURES: Metric = counter(
    "assayd_decide_failures_total",
    "batches",
    &[FAULT],
    "Batches that the decision model failed on.",
);
/// Requests to a remote decision model.
pub const DECIDE_REMOTE_REQUESTS: Metric = counter(
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
/// Their time.
pub const DECIDE_REMOTE_SECONDS: Metric = histogram(
    "assayd_decide_remote_seconds",
    "seconds",
    SECONDS,
    &[],
    "Time of one HTTP request to a remote decision model.",
);

/// Judge requests.
pub const JUDGE_REQUESTS: Metric = counter(
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
/// Judge time.
pub const JUDGE_SECONDS: Metric = histogram(
    "assayd_judge_seconds",
    "seconds",
    LONG_SECONDS,
    &[PROVIDER],
    "Time of a request to the judge.",
);
/// Judge concurrency.
pub const JUDGE_LIMIT: Metric = gauge(
    "assayd_judge_limit_calls",
    "calls",
    &[PROVIDER],
    "Calls to the judge that may be in flight now: judge.concurrency, halved at each overload, won back step by step.",
);
/// Judge spacing.
pub const JUDGE_SPACING: Metric = gauge(
    "assayd_judge_spacing_seconds",
    "seconds",
    &[PROVIDER],
    "Time that is left before each call to the judge; 0 unless one call at a time is too much for it.",
);
/// Judge tokens.
pub const JUDGE_TOKENS: Metric = counter(
    "assayd_judge_tokens_total",
    "tokens",
    &[PROVIDER, closed("direction", &["input", "output"])],
    "Tokens to and from the judge, over all attempts.",
);
/// Judge cost.
pub const JUDGE_COST: Metric = Metric {
    name: "assayd_judge_cost_usd_total",
    kind: Kind::Sum,
    unit: "usd",
    labels: &[],
    help: "What the judge cost by the price table in the configuration, over all attempts.",
};

/// Writes to sinks.
pub const EMIT_WRITES: Metric = counter(
    "assayd_emit_writes_total",
    "verdicts",
    &[SINK, closed("result", &["ok", "retried", "poison", "fatal", "abandoned"])],
    "Attempts to write a verdict: ok is durable, retried will be tried again, poison was refused for good, abandoned was \
     cut short by the shutdown.",
);
/// Time of a write.
pub const EMIT_WRITE_SECONDS: Metric = histogram(
    "assayd_emit_write_seconds",
    "seconds",
    SECONDS,
    &[SINK],
    "Until a verdict was durable in the sink, retries included.",
);
/// Verdicts cut for a sink.
pub const EMIT_TRIMMED: Metric = counter(
    "assayd_emit_trimmed_total",
    "verdicts",
    &[SINK],
    "Verdicts that were too large for the sink and lost evidence references or probabilities.",
);
/// Verdicts set aside.
pub const EMIT_DEAD_LETTERS: Metric = counter(
    "assayd_emit_dead_letters_total",
    "verdicts",
    &[SINK],
    "Verdicts that the sink refuses for good, logged in short and set aside.",
);
/// Verdicts of which a letter was written.
pub const EMIT_LETTERS: Metric = counter(
    "assayd_emit_letters_total",
    "verdicts",
    &[SINK, closed("reason", &["too_large", "refused"])],
    "Of the verdicts that were set aside, those of which a dead letter is in emit.kafka.dead_letters.topic.",
);
/// Verdicts that are not for a sink.
pub const EMIT_FILTERED: Metric = counter(
    "assayd_emit_filtered_total",
    "verdicts",
    &[SINK],
    "Verdicts that the sink is set not to take, such as faithful ones by a webhook; they count as ok among its writes.",
);
/// Verdicts per request.
pub const EMIT_BATCH: Metric = histogram(
    "assayd_emit_batch_verdicts",
    "verdicts",
    POWERS,
    &[SINK],
    "Verdicts that were sent in one request, for sinks that put them together.",
);
/// Records that a receiver left out.
pub const EMIT_REJECTED: Metric = counter(
    "assayd_emit_rejected_records_total",
    "records",
    &[SINK],
    "Records that an OTLP receiver rejected out of a request that it took (partial success).",
);
/// Spans of the daemon's own work.
pub const EMIT_OWN_SPANS: Metric = counter(
    "assayd_emit_own_spans_total",
    "spans",
    &[closed("result", &["sent", "dropped", "failed", "rejected"])],
    "Spans of the daemon's own work: sent, dropped since emit.traces.queue was full, failed since the receiver did not take them, or \
     rejected by it out of a request that it took.",
);
/// Verdicts that wait for a sink.
pub const EMIT_IN_FLIGHT: Metric =
    gauge("assayd_emit_in_flight_verdicts", "verdicts", &[], "Verdicts that are being written.");

/// Requests to the admin listener.
pub const SERVE_REQUESTS: Metric = counter(
    "assayd_serve_requests_total",
    "requests",
    &[
        open("route", "the route's pattern, unmatched for others; bounded by the routes"),
        closed("status", &["2xx", "3xx", "4xx", "5xx"]),
    ],
    "HTTP requests to the admin listener by route and class of status.",
);
/// Readers of the live feed.
pub const SERVE_FEED_READERS: Metric =
    gauge("assayd_serve_feed_readers", "readers", &[], "Readers of the live verdict feed.");
/// Verdicts lost by slow readers.
pub const SERVE_FEED_MISSED: Metric = counter(
    "assayd_serve_feed_missed_total",
    "verdicts",
    &[],
    "Verdicts that readers of the live feed missed because they were slow; each reader is told.",
);

const MARKED_ANSWERS: Label = closed("label", &["faithful", "hallucination"]);
const MARKED_CLAIMS: Label = closed("label", &["grounded", "ungrounded", "contradicted", "complementary"]);
const FEEDBACK_TARGET: Label = closed("target", &["verdict", "claim"]);

/// Words of people.
pub const FEEDBACK_WORDS: Metric = counter(
    "assayd_feedback_words_total",
    "words",
    &[closed("result", &["stored", "repeated", "unknown_verdict", "full", "failed"])],
    "What people said of verdicts, by what became of it.",
);
/// Marked answers.
pub const FEEDBACK_VERDICTS: Metric = gauge(
    "assayd_feedback_verdicts",
    "labels",
    &[closed("predicted", &["faithful", "hallucination", "unsure"]), MARKED_ANSWERS],
    "Answers that people marked, by what assayd had said and what they say; the last word of each person.",
);
/// Marked claims.
pub const FEEDBACK_CLAIMS: Metric = gauge(
    "assayd_feedback_claims",
    "labels",
    &[
        closed("predicted", &["grounded", "ungrounded", "contradicted", "complementary", "none"]),
        MARKED_CLAIMS,
    ],
    "Claims that people marked, by what assayd had said and what they say; the last word of each person.",
);
/// Agreement.
pub const FEEDBACK_KAPPA: Metric = gauge(
    "assayd_feedback_kappa",
    "kappa",
    &[FEEDBACK_TARGET],
    "Cohen's kappa of people and assayd on whether something does not stand, without what assayd left undecided; NaN where it is not defined.",
);
/// False alarms.
pub const FEEDBACK_FALSE_POSITIVES: Metric = gauge(
    "assayd_feedback_false_positives",
    "labels",
    &[FEEDBACK_TARGET],
    "Labels by people who find nothing wrong where assayd said that something does not stand.",
);
/// Misses.
pub const FEEDBACK_FALSE_NEGATIVES: Metric = gauge(
    "assayd_feedback_false_negatives",
    "labels",
    &[FEEDBACK_TARGET],
    "Labels by people who find something wrong where assayd said that all stands.",
);
/// The file of feedback.
pub const FEEDBACK_HELD_BYTES: Metric = gauge(
    "assayd_feedback_held_bytes",
    "bytes",
    &[],
    "Size of the file of what people said; feedback is refused above feedback.max_bytes.",
);
/// Masked pieces of text.
pub const REDACT_MASKED: Metric = counter(
    "assayd_redact_masked_total",
    "pieces",
    &[closed("place", &["judge", "decider", "sink", "console"])],
    "Secrets and personal data that became markers before text went to this place.",
);
/// Rounds of GSAR's loop.
pub const GSAR_ROUNDS: Metric = counter(
    "assayd_gsar_rounds_total",
    "rounds",
    &[closed("decision", &["proceed", "regenerate", "replan", "abstain"])],
    "Judged rounds of GSAR's loop by decision.",
);
/// Runs of GSAR's loop.
pub const GSAR_RUNS: Metric = counter(
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
/// Open runs of GSAR's loop.
pub const GSAR_OPEN_RUNS: Metric =
    gauge("assayd_gsar_open_runs", "runs", &[], "Runs of GSAR's loop that have not ended.");

/// The build.
pub const BUILD: Metric = gauge(
    "assayd_build_info",
    "info",
    &[open("version", "assayd's version"), open("features", "the features it was built with")],
    "Always 1; the labels say what runs.",
);
/// The start.
pub const START: Metric = gauge(
    "assayd_process_start_time_seconds",
    "seconds",
    &[],
    "When the process started, since the Unix epoch.",
);
/// Memory.
pub const RESIDENT: Metric =
    gauge("assayd_process_resident_bytes", "bytes", &[], "Memory of the process that is in RAM.");
/// Readiness.
pub const READY: Metric =
    gauge("assayd_process_ready", "state", &[], "1 while spans are admitted, 0 while starting or stopping.");

/// All metrics, in the order of the flow.
pub static ALL: &[Metric] = &[
    VERDICTS,
    HALLUCINATIONS,
    SCORED,
    CLAIMS,
    SCORE,
    CASCADE_ANSWERS,
    CASCADE_ESCALATIONS,
    EVALUATE_TRACES,
    EVALUATE_RESULTS,
    TRACE_OUTCOMES,
    VERDICT_LATENCY,
    OLDEST_PENDING,
    ASSAY_IN_FLIGHT,
    SELF_CHECKS,
    SELF_CHECK_SUCCESS,
    SELF_CHECK_INTERVAL,
    SELF_CHECK_SECONDS,
    RECEIVE_REQUESTS,
    RECEIVE_SPANS,
    RECEIVE_LOGS,
    RECEIVE_BYTES,
    RECEIVE_REFUSED,
    RECEIVE_REJECTED,
    RECEIVE_BASE64_IDS,
    RECEIVE_LATENESS,
    RECEIVE_HELD_BYTES,
    RECEIVE_LIMIT,
    RECEIVE_DEAD_LETTERS,
    RECEIVE_KAFKA_LAG,
    RECEIVE_KAFKA_PARTITIONS,
    RECEIVE_KAFKA_CONNECTED,
    RECEIVE_KAFKA_PAUSED,
    RECEIVE_KAFKA_REBALANCES,
    RECEIVE_KAFKA_COMMITS,
    RECEIVE_KAFKA_REDELIVERIES,
    RECEIVE_KAFKA_VANISHED,
    RECEIVE_KAFKA_NOTE_CUT,
    RELAY_RECORDS,
    RELAY_LEFT_OUT,
    RELAY_SECONDS,
    RELAY_CONNECTED,
    SPOOL_APPENDS,
    SPOOL_COMMIT_DELIVERIES,
    SPOOL_BYTES,
    SPOOL_COMMIT_SECONDS,
    SPOOL_HELD_BYTES,
    SPOOL_HELD_DELIVERIES,
    SPOOL_LIMIT,
    SPOOL_REPLAYED,
    SPOOL_LOST_BYTES,
    ASSEMBLE_LIVE_TRACES,
    ASSEMBLE_LIVE_BYTES,
    ASSEMBLE_CLOSED,
    ASSEMBLE_OPEN_SESSIONS,
    SESSION_VERDICTS,
    ASSEMBLE_HANDED_OVER,
    ASSEMBLE_LATE_SPANS,
    ASSEMBLE_DROPPED_SPANS,
    CONVERT_WARNINGS,
    CONVERT_SECONDS,
    ASK_EVIDENCE_CUT,
    DECIDE_QUEUE,
    DECIDE_WAIT,
    DECIDE_BATCH_ROWS,
    DECIDE_BATCH_TOKENS,
    DECIDE_BATCH_SECONDS,
    DECIDE_TOKENS,
    DECIDE_PREFIX,
    DECIDE_PREFIX_BYTES,
    DECIDE_FAILURES,
    DECIDE_REMOTE_REQUESTS,
    DECIDE_REMOTE_SECONDS,
    JUDGE_REQUESTS,
    JUDGE_SECONDS,
    JUDGE_LIMIT,
    JUDGE_SPACING,
    JUDGE_TOKENS,
    JUDGE_COST,
    EMIT_WRITES,
    EMIT_WRITE_SECONDS,
    EMIT_TRIMMED,
    EMIT_DEAD_LETTERS,
    EMIT_LETTERS,
    EMIT_FILTERED,
    EMIT_BATCH,
    EMIT_REJECTED,
    EMIT_OWN_SPANS,
    EMIT_IN_FLIGHT,
    SERVE_REQUESTS,
    SERVE_FEED_READERS,
    SERVE_FEED_MISSED,
    FEEDBACK_WORDS,
    FEEDBACK_VERDICTS,
    FEEDBACK_CLAIMS,
    FEEDBACK_KAPPA,
    FEEDBACK_FALSE_POSITIVES,
    FEEDBACK_FALSE_NEGATIVES,
    FEEDBACK_HELD_BYTES,
    REDACT_MASKED,
    GSAR_ROUNDS,
    GSAR_RUNS,
    GSAR_OPEN_RUNS,
    BUILD,
    START,
    RESIDENT,
    READY,
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_follow_the_grammar_and_are_unique() {
        let mut names = HashSet::new();
        for metric in ALL {
            assert!(names.insert(metric.name), "{} is there twice", metric.name);
            assert!(metric.name.starts_with("assayd_"), "{}", metric.name);
            let counts = metric.kind.as_str() == "counter";
            assert_eq!(metric.name.ends_with("_total"), counts, "{}: _total is for counters", metric.name);
            if ["seconds", "bytes"].contains(&metric.unit) {
                let bare = metric.name.trim_end_matches("_total");
                assert!(bare.ends_with(metric.unit), "{} does not name its unit", metric.name);
            }
            assert!(metric.help.ends_with('.'), "{}", metric.name);
            if let Kind::Histogram { buckets } = metric.kind {
                assert!(buckets.is_sorted() && !buckets.is_empty(), "{}", metric.name);
            }
        }
    }
}
