//! Answers beside the right ones: accuracy, calibration error and Brier score.

/// A decision model's answer and the right one.
#[derive(Debug, Clone, PartialEq)]
pub struct Graded {
    /// One probability per label; they sum to 1.
    pub probabilities: Vec<f64>,
    /// The position of the right label.
    pub truth: usize,
    /// How sure the answer is, by the one definition ([`crate::domain::Decision::confidence`]).
    pub confidence: f64,
}

impl Graded {
    /// A yes or no: `p` is the probability of yes. Its confidence is |2p − 1|.
    pub fn binary(p: f64, truth: bool) -> Self {
        Self {
            probabilities: vec![1.0 - p, p],
            truth: usize::from(truth),
            confidence: (2.0 * p - 1.0).abs().clamp(0.0, 1.0),
        }
    }

    /// The most probable label, the first on ties.
    pub fn pick(&self) -> usize {
        let mut best = 0;
        for (at, p) in self.probabilities.iter().enumerate() {
            if *p > self.probabilities[best] {
                best = at;
            }
        }
        best
    }

    /// Whether that is the right one.
    pub fn is_right(&self) -> bool {
        self.pick() == self.truth
    }

    /// The probability of the pick.
    fn top(&self) -> f64 {
        self.probabilities.get(self.pick()).copied().unwrap_or_default()
    }
}

/// The share of right answers; none of no answers.
pub fn accuracy(answers: &[Graded]) -> Option<f64> {
    mean(answers.iter().map(|answer| f64::from(u8::from(answer.is_right()))))
}

/// The expected calibration error: answers are put into `bins` of equal width by the probability of their pick; of each bin
/// the distance between its mean probability and its accuracy, weighed by its answers. None of no answers.
pub fn ece(answers: &[Graded], bins: usize) -> Option<f64> {
    if answers.is_empty() || bins == 0 {
        return None;
    }
    let mut sums = vec![(0.0, 0.0); bins];
    for answer in answers {
        let top = answer.top();
        let bin = ((top * bins as f64) as usize).min(bins - 1);
        sums[bin].0 += top;
        sums[bin].1 += f64::from(u8::from(answer.is_right()));
    }
    let total: f64 = sums.iter().map(|(probability, right)| (probability - right).abs()).sum();
    Some(total / answers.len() as f64)
}

/// The Brier score: the mean over answers of Σ(p − y)², halved, so that it goes from 0 to 1 and is the usual one where there
/// are two labels. None of no answers.
pub fn brier(answers: &[Graded]) -> Option<f64> {
    let one = |answer: &Graded| {
        let squares = answer.probabilities.iter().enumerate().map(|(at, p)| {
            let wanted = f64::from(u8::from(at == answer.truth));
            (p - wanted).powi(2)
        });
        squares.sum::<f64>() / 2.0
    };
    mean(answers.iter().map(one))
}

/// The mean; none of nothing.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0usize, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close(found: Option<f64>, wanted: f64) -> bool {
        found.is_some_and(|found| (found - wanted).abs() < 1e-12)
    }

    fn three(probabilities: [f64; 3], truth: usize) -> Graded {
        Graded { probabilities: probabilities.to_vec(), truth, confidence: 0.0 }
    }

    #[test]
    fn the_measures_are_what_is_worked_out_by_hand() {
        // Picks: 1 (right), 1 (wrong), 0 (right), 0 (right).
        let answers = [
            Graded::binary(0.9, true),
            Graded::binary(0.8, false),
            Graded::binary(0.3, false),
            Graded::binary(0.05, false),
        ];
        assert!(close(accuracy(&answers), 0.75));
        // 0.01 + 0.64 + 0.09 + 0.0025, over 4.
        assert!(close(brier(&answers), 0.7425 / 4.0));
        // Tops 0.9 and 0.95 share the bin from 0.9: |1.85 − 2| = 0.15; 0.8: |0.8 − 0| = 0.8; 0.7: |0.7 − 1| = 0.3.
        assert!(close(ece(&answers, 10), (0.15 + 0.8 + 0.3) / 4.0));
        // (0.09 + 0.04 + 0.01) / 2.
        assert!(close(brier(&[three([0.7, 0.2, 0.1], 0)]), 0.07));
    }

    #[test]
    fn of_nothing_nothing_is_said() {
        assert_eq!((accuracy(&[]), brier(&[]), ece(&[], 10)), (None, None, None));
        assert_eq!(ece(&[Graded::binary(1.0, true)], 0), None);
        assert!(close(ece(&[Graded::binary(1.0, true)], 10), 0.0), "1 is in the last bin");
    }

    /// Answers of two labels.
    pub fn answers() -> impl Strategy<Value = Vec<Graded>> {
        prop::collection::vec(
            (0.0..=1.0, any::<bool>()).prop_map(|(p, truth)| Graded::binary(p, truth)),
            1..60,
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn all_lie_between_0_and_1_and_do_not_depend_on_the_order(answers in answers(), bins in 1usize..20) {
            let reversed: Vec<Graded> = answers.iter().rev().cloned().collect();
            for measure in [&accuracy as &dyn Fn(&[Graded]) -> Option<f64>, &brier, &|a: &[Graded]| ece(a, bins)] {
                let found = measure(&answers).unwrap();
                prop_assert!((0.0..=1.0).contains(&found), "{found}");
                prop_assert!((found - measure(&reversed).unwrap()).abs() < 1e-9);
            }
        }

        #[test]
        fn one_bin_is_the_distance_of_the_means(answers in answers()) {
            let top = answers.iter().map(Graded::top).sum::<f64>() / answers.len() as f64;
            let distance = (top - accuracy(&answers).unwrap()).abs();
            prop_assert!((ece(&answers, 1).unwrap() - distance).abs() < 1e-9);
        }

        #[test]
        fn more_bins_never_hide_an_error(answers in answers()) {
            prop_assert!(ece(&answers, 20).unwrap() + 1e-9 >= ece(&answers, 10).unwrap());
        }
    }
}
