//! Temperatures: one number that makes probabilities bolder or humbler without changing a pick.

/// The range in which a temperature is searched.
const RANGE: [f64; 2] = [0.05, 20.0];

/// Probabilities below this count as this: no answer is infinitely wrong.
const LEAST: f64 = 1e-9;

/// `p^(1/T)`, made to sum to 1. The order of the labels stays; T above 1 is humbler, below 1 bolder, 1 changes nothing.
pub fn scaled(probabilities: &[f64], temperature: f64) -> Vec<f64> {
    if temperature == 1.0 {
        return probabilities.to_vec();
    }
    let logs: Vec<f64> = probabilities.iter().map(|p| p.max(LEAST * LEAST).ln() / temperature).collect();
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = logs.iter().map(|log| (log - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}

/// The mean of −ln p(right) of answers `(probabilities, right)`.
pub fn nll(answers: &[(Vec<f64>, usize)]) -> f64 {
    let one = |(probabilities, right): &(Vec<f64>, usize)| {
        -probabilities.get(*right).copied().unwrap_or_default().max(LEAST).ln()
    };
    answers.iter().map(one).sum::<f64>() / answers.len().max(1) as f64
}

/// The temperature at which `loss` is least. `loss` has one lowest point in the logarithm of the temperature, as the
/// negative log-likelihood does; if 1 is no worse than what was found, it stays 1.
pub fn fit_temperature(loss: impl Fn(f64) -> f64) -> f64 {
    // Golden-section search.
    let ratio = (5.0_f64.sqrt() - 1.0) / 2.0;
    let (mut low, mut high) = (RANGE[0].ln(), RANGE[1].ln());
    let at = |log: f64| loss(log.exp());
    let (mut left, mut right) = (high - ratio * (high - low), low + ratio * (high - low));
    let (mut left_loss, mut right_loss) = (at(left), at(right));
    while high - low > 1e-4 {
        if left_loss <= right_loss {
            high = right;
            (right, right_loss) = (left, left_loss);
            left = high - ratio * (high - low);
            left_loss = at(left);
        } else {
            low = left;
            (left, left_loss) = (right, right_loss);
            right = low + ratio * (high - low);
            right_loss = at(right);
        }
    }
    let found = ((low + high) / 2.0).exp();
    if loss(found) < loss(1.0) { found } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fit(answers: &[(Vec<f64>, usize)]) -> f64 {
        let at = |temperature: f64| {
            nll(&answers.iter().map(|(p, right)| (scaled(p, temperature), *right)).collect::<Vec<_>>())
        };
        fit_temperature(at)
    }

    #[test]
    fn scaling_is_what_is_worked_out_by_hand() {
        // 0.8² : 0.2² = 16 : 1; √0.8 : √0.2 = 2 : 1.
        let bold = scaled(&[0.8, 0.2], 0.5);
        assert!((bold[0] - 16.0 / 17.0).abs() < 1e-12);
        let humble = scaled(&[0.8, 0.2], 2.0);
        assert!((humble[0] - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(scaled(&[0.8, 0.2], 1.0), [0.8, 0.2]);
    }

    #[test]
    fn overconfident_answers_are_cooled_to_what_they_are_right() {
        // Always 0.99 sure and right three times in four: the best is p = 0.75, so T = ln 99 / ln 3.
        let answers: Vec<(Vec<f64>, usize)> =
            (0..40).map(|n| (vec![0.99, 0.01], usize::from(n % 4 == 0))).collect();
        let temperature = fit(&answers);
        assert!((temperature - 99.0_f64.ln() / 3.0_f64.ln()).abs() < 0.01, "{temperature}");
        assert!((scaled(&[0.99, 0.01], temperature)[0] - 0.75).abs() < 0.001);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn picks_stay_and_the_sum_is_1(raw in prop::collection::vec(0.001f64..1.0, 2..6), temperature in 0.1..10.0) {
            let sum: f64 = raw.iter().sum();
            let p: Vec<f64> = raw.iter().map(|p| p / sum).collect();
            let found = scaled(&p, temperature);
            prop_assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            for (one, other) in p.iter().zip(&found).zip(p.iter().zip(&found).skip(1)) {
                prop_assert!((one.0 > other.0) == (one.1 > other.1) || (one.1 - other.1).abs() < 1e-9);
            }
        }

        #[test]
        fn the_fit_is_never_worse_than_no_fit(
            answers in prop::collection::vec((0.01f64..0.99, any::<bool>()), 4..60),
        ) {
            let answers: Vec<(Vec<f64>, usize)> =
                answers.into_iter().map(|(p, right)| (vec![1.0 - p, p], usize::from(right))).collect();
            let temperature = fit(&answers);
            let fitted: Vec<(Vec<f64>, usize)> = answers.iter().map(|(p, right)| (scaled(p, temperature), *right)).collect();
            prop_assert!(nll(&fitted) <= nll(&answers) + 1e-9);
        }
    }
}
