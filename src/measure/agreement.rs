//! How far two who label agree beyond chance.

use std::collections::BTreeMap;

/// Cohen's kappa of two labels per item: 1 is full agreement, 0 is chance. None of no items, and where both always give one
/// and the same label: then chance alone explains it.
pub fn kappa(pairs: &[(usize, usize)]) -> Option<f64> {
    if pairs.is_empty() {
        return None;
    }
    let total = pairs.len() as f64;
    let mut first: BTreeMap<usize, f64> = BTreeMap::new();
    let mut second: BTreeMap<usize, f64> = BTreeMap::new();
    let mut agreed = 0.0;
    for (one, other) in pairs {
        *first.entry(*one).or_default() += 1.0;
        *second.entry(*other).or_default() += 1.0;
        agreed += f64::from(u8::from(one == other));
    }
    let chance: f64 =
        first.iter().map(|(label, count)| count * second.get(label).copied().unwrap_or(0.0)).sum::<f64>()
            / (total * total);
    let observed = agreed / total;
    (chance < 1.0).then(|| (observed - chance) / (1.0 - chance))
}

/// Counts of a yes or no against the right one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Confusion {
    /// Said yes, is yes.
    pub true_positives: usize,
    /// Said yes, is no.
    pub false_positives: usize,
    /// Said no, is no.
    pub true_negatives: usize,
    /// Said no, is yes.
    pub false_negatives: usize,
}

impl Confusion {
    /// Of pairs `(said, is)`.
    pub fn of(pairs: impl IntoIterator<Item = (bool, bool)>) -> Self {
        let mut counts = Self::default();
        for pair in pairs {
            let count = match pair {
                (true, true) => &mut counts.true_positives,
                (true, false) => &mut counts.false_positives,
                (false, false) => &mut counts.true_negatives,
                (false, true) => &mut counts.false_negatives,
            };
            *count += 1;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn kappa_is_what_is_worked_out_by_hand() {
        // 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: observed 0.7; chance 0.5·0.6 + 0.5·0.4 = 0.5.
        let pairs: Vec<(usize, usize)> = [(1, 1, 20), (1, 0, 5), (0, 1, 10), (0, 0, 15)]
            .iter()
            .flat_map(|(a, b, n)| vec![(*a, *b); *n])
            .collect();
        assert!((kappa(&pairs).unwrap() - 0.4).abs() < 1e-12);
        assert_eq!(kappa(&[(0, 0), (1, 1), (2, 2)]), Some(1.0));
        assert_eq!(kappa(&[(1, 1), (1, 1)]), None);
        assert_eq!(kappa(&[]), None);
    }

    #[test]
    fn pairs_are_counted() {
        let counts =
            Confusion::of([(true, true), (true, false), (false, false), (false, true), (true, true)]);
        let wanted =
            Confusion { true_positives: 2, false_positives: 1, true_negatives: 1, false_negatives: 1 };
        assert_eq!(counts, wanted);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_is_symmetric_and_at_most_1(pairs in prop::collection::vec((0usize..4, 0usize..4), 1..50)) {
            let turned: Vec<(usize, usize)> = pairs.iter().map(|(one, other)| (*other, *one)).collect();
            match (kappa(&pairs), kappa(&turned)) {
                (Some(one), Some(other)) => prop_assert!((one - other).abs() < 1e-9 && one <= 1.0 + 1e-9),
                (one, other) => prop_assert_eq!(one, other),
            }
        }
    }
}
