//! Puts together the record that goes out, for every way a trace can end.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::known::known;
use super::plan::digest;
use super::tasks::task_answers;
use super::views::{counts, views};
use super::{Plan, Run, Stand, hallucination_probability, label, partition, score, tier};
use crate::domain::{
    AnswerBy, Answers, AssayedClaim, Claim, Closed, Ended, Grounding, Nobody, Outcome, Question, Questions,
    Response, Skip, Span, SpanId, Standing, StepKind, Story, Tier, Time, Times, Trace, TraceId, Usage,
    Verdict,
};

/// Grows when a field of the verdict changes its meaning.
const SCHEMA: u32 = 1;

/// Where a story came from. The default is a text that was handed in, not a trace (`/v1/check`).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Origin {
    /// The trace.
    pub trace_id: Option<TraceId>,
    /// How often late spans reopened it.
    pub revision: u32,
    /// A digest of the spans and log records that are known of it.
    pub known: String,
    /// The service that sent it.
    pub service: Option<String>,
    /// Its topmost span.
    pub root: Option<SpanId>,
    /// The model's own ids of responses (`gen_ai.response.id`), by the span that carries one.
    pub response_ids: HashMap<SpanId, String>,
    /// Why it was taken as complete.
    pub closed: Option<Closed>,
    /// What limits cut off before it was read.
    pub truncated: Vec<String>,
    /// When its earliest span began, by the sender's clock.
    pub first_span: Option<Time>,
    /// When it was taken as complete, by this machine's clock.
    pub closed_at: Option<Time>,
}

impl Origin {
    /// Of a trace.
    pub fn of(trace: &Trace) -> Self {
        let service = |span: &crate::domain::Span| span.resource.service().map(str::to_owned);
        let roots = trace.spans.iter().filter(|span| span.parent_id.is_none());
        Self {
            trace_id: Some(trace.trace_id),
            revision: trace.revision,
            known: known(trace),
            service: roots.chain(&trace.spans).find_map(service),
            root: topmost(trace),
            response_ids: trace.spans.iter().filter_map(response_id).collect(),
            closed: Some(trace.closed),
            truncated: trace.truncated.clone(),
            first_span: trace.spans.iter().map(|span| span.start).filter(|start| start.is_known()).min(),
            closed_at: Some(trace.closed_at),
        }
    }
}

/// The earliest span whose parent is not here.
fn topmost(trace: &Trace) -> Option<SpanId> {
    let here: BTreeSet<SpanId> = trace.spans.iter().map(|span| span.span_id).collect();
    let is_top = |span: &&Span| span.parent_id.is_none_or(|parent| !here.contains(&parent));
    let top = trace.spans.iter().filter(is_top).min_by_key(|span| (span.parent_id.is_some(), span.start));
    top.map(|span| span.span_id)
}

fn response_id(span: &Span) -> Option<(SpanId, String)> {
    span.attributes.text("gen_ai.response.id").map(|id| (span.span_id, id.to_owned()))
}

/// The verdict on a story.
///
/// - No claim and no other question: skipped, `no_claims` (a greeting is not a faithful answer), or why claims were not asked
///   about: `not_matched`, `not_sampled`, `not_asked`. Other questions that nobody answered: skipped, `unanswered`.
/// - Claims, all without an answer because the decision model failed: failed, `decider_failed`. An error is not a score.
/// - No claim, and other questions with an answer: scored, without a label and without a grounding score.
/// - Else scored. The tier is `abstain` where fewer claims than `score.min_answered` were answered, none of them included
///   (there was no evidence, or nobody who can answer); S is then over the answered ones, 0.5 if there is none.
pub fn verdict(
    origin: &Origin,
    story: &Story,
    questions: &Questions,
    answers: &Answers,
    plan: &Plan,
    now: Time,
) -> Verdict {
    let plan = &*plan.of(story.service.as_deref().or(origin.service.as_deref()));
    let by_id = Lookup::new(questions, answers);
    let (claims, stands): (Vec<AssayedClaim>, Vec<Stand>) = questions
        .claims
        .iter()
        .enumerate()
        .map(|(index, claim)| assayed(claim, by_id.response(&Questions::claim_id(index)), &by_id, plan))
        .unzip();
    let others = task_answers(&by_id, questions, answers);

    let mut verdict = bare(origin, plan, now);
    verdict.session_id = story.session_id.clone();
    verdict.span_ids = span_ids(story);
    verdict.evaluated_span_id = answering_span(story).or(origin.root);
    verdict.response_id = verdict.evaluated_span_id.and_then(|span| origin.response_ids.get(&span)).cloned();
    verdict.service = story.service.clone().or(verdict.service);
    verdict.agent = answering_agent(story);
    verdict.model = story.model.clone();
    verdict.service_version = story.service_version.clone();
    verdict.prompt_version = story.prompt_version.clone();
    add_new(&mut verdict.truncated, &story.truncated);
    add_new(&mut verdict.truncated, &questions.truncated);
    add_new(&mut verdict.truncated, &answers.truncated);
    verdict.judge_error = answers.judge_error.clone();
    verdict.provenance = plan.provenance(answers.judge.clone());
    verdict.usage = answers.usage;
    verdict.answers = others;
    verdict.metrics = answers.metrics.clone();
    if origin.trace_id.is_none() {
        let told = serde_json::to_string(story).unwrap_or_default();
        verdict.verdict_id = digest(&["text", &told, &plan.hash]);
    }

    let unanswered = stands.iter().filter(|stand| stand.standing.is_none()).count();
    verdict.degraded = answers.degraded || answers.judge_error.is_some() || unanswered > 0;
    let failed =
        answers.responses.iter().any(|response| matches!(response.by, AnswerBy::Nobody(Nobody::Failed(_))));
    let is_silent = verdict.answers.values().all(|answer| answer.label.is_none())
        && verdict.metrics.values().all(|metric| metric.value.is_none());
    if unanswered == claims.len() && is_silent {
        if failed {
            verdict.outcome = Outcome::Failed;
            verdict.reason = Some("decider_failed".to_owned());
            return verdict;
        }
        if claims.is_empty() {
            verdict.outcome = Outcome::Skipped;
            let is_asked = !questions.inquiries.is_empty() || !questions.measures.is_empty();
            let reason = if is_asked { "unanswered" } else { questions.unclaimed.unwrap_or("no_claims") };
            verdict.reason = Some(reason.to_owned());
            return verdict;
        }
    }

    verdict.outcome = Outcome::Scored;
    if claims.is_empty() {
        return verdict;
    }
    verdict.label = Some(label(&stands, &plan.score.label));
    verdict.hallucination_probability = hallucination_probability(&stands);
    let mut grounding = grounding(claims, unanswered, verdict.degraded, plan);
    grounding.views = answers
        .partition
        .as_ref()
        .map(|judged| views(&grounding.claims, by_id.local(grounding.claims.len()), judged, &plan.score));
    verdict.grounding = Some(grounding);
    verdict
}

/// The verdict on a trace that has no story to evaluate.
pub fn skipped(origin: &Origin, skip: &Skip, plan: &Plan, now: Time) -> Verdict {
    Verdict { outcome: Outcome::Skipped, reason: Some(skip.reason().to_owned()), ..bare(origin, plan, now) }
}

/// The verdict on a trace that could not be evaluated. `reason` is a word, such as `panicked`.
pub fn failed(origin: &Origin, reason: &str, plan: &Plan, now: Time) -> Verdict {
    Verdict {
        outcome: Outcome::Failed,
        reason: Some(reason.to_owned()),
        degraded: true,
        ..bare(origin, plan, now)
    }
}

/// The verdict on a run of GSAR's loop that has ended: that on its last round, with the whole run beside it. It cost what all
/// rounds cost.
pub fn of_run(run: &Run, plan: &Plan, now: Time) -> Verdict {
    let origin = Origin { trace_id: run.trace_id, service: run.service.clone(), ..Origin::default() };
    let ended = run.ended.map_or("unfinished", Ended::as_str);
    let mut verdict = match run.rounds.last() {
        Some(round) => round.verdict.clone(),
        None => failed(&origin, &format!("run_{ended}"), plan, now),
    };
    verdict.verdict_id = digest(&["run", &run.id, &plan.hash]);
    verdict.trace_id = run.trace_id;
    verdict.service = run.service.clone();
    verdict.degraded |= run.is_degraded();
    verdict.usage = run.usage();
    verdict.times.emitted = now;
    verdict.run = run.trajectory();
    verdict
}

/// What every verdict says, whatever its outcome.
fn bare(origin: &Origin, plan: &Plan, now: Time) -> Verdict {
    let trace = origin.trace_id.map(|id| id.to_string()).unwrap_or_default();
    Verdict {
        schema: SCHEMA,
        // Neither time nor outcome enters, nor the revision, which begins anew when a process does: a repeat after a crash has the
        // id of the first, and a verdict that knows more or less has another.
        verdict_id: digest(&["trace", &trace, &origin.known, &plan.hash]),
        revision: origin.revision,
        trace_id: origin.trace_id,
        session_id: None,
        traces: Vec::new(),
        span_ids: Vec::new(),
        evaluated_span_id: origin.root,
        response_id: None,
        service: origin.service.clone(),
        agent: None,
        model: None,
        service_version: None,
        prompt_version: None,
        outcome: Outcome::Failed,
        reason: None,
        label: None,
        hallucination_probability: None,
        grounding: None,
        answers: BTreeMap::new(),
        metrics: BTreeMap::new(),
        closed: origin.closed,
        truncated: origin.truncated.clone(),
        degraded: false,
        judge_error: None,
        provenance: plan.of(origin.service.as_deref()).provenance(None),
        usage: Usage::default(),
        times: Times { first_span: origin.first_span, closed: origin.closed_at, emitted: now },
        run: None,
    }
}

/// Questions and responses by id.
pub(super) struct Lookup<'a> {
    questions: HashMap<&'a str, &'a Question>,
    responses: HashMap<&'a str, &'a Response>,
}

impl<'a> Lookup<'a> {
    fn new(questions: &'a Questions, answers: &'a Answers) -> Self {
        let ruled = questions.ruled.iter().map(|(question, _)| question);
        let all = questions.inquiries.iter().flat_map(|inquiry| &inquiry.questions).chain(ruled);
        Self {
            questions: all.map(|question| (question.id.as_str(), question)).collect(),
            responses: answers.responses.iter().map(|response| (response.id.as_str(), response)).collect(),
        }
    }

    /// The question with this id.
    pub(super) fn question(&self, id: &str) -> Option<&'a Question> {
        self.questions.get(id).copied()
    }

    fn response(&self, id: &str) -> Option<&'a Response> {
        self.responses.get(id).copied()
    }

    /// Where the decision model puts each of the first `claims` claims.
    fn local(&self, claims: usize) -> Vec<Option<Standing>> {
        let standing = |claim| {
            let id = Questions::claim_id(claim);
            let decision = self.response(&id)?.decision.as_ref()?;
            let labels = self.questions.get(id.as_str())?.kind.labels();
            Standing::parse(labels.get(decision.pick())?)
        };
        (0..claims).map(standing).collect()
    }

    /// The decision model's probabilities, by label.
    pub(super) fn probabilities(&self, response: &Response) -> BTreeMap<String, f64> {
        let Some(question) = self.questions.get(response.id.as_str()) else { return BTreeMap::new() };
        let Some(decision) = &response.decision else { return BTreeMap::new() };
        question.kind.labels().into_iter().zip(decision.probabilities.iter().copied()).collect()
    }
}

fn assayed(claim: &Claim, response: Option<&Response>, by_id: &Lookup, plan: &Plan) -> (AssayedClaim, Stand) {
    let standing = response.and_then(|response| response.label.as_deref()).and_then(Standing::parse);
    let probabilities = response.map(|response| by_id.probabilities(response)).unwrap_or_default();
    let supported = (!probabilities.is_empty()).then(|| {
        let of = |standing: Standing| probabilities.get(standing.as_str()).copied().unwrap_or(0.0);
        of(Standing::Grounded) + of(Standing::Complementary)
    });
    let stand = Stand {
        standing,
        supported,
        judged: response.is_some_and(|response| response.by == AnswerBy::Judge),
    };
    let claim = AssayedClaim {
        text: claim.text.clone(),
        range: claim.range,
        standing,
        evidence_type: claim.evidence_type,
        weight: plan.score.weights.of(claim.evidence_type),
        probabilities,
        confidence: response.and_then(|response| response.confidence),
        by: response.map_or("nobody", |response| by_word(&response.by)).to_owned(),
        evidence: claim.evidence.clone(),
        derived: claim.derived.clone(),
        reasoning: response.and_then(reasoning),
    };
    (claim, stand)
}

fn grounding(claims: Vec<AssayedClaim>, unanswered: usize, degraded: bool, plan: &Plan) -> Grounding {
    let standings: Vec<Option<Standing>> = claims.iter().map(|claim| claim.standing).collect();
    let weights: Vec<f64> = claims.iter().map(|claim| claim.weight).collect();
    let parts = partition(&standings);
    let s = score(&parts, &weights, plan.score.contradiction_penalty);
    let answered = claims.len() - unanswered;
    let abstain = answered == 0 || (answered as f64) < plan.score.min_answered * claims.len() as f64;
    Grounding {
        score: s,
        tier: if abstain { Tier::Abstain } else { tier(s, &plan.score) },
        degraded,
        counts: counts(&parts),
        claims,
        views: None,
    }
}

pub(super) fn by_word(by: &AnswerBy) -> &'static str {
    match by {
        AnswerBy::Local => "local",
        AnswerBy::Judge => "judge",
        AnswerBy::Rule => "rule",
        AnswerBy::Nobody(_) => "nobody",
    }
}

/// The judge's reasoning, or why nobody answered.
pub(super) fn reasoning(response: &Response) -> Option<String> {
    match &response.by {
        AnswerBy::Nobody(Nobody::Failed(how)) => Some(format!("failed: {how}")),
        AnswerBy::Nobody(nobody) => Some(match &response.reasoning {
            Some(more) => format!("{}; {more}", nobody.reason()),
            None => nobody.reason().to_owned(),
        }),
        AnswerBy::Local | AnswerBy::Judge | AnswerBy::Rule => response.reasoning.clone(),
    }
}

/// The spans that told the story, each once, in its order.
fn span_ids(story: &Story) -> Vec<SpanId> {
    let mut seen = BTreeSet::new();
    story.steps.iter().filter_map(|step| step.span_id).filter(|id| seen.insert(*id)).collect()
}

/// The span whose output is the answer, if one tells it.
fn answering_span(story: &Story) -> Option<SpanId> {
    let answer = story.steps.iter().rev().find(|step| step.kind == StepKind::Answer);
    answer.and_then(|step| step.span_id)
}

fn answering_agent(story: &Story) -> Option<String> {
    let answer = story.steps.iter().rev().find(|step| step.kind == StepKind::Answer);
    answer.and_then(|step| step.agent.clone()).or_else(|| story.agents.last().cloned())
}

fn add_new(known: &mut Vec<String>, more: &[String]) {
    for cut in more {
        if !known.contains(cut) {
            known.push(cut.clone());
        }
    }
}

#[cfg(test)]
mod tests;
