//! From a complete trace to its verdict: the cascade, the evaluators, the house's checks of itself.

use std::time::Duration;

use metrics::SharedString;

use super::assemble::session_verdict;
use super::{AGENT, LONG_SECONDS, SECONDS, SERVICE, closed, counter, gauge, histogram, open};
use crate::domain::{Label, Outcome, Standing, Tier, Verdict};
use crate::metrics::labels::{self, Variant};
use crate::metrics::metric::{Label as MetricLabel, Metric};

pub(super) const METRICS: &[Metric] = &[
    VERDICTS,
    HALLUCINATIONS,
    SCORED,
    VARIANT_SCORED,
    VARIANT_HALLUCINATIONS,
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
];

const SCORES: &[f64] = &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0];
const QUESTION: MetricLabel =
    open("question", "grounding, or the question's id in the configuration; a bounded number, then other");
const EVALUATOR: MetricLabel = open(
    "evaluator",
    "the evaluator's or own metric's name in the configuration; a bounded number, then other",
);

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
        let is_hallucination = written.label == Some(Label::Hallucination);
        scored(service, agent, is_hallucination);
        let variant = Variant {
            model: written.model.as_deref(),
            service_version: written.service_version.as_deref(),
            prompt_version: written.prompt_version.as_deref(),
        };
        variant_scored(service, variant, is_hallucination);
    }
    if let Some(grounding) = &written.grounding {
        score(service, grounding.score);
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

const VERDICTS: Metric = counter(
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

/// A verdict reached every sink.
pub fn verdict(service: Option<&str>, agent: Option<&str>, label: Option<Label>, tier: Option<Tier>) {
    let (service, agent) = labels::service_and_agent(service, agent);
    let label = label.map_or("none", Label::as_str);
    let tier = tier.map_or("none", Tier::as_str);
    VERDICTS.add(1, [service.into(), agent.into(), label.into(), tier.into()]);
}

const HALLUCINATIONS: Metric = counter(
    "assayd_hallucinations_total",
    "verdicts",
    &[SERVICE, AGENT],
    "Verdicts with label hallucination; divide by assayd_scored_total for the rate.",
);

const SCORED: Metric = counter(
    "assayd_scored_total",
    "verdicts",
    &[SERVICE, AGENT],
    "Verdicts with outcome scored, whatever their label.",
);

/// An answer was scored, and whether it is a hallucination.
pub fn scored(service: Option<&str>, agent: Option<&str>, hallucination: bool) {
    let (service, agent) = labels::service_and_agent(service, agent);
    let values: [SharedString; 2] = [service.into(), agent.into()];
    HALLUCINATIONS.add(u64::from(hallucination), values.clone());
    SCORED.add(1, values);
}

const MODEL: MetricLabel = open(
    "model",
    "the agent's model; of the triples of model, service_version and prompt_version the first 50 of each service and 1000 in \
     all, then other; unknown if missing",
);
const SERVICE_VERSION: MetricLabel = open("service_version", "service.version; as model");
const PROMPT_VERSION: MetricLabel =
    open("prompt_version", "the prompt's version as spans tell it, with its name where they do; as model");

const VARIANT_SCORED: Metric = counter(
    "assayd_variant_scored_total",
    "verdicts",
    &[SERVICE, MODEL, SERVICE_VERSION, PROMPT_VERSION],
    "As assayd_scored_total, by the model, release and prompt that gave the answer.",
);

const VARIANT_HALLUCINATIONS: Metric = counter(
    "assayd_variant_hallucinations_total",
    "verdicts",
    &[SERVICE, MODEL, SERVICE_VERSION, PROMPT_VERSION],
    "As assayd_hallucinations_total, by the model, release and prompt that gave the answer.",
);

/// An answer was scored, by the model, release and prompt that gave it.
pub fn variant_scored(service: Option<&str>, variant: Variant<'_>, hallucination: bool) {
    let (service, [model, service_version, prompt_version]) = labels::service_and_variant(service, variant);
    let values: [SharedString; 4] =
        [service.into(), model.into(), service_version.into(), prompt_version.into()];
    VARIANT_HALLUCINATIONS.add(u64::from(hallucination), values.clone());
    VARIANT_SCORED.add(1, values);
}

const CLAIMS: Metric = counter(
    "assayd_claims_total",
    "claims",
    &[SERVICE, closed("standing", &["grounded", "ungrounded", "contradicted", "complementary", "none"])],
    "Claims of scored answers by their standing against the evidence; none if nobody could say.",
);

/// Claims of a scored answer that stand alike.
pub fn claims(service: Option<&str>, standing: Option<Standing>, count: usize) {
    let standing = standing.map_or("none", Standing::as_str);
    CLAIMS.add(count as u64, [labels::service(service).into(), standing.into()]);
}

const SCORE: Metric =
    histogram("assayd_score_ratio", "ratio", SCORES, &[SERVICE], "Grounding scores S of scored answers.");

/// The grounding score of a scored answer.
pub fn score(service: Option<&str>, score: f64) {
    SCORE.record(score, [labels::service(service).into()]);
}

const CASCADE_ANSWERS: Metric = counter(
    "assayd_cascade_answers_total",
    "answers",
    &[QUESTION, closed("by", &["local", "judge", "rule", "nobody"])],
    "Answers to typed questions by who gave them.",
);

/// An answer of the cascade: `question` is `grounding` or an id of the configuration, `by` is `local`, `judge`, `rule` or `nobody`.
pub fn cascade_answer(question: &str, by: &'static str) {
    CASCADE_ANSWERS.add(1, [labels::word("question", question).into(), by.into()]);
}

const CASCADE_ESCALATIONS: Metric = counter(
    "assayd_cascade_escalations_total",
    "questions",
    &[QUESTION],
    "Questions that were sent to the judge, answered or not.",
);

/// A question was sent to the judge.
pub fn cascade_escalation(question: &str) {
    CASCADE_ESCALATIONS.add(1, [labels::word("question", question).into()]);
}

const EVALUATE_TRACES: Metric = counter(
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

/// What became of a story for an evaluator: `evaluated`, `unanswered`, `failed`, or why it was not asked.
pub fn evaluate_trace(evaluator: &str, result: &'static str) {
    EVALUATE_TRACES.add(1, [labels::word("evaluator", evaluator).into(), result.into()]);
}

const EVALUATE_RESULTS: Metric = counter(
    "assayd_evaluate_results_total",
    "answers",
    &[EVALUATOR, closed("result", &["pass", "fail"])],
    "Answers of evaluators that have failing labels, by whether the label is one of them.",
);

/// Whether an evaluator's answer passes.
pub fn evaluate_result(evaluator: &str, pass: bool) {
    let result = if pass { "pass" } else { "fail" };
    EVALUATE_RESULTS.add(1, [labels::word("evaluator", evaluator).into(), result.into()]);
}

const TRACE_OUTCOMES: Metric = counter(
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

/// A trace ended; of `reason` the first word counts, what follows a colon is for people.
pub fn trace_outcome(outcome: Outcome, reason: Option<&str>) {
    let word = reason.map(|reason| reason.split([':', ' ']).next().unwrap_or_default());
    let word = word.map_or_else(|| "none".to_owned(), |word| labels::word("reason", word));
    TRACE_OUTCOMES.add(1, [outcome.as_str().into(), word.into()]);
}

const VERDICT_LATENCY: Metric = histogram(
    "assayd_verdict_latency_seconds",
    "seconds",
    LONG_SECONDS,
    &[],
    "From the moment a trace was taken as complete until its verdict was safe in every sink.",
);

/// From a trace's completion until its verdict was safe.
pub fn verdict_latency(latency: Duration) {
    VERDICT_LATENCY.record(latency.as_secs_f64(), []);
}

const OLDEST_PENDING: Metric = gauge(
    "assayd_oldest_pending_seconds",
    "seconds",
    &[],
    "Age since completion of the oldest trace that has no verdict yet; 0 if there is none.",
);

/// Age of the oldest complete trace without a verdict; zero if there is none.
pub fn oldest_pending(age: Duration) {
    OLDEST_PENDING.set(age.as_secs_f64(), []);
}

const ASSAY_IN_FLIGHT: Metric =
    gauge("assayd_assay_in_flight_traces", "traces", &[], "Complete traces that are being evaluated now.");

/// Complete traces that are being evaluated now.
pub fn assay_in_flight(traces: usize) {
    ASSAY_IN_FLIGHT.set(traces as f64, []);
}

const SELF_CHECKS: Metric = counter(
    "assayd_self_check_runs_total",
    "checks",
    &[closed("result", &["ok", "wrong", "failed"])],
    "Checks of a known true and a known false answer: ok if the false one looks worse, wrong if not, failed if one was not \
     evaluated.",
);

const SELF_CHECK_SECONDS: Metric =
    histogram("assayd_self_check_seconds", "seconds", SECONDS, &[], "Time of a self-check.");

/// A self-check ended: `result` is `ok`, `wrong` or `failed`.
pub fn self_check(result: &'static str, took: Duration) {
    SELF_CHECKS.add(1, [result.into()]);
    SELF_CHECK_SECONDS.record(took.as_secs_f64(), []);
}

const SELF_CHECK_SUCCESS: Metric = gauge(
    "assayd_self_check_success_timestamp_seconds",
    "seconds",
    &[],
    "When the last self-check was evaluated, right or wrong, since the Unix epoch; 0 before the first.",
);

/// A self-check was evaluated, so long after the Unix epoch.
pub fn self_check_succeeded(since_epoch: Duration) {
    SELF_CHECK_SUCCESS.set(since_epoch.as_secs_f64(), []);
}

const SELF_CHECK_INTERVAL: Metric = gauge(
    "assayd_self_check_interval_seconds",
    "seconds",
    &[],
    "The setting flow.self_check; 0 if there are none, as in a process that evaluates nothing.",
);

/// How often the house checks itself; 0 if it does not.
pub fn self_check_interval(seconds: f64) {
    SELF_CHECK_INTERVAL.set(seconds, []);
}
