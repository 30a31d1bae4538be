//! From the house's words to the schema's.

use super::{
    Claim, Closed, Counts, Evidence, EvidenceType, Grounding, JudgeMetric, Label, Outcome, Provenance, Range,
    Standing, TaskAnswer, Tier, Times, Trajectory, Usage, Verdict, Views,
};
use crate::domain;

impl From<&domain::Verdict> for Verdict {
    fn from(verdict: &domain::Verdict) -> Self {
        Self {
            schema: verdict.schema,
            verdict_id: verdict.verdict_id.clone(),
            revision: verdict.revision,
            trace_id: verdict.trace_id.map(|id| id.as_bytes().to_vec()),
            session_id: verdict.session_id.clone(),
            traces: verdict.traces.iter().map(|id| id.as_bytes().to_vec()).collect(),
            span_ids: verdict.span_ids.iter().map(|id| id.as_bytes().to_vec()).collect(),
            evaluated_span_id: verdict.evaluated_span_id.map(|id| id.as_bytes().to_vec()),
            response_id: verdict.response_id.clone(),
            service: verdict.service.clone(),
            agent: verdict.agent.clone(),
            model: verdict.model.clone(),
            service_version: verdict.service_version.clone(),
            prompt_version: verdict.prompt_version.clone(),
            outcome: Outcome::from(verdict.outcome).into(),
            reason: verdict.reason.clone(),
            label: verdict.label.map_or(Label::Unspecified, Label::from).into(),
            hallucination_probability: verdict.hallucination_probability,
            grounding: verdict.grounding.as_ref().map(Grounding::from),
            answers: verdict.answers.iter().map(|(id, answer)| (id.clone(), answer.into())).collect(),
            metrics: verdict.metrics.iter().map(|(name, metric)| (name.clone(), metric.into())).collect(),
            closed: verdict.closed.map_or(Closed::Unspecified, Closed::from).into(),
            truncated: verdict.truncated.clone(),
            degraded: verdict.degraded,
            judge_error: verdict.judge_error.clone(),
            provenance: Some(Provenance {
                decider: verdict.provenance.decider.clone(),
                judge: verdict.provenance.judge.clone(),
                plan: verdict.provenance.plan.clone(),
                thresholds: verdict.provenance.thresholds.clone(),
                version: verdict.provenance.version.clone(),
                calibration: verdict.provenance.calibration.clone(),
                prompts: verdict.provenance.prompts.clone(),
            }),
            usage: Some(Usage {
                decider_tokens: verdict.usage.decider_tokens,
                judge_input_tokens: verdict.usage.judge_input_tokens,
                judge_output_tokens: verdict.usage.judge_output_tokens,
                judge_cost_usd: verdict.usage.judge_cost_usd,
            }),
            times: Some(Times {
                first_span: verdict.times.first_span.map(|time| time.0),
                closed: verdict.times.closed.map(|time| time.0),
                emitted: verdict.times.emitted.0,
            }),
            run: verdict.run.as_ref().map(Trajectory::from),
        }
    }
}

impl From<&domain::Grounding> for Grounding {
    fn from(grounding: &domain::Grounding) -> Self {
        Self {
            score: grounding.score,
            tier: Tier::from(grounding.tier).into(),
            degraded: grounding.degraded,
            counts: Some(grounding.counts.into()),
            claims: grounding.claims.iter().map(Claim::from).collect(),
            views: grounding.views.as_ref().map(Views::from),
        }
    }
}

impl From<domain::Counts> for Counts {
    fn from(counts: domain::Counts) -> Self {
        Self {
            grounded: counts.grounded,
            ungrounded: counts.ungrounded,
            contradicted: counts.contradicted,
            complementary: counts.complementary,
        }
    }
}

impl From<&domain::AssayedClaim> for Claim {
    fn from(claim: &domain::AssayedClaim) -> Self {
        Self {
            text: claim.text.clone(),
            range: Some(claim.range.into()),
            standing: claim.standing.map_or(Standing::Unspecified, Standing::from).into(),
            evidence_type: EvidenceType::from(claim.evidence_type).into(),
            weight: claim.weight,
            probabilities: claim.probabilities.clone(),
            confidence: claim.confidence,
            by: claim.by.clone(),
            evidence: claim
                .evidence
                .iter()
                .map(|evidence| Evidence {
                    step: evidence.step as u64,
                    span_id: evidence.span_id.map(|id| id.as_bytes().to_vec()),
                    range: Some(evidence.range.into()),
                })
                .collect(),
            reasoning: claim.reasoning.clone(),
            derived: claim.derived.clone(),
        }
    }
}

impl From<&domain::TaskAnswer> for TaskAnswer {
    fn from(answer: &domain::TaskAnswer) -> Self {
        Self {
            r#type: answer.kind.clone(),
            label: answer.label.clone(),
            probabilities: answer.probabilities.clone(),
            confidence: answer.confidence,
            by: answer.by.clone(),
            escalated: answer.escalated,
            reasoning: answer.reasoning.clone(),
            pass: answer.pass,
        }
    }
}

impl From<&domain::JudgeMetric> for JudgeMetric {
    fn from(metric: &domain::JudgeMetric) -> Self {
        Self { value: metric.value.as_ref().map(ToString::to_string), error: metric.error.clone() }
    }
}

impl From<domain::Outcome> for Outcome {
    fn from(outcome: domain::Outcome) -> Self {
        match outcome {
            domain::Outcome::Scored => Outcome::Scored,
            domain::Outcome::Skipped => Outcome::Skipped,
            domain::Outcome::Failed => Outcome::Failed,
        }
    }
}

impl From<domain::Label> for Label {
    fn from(label: domain::Label) -> Self {
        match label {
            domain::Label::Faithful => Label::Faithful,
            domain::Label::Hallucination => Label::Hallucination,
            domain::Label::Unsure => Label::Unsure,
        }
    }
}

impl From<domain::Tier> for Tier {
    fn from(tier: domain::Tier) -> Self {
        match tier {
            domain::Tier::Proceed => Tier::Proceed,
            domain::Tier::Regenerate => Tier::Regenerate,
            domain::Tier::Replan => Tier::Replan,
            domain::Tier::Abstain => Tier::Abstain,
        }
    }
}

impl From<domain::Standing> for Standing {
    fn from(standing: domain::Standing) -> Self {
        match standing {
            domain::Standing::Grounded => Standing::Grounded,
            domain::Standing::Ungrounded => Standing::Ungrounded,
            domain::Standing::Contradicted => Standing::Contradicted,
            domain::Standing::Complementary => Standing::Complementary,
        }
    }
}

impl From<domain::EvidenceType> for EvidenceType {
    fn from(evidence: domain::EvidenceType) -> Self {
        match evidence {
            domain::EvidenceType::ToolMatch => EvidenceType::ToolMatch,
            domain::EvidenceType::SpecificData => EvidenceType::SpecificData,
            domain::EvidenceType::SignalMatch => EvidenceType::SignalMatch,
            domain::EvidenceType::ComplementaryFinding => EvidenceType::ComplementaryFinding,
            domain::EvidenceType::Synthesis => EvidenceType::Synthesis,
            domain::EvidenceType::NegEvidence => EvidenceType::NegEvidence,
            domain::EvidenceType::Inference => EvidenceType::Inference,
            domain::EvidenceType::Domain => EvidenceType::Domain,
            domain::EvidenceType::Unknown => EvidenceType::Unknown,
        }
    }
}

impl From<domain::Closed> for Closed {
    fn from(closed: domain::Closed) -> Self {
        match closed {
            domain::Closed::Root => Closed::Root,
            domain::Closed::Idle => Closed::Idle,
            domain::Closed::Age => Closed::Age,
            domain::Closed::Evict => Closed::Evict,
            domain::Closed::End => Closed::End,
            domain::Closed::Shutdown => Closed::Shutdown,
        }
    }
}

impl From<[usize; 2]> for Range {
    fn from([from, to]: [usize; 2]) -> Self {
        Self { from: from as u64, to: to as u64 }
    }
}
