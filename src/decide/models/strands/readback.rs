//! From probabilities to the numbers of a `POST /v1/systemone` answer, as the reference computes them. Pure.

use crate::domain::Json;
#[cfg(test)]
use crate::domain::Kind;

use super::prompt::content;

/// Rounds to four decimals, half to even on the exact binary value.
pub fn round4(number: f64) -> f64 {
    // Formatting rounds the exact value; multiplying first would round twice.
    format!("{number:.4}").parse().unwrap_or(number)
}

/// The expected level of a score, from 0 to n − 1, not rounded.
pub fn expected_level(probabilities: &[f64]) -> f64 {
    probabilities.iter().enumerate().map(|(level, p)| level as f64 * p).sum()
}

/// A score's legend: each level's text by its number.
pub fn legend(levels: &[Json]) -> Vec<(String, String)> {
    levels.iter().enumerate().map(|(index, level)| (index.to_string(), content(level))).collect()
}

#[cfg(test)]
/// Confidence as the reference defines it. assayd's own answers use [`crate::domain::Decision::confidence`] instead, one
/// definition for every model; this one is for comparing with recorded answers.
pub fn reference_confidence(kind: &Kind, probabilities: &[f64], ordinal_smoothing: f64) -> Option<f64> {
    let n = probabilities.len() as f64;
    match kind {
        Kind::Noul { .. } => None,
        Kind::Choice { .. } => {
            let most = probabilities.iter().copied().fold(0.0, f64::max);
            Some(((n * most - 1.0) / (n - 1.0)).clamp(0.0, 1.0))
        }
        Kind::Score { .. } => {
            let sum: f64 = probabilities.iter().sum();
            let share: Vec<f64> = probabilities.iter().map(|p| p / sum).collect();
            let mean = expected_level(&share);
            let variance: f64 =
                share.iter().enumerate().map(|(level, t)| t * (level as f64 - mean).powi(2)).sum();
            let deviation = variance.sqrt();
            let top = (n - 1.0) / 2.0;
            let floor = if ordinal_smoothing > 0.0 { ordinal_smoothing.sqrt() } else { 0.0 };
            Some(if top <= floor {
                f64::from(u8::from(deviation <= floor))
            } else {
                ((top - deviation) / (top - floor)).clamp(0.0, 1.0)
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_half_to_even_on_the_exact_value() {
        assert_eq!(round4(0.00005), 0.0001); // the double is a little above the half
        assert_eq!(round4(0.03125), 0.0312); // exactly half
        assert_eq!(round4(0.09375), 0.0938);
        assert_eq!(round4(1.0), 1.0);
    }

    #[test]
    fn a_two_level_score_reaches_full_confidence_within_the_smoothing() {
        let kind = Kind::Score { levels: vec![Json::Null; 2] };
        assert_eq!(reference_confidence(&kind, &[0.95, 0.05], 0.1), Some(1.0));
        let unsmoothed = reference_confidence(&kind, &[0.5, 0.5], 0.0);
        assert_eq!(unsmoothed, Some(0.0));
    }
}
