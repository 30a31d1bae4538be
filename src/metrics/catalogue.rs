//! Every metric: name, kind, unit, labels with their possible values, what it means, and the typed function that records it, in a
//! file for each room. The documentation is made of this.

mod ask;
mod assemble;
mod decide;
mod emit;
mod feedback;
mod gsar;
mod judge;
mod pipeline;
mod process;
mod receive;
mod redact;
mod relay;
mod serve;
mod spool;

pub use self::ask::*;
pub use self::assemble::*;
pub use self::decide::*;
pub use self::emit::*;
pub use self::feedback::*;
pub use self::gsar::*;
pub use self::judge::*;
pub use self::pipeline::*;
pub use self::process::*;
pub use self::receive::*;
pub use self::redact::*;
pub use self::relay::*;
pub use self::serve::*;
pub use self::spool::*;

use super::metric::{Kind, Label, Metric, Values};

/// All metrics, in the order of the flow.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    let rooms = [
        pipeline::METRICS,
        receive::METRICS,
        relay::METRICS,
        spool::METRICS,
        assemble::METRICS,
        ask::METRICS,
        decide::METRICS,
        judge::METRICS,
        emit::METRICS,
        serve::METRICS,
        feedback::METRICS,
        redact::METRICS,
        gsar::METRICS,
        process::METRICS,
    ];
    rooms.into_iter().flatten()
}

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

const SERVICE: Label =
    open("service", "the trace's service.name; the first 200, then other; unknown if missing");
const AGENT: Label = open(
    "agent",
    "the agent that answered; the first 1000 with their service, then other; unknown if missing",
);

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;
    use crate::domain::{Closed, Label, Outcome, Standing, Tier, Time};
    use crate::error::Fault;
    use crate::metrics::recorder::rendered;
    use crate::metrics::{Variant, strays};

    #[test]
    fn names_follow_the_grammar_and_are_unique() {
        let mut names = HashSet::new();
        for metric in all() {
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

    /// Calls every function of the catalogue once.
    fn record_everything() {
        let second = Duration::from_secs(1);
        verdict(Some("shop"), None, Some(Label::Faithful), Some(Tier::Proceed));
        scored(Some("shop"), Some("refunds"), true);
        variant_scored(Some("shop"), Variant { model: Some("large"), ..Variant::default() }, true);
        score(Some("shop"), 0.5);
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
        judge_statement("ok");
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
        serve_full();
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
        for metric in all() {
            let kind = format!("# TYPE {} {}\n", metric.name, metric.kind.as_str());
            assert!(text.contains(&kind), "{} is missing", metric.name);
            assert!(text.contains(&format!("# HELP {} ", metric.name)), "{} is not described", metric.name);
        }
        assert!(text.contains("assayd_judge_cost_usd_total 0.75\n"));
        assert!(text.contains("assayd_trace_outcomes_total{outcome=\"skipped\",reason=\"no_answer\"} 1\n"));
        let labels = r#"{service="shop",agent="unknown",label="faithful",tier="proceed"}"#;
        assert!(text.contains(&format!("assayd_verdicts_total{labels} 1\n")));
        assert!(text.contains("assayd_hallucinations_total{service=\"shop\",agent=\"refunds\"} 1\n"));
        let labels = r#"{service="shop",model="large",service_version="unknown",prompt_version="unknown"}"#;
        assert!(text.contains(&format!("assayd_variant_hallucinations_total{labels} 1\n")));
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
