//! What a threshold on the confidence costs and brings.

use serde::Serialize;

/// Answers at least as sure as a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RiskPoint {
    /// The threshold.
    pub threshold: f64,
    /// The share of all answers that reach it.
    pub coverage: f64,
    /// How many these are.
    pub answers: usize,
    /// The share of wrong ones among them; none of none.
    pub risk: Option<f64>,
}

/// Coverage and risk at each threshold. Answers are `(confidence, is right)`.
pub fn risk_coverage(answers: &[(f64, bool)], thresholds: &[f64]) -> Vec<RiskPoint> {
    thresholds
        .iter()
        .map(|threshold| {
            let sure = answers.iter().filter(|(confidence, _)| confidence >= threshold);
            let (count, right) = sure.fold((0usize, 0usize), |(count, right), (_, is_right)| {
                (count + 1, right + usize::from(*is_right))
            });
            RiskPoint {
                threshold: *threshold,
                coverage: count as f64 / answers.len().max(1) as f64,
                answers: count,
                risk: (count > 0).then(|| 1.0 - right as f64 / count as f64),
            }
        })
        .collect()
}

/// The lowest threshold at which answers are right as often as `target`, over at least `least` answers. None if there is none.
///
/// From the surest answer down, the accuracy of a few answers jumps about: the lowest threshold is searched, not the first.
pub fn threshold_for(answers: &[(f64, bool)], target: f64, least: usize) -> Option<f64> {
    let mut sorted: Vec<(f64, bool)> = answers.to_vec();
    sorted.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut right = 0;
    let mut found = None;
    for (at, (confidence, is_right)) in sorted.iter().enumerate() {
        right += usize::from(*is_right);
        // A threshold lets in all of equal confidence.
        let is_last_of_its_kind = sorted.get(at + 1).is_none_or(|next| next.0 < *confidence);
        let count = at + 1;
        if is_last_of_its_kind && count >= least.max(1) && right as f64 >= target * count as f64 {
            found = Some(*confidence);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ANSWERS: [(f64, bool); 5] = [(0.9, true), (0.8, true), (0.7, false), (0.6, true), (0.2, false)];

    #[test]
    fn the_table_is_what_is_worked_out_by_hand() {
        let table = risk_coverage(&ANSWERS, &[0.0, 0.65, 0.95]);
        assert_eq!((table[0].answers, table[0].coverage, table[0].risk), (5, 1.0, Some(1.0 - 0.6)));
        assert_eq!((table[1].answers, table[1].coverage), (3, 0.6));
        assert!((table[1].risk.unwrap() - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!((table[2].answers, table[2].risk), (0, None));
    }

    #[test]
    fn the_lowest_threshold_that_keeps_the_target_is_found() {
        assert_eq!(threshold_for(&ANSWERS, 1.0, 1), Some(0.8));
        // 3 of 4 are right from 0.6 on.
        assert_eq!(threshold_for(&ANSWERS, 0.75, 1), Some(0.6));
        assert_eq!(threshold_for(&ANSWERS, 0.5, 1), Some(0.2));
        assert_eq!(threshold_for(&ANSWERS, 1.0, 3), None);
        assert_eq!(threshold_for(&[], 0.5, 0), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_found_threshold_keeps_its_promise_and_a_higher_target_never_covers_more(
            answers in prop::collection::vec((0u8..=10, any::<bool>()), 1..60), low in 0.1..0.9, more in 0.0..0.1,
        ) {
            let answers: Vec<(f64, bool)> = answers.into_iter().map(|(c, right)| (f64::from(c) / 10.0, right)).collect();
            let Some(threshold) = threshold_for(&answers, low, 3) else { return Ok(()) };
            let point = risk_coverage(&answers, &[threshold])[0];
            prop_assert!(point.answers >= 3 && 1.0 - point.risk.unwrap() >= low - 1e-9);
            if let Some(higher) = threshold_for(&answers, low + more, 3) {
                prop_assert!(higher >= threshold);
            }
        }

        #[test]
        fn coverage_falls_with_the_threshold(answers in prop::collection::vec((0.0..=1.0, any::<bool>()), 1..40)) {
            let table = risk_coverage(&answers, &[0.0, 0.25, 0.5, 0.75, 1.0]);
            prop_assert!(table.windows(2).all(|pair| pair[0].coverage >= pair[1].coverage));
            prop_assert!((table[0].coverage - 1.0).abs() < 1e-12);
        }
    }
}
