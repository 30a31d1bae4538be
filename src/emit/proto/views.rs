//! The two partitions of an answer, there and back.

use super::inward::{counts, evidence_type, standing, tier_of, unknown};
use super::{EvidenceType, JudgeView, LocalView, Placed, ProtoError, Standing, Tier, Views};
use crate::domain;

impl From<&domain::Views> for Views {
    fn from(views: &domain::Views) -> Self {
        Self { local: Some(LocalView::from(&views.local)), judge: Some(JudgeView::from(&views.judge)) }
    }
}

impl From<&domain::LocalView> for LocalView {
    fn from(view: &domain::LocalView) -> Self {
        let number = |standing: &Option<domain::Standing>| {
            standing.map_or(Standing::Unspecified, Standing::from).into()
        };
        Self {
            score: view.score,
            tier: Tier::from(view.tier).into(),
            counts: Some(view.counts.into()),
            standings: view.standings.iter().map(number).collect(),
        }
    }
}

impl From<&domain::JudgeView> for JudgeView {
    fn from(view: &domain::JudgeView) -> Self {
        Self {
            score: view.score,
            tier: Tier::from(view.tier).into(),
            counts: Some(view.counts.into()),
            decision_status: view.decision_status.as_str().to_owned(),
            decision_reason: view.decision_reason.clone(),
            reported_score: view.reported_score,
            is_grounded: view.is_grounded,
            claims: view.claims.iter().map(Placed::from).collect(),
            gaps: view.gaps.clone(),
            contradictions: view.contradictions.clone(),
            verification_needed: view.verification_needed,
            verification_reason: view.verification_reason.clone(),
            explanation: view.explanation.clone(),
            repairs: view.repairs.clone(),
        }
    }
}

impl From<&domain::Placed> for Placed {
    fn from(placed: &domain::Placed) -> Self {
        Self {
            claim: placed.claim as u64,
            standing: Standing::from(placed.standing).into(),
            evidence_type: EvidenceType::from(placed.evidence_type).into(),
            refs: placed.refs.clone(),
            reasoning: placed.reasoning.clone(),
        }
    }
}

impl TryFrom<Views> for domain::Views {
    type Error = ProtoError;

    fn try_from(views: Views) -> Result<Self, ProtoError> {
        let missing = |field| ProtoError::Value { field, found: "nothing".to_owned() };
        let local = views.local.ok_or_else(|| missing("views.local"))?;
        let judge = views.judge.ok_or_else(|| missing("views.judge"))?;
        Ok(Self { local: local.try_into()?, judge: judge.try_into()? })
    }
}

impl TryFrom<LocalView> for domain::LocalView {
    type Error = ProtoError;

    fn try_from(view: LocalView) -> Result<Self, ProtoError> {
        Ok(Self {
            score: view.score,
            tier: tier_of("views.local.tier", view.tier)?,
            counts: counts(view.counts),
            standings: view
                .standings
                .into_iter()
                .map(|number| standing("views.local.standings", number))
                .collect::<Result<_, _>>()?,
        })
    }
}

impl TryFrom<JudgeView> for domain::JudgeView {
    type Error = ProtoError;

    fn try_from(view: JudgeView) -> Result<Self, ProtoError> {
        let status = domain::DecisionStatus::parse(&view.decision_status).ok_or_else(|| {
            ProtoError::Value { field: "views.judge.decision_status", found: view.decision_status.clone() }
        })?;
        Ok(Self {
            score: view.score,
            tier: tier_of("views.judge.tier", view.tier)?,
            counts: counts(view.counts),
            decision_status: status,
            decision_reason: view.decision_reason,
            reported_score: view.reported_score,
            is_grounded: view.is_grounded,
            claims: view.claims.into_iter().map(domain::Placed::try_from).collect::<Result<_, _>>()?,
            gaps: view.gaps,
            contradictions: view.contradictions,
            verification_needed: view.verification_needed,
            verification_reason: view.verification_reason,
            explanation: view.explanation,
            repairs: view.repairs,
        })
    }
}

impl TryFrom<Placed> for domain::Placed {
    type Error = ProtoError;

    fn try_from(placed: Placed) -> Result<Self, ProtoError> {
        let field = "views.judge.claims.standing";
        Ok(Self {
            claim: usize::try_from(placed.claim).unwrap_or(usize::MAX),
            standing: standing(field, placed.standing)?.ok_or_else(|| unknown(field, placed.standing))?,
            evidence_type: evidence_type("views.judge.claims.evidence_type", placed.evidence_type)?,
            refs: placed.refs,
            reasoning: placed.reasoning,
        })
    }
}
