//! One typed function per metric.

use std::time::Duration;

use metrics::SharedString;

use crate::domain::{Closed, Ended, Label, Outcome, Standing, Tier, Time, Verdict};
use crate::error::Fault;

use super::catalogue as all;
use super::labels;

/// A verdict reached every sink.
pub fn verdict(service: Option<&str>, agent: Option<&str>, label: Option<Label>, tier: Option<Tier>) {
    let (service, agent) = labels::service_and_agent(service, agent);
    let label = label.map_or("none", Label::as_str);
    let tier = tier.map_or("none", Tier::as_str);
    all::VERDICTS.add(1, [service.into(), agent.into(), label.into(), tier.into()]);
}

/// Everything that a verdict's content counts for: verdicts, hallucinations, claims, score, and, if it is of a trace, its outcome.
/// Called once, by the fan-out, when every sink has the verdict.
pub fn emitted(written: &Verdict) {
    let (service, agent) = (written.service.as_deref(), written.agent.as_deref());
    // What it covers was counted with the verdicts on its traces.
    if !written.traces.is_empty() {
        return session_verdict(service, agent, written.label);
    }
    let tier = written.grounding.as_ref().map(|grounding| grounding.tier);
    verdict(service, agent, written.label, tier);
    // An answer without claims has no label, and no part in the rate of hallucinations.
    if written.outcome == Outcome::Scored && written.label.is_some() {
        scored(service, agent, written.label == Some(Label::Hallucination));
    }
    if let Some(grounding) = &written.grounding {
        all::SCORE.record(grounding.score, [labels::service(service).into()]);
        let standings = Standing::ALL.map(Some).into_iter().chain([None]);
        for standing in standings {
            let count = grounding.claims.iter().filter(|claim| claim.standing == standing).count();
            claims(service, standing, count);
        }
    }
    // A run of GSAR's loop may name a trace, whose own outcome is another verdict's.
    if written.trace_id.is_some() && written.run.is_none() {
        trace_outcome(written.outcome, written.reason.as_deref());
    }
}

/// A verdict on a conversation reached every sink.
pub fn session_verdict(service: Option<&str>, agent: Option<&str>, label: Option<Label>) {
    let (service, agent) = labels::service_and_agent(service, agent);
    let label = label.map_or("none", Label::as_str);
    all::SESSION_VERDICTS.add(1, [service.into(), agent.into(), label.into()]);
}

/// An answer was scored, and whether it is a hallucination.
pub fn scored(service: Option<&str>, agent: Option<&str>, hallucination: bool) {
    let (service, agent) = labels::service_and_agent(service, agent);
    let values: [SharedString; 2] = [service.into(), agent.into()];
    all::HALLUCINATIONS.add(u64::from(hallucination), values.clone());
    all::SCORED.add(1, values);
}

/// Claims of a scored answer that stand alike.
pub fn claims(service: Option<&str>, standing: Option<Standing>, count: usize) {
    let standing = standing.map_or("none", Standing::as_str);
    all::CLAIMS.add(count as u64, [labels::service(service).into(), standing.into()]);
}

/// An answer of the cascade: `question` is `grounding` or an id of the configuration, `by` is `local`, `judge`, `rule` or `nobody`.
pub fn cascade_answer(question: &str, by: &'static str) {
    all::CASCADE_ANSWERS.add(1, [labels::word("question", question).into(), by.into()]);
}

/// What became of a story for an evaluator: `evaluated`, `unanswered`, `failed`, or why it was not asked.
pub fn evaluate_trace(evaluator: &str, result: &'static str) {
    all::EVALUATE_TRACES.add(1, [labels::word("evaluator", evaluator).into(), result.into()]);
}

/// Whether an evaluator's answer passes.
pub fn evaluate_result(evaluator: &str, pass: bool) {
    let result = if pass { "pass" } else { "fail" };
    all::EVALUATE_RESULTS.add(1, [labels::word("evaluator", evaluator).into(), result.into()]);
}

/// A question was sent to the judge.
pub fn cascade_escalation(question: &str) {
    all::CASCADE_ESCALATIONS.add(1, [labels::word("question", question).into()]);
}

/// A trace ended; of `reason` the first word counts, what follows a colon is for people.
pub fn trace_outcome(outcome: Outcome, reason: Option<&str>) {
    let word = reason.map(|reason| reason.split([':', ' ']).next().unwrap_or_default());
    let word = word.map_or_else(|| "none".to_owned(), |word| labels::word("reason", word));
    all::TRACE_OUTCOMES.add(1, [outcome.as_str().into(), word.into()]);
}

/// From a trace's completion until its verdict was safe.
pub fn verdict_latency(latency: Duration) {
    all::VERDICT_LATENCY.record(latency.as_secs_f64(), []);
}

/// Age of the oldest complete trace without a verdict; zero if there is none.
pub fn oldest_pending(age: Duration) {
    all::OLDEST_PENDING.set(age.as_secs_f64(), []);
}

/// Complete traces that are being evaluated now.
pub fn assay_in_flight(traces: usize) {
    all::ASSAY_IN_FLIGHT.set(traces as f64, []);
}

/// A self-check ended: `result` is `ok`, `wrong` or `failed`.
pub fn self_check(result: &'static str, took: Duration) {
    all::SELF_CHECKS.add(1, [result.into()]);
    all::SELF_CHECK_SECONDS.record(took.as_secs_f64(), []);
}

/// A self-check was evaluated, so long after the Unix epoch.
pub fn self_check_succeeded(since_epoch: Duration) {
    all::SELF_CHECK_SUCCESS.set(since_epoch.as_secs_f64(), []);
}

/// How often the house checks itself; 0 if it does not.
pub fn self_check_interval(seconds: f64) {
    all::SELF_CHECK_INTERVAL.set(seconds, []);
}

/// A request was admitted: `receiver` is `grpc`, `http`, `kafka` or `files`, `signal` is `traces` or `logs`.
pub fn receive_request(receiver: &'static str, signal: &'static str) {
    all::RECEIVE_REQUESTS.add(1, [receiver.into(), signal.into()]);
}

/// Spans were admitted.
pub fn receive_spans(receiver: &'static str, spans: usize) {
    all::RECEIVE_SPANS.add(spans as u64, [receiver.into()]);
}

/// Log records were admitted.
pub fn receive_logs(receiver: &'static str, records: usize) {
    all::RECEIVE_LOGS.add(records as u64, [receiver.into()]);
}

/// Bytes of a request, after decompression.
pub fn receive_bytes(receiver: &'static str, bytes: usize) {
    all::RECEIVE_BYTES.add(bytes as u64, [receiver.into()]);
}

/// A request was refused as a whole: `reason` is `full`, `not_stored`, `closing`, `too_large`, `malformed`, `content_type`,
/// `encoding`, `timeout` or `unauthorized`.
pub fn receive_refused(receiver: &'static str, reason: &'static str) {
    all::RECEIVE_REFUSED.add(1, [receiver.into(), reason.into()]);
}

/// Spans or records were left out of an admitted request; `reason` is a word such as `zero_trace_id`.
pub fn receive_rejected(receiver: &'static str, reason: &'static str, items: usize) {
    all::RECEIVE_REJECTED.add(items as u64, [receiver.into(), labels::word("rejected", reason).into()]);
}

/// Ids came in base64.
pub fn receive_base64_ids(receiver: &'static str, ids: usize) {
    all::RECEIVE_BASE64_IDS.add(ids as u64, [receiver.into()]);
}

/// How long after its end the latest span of a request arrived.
pub fn receive_lateness(receiver: &'static str, lateness: Duration) {
    all::RECEIVE_LATENESS.record(lateness.as_secs_f64(), [receiver.into()]);
}

/// Bytes of admitted spans without a verdict.
pub fn receive_held_bytes(bytes: usize) {
    all::RECEIVE_HELD_BYTES.set(bytes as f64, []);
}

/// The most bytes that may be held.
pub fn receive_limit(bytes: usize) {
    all::RECEIVE_LIMIT.set(bytes as f64, []);
}

/// A message was set aside: `reason` is `unreadable`, `too_large` or `over_age`.
pub fn receive_dead_letter(receiver: &'static str, reason: &'static str) {
    all::RECEIVE_DEAD_LETTERS.add(1, [receiver.into(), reason.into()]);
}

/// Records of a partition that are not done yet. Topics and partitions are as many as the configuration and the brokers say.
pub fn receive_kafka_lag(topic: &str, partition: i32, records: i64) {
    let values = [topic.to_owned().into(), partition.to_string().into()];
    all::RECEIVE_KAFKA_LAG.set(records as f64, values);
}

/// Partitions that this replica reads.
pub fn receive_kafka_partitions(partitions: usize) {
    all::RECEIVE_KAFKA_PARTITIONS.set(partitions as f64, []);
}

/// Whether a Kafka broker can be reached.
pub fn receive_kafka_connected(is_connected: bool) {
    all::RECEIVE_KAFKA_CONNECTED.set(f64::from(u8::from(is_connected)), []);
}

/// Whether the partitions are paused for lack of room.
pub fn receive_kafka_paused(is_paused: bool) {
    all::RECEIVE_KAFKA_PAUSED.set(f64::from(u8::from(is_paused)), []);
}

/// The group gave or took partitions: `kind` is `assigned`, `revoked` or `lost`.
pub fn receive_kafka_rebalance(kind: &'static str) {
    all::RECEIVE_KAFKA_REBALANCES.add(1, [kind.into()]);
}

/// A commit of offsets: `result` is `ok` or `failed`.
pub fn receive_kafka_commit(result: &'static str) {
    all::RECEIVE_KAFKA_COMMITS.add(1, [result.into()]);
}

/// A record was delivered again.
pub fn receive_kafka_redelivery() {
    all::RECEIVE_KAFKA_REDELIVERIES.add(1, []);
}

/// A record that was to be read again is gone.
pub fn receive_kafka_vanished() {
    all::RECEIVE_KAFKA_VANISHED.add(1, []);
}

/// A commit without room for all that is done above its offset.
pub fn receive_kafka_note_cut() {
    all::RECEIVE_KAFKA_NOTE_CUT.add(1, []);
}

/// A record that a gateway sent: `result` is `ok`, `split` or `failed`.
pub fn relay_record(result: &'static str) {
    all::RELAY_RECORDS.add(1, [result.into()]);
}

/// Items of a request that are too large by themselves.
pub fn relay_left_out(items: u64) {
    all::RELAY_LEFT_OUT.add(items, []);
}

/// Until the brokers had all of a request.
pub fn relay_seconds(took: Duration) {
    all::RELAY_SECONDS.record(took.as_secs_f64(), []);
}

/// Whether a gateway can reach a broker.
pub fn relay_connected(is_connected: bool) {
    all::RELAY_CONNECTED.set(f64::from(u8::from(is_connected)), []);
}

/// Deliveries that were to be stored: `result` is `ok`, `full`, `too_large` or `failed`.
pub fn spool_appends(result: &'static str, deliveries: usize) {
    all::SPOOL_APPENDS.add(deliveries as u64, [result.into()]);
}

/// A commit of the spool: one write and one sync.
pub fn spool_commit(deliveries: usize, bytes: usize, took: Duration) {
    all::SPOOL_COMMIT_DELIVERIES.record(deliveries as f64, []);
    all::SPOOL_BYTES.add(bytes as u64, []);
    all::SPOOL_COMMIT_SECONDS.record(took.as_secs_f64(), []);
}

/// What the spool holds now: bytes on disk, and deliveries that are not done.
pub fn spool_held(bytes: u64, deliveries: usize) {
    all::SPOOL_HELD_BYTES.set(bytes as f64, []);
    all::SPOOL_HELD_DELIVERIES.set(deliveries as f64, []);
}

/// The most bytes on disk that the spool may hold; 0 if there is no spool.
pub fn spool_limit(bytes: u64) {
    all::SPOOL_LIMIT.set(bytes as f64, []);
}

/// What was found at the start: deliveries to replay, bytes that are damaged, and bytes of writes that were cut off.
pub fn spool_recovered(deliveries: usize, damaged_bytes: u64, torn_bytes: u64) {
    all::SPOOL_REPLAYED.add(deliveries as u64, []);
    all::SPOOL_LOST_BYTES.add(damaged_bytes, ["damaged".into()]);
    all::SPOOL_LOST_BYTES.add(torn_bytes, ["torn".into()]);
}

/// Open traces, and the bytes of their spans.
pub fn assemble_live(traces: usize, bytes: usize) {
    all::ASSEMBLE_LIVE_TRACES.set(traces as f64, []);
    all::ASSEMBLE_LIVE_BYTES.set(bytes as f64, []);
}

/// Conversations that are going on.
pub fn assemble_sessions(open: usize) {
    all::ASSEMBLE_OPEN_SESSIONS.set(open as f64, []);
}

/// A trace was taken as complete.
pub fn assemble_closed(reason: Closed) {
    all::ASSEMBLE_CLOSED.add(1, [reason.as_str().into()]);
}

/// A trace was left to the replica that has its partitions now.
pub fn assemble_handed_over() {
    all::ASSEMBLE_HANDED_OVER.add(1, []);
}

/// Spans arrived after their trace was closed; `action` is `revised` or `ignored`.
pub fn assemble_late_spans(action: &'static str, spans: usize) {
    all::ASSEMBLE_LATE_SPANS.add(spans as u64, [action.into()]);
}

/// Spans were left out of their trace; `reason` is `duplicate` or `limit`.
pub fn assemble_dropped_spans(reason: &'static str, spans: usize) {
    all::ASSEMBLE_DROPPED_SPANS.add(spans as u64, [reason.into()]);
}

/// A trace was turned into a story.
pub fn convert(took: Duration, warnings: usize) {
    all::CONVERT_SECONDS.record(took.as_secs_f64(), []);
    all::CONVERT_WARNINGS.add(warnings as u64, []);
}

/// Questions whose evidence was cut.
pub fn ask_evidence_cut(questions: usize) {
    all::ASK_EVIDENCE_CUT.add(questions as u64, []);
}

/// Inquiries that wait for the decision model.
pub fn decide_queue(inquiries: usize) {
    all::DECIDE_QUEUE.set(inquiries as f64, []);
}

/// An inquiry's wait.
pub fn decide_wait(waited: Duration) {
    all::DECIDE_WAIT.record(waited.as_secs_f64(), []);
}

/// A forward pass: its rows, its tokens with and without padding, its time.
pub fn decide_batch(rows: usize, padded_tokens: usize, tokens: u64, took: Duration) {
    all::DECIDE_BATCH_ROWS.record(rows as f64, []);
    all::DECIDE_BATCH_TOKENS.record(padded_tokens as f64, []);
    all::DECIDE_BATCH_SECONDS.record(took.as_secs_f64(), []);
    all::DECIDE_TOKENS.add(tokens, []);
}

/// Distinct states of a batch that the prefix cache knew, those that it did not, and the bytes that it now holds.
pub fn decide_prefix(hits: usize, misses: usize, held_bytes: usize) {
    all::DECIDE_PREFIX.add(hits as u64, ["hit".into()]);
    all::DECIDE_PREFIX.add(misses as u64, ["miss".into()]);
    all::DECIDE_PREFIX_BYTES.set(held_bytes as f64, []);
}

/// One HTTP request to a remote decision model: for the values of `result` see [`super::ALL`].
pub fn decide_remote(result: &'static str) {
    all::DECIDE_REMOTE_REQUESTS.add(1, [result.into()]);
}

/// Its time.
pub fn decide_remote_seconds(took: Duration) {
    all::DECIDE_REMOTE_SECONDS.record(took.as_secs_f64(), []);
}

/// The decision model failed on a batch.
pub fn decide_failure(fault: Fault) {
    all::DECIDE_FAILURES.add(1, [fault.as_str().into()]);
}

/// An attempt to ask the judge, or an ask that was not sent: for the values of `result` see [`super::ALL`].
pub fn judge_request(provider: &str, result: &'static str) {
    all::JUDGE_REQUESTS.add(1, [labels::word("provider", provider).into(), result.into()]);
}

/// Time of an attempt to ask the judge.
pub fn judge_seconds(provider: &str, took: Duration) {
    all::JUDGE_SECONDS.record(took.as_secs_f64(), [labels::word("provider", provider).into()]);
}

/// Calls to the judge that may be in flight, and the time that is left before each.
pub fn judge_limit(provider: &str, calls: usize, spacing: Duration) {
    let provider: SharedString = labels::word("provider", provider).into();
    all::JUDGE_LIMIT.set(calls as f64, [provider.clone()]);
    all::JUDGE_SPACING.set(spacing.as_secs_f64(), [provider]);
}

/// Tokens of an attempt.
pub fn judge_tokens(provider: &str, input: u64, output: u64) {
    let provider: SharedString = labels::word("provider", provider).into();
    all::JUDGE_TOKENS.add(input, [provider.clone(), "input".into()]);
    all::JUDGE_TOKENS.add(output, [provider, "output".into()]);
}

/// Money that an attempt cost.
pub fn judge_cost(usd: f64) {
    all::JUDGE_COST.add_fraction(usd, []);
}

/// An attempt to write a verdict: `result` is `ok`, `retried`, `poison`, `fatal` or `abandoned`.
pub fn emit_write(sink: &'static str, result: &'static str) {
    all::EMIT_WRITES.add(1, [sink.into(), result.into()]);
}

/// Until a verdict was durable in the sink.
pub fn emit_write_seconds(sink: &'static str, took: Duration) {
    all::EMIT_WRITE_SECONDS.record(took.as_secs_f64(), [sink.into()]);
}

/// A verdict was too large for the sink and was cut.
pub fn emit_trimmed(sink: &'static str) {
    all::EMIT_TRIMMED.add(1, [sink.into()]);
}

/// A verdict was refused for good.
pub fn emit_dead_letter(sink: &'static str) {
    all::EMIT_DEAD_LETTERS.add(1, [sink.into()]);
}

/// What is left of a verdict that was refused for good is in a topic of its own: `reason` is `too_large` or `refused`.
pub fn emit_letter(sink: &'static str, reason: &'static str) {
    all::EMIT_LETTERS.add(1, [sink.into(), reason.into()]);
}

/// A sink is set not to take a verdict.
pub fn emit_filtered(sink: &'static str) {
    all::EMIT_FILTERED.add(1, [sink.into()]);
}

/// Verdicts were sent in one request.
pub fn emit_batch(sink: &'static str, verdicts: usize) {
    all::EMIT_BATCH.record(verdicts as f64, [sink.into()]);
}

/// A receiver left records out of a request that it took.
pub fn emit_rejected_records(sink: &'static str, records: u64) {
    all::EMIT_REJECTED.add(records, [sink.into()]);
}

/// Spans of the daemon's own work; `result` is `sent`, `dropped`, `failed` or `rejected`.
pub fn emit_own_spans(result: &'static str, spans: u64) {
    all::EMIT_OWN_SPANS.add(spans, [result.into()]);
}

/// The number of verdicts that are being written changes.
pub fn emit_in_flight(change: i32) {
    all::EMIT_IN_FLIGHT.shift(f64::from(change), []);
}

/// Pieces of text that were masked before they went to a place.
pub fn redact_masked(place: &'static str, pieces: usize) {
    all::REDACT_MASKED.add(pieces as u64, [place.into()]);
}

/// A judged round of GSAR's loop.
pub fn gsar_round(decision: Tier) {
    all::GSAR_ROUNDS.add(1, [decision.as_str().into()]);
}

/// A run of GSAR's loop that ended.
pub fn gsar_run(ended: Ended) {
    all::GSAR_RUNS.add(1, [ended.as_str().into()]);
}

/// Runs of GSAR's loop that are open.
pub fn gsar_open_runs(runs: usize) {
    all::GSAR_OPEN_RUNS.set(runs as f64, []);
}

/// A request to the admin listener; `route` is the route's pattern.
pub fn serve_request(route: &str, status: u16) {
    let class = match status {
        0..=299 => "2xx",
        300..=399 => "3xx",
        400..=499 => "4xx",
        _ => "5xx",
    };
    all::SERVE_REQUESTS.add(1, [labels::word("route", route).into(), class.into()]);
}

/// The number of readers of the live feed changes.
pub fn serve_feed_readers(change: i32) {
    all::SERVE_FEED_READERS.shift(f64::from(change), []);
}

/// A slow reader of the live feed missed verdicts.
pub fn serve_feed_missed(verdicts: u64) {
    all::SERVE_FEED_MISSED.add(verdicts, []);
}

/// A person said something of a verdict: `result` says what became of it.
pub fn feedback_word(result: &'static str) {
    all::FEEDBACK_WORDS.add(1, [result.into()]);
}

/// Answers for which assayd said `predicted` and people say `label`.
pub fn feedback_verdicts(predicted: &'static str, label: &'static str, count: u64) {
    all::FEEDBACK_VERDICTS.set(count as f64, [predicted.into(), label.into()]);
}

/// Claims for which assayd said `predicted` and people say `label`.
pub fn feedback_claims(predicted: &'static str, label: &'static str, count: u64) {
    all::FEEDBACK_CLAIMS.set(count as f64, [predicted.into(), label.into()]);
}

/// How far people and assayd agree on `verdict`s or `claim`s.
pub fn feedback_agreement(
    target: &'static str,
    kappa: Option<f64>,
    false_positives: u64,
    false_negatives: u64,
) {
    all::FEEDBACK_KAPPA.set(kappa.unwrap_or(f64::NAN), [target.into()]);
    all::FEEDBACK_FALSE_POSITIVES.set(false_positives as f64, [target.into()]);
    all::FEEDBACK_FALSE_NEGATIVES.set(false_negatives as f64, [target.into()]);
}

/// The size of the file of feedback.
pub fn feedback_bytes(bytes: u64) {
    all::FEEDBACK_HELD_BYTES.set(bytes as f64, []);
}

/// The features that this build has beyond the default ones.
pub fn features() -> Vec<&'static str> {
    let known = [
        ("kafka-tls", cfg!(feature = "kafka-tls")),
        ("bedrock", cfg!(feature = "bedrock")),
        ("cuda", cfg!(feature = "cuda")),
        ("metal", cfg!(feature = "metal")),
    ];
    known.into_iter().filter(|(_, built)| *built).map(|(name, _)| name).collect()
}

/// What runs, and since when.
pub fn process_started(at: Time) {
    let features = features().join(",");
    all::BUILD.set(1.0, [env!("CARGO_PKG_VERSION").into(), features.into()]);
    all::START.set(at.0 as f64 / 1e9, []);
}

/// Memory of this process in RAM.
pub fn process_resident(bytes: u64) {
    all::RESIDENT.set(bytes as f64, []);
}

/// Whether spans are admitted.
pub fn process_ready(ready: bool) {
    all::READY.set(f64::from(u8::from(ready)), []);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::recorder::rendered;
    use crate::metrics::{ALL, strays};

    /// Calls every function of this file once.
    fn record_everything() {
        let second = Duration::from_secs(1);
        verdict(Some("shop"), None, Some(Label::Faithful), Some(Tier::Proceed));
        scored(Some("shop"), Some("refunds"), true);
        all::SCORE.record(0.5, ["shop".into()]);
        claims(Some("shop"), Some(Standing::Grounded), 2);
        cascade_answer("grounding", "local");
        cascade_escalation("grounding");
        evaluate_trace("tone", "evaluated");
        evaluate_result("tone", false);
        trace_outcome(Outcome::Skipped, Some("no_answer: the trace ends without an answer"));
        verdict_latency(second);
        oldest_pending(second);
        assay_in_flight(3);
        self_check("wrong", second);
        self_check_succeeded(second);
        self_check_interval(60.0);
        receive_limit(9);
        spool_limit(9);
        receive_request("grpc", "traces");
        receive_spans("grpc", 5);
        receive_logs("http", 5);
        receive_bytes("http", 5);
        receive_refused("http", "full");
        receive_rejected("http", "zero_trace_id", 2);
        receive_base64_ids("http", 2);
        receive_lateness("http", second);
        receive_held_bytes(7);
        receive_dead_letter("kafka", "unreadable");
        receive_kafka_lag("otlp_spans", 3, 7);
        receive_kafka_partitions(4);
        receive_kafka_connected(true);
        receive_kafka_paused(false);
        receive_kafka_rebalance("assigned");
        receive_kafka_commit("ok");
        receive_kafka_redelivery();
        receive_kafka_vanished();
        receive_kafka_note_cut();
        assemble_live(3, 4);
        assemble_closed(Closed::Root);
        assemble_sessions(2);
        session_verdict(Some("shop"), None, Some(Label::Faithful));
        assemble_handed_over();
        assemble_late_spans("revised", 1);
        assemble_dropped_spans("duplicate", 1);
        convert(second, 1);
        ask_evidence_cut(1);
        decide_queue(1);
        decide_wait(second);
        decide_batch(4, 400, 300, second);
        decide_prefix(1, 2, 300);
        decide_failure(Fault::Fatal);
        decide_remote("ok");
        decide_remote_seconds(second);
        relay_record("ok");
        relay_left_out(1);
        relay_seconds(second);
        relay_connected(true);
        spool_appends("ok", 2);
        spool_commit(2, 100, second);
        spool_held(100, 2);
        spool_recovered(1, 2, 3);
        judge_request("openai", "ok");
        judge_seconds("openai", second);
        judge_limit("openai", 8, second);
        judge_tokens("openai", 10, 20);
        judge_cost(0.25);
        judge_cost(0.5);
        emit_write("kafka", "ok");
        emit_write_seconds("kafka", second);
        emit_trimmed("kafka");
        emit_dead_letter("kafka");
        emit_letter("kafka", "too_large");
        emit_filtered("webhook");
        emit_batch("otlp", 3);
        emit_rejected_records("otlp", 1);
        emit_own_spans("sent", 2);
        emit_in_flight(2);
        serve_request("/metrics", 200);
        serve_feed_readers(1);
        serve_feed_missed(4);
        feedback_word("stored");
        feedback_verdicts("unsure", "faithful", 1);
        feedback_claims("none", "grounded", 1);
        feedback_agreement("claim", None, 1, 2);
        feedback_bytes(7);
        process_started(Time(1_000_000_000));
        process_resident(9);
        process_ready(true);
    }

    #[test]
    fn every_metric_of_the_catalogue_is_rendered_with_its_kind_and_labels() {
        let text = rendered(record_everything);
        assert_eq!(strays(&text), Vec::<String>::new());
        for metric in ALL {
            let kind = format!("# TYPE {} {}\n", metric.name, metric.kind.as_str());
            assert!(text.contains(&kind), "{} is missing", metric.name);
            assert!(text.contains(&format!("# HELP {} ", metric.name)), "{} is not described", metric.name);
        }
        assert!(text.contains("assayd_judge_cost_usd_total 0.75\n"));
        assert!(text.contains("assayd_trace_outcomes_total{outcome=\"skipped\",reason=\"no_answer\"} 1\n"));
        let labels = r#"{service="shop",agent="unknown",label="faithful",tier="proceed"}"#;
        assert!(text.contains(&format!("assayd_verdicts_total{labels} 1\n")));
        assert!(text.contains("assayd_hallucinations_total{service=\"shop\",agent=\"refunds\"} 1\n"));
    }

    #[test]
    fn series_with_closed_labels_are_there_from_the_start() {
        let text = rendered(|| ());
        assert!(text.contains("assayd_receive_refused_total{receiver=\"grpc\",reason=\"full\"} 0\n"));
        assert!(text.contains("assayd_judge_cost_usd_total 0\n"));
        assert!(text.contains("assayd_oldest_pending_seconds 0\n"));
        assert_eq!(strays(&text), Vec::<String>::new());
    }
}
