//! The record that goes out for every admitted trace.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Closed, EvidenceRef, EvidenceType, Json, SpanId, Standing, Time, TraceId, Trajectory, Views};

/// How a trace ended. Every admitted trace ends in exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It was evaluated.
    Scored,
    /// There is nothing to evaluate; `reason` says why.
    Skipped,
    /// It could not be evaluated; `reason` says why.
    Failed,
}

impl Outcome {
    /// The word that metrics use.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Scored => "scored",
            Outcome::Skipped => "skipped",
            Outcome::Failed => "failed",
        }
    }
}

/// The answer as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Label {
    /// Every claim stands grounded or complementary, with confidence.
    Faithful,
    /// A claim stands ungrounded or contradicted, with confidence.
    Hallucination,
    /// Neither can be said with confidence.
    Unsure,
}

impl Label {
    /// The word that metrics use.
    pub fn as_str(self) -> &'static str {
        match self {
            Label::Faithful => "faithful",
            Label::Hallucination => "hallucination",
            Label::Unsure => "unsure",
        }
    }
}

/// GSAR's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// The answer can go out.
    Proceed,
    /// Write the answer again from the same evidence.
    Regenerate,
    /// Gather new evidence.
    Replan,
    /// No decision can be made.
    Abstain,
}

impl Tier {
    /// The word that metrics use.
    pub fn as_str(self) -> &'static str {
        match self {
            Tier::Proceed => "proceed",
            Tier::Regenerate => "regenerate",
            Tier::Replan => "replan",
            Tier::Abstain => "abstain",
        }
    }
}

/// How many claims stand where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// G.
    pub grounded: u32,
    /// U.
    pub ungrounded: u32,
    /// X.
    pub contradicted: u32,
    /// K.
    pub complementary: u32,
}

/// A claim with its standing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AssayedClaim {
    /// Its text, as it stands in the answer.
    pub text: String,
    /// Characters (Unicode code points) of the answer, from and up to.
    pub range: [usize; 2],
    /// Where it stands; none if nobody could say.
    pub standing: Option<Standing>,
    /// What kind of evidence it rests on.
    pub evidence_type: EvidenceType,
    /// That kind's weight in the score.
    pub weight: f64,
    /// The decision model's probabilities, by label.
    #[serde(default)]
    pub probabilities: BTreeMap<String, f64>,
    /// How sure the decision model is.
    pub confidence: Option<f64>,
    /// `local`, `judge` or `nobody`.
    pub by: String,
    /// The pieces of evidence that matter most.
    pub evidence: Vec<EvidenceRef>,
    /// Lines that no tool has said: what follows from the evidence by counting and simple arithmetic. Models read them below it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub derived: Vec<String>,
    /// The judge's reasoning, or why nobody answered.
    pub reasoning: Option<String>,
}

/// GSAR's score and what it is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Grounding {
    /// S, from 0 to 1.
    pub score: f64,
    /// The decision.
    pub tier: Tier,
    /// Whether a part could not be evaluated as planned (judge failed, budget spent, unanswered claims).
    pub degraded: bool,
    /// How many claims stand where.
    pub counts: Counts,
    /// The claims, in order of the answer.
    pub claims: Vec<AssayedClaim>,
    /// The decision model's partition and the judge's, where the judge was asked for one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub views: Option<Views>,
}

/// The answer to a question of the plan that is not about grounding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskAnswer {
    /// `noul`, `choice` or `score`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The pick; none if nobody answered.
    pub label: Option<String>,
    /// The decision model's probabilities, by label.
    #[serde(default)]
    pub probabilities: BTreeMap<String, f64>,
    /// How sure the decision model is.
    pub confidence: Option<f64>,
    /// `local`, `judge`, `rule` or `nobody`.
    pub by: String,
    /// Whether the judge was asked.
    pub escalated: bool,
    /// The judge's or the rule's reasoning, or why nobody answered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reasoning: Option<String>,
    /// Whether the label is none of those that its evaluator calls a failure; none if there is no label, or no such list.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pass: Option<bool>,
}

/// The judge's answer to a metric of the operator's own.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct JudgeMetric {
    /// The value; valid by the metric's schema. None if there is an error.
    pub value: Option<Json>,
    /// Why there is no value.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

/// What made a verdict; two verdicts with equal provenance are comparable.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Provenance {
    /// The decision model's name.
    pub decider: String,
    /// The judge's model, if it was asked.
    pub judge: Option<String>,
    /// Hash of questions, prompts, thresholds and models.
    pub plan: String,
    /// The thresholds in force, by name.
    pub thresholds: BTreeMap<String, f64>,
    /// The calibration in force: `calibrated:` or `uncalibrated:` (whether people gave its labels) and its digest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub calibration: Option<String>,
    /// Digest of the judge's prompt templates, if it was asked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prompts: Option<String>,
    /// assayd's version.
    pub version: String,
}

/// What a verdict cost.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens that the decision model read.
    pub decider_tokens: u64,
    /// Tokens that went to the judge, over all attempts.
    pub judge_input_tokens: u64,
    /// Tokens that came from the judge, over all attempts.
    pub judge_output_tokens: u64,
    /// What the judge cost, by the price table in config.
    pub judge_cost_usd: f64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        self.decider_tokens += more.decider_tokens;
        self.judge_input_tokens += more.judge_input_tokens;
        self.judge_output_tokens += more.judge_output_tokens;
        self.judge_cost_usd += more.judge_cost_usd;
    }
}

/// When things happened, by this machine's clock, but for `first_span`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// When the trace's earliest span began, by the sender's clock.
    pub first_span: Option<Time>,
    /// When the trace was taken as complete.
    pub closed: Option<Time>,
    /// When the verdict was made.
    pub emitted: Time,
}

/// The record that goes out for every admitted trace; see DESIGN in `docs/design.md` for its JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// 1; grows when a field changes its meaning.
    pub schema: u32,
    /// Equal if trace, known spans and log records, and plan are: readers drop repeats by it. What knows more has another.
    pub verdict_id: String,
    /// 0 the first time; one more each time late spans reopened the trace. Begins anew with the process.
    pub revision: u32,
    /// The trace; none for `/v1/check` and for a conversation.
    pub trace_id: Option<TraceId>,
    /// The conversation or session.
    pub session_id: Option<String>,
    /// Of a verdict on a conversation: the traces that it covers. Empty, and absent in JSON, for all others.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub traces: Vec<TraceId>,
    /// The spans that told the story.
    pub span_ids: Vec<SpanId>,
    /// The span whose output is the answer, else the topmost one that arrived: where the verdict belongs in the trace.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub evaluated_span_id: Option<SpanId>,
    /// That span's `gen_ai.response.id`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub response_id: Option<String>,
    /// `service.name`.
    pub service: Option<String>,
    /// The agent that answered.
    pub agent: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// `service.version`; absent in JSON if the resource does not tell it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub service_version: Option<String>,
    /// The version of the prompt that the answer was written with, as `NAME@VERSION`; absent in JSON if no span tells it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prompt_version: Option<String>,
    /// How the trace ended.
    pub outcome: Outcome,
    /// Why, if it was not scored.
    pub reason: Option<String>,
    /// The answer as a whole; none if not scored, or if it makes no claim.
    pub label: Option<Label>,
    /// The largest over the claims of 1 − p(grounded) − p(complementary); none if no claim has probabilities.
    pub hallucination_probability: Option<f64>,
    /// GSAR's score; none if not scored, or if the answer makes no claim.
    pub grounding: Option<Grounding>,
    /// Answers to the plan's other questions, by id.
    pub answers: BTreeMap<String, TaskAnswer>,
    /// Values of the operator's own metrics, by name; absent in JSON if there are none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub metrics: BTreeMap<String, JudgeMetric>,
    /// Why the trace was taken as complete; none for `/v1/check`.
    pub closed: Option<Closed>,
    /// What was cut, by the sender, by the assembler or for the model.
    pub truncated: Vec<String>,
    /// Whether anything could not be evaluated as planned.
    pub degraded: bool,
    /// Why the judge did not answer, if it was asked and did not.
    pub judge_error: Option<String>,
    /// What made this verdict.
    pub provenance: Provenance,
    /// What it cost.
    pub usage: Usage,
    /// When things happened.
    pub times: Times,
    /// The rounds of GSAR's loop that led to this answer; absent outside of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Trajectory>,
}
