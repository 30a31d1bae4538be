//! From graded records to temperatures, thresholds and weights.

use std::collections::BTreeMap;

use super::report::STEPS;
use super::seen::{answers, hallucination, settled, temperature_of};
use super::temperature::{fit_temperature, scaled};
use super::{Fitted, Seen, Thresholds, risk_coverage, threshold_for};

/// Fewer answers than this say nothing about a threshold.
const LEAST_SETTLED: usize = 10;

/// Fewer answers than this get no temperature.
const LEAST_FITTED: usize = 20;

/// From this many answers on a question has a temperature of its own.
const LEAST_OWN: usize = 50;

/// How to fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wish {
    /// How often a settled answer must be right, from 0 to 1.
    pub target: f64,
    /// Whether the weights of claims are fitted too.
    pub weights: bool,
}

/// Fits to records; what cannot be fitted is told in `notes`. Model and labels of `fitted` stay.
pub fn fit(seen: &[Seen], wish: Wish, fitted: &mut Fitted, notes: &mut Vec<String>) {
    fitted.temperatures = temperatures(seen, notes);
    let target = wish.target;
    let answers = answers(seen, fitted);
    let sides = |of: &dyn Fn(f64, bool) -> (f64, bool)| -> Vec<(f64, bool)> {
        // Below one half the verdict would say the opposite of what is more probable.
        answers.iter().map(|(p, is_bad)| of(*p, *is_bad)).filter(|(p, _)| *p >= 0.5).collect()
    };
    let mut threshold = |name: &str, answers: &[(f64, bool)]| {
        let found = threshold_for(answers, target, LEAST_SETTLED).map(rounded_down);
        if found.is_none() && !answers.is_empty() {
            notes.push(format!("{name}: {}", unreached(answers, target)));
        }
        found
    };
    let has_answers = !answers.is_empty();
    fitted.thresholds = Thresholds {
        min_confidence: threshold("min_confidence", &settled(seen, fitted)),
        hallucination: if has_answers {
            threshold("label.hallucination", &sides(&|p, is_bad| (p, is_bad)))
        } else {
            None
        },
        faithful: if has_answers {
            threshold("label.faithful", &sides(&|p, is_bad| (1.0 - p, !is_bad)))
        } else {
            None
        },
    };
    if wish.weights {
        fitted.weights = weights(seen, fitted, notes);
    }
}

/// A threshold with six decimals that keeps out nothing that reaches the one that was found.
fn rounded_down(threshold: f64) -> f64 {
    let near = (threshold * 1e6).round() / 1e6;
    if near > threshold { near - 1e-6 } else { near }
}

fn unreached(answers: &[(f64, bool)], target: f64) -> String {
    if answers.len() < LEAST_SETTLED {
        return format!("{} answers are too few for a threshold; it stays as configured", answers.len());
    }
    let best = STEPS.iter().filter_map(|step| {
        let point = risk_coverage(answers, &[*step])[0];
        Some((1.0 - point.risk.filter(|_| point.answers >= LEAST_SETTLED)?, *step))
    });
    match best.max_by(|one, other| one.0.total_cmp(&other.0)) {
        Some((right, step)) => format!(
            "no threshold is right in {:.0} % of what it settles; the best step, {step}, is in {:.0} %; it stays as configured",
            target * 100.0,
            right * 100.0
        ),
        None => "too few answers are sure; it stays as configured".to_owned(),
    }
}

fn temperatures(seen: &[Seen], notes: &mut Vec<String>) -> BTreeMap<String, f64> {
    let mut cases: BTreeMap<String, Vec<&Seen>> = BTreeMap::new();
    let mut own: BTreeMap<String, Vec<&Seen>> = BTreeMap::new();
    for one in seen {
        match one {
            Seen::Answer { claims, .. } if !claims.is_empty() => {
                cases.entry("grounding".to_owned()).or_default().push(one)
            }
            Seen::Question { id, key, .. } => {
                cases.entry((*key).to_owned()).or_default().push(one);
                own.entry(id.clone()).or_default().push(one);
            }
            Seen::Answer { .. } | Seen::Given { .. } => {}
        }
    }
    let mut temperatures = BTreeMap::new();
    for (key, cases) in &cases {
        if cases.len() < LEAST_FITTED {
            notes.push(format!("{key}: {} records are too few for a temperature", cases.len()));
            continue;
        }
        let found = fit_temperature(|temperature| loss(cases, temperature));
        temperatures.insert(key.clone(), (found * 1000.0).round() / 1000.0);
        if found > 10.0 {
            notes.push(format!(
                "{key}: the temperature is {found:.1}: the model's probabilities say next to nothing here"
            ));
        }
    }
    let several = own.len() > 1;
    for (id, cases) in own.into_iter().filter(|(_, cases)| several && cases.len() >= LEAST_OWN) {
        let found = fit_temperature(|temperature| loss(&cases, temperature));
        temperatures.insert(id, (found * 1000.0).round() / 1000.0);
    }
    temperatures
}

/// The mean of −ln p(what is right).
fn loss(cases: &[&Seen], temperature: f64) -> f64 {
    let one = |seen: &&Seen| {
        let p = match seen {
            Seen::Answer { claims, is_bad } => {
                hallucination(claims, temperature).map_or(0.5, |p| if *is_bad { p } else { 1.0 - p })
            }
            Seen::Question { probabilities, truth, .. } => {
                scaled(probabilities, temperature).get(*truth).copied().unwrap_or_default()
            }
            Seen::Given { .. } => 0.5,
        };
        -p.max(1e-9).ln()
    };
    cases.iter().map(one).sum::<f64>() / cases.len().max(1) as f64
}

/// A claim weighs as much as claims of its kind of evidence have proved right, the best kind 1.
fn weights(seen: &[Seen], fitted: &Fitted, notes: &mut Vec<String>) -> BTreeMap<String, f64> {
    let temperature = temperature_of(fitted, &["grounding"]);
    let mut counts: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for one in seen {
        let Seen::Answer { claims, is_bad } = one else { continue };
        if *is_bad && claims.len() != 1 {
            continue;
        }
        for claim in claims {
            let count = counts.entry(claim.evidence_type).or_default();
            count.0 += f64::from(u8::from(claim.stand(temperature).1 == *is_bad));
            count.1 += 1.0;
        }
    }
    // One right and one wrong claim are added to each kind: a few claims prove little.
    let shares: BTreeMap<&str, f64> = counts
        .into_iter()
        .filter(|(_, (_, count))| *count >= LEAST_SETTLED as f64)
        .map(|(kind, (right, count))| (kind, (right + 1.0) / (count + 2.0)))
        .collect();
    let best = shares.values().copied().fold(0.0, f64::max);
    if shares.len() < 2 {
        notes.push(
            "weights: fewer than two kinds of evidence have 10 claims; they stay as configured".to_owned(),
        );
        return BTreeMap::new();
    }
    shares
        .into_iter()
        .map(|(kind, share)| (kind.to_owned(), (share / best * 100.0).round() / 100.0))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{SeenClaim, report};
    use super::*;
    use crate::domain::Kind;

    fn claim(p: [f64; 3]) -> SeenClaim {
        SeenClaim {
            probabilities: p.to_vec(),
            supports: vec![true, false, false],
            evidence_type: "tool_match",
        }
    }

    fn answer(grounded: f64, is_bad: bool) -> Seen {
        let rest = (1.0 - grounded) / 2.0;
        Seen::Answer { claims: vec![claim([grounded, rest, rest])], is_bad }
    }

    fn fitted() -> Fitted {
        Fitted::new("m", [("human".to_owned(), 100)].into())
    }

    const WISH: Wish = Wish { target: 0.9, weights: false };

    #[test]
    fn an_overconfident_model_is_cooled_and_its_thresholds_keep_the_target() {
        // 0.98 sure either way; right in 19 of 20 bad ones, in 3 of 4 good ones.
        let bad = (0..60).map(|n| answer(0.02, n % 20 != 0));
        let good = (0..60).map(|n| answer(0.98, n % 4 == 0));
        let seen: Vec<Seen> = bad.chain(good).collect();
        let (mut found, mut notes) = (fitted(), Vec::new());
        fit(&seen, WISH, &mut found, &mut notes);
        assert!(found.temperatures["grounding"] > 1.2, "{found:?}");
        let p = hallucination(&[claim([0.02, 0.49, 0.49])], found.temperatures["grounding"]).unwrap();
        assert!(
            found.thresholds.hallucination.is_some_and(|threshold| p >= threshold - 0.001),
            "{found:?} {p}"
        );
        assert_eq!(found.thresholds.faithful, None, "75 % is not 90 %");
        assert!(
            notes.iter().any(|note| note.starts_with("label.faithful") && note.contains("75 %")),
            "{notes:?}"
        );
        let told = report(&seen, &found, Thresholds { faithful: Some(0.6), ..Thresholds::default() });
        let answers = told.answers.unwrap();
        assert!(answers.ece < answers.ece_before && answers.brier < answers.brier_before, "{answers:?}");
        assert_eq!(told.thresholds["label.hallucination"].accuracy, Some(57.0 / 60.0));
        assert!(told.thresholds.contains_key("label.faithful"), "as configured");
    }

    #[test]
    fn verdicts_given_before_bring_thresholds_and_no_temperature() {
        let given = |p: f64, is_bad| Seen::Given {
            is_claim: false,
            p: Some(p),
            confidence: None,
            said: Some(p > 0.5),
            is_bad,
        };
        let seen: Vec<Seen> =
            (0..40).map(|n| given(if n % 2 == 0 { 0.9 } else { 0.1 }, n % 2 == 0)).collect();
        let (mut found, mut notes) = (fitted(), Vec::new());
        fit(&seen, WISH, &mut found, &mut notes);
        assert!(found.temperatures.is_empty());
        assert_eq!((found.thresholds.hallucination, found.thresholds.faithful), (Some(0.9), Some(0.9)));
        assert_eq!(found.thresholds.min_confidence, None);
    }

    #[test]
    fn each_kind_of_question_has_its_temperature_and_a_frequent_one_its_own() {
        let noul = Kind::Noul { if_true: None, if_false: None };
        let question = |id: &str, p: f64, truth| Seen::Question {
            id: id.to_owned(),
            key: "noul",
            kind: noul.clone(),
            probabilities: vec![1.0 - p, p],
            truth,
        };
        let sure = (0..60).map(|n| question("sure", 0.99, usize::from(n % 3 != 0)));
        let humble = (0..60).map(|_| question("humble", 0.6, 1));
        let seen: Vec<Seen> = sure.chain(humble).collect();
        let (mut found, mut notes) = (fitted(), Vec::new());
        fit(&seen, WISH, &mut found, &mut notes);
        assert!(found.temperatures["sure"] > 2.0 && found.temperatures["humble"] < 0.5, "{found:?}");
        assert!(found.temperatures.contains_key("noul"));
        assert_eq!(report(&seen, &found, Thresholds::default()).questions["noul"].count, 120);
    }

    #[test]
    fn weights_follow_what_has_proved_right() {
        let of = |kind: &'static str, grounded: f64, is_bad| Seen::Answer {
            claims: vec![SeenClaim { evidence_type: kind, ..claim([grounded, 1.0 - grounded, 0.0]) }],
            is_bad,
        };
        let seen: Vec<Seen> =
            (0..40).flat_map(|n| [of("tool_match", 0.9, false), of("inference", 0.9, n % 2 == 0)]).collect();
        let (mut found, mut notes) = (fitted(), Vec::new());
        fit(&seen, Wish { weights: true, ..WISH }, &mut found, &mut notes);
        assert_eq!(found.weights["tool_match"], 1.0);
        assert!((found.weights["inference"] - 0.51).abs() < 0.011, "{:?}", found.weights);
    }

    #[test]
    fn too_few_records_are_told() {
        let (mut found, mut notes) = (fitted(), Vec::new());
        fit(&[answer(0.9, false)], WISH, &mut found, &mut notes);
        assert!(found.temperatures.is_empty() && found.thresholds == Thresholds::default());
        assert!(notes.iter().any(|note| note.contains("too few")), "{notes:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn a_fitted_threshold_keeps_the_target_on_what_it_was_fitted_to(
            answers_in in prop::collection::vec((0.01f64..0.99, any::<bool>()), 20..80), target in 0.5..0.95,
        ) {
            let seen: Vec<Seen> = answers_in.into_iter().map(|(grounded, bad)| answer(grounded, bad)).collect();
            let (mut found, mut notes) = (fitted(), Vec::new());
            fit(&seen, Wish { target, weights: false }, &mut found, &mut notes);
            prop_assert!(found.temperatures.values().all(|temperature| *temperature > 0.0));
            let told = report(&seen, &found, Thresholds::default());
            for (name, promise) in &told.thresholds {
                // Rounding may let in an answer that is a millionth less sure.
                let slack = 2.0 / promise.answers.max(1) as f64;
                prop_assert!(promise.accuracy.is_none_or(|found| found + slack >= target), "{name} {promise:?}");
            }
        }
    }
}
