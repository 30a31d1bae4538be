//! Checks of what a remote model says: a broken answer is a failure, never a score. Pure.

use super::super::models::strands::Node;
use crate::domain::{Decision, Nobody};

/// How far from 1 a sum may be that is still taken for a distribution.
const OFF: f64 = 0.05;
/// Servers round to four decimals, or to two: per probability half a unit of the last place.
const FINE: f64 = 0.5e-4;
const COARSE: f64 = 0.5e-2;

/// The number, if it is one.
pub fn number(node: Option<&Node>) -> Option<f64> {
    match node {
        Some(Node::Number(text)) => text.parse().ok(),
        _ => None,
    }
}

/// A whole number that is not negative.
pub fn count(node: Option<&Node>) -> Option<u64> {
    match node {
        Some(Node::Number(text)) => text.parse().ok(),
        _ => None,
    }
}

/// The text, if it is one.
pub fn text(node: Option<&Node>) -> Option<&str> {
    match node {
        Some(Node::String(text)) => Some(text),
        _ => None,
    }
}

/// Probabilities in the order of the labels. `None` stands for one that is not there, or is no number.
pub fn decision(probabilities: Vec<Option<f64>>) -> Result<Decision, Nobody> {
    let mut sound = Vec::with_capacity(probabilities.len());
    for probability in probabilities {
        match probability {
            Some(p) if (0.0..=1.0).contains(&p) => sound.push(p),
            Some(p) => return Err(broken(&format!("a probability is {p}"))),
            None => return Err(broken("a probability is missing, or is no number")),
        }
    }
    let sum: f64 = sound.iter().sum();
    let options = sound.len() as f64;
    if (sum - 1.0).abs() > OFF.max(options * COARSE) || sum <= 0.0 {
        return Err(broken(&format!("the probabilities sum to {sum:.4}")));
    }
    // What is only rounded stays as it was told.
    if (sum - 1.0).abs() > options * FINE + 1e-9 {
        sound.iter_mut().for_each(|p| *p /= sum);
    }
    Ok(Decision { probabilities: sound, tokens: 0 })
}

/// A probability of yes.
pub fn yes_or_no(yes: Option<f64>) -> Result<Decision, Nobody> {
    decision(vec![yes.map(|yes| 1.0 - yes), yes])
}

/// Why an answer is none.
pub fn broken(why: &str) -> Nobody {
    Nobody::Failed(format!("the remote model's answer is broken: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probabilities(given: &[f64]) -> Option<Vec<f64>> {
        decision(given.iter().copied().map(Some).collect()).ok().map(|decision| decision.probabilities)
    }

    #[test]
    fn rounded_distributions_stay_and_others_are_made_whole_or_refused() {
        assert_eq!(probabilities(&[0.3333, 0.3333, 0.3333]), Some(vec![0.3333; 3]));
        assert_eq!(probabilities(&[0.5, 0.46]), Some(vec![0.5 / 0.96, 0.46 / 0.96]));
        assert_eq!(probabilities(&[0.01; 90]).map(|p| p.len()), Some(90));
        for wrong in [
            vec![0.8, 0.4],
            vec![0.1, 0.1],
            vec![1.2, -0.2],
            vec![f64::NAN, 0.5],
            vec![f64::INFINITY],
            vec![],
        ] {
            assert_eq!(probabilities(&wrong), None, "{wrong:?}");
        }
        assert!(
            decision(vec![Some(1.0), None]).is_err()
                && yes_or_no(None).is_err()
                && yes_or_no(Some(1.01)).is_err()
        );
        assert_eq!(yes_or_no(Some(0.75)).unwrap().probabilities, [0.25, 0.75]);
    }
}
