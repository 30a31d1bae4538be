//! How well a score tells two classes apart, whatever the threshold.

/// The area under the ROC curve: how often a positive has the higher score than a negative; ties count half. None unless
/// there are both.
pub fn auroc(scores: &[(f64, bool)]) -> Option<f64> {
    let positives = scores.iter().filter(|(_, is_positive)| *is_positive).count();
    let negatives = scores.len() - positives;
    if positives == 0 || negatives == 0 {
        return None;
    }
    let mut sorted: Vec<(f64, bool)> = scores.to_vec();
    sorted.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut rank_sum = 0.0;
    let mut at = 0;
    while at < sorted.len() {
        let ties = sorted[at..].iter().take_while(|(score, _)| *score == sorted[at].0).count();
        // Ranks count from 1; those of equal scores are shared.
        let rank = at as f64 + (ties as f64 + 1.0) / 2.0;
        let tied = sorted[at..at + ties].iter().filter(|(_, is_positive)| *is_positive).count();
        rank_sum += rank * tied as f64;
        at += ties;
    }
    let positives = positives as f64;
    Some((rank_sum - positives * (positives + 1.0) / 2.0) / (positives * negatives as f64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_is_what_is_worked_out_by_hand() {
        // Pairs (0.8, 0.3), (0.8, 0.5), (0.5, 0.3) are won, (0.5, 0.5) is a tie: 3.5 of 4.
        let scores = [(0.8, true), (0.5, true), (0.5, false), (0.3, false)];
        assert!((auroc(&scores).unwrap() - 0.875).abs() < 1e-12);
        assert_eq!(auroc(&[(0.5, true)]), None);
        assert_eq!(auroc(&[]), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_counts_the_pairs_that_are_won(scores in prop::collection::vec((0u8..8, any::<bool>()), 2..40)) {
            let scores: Vec<(f64, bool)> = scores.into_iter().map(|(score, class)| (f64::from(score), class)).collect();
            let of = |class: bool| scores.iter().filter(move |(_, found)| *found == class).map(|(score, _)| *score);
            let wins: f64 = of(true)
                .flat_map(|one| of(false).map(move |other| if one > other { 1.0 } else if one == other { 0.5 } else { 0.0 }))
                .sum();
            let pairs = of(true).count() * of(false).count();
            match auroc(&scores) {
                Some(area) => prop_assert!((area - wins / pairs as f64).abs() < 1e-9),
                None => prop_assert_eq!(pairs, 0),
            }
        }
    }
}
