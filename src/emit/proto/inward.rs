//! From the schema's words to the house's.

use super::{
    Claim, Closed, Counts, Evidence, EvidenceType, Grounding, JudgeMetric, Label, Outcome, ProtoError, Range,
    Standing, TaskAnswer, Tier, Verdict,
};
use crate::domain;
use crate::domain::{SpanId, Time, TraceId};

impl TryFrom<Verdict> for domain::Verdict {
    type Error = ProtoError;

    fn try_from(verdict: Verdict) -> Result<Self, ProtoError> {
        let (outcome, label, closed) = (verdict.outcome(), verdict.label(), verdict.closed());
        known::<Label>("label", verdict.label)?;
        known::<Closed>("closed", verdict.closed)?;
        let provenance = verdict.provenance.unwrap_or_default();
        let usage = verdict.usage.unwrap_or_default();
        let times = verdict.times.unwrap_or_default();
        Ok(Self {
            schema: verdict.schema,
            verdict_id: verdict.verdict_id,
            revision: verdict.revision,
            trace_id: verdict.trace_id.as_deref().map(|bytes| trace_id("trace_id", bytes)).transpose()?,
            session_id: verdict.session_id,
            traces: verdict.traces.iter().map(|bytes| trace_id("traces", bytes)).collect::<Result<_, _>>()?,
            span_ids: verdict
                .span_ids
                .iter()
                .map(|bytes| span_id("span_ids", bytes))
                .collect::<Result<_, _>>()?,
            evaluated_span_id: verdict
                .evaluated_span_id
                .as_deref()
                .map(|bytes| span_id("evaluated_span_id", bytes))
                .transpose()?,
            response_id: verdict.response_id,
            service: verdict.service,
            agent: verdict.agent,
            model: verdict.model,
            service_version: verdict.service_version,
            prompt_version: verdict.prompt_version,
            outcome: match outcome {
                Outcome::Scored => domain::Outcome::Scored,
                Outcome::Skipped => domain::Outcome::Skipped,
                Outcome::Failed => domain::Outcome::Failed,
                Outcome::Unspecified => return Err(unknown("outcome", verdict.outcome)),
            },
            reason: verdict.reason,
            label: match label {
                Label::Faithful => Some(domain::Label::Faithful),
                Label::Hallucination => Some(domain::Label::Hallucination),
                Label::Unsure => Some(domain::Label::Unsure),
                Label::Unspecified => None,
            },
            hallucination_probability: verdict.hallucination_probability,
            grounding: verdict.grounding.map(domain::Grounding::try_from).transpose()?,
            answers: verdict.answers.into_iter().map(|(id, answer)| (id, answer.into())).collect(),
            metrics: verdict
                .metrics
                .into_iter()
                .map(|(name, metric)| Ok((name, metric.try_into()?)))
                .collect::<Result<_, ProtoError>>()?,
            closed: match closed {
                Closed::Root => Some(domain::Closed::Root),
                Closed::Idle => Some(domain::Closed::Idle),
                Closed::Age => Some(domain::Closed::Age),
                Closed::Evict => Some(domain::Closed::Evict),
                Closed::End => Some(domain::Closed::End),
                Closed::Shutdown => Some(domain::Closed::Shutdown),
                Closed::Unspecified => None,
            },
            truncated: verdict.truncated,
            degraded: verdict.degraded,
            judge_error: verdict.judge_error,
            provenance: domain::Provenance {
                decider: provenance.decider,
                judge: provenance.judge,
                plan: provenance.plan,
                thresholds: provenance.thresholds,
                calibration: provenance.calibration,
                prompts: provenance.prompts,
                version: provenance.version,
            },
            usage: domain::Usage {
                decider_tokens: usage.decider_tokens,
                judge_input_tokens: usage.judge_input_tokens,
                judge_output_tokens: usage.judge_output_tokens,
                judge_cost_usd: usage.judge_cost_usd,
            },
            times: domain::Times {
                first_span: times.first_span.map(Time),
                closed: times.closed.map(Time),
                emitted: Time(times.emitted),
            },
            run: verdict.run.map(domain::Trajectory::try_from).transpose()?,
        })
    }
}

impl TryFrom<Grounding> for domain::Grounding {
    type Error = ProtoError;

    fn try_from(grounding: Grounding) -> Result<Self, ProtoError> {
        Ok(Self {
            score: grounding.score,
            tier: tier_of("tier", grounding.tier)?,
            degraded: grounding.degraded,
            counts: counts(grounding.counts),
            claims: grounding
                .claims
                .into_iter()
                .map(domain::AssayedClaim::try_from)
                .collect::<Result<_, _>>()?,
            views: grounding.views.map(domain::Views::try_from).transpose()?,
        })
    }
}

impl TryFrom<Claim> for domain::AssayedClaim {
    type Error = ProtoError;

    fn try_from(claim: Claim) -> Result<Self, ProtoError> {
        let standing = standing("standing", claim.standing)?;
        let evidence_type = evidence_type("evidence_type", claim.evidence_type)?;
        Ok(Self {
            text: claim.text,
            range: range(claim.range),
            standing,
            evidence_type,
            weight: claim.weight,
            probabilities: claim.probabilities,
            confidence: claim.confidence,
            by: claim.by,
            evidence: claim.evidence.into_iter().map(evidence_ref).collect::<Result<_, _>>()?,
            reasoning: claim.reasoning,
            derived: claim.derived,
        })
    }
}

impl From<TaskAnswer> for domain::TaskAnswer {
    fn from(answer: TaskAnswer) -> Self {
        Self {
            kind: answer.r#type,
            label: answer.label,
            probabilities: answer.probabilities,
            confidence: answer.confidence,
            by: answer.by,
            escalated: answer.escalated,
            reasoning: answer.reasoning,
            pass: answer.pass,
        }
    }
}

impl TryFrom<JudgeMetric> for domain::JudgeMetric {
    type Error = ProtoError;

    fn try_from(metric: JudgeMetric) -> Result<Self, ProtoError> {
        let value = metric.value.map(|text| {
            let not_json = |_| ProtoError::Value { field: "metrics.value", found: text.clone() };
            serde_json::from_str(&text).map_err(not_json)
        });
        Ok(Self { value: value.transpose()?, error: metric.error })
    }
}

pub(super) fn tier_of(field: &'static str, number: i32) -> Result<domain::Tier, ProtoError> {
    Tier::try_from(number).ok().and_then(tier).ok_or_else(|| unknown(field, number))
}

pub(super) fn counts(counts: Option<Counts>) -> domain::Counts {
    let counts = counts.unwrap_or_default();
    domain::Counts {
        grounded: counts.grounded,
        ungrounded: counts.ungrounded,
        contradicted: counts.contradicted,
        complementary: counts.complementary,
    }
}

pub(super) fn standing(field: &'static str, number: i32) -> Result<Option<domain::Standing>, ProtoError> {
    match Standing::try_from(number) {
        Ok(Standing::Grounded) => Ok(Some(domain::Standing::Grounded)),
        Ok(Standing::Ungrounded) => Ok(Some(domain::Standing::Ungrounded)),
        Ok(Standing::Contradicted) => Ok(Some(domain::Standing::Contradicted)),
        Ok(Standing::Complementary) => Ok(Some(domain::Standing::Complementary)),
        Ok(Standing::Unspecified) => Ok(None),
        Err(_) => Err(unknown(field, number)),
    }
}

pub(super) fn evidence_type(field: &'static str, number: i32) -> Result<domain::EvidenceType, ProtoError> {
    match EvidenceType::try_from(number) {
        Ok(EvidenceType::ToolMatch) => Ok(domain::EvidenceType::ToolMatch),
        Ok(EvidenceType::SpecificData) => Ok(domain::EvidenceType::SpecificData),
        Ok(EvidenceType::SignalMatch) => Ok(domain::EvidenceType::SignalMatch),
        Ok(EvidenceType::ComplementaryFinding) => Ok(domain::EvidenceType::ComplementaryFinding),
        Ok(EvidenceType::Synthesis) => Ok(domain::EvidenceType::Synthesis),
        Ok(EvidenceType::NegEvidence) => Ok(domain::EvidenceType::NegEvidence),
        Ok(EvidenceType::Inference) => Ok(domain::EvidenceType::Inference),
        Ok(EvidenceType::Domain) => Ok(domain::EvidenceType::Domain),
        Ok(EvidenceType::Unknown) => Ok(domain::EvidenceType::Unknown),
        Ok(EvidenceType::Unspecified) | Err(_) => Err(unknown(field, number)),
    }
}

fn range(range: Option<Range>) -> [usize; 2] {
    let Range { from, to } = range.unwrap_or_default();
    [from, to].map(|position| usize::try_from(position).unwrap_or(usize::MAX))
}

fn evidence_ref(evidence: Evidence) -> Result<domain::EvidenceRef, ProtoError> {
    Ok(domain::EvidenceRef {
        step: usize::try_from(evidence.step).unwrap_or(usize::MAX),
        span_id: evidence.span_id.as_deref().map(|bytes| span_id("evidence.span_id", bytes)).transpose()?,
        range: range(evidence.range),
    })
}

fn trace_id(field: &'static str, bytes: &[u8]) -> Result<TraceId, ProtoError> {
    TraceId::try_from(bytes)
        .map_err(|error| ProtoError::Value { field, found: format!("an id that {error}") })
}

fn span_id(field: &'static str, bytes: &[u8]) -> Result<SpanId, ProtoError> {
    SpanId::try_from(bytes).map_err(|error| ProtoError::Value { field, found: format!("an id that {error}") })
}

/// Refuses numbers of a later version; without this they would read as "unspecified".
fn known<E: TryFrom<i32>>(field: &'static str, number: i32) -> Result<(), ProtoError> {
    E::try_from(number).map(|_| ()).map_err(|_| unknown(field, number))
}

pub(super) fn unknown(field: &'static str, number: i32) -> ProtoError {
    ProtoError::Value { field, found: number.to_string() }
}

/// GSAR's decision; none for one that this version does not know.
pub(super) fn tier(tier: Tier) -> Option<domain::Tier> {
    match tier {
        Tier::Proceed => Some(domain::Tier::Proceed),
        Tier::Regenerate => Some(domain::Tier::Regenerate),
        Tier::Replan => Some(domain::Tier::Replan),
        Tier::Abstain => Some(domain::Tier::Abstain),
        Tier::Unspecified => None,
    }
}
