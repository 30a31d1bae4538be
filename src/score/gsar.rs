//! GSAR's partition, score and decision: `S = (W(G) + W(K)) / (W(G) + W(U) + rho·W(X) + W(K))`.

use super::Config;
use crate::domain::{Partition, Standing, Tier};

/// S of an empty partition, and where every weight is zero: nothing is known either way.
const UNDECIDED: f64 = 0.5;

/// How far below a threshold a score may lie and still reach it: sums of decimal weights are off by a few last digits
/// (a claim of 0.95 among weights of 2.375 must reach 0.8).
const ROUNDING: f64 = 1e-9;

/// Puts each claim into the part of its standing. Claims that nobody answered are in no part.
pub fn partition(standings: &[Option<Standing>]) -> Partition {
    let mut partition = Partition::default();
    for (claim, standing) in standings.iter().enumerate() {
        match standing {
            Some(Standing::Grounded) => partition.grounded.push(claim),
            Some(Standing::Ungrounded) => partition.ungrounded.push(claim),
            Some(Standing::Contradicted) => partition.contradicted.push(claim),
            Some(Standing::Complementary) => partition.complementary.push(claim),
            None => {}
        }
    }
    partition
}

/// GSAR's S, from 0 to 1. `weights` holds each claim's weight, by its position; a claim without one weighs nothing.
/// Contradicted claims stay in the denominator, at `penalty` (rho) of their weight: leaving them out would raise the score.
pub fn score(partition: &Partition, weights: &[f64], penalty: f64) -> f64 {
    // Not `sum`: an empty sum of floats is -0, which would be written so.
    let mass = |claims: &[usize]| -> f64 {
        claims.iter().fold(0.0, |sum, claim| sum + weights.get(*claim).copied().unwrap_or(0.0))
    };
    let good = mass(&partition.grounded) + mass(&partition.complementary);
    let all = good + mass(&partition.ungrounded) + penalty * mass(&partition.contradicted);
    if all <= 0.0 {
        return UNDECIDED;
    }
    (good / all).clamp(0.0, 1.0)
}

/// GSAR's decision on a score. [`Tier::Abstain`] is never a matter of the score: see [`verdict`](super::verdict()).
pub fn tier(score: f64, config: &Config) -> Tier {
    if score + ROUNDING >= config.proceed {
        Tier::Proceed
    } else if score + ROUNDING >= config.regenerate {
        Tier::Regenerate
    } else {
        Tier::Replan
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::EvidenceType;
    use crate::score::Weights;

    fn of(claims: &[(Standing, f64)], penalty: f64) -> f64 {
        let standings: Vec<_> = claims.iter().map(|(standing, _)| Some(*standing)).collect();
        let weights: Vec<_> = claims.iter().map(|(_, weight)| *weight).collect();
        score(&partition(&standings), &weights, penalty)
    }

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    #[test]
    fn the_formula_gives_what_is_worked_out_by_hand() {
        use Standing::*;
        // (1.00 + 0.85) / (1.00 + 0.60 + 0.5·0.95 + 0.85)
        let claims = [(Grounded, 1.0), (Ungrounded, 0.6), (Contradicted, 0.95), (Complementary, 0.85)];
        assert!(close(of(&claims, 0.5), 1.85 / 2.925));
        assert!(close(of(&claims, 0.0), 1.85 / 2.45));
        assert!(close(of(&claims, 1.0), 1.85 / 3.4));
        assert_eq!(of(&[(Contradicted, 1.0)], 0.5), 0.0);
        assert!(of(&[(Ungrounded, 1.0)], 0.5).is_sign_positive());
        assert_eq!(of(&[(Complementary, 0.85)], 0.5), 1.0);
    }

    #[test]
    fn an_empty_partition_and_a_zero_denominator_are_undecided() {
        assert_eq!(of(&[], 0.5), 0.5);
        assert_eq!(of(&[(Standing::Ungrounded, 0.0)], 0.5), 0.5);
        assert_eq!(of(&[(Standing::Contradicted, 1.0)], 0.0), 0.5);
    }

    #[test]
    fn claims_that_nobody_answered_are_in_no_part() {
        let found = partition(&[None, Some(Standing::Grounded), None]);
        assert_eq!(found, Partition { grounded: vec![1], ..Partition::default() });
    }

    #[test]
    fn the_decision_follows_the_thresholds_and_includes_them() {
        let config = Config::default();
        let decisions = [1.0, 0.8, 0.799, 0.65, 0.649, 0.5, 0.0].map(|score| tier(score, &config));
        use Tier::*;
        assert_eq!(decisions, [Proceed, Proceed, Regenerate, Regenerate, Replan, Replan, Replan]);
        // 0.1 + 0.2 style sums must not miss a threshold by their last digit.
        let sums = of(
            &[(Standing::Grounded, 0.95), (Standing::Grounded, 0.95), (Standing::Contradicted, 0.95)],
            0.5,
        );
        assert_eq!(tier(sums, &config), Tier::Proceed);
    }

    fn claims() -> impl Strategy<Value = Vec<(Standing, f64)>> {
        let weights = Weights::default();
        let claim = (0..4usize, 0..9usize)
            .prop_map(move |(standing, kind)| (Standing::ALL[standing], weights.of(EvidenceType::ALL[kind])));
        prop::collection::vec(claim, 0..12)
    }

    fn with(claims: &[(Standing, f64)], more: Standing, weight: f64) -> Vec<(Standing, f64)> {
        claims.iter().copied().chain([(more, weight)]).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn a_score_lies_between_0_and_1(claims in claims(), penalty in 0.0..=1.0) {
            let s = of(&claims, penalty);
            prop_assert!((0.0..=1.0).contains(&s));
        }

        #[test]
        fn each_part_moves_the_score_in_its_own_direction_only(
            claims in claims(), penalty in 0.0..=1.0, weight in 0.01..2.0,
        ) {
            let s = of(&claims, penalty);
            prop_assert!(of(&with(&claims, Standing::Grounded, weight), penalty) + 1e-12 >= s);
            prop_assert!(of(&with(&claims, Standing::Complementary, weight), penalty) + 1e-12 >= s);
            prop_assert!(of(&with(&claims, Standing::Ungrounded, weight), penalty) <= s + 1e-12);
            prop_assert!(of(&with(&claims, Standing::Contradicted, weight), penalty) <= s + 1e-12);
        }

        #[test]
        fn dropping_a_contradicted_claim_does_not_go_unnoticed(
            claims in claims(), penalty in 0.01..=1.0, weight in 0.1..2.0,
        ) {
            let good = |claims: &[(Standing, f64)]| claims
                .iter()
                .any(|(standing, _)| matches!(standing, Standing::Grounded | Standing::Complementary));
            prop_assume!(good(&claims));
            prop_assert!(of(&with(&claims, Standing::Contradicted, weight), penalty) < of(&claims, penalty));
        }

        #[test]
        fn a_heavier_penalty_never_raises_the_score(claims in claims(), low in 0.0..=1.0, high in 0.0..=1.0) {
            prop_assume!(low <= high);
            let any = claims.iter().any(|(standing, _)| *standing != Standing::Contradicted);
            prop_assume!(any);
            prop_assert!(of(&claims, high) <= of(&claims, low) + 1e-12);
        }

        #[test]
        fn only_ratios_of_weights_matter(claims in claims(), penalty in 0.0..=1.0, scale in 0.001..1000.0) {
            let scaled: Vec<_> = claims.iter().map(|(standing, weight)| (*standing, weight * scale)).collect();
            prop_assert!(close(of(&claims, penalty), of(&scaled, penalty)));
        }

        #[test]
        fn the_order_of_claims_does_not_matter(claims in claims(), penalty in 0.0..=1.0) {
            let reversed: Vec<_> = claims.iter().rev().copied().collect();
            prop_assert!(close(of(&claims, penalty), of(&reversed, penalty)));
        }

        #[test]
        fn a_better_score_never_gets_a_worse_decision(low in 0.0..=1.0, high in 0.0..=1.0) {
            prop_assume!(low <= high);
            let rank = |tier| match tier {
                Tier::Proceed => 2,
                Tier::Regenerate => 1,
                Tier::Replan | Tier::Abstain => 0,
            };
            let config = Config::default();
            prop_assert!(rank(tier(low, &config)) <= rank(tier(high, &config)));
        }

        #[test]
        fn every_claim_is_in_exactly_one_part(claims in claims()) {
            let standings: Vec<_> = claims.iter().map(|(standing, _)| Some(*standing)).collect();
            let found = partition(&standings);
            let mut all = [found.grounded, found.ungrounded, found.contradicted, found.complementary].concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..claims.len()).collect::<Vec<_>>());
        }
    }
}
