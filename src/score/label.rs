//! The answer's label, and how probable it is that it holds a hallucination.

use super::LabelThresholds;
use crate::domain::{Label, Standing};

/// What the label needs to know of a claim.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stand {
    /// Where it stands; none if nobody answered.
    pub standing: Option<Standing>,
    /// p(grounded) + p(complementary), of the decision model.
    pub supported: Option<f64>,
    /// Whether the judge picked the standing.
    pub judged: bool,
}

/// `hallucination` if a claim stands ungrounded or contradicted with confidence, `faithful` if all stand grounded or
/// complementary with confidence, else `unsure`; also where there is no claim at all.
///
/// A judge's pick counts as confident: it was asked because the decision model was not.
pub fn label(claims: &[Stand], thresholds: &LabelThresholds) -> Label {
    let bad = claims.iter().any(|claim| {
        matches!(claim.standing, Some(Standing::Ungrounded | Standing::Contradicted))
            && (claim.judged || claim.supported.is_some_and(|p| 1.0 - p >= thresholds.hallucination))
    });
    if bad {
        return Label::Hallucination;
    }
    let good = claims.iter().all(|claim| {
        matches!(claim.standing, Some(Standing::Grounded | Standing::Complementary))
            && (claim.judged || claim.supported.is_some_and(|p| p >= thresholds.faithful))
    });
    if good && !claims.is_empty() { Label::Faithful } else { Label::Unsure }
}

/// The largest over the claims of 1 − p(grounded) − p(complementary), by the decision model alone; none if no claim has
/// probabilities. A judge gives no probability, so its pick moves the label and not this number.
pub fn hallucination_probability(claims: &[Stand]) -> Option<f64> {
    claims.iter().filter_map(|claim| claim.supported).map(|p| (1.0 - p).clamp(0.0, 1.0)).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLDS: LabelThresholds = LabelThresholds { hallucination: 0.7, faithful: 0.6 };

    fn local(standing: Standing, supported: f64) -> Stand {
        Stand { standing: Some(standing), supported: Some(supported), judged: false }
    }

    fn judged(standing: Standing, supported: f64) -> Stand {
        Stand { judged: true, ..local(standing, supported) }
    }

    const UNANSWERED: Stand = Stand { standing: None, supported: None, judged: false };

    #[test]
    fn one_bad_claim_makes_a_hallucination_of_many_good_ones() {
        let claims = [local(Standing::Grounded, 0.9), local(Standing::Contradicted, 0.1)];
        assert_eq!(label(&claims, &THRESHOLDS), Label::Hallucination);
        assert!((hallucination_probability(&claims).unwrap() - 0.9).abs() < 1e-12);
    }

    #[test]
    fn faithful_needs_confidence_in_every_claim() {
        let sure = [local(Standing::Grounded, 0.6), local(Standing::Complementary, 0.9)];
        assert_eq!(label(&sure, &THRESHOLDS), Label::Faithful);
        let unsure = [local(Standing::Grounded, 0.59), local(Standing::Grounded, 0.9)];
        assert_eq!(label(&unsure, &THRESHOLDS), Label::Unsure);
        assert_eq!(label(&[local(Standing::Grounded, 0.9), UNANSWERED], &THRESHOLDS), Label::Unsure);
    }

    #[test]
    fn a_bad_claim_without_confidence_is_unsure() {
        assert_eq!(label(&[local(Standing::Ungrounded, 0.4)], &THRESHOLDS), Label::Unsure);
    }

    #[test]
    fn the_judges_pick_counts_whatever_the_decision_model_thought() {
        assert_eq!(label(&[judged(Standing::Ungrounded, 0.55)], &THRESHOLDS), Label::Hallucination);
        assert_eq!(label(&[judged(Standing::Grounded, 0.45)], &THRESHOLDS), Label::Faithful);
    }

    #[test]
    fn no_claim_and_no_probability_are_not_a_number() {
        assert_eq!(label(&[], &THRESHOLDS), Label::Unsure);
        assert_eq!(hallucination_probability(&[UNANSWERED]), None);
    }
}
