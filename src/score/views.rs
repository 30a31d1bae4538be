//! The decision model's partition and the judge's, side by side.

use super::{Config, partition, score, tier};
use crate::domain::{
    AssayedClaim, Counts, DecisionStatus, EvidenceType, JudgeView, JudgedPartition, LocalView, Partition,
    Placed, Standing, Tier, Views,
};

/// Both views. `local` is where the decision model puts each claim; `claims` are the answer's.
pub(super) fn views(
    claims: &[AssayedClaim],
    local: Vec<Option<Standing>>,
    judged: &JudgedPartition,
    config: &Config,
) -> Views {
    let judge = judge_view(&local, judged, config);
    let parts = partition(&local);
    let weights: Vec<f64> = claims.iter().map(|claim| claim.weight).collect();
    let s = score(&parts, &weights, config.contradiction_penalty);
    let answered = local.iter().flatten().count();
    let abstains = answered == 0 || (answered as f64) < config.min_answered * local.len() as f64;
    let tier = if abstains { Tier::Abstain } else { tier(s, config) };
    Views { local: LocalView { score: s, tier, counts: counts(&parts), standings: local }, judge }
}

fn judge_view(local: &[Option<Standing>], judged: &JudgedPartition, config: &Config) -> JudgeView {
    let mut claims = judged.placed.clone();
    let resolved = judged.status == DecisionStatus::Resolved;
    if resolved {
        claims.extend(missing(local, judged));
        claims.sort_by_key(|placed| placed.claim);
    }
    let standings: Vec<Option<Standing>> = claims.iter().map(|placed| Some(placed.standing)).collect();
    let weights: Vec<f64> = claims.iter().map(|placed| config.weights.of(placed.evidence_type)).collect();
    // An abstention places nothing: its lists are kept to be read, not to be counted.
    let parts = if resolved { partition(&standings) } else { Partition::default() };
    let s = score(&parts, &weights, config.contradiction_penalty);
    JudgeView {
        score: s,
        tier: if resolved { tier(s, config) } else { Tier::Abstain },
        counts: counts(&parts),
        decision_status: judged.status,
        decision_reason: judged.reason.clone(),
        reported_score: judged.reported_score,
        is_grounded: judged.is_grounded,
        claims,
        gaps: judged.gaps.clone(),
        contradictions: judged.contradictions.clone(),
        verification_needed: judged.verification_needed,
        verification_reason: judged.verification_reason.clone(),
        explanation: judged.explanation.clone(),
        repairs: judged.repairs.clone(),
    }
}

/// Claims that the judge did not list: where the decision model puts them, else ungrounded.
fn missing(local: &[Option<Standing>], judged: &JudgedPartition) -> Vec<Placed> {
    let listed = |claim: &usize| judged.placed.iter().any(|placed| placed.claim == *claim);
    let unlisted = judged.asked.iter().filter(|claim| !listed(claim));
    unlisted
        .map(|claim| Placed {
            claim: *claim,
            standing: local.get(*claim).copied().flatten().unwrap_or(Standing::Ungrounded),
            evidence_type: EvidenceType::Unknown,
            refs: Vec::new(),
            reasoning: None,
        })
        .collect()
}

/// How many claims are in which part.
pub(super) fn counts(parts: &Partition) -> Counts {
    let count = |claims: &[usize]| u32::try_from(claims.len()).unwrap_or(u32::MAX);
    Counts {
        grounded: count(&parts.grounded),
        ungrounded: count(&parts.ungrounded),
        contradicted: count(&parts.contradicted),
        complementary: count(&parts.complementary),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(claim: usize, standing: Standing, evidence_type: EvidenceType) -> Placed {
        Placed { claim, standing, evidence_type, refs: Vec::new(), reasoning: None }
    }

    #[test]
    fn the_judges_score_is_ours_over_its_lists_and_a_claim_that_it_forgot_stands_where_the_model_puts_it() {
        let judged = JudgedPartition {
            asked: vec![0, 1, 2],
            placed: vec![
                placed(0, Standing::Grounded, EvidenceType::ToolMatch),
                placed(2, Standing::Contradicted, EvidenceType::SpecificData),
            ],
            status: DecisionStatus::Resolved,
            reported_score: Some(0.99),
            ..JudgedPartition::default()
        };
        let local = vec![Some(Standing::Ungrounded), Some(Standing::Grounded), None];
        let both = views(&[], local, &judged, &Config::default());
        // (1.00 + 0.60) / (1.00 + 0.60 + 0.5·0.95)
        assert!((both.judge.score - 1.6 / 2.075).abs() < 1e-9, "{}", both.judge.score);
        assert_eq!(both.judge.claims.len(), 3);
        assert_eq!(both.judge.counts, Counts { grounded: 2, contradicted: 1, ..Counts::default() });
        assert_eq!(both.judge.tier, Tier::Regenerate);
        assert_eq!(both.local.counts, Counts { grounded: 1, ungrounded: 1, ..Counts::default() });
    }

    #[test]
    fn an_abstention_is_the_safe_default_whatever_the_judge_wrote_beside_it() {
        let safe = views(&[], vec![None], &JudgedPartition::default(), &Config::default()).judge;
        assert_eq!((safe.score, safe.tier, safe.counts), (0.5, Tier::Abstain, Counts::default()));
        let abstains = JudgedPartition {
            asked: vec![0],
            placed: vec![placed(0, Standing::Grounded, EvidenceType::ToolMatch)],
            ..JudgedPartition::default()
        };
        let view = views(&[], vec![None], &abstains, &Config::default()).judge;
        assert_eq!((view.score, view.tier, view.counts), (0.5, Tier::Abstain, Counts::default()));
        assert_eq!(view.claims.len(), 1);
    }
}
