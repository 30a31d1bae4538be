//! From graded records to temperatures, thresholds and weights; and how good they are on records that the fit has not seen.

use std::collections::BTreeMap;

use serde::Serialize;

use super::temperature::{fit_temperature, scaled};
use super::{Confusion, Fitted, Graded, RiskPoint, Thresholds};
use super::{accuracy, auroc, brier, ece, kappa, risk_coverage, threshold_for, wilson};
use crate::domain::{Decision, Kind};

/// Bins of the calibration error.
const BINS: usize = 10;

/// Fewer answers than this say nothing about a threshold.
const LEAST_SETTLED: usize = 10;

/// Fewer answers than this get no temperature.
const LEAST_FITTED: usize = 20;

/// From this many answers on a question has a temperature of its own.
const LEAST_OWN: usize = 50;

/// Confidences at which risk and coverage are told.
const STEPS: [f64; 11] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95];

/// What was said of one record, and what is right.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// An answer, by its claims.
    Answer {
        /// The claims that have probabilities.
        claims: Vec<SeenClaim>,
        /// Whether something in it does not stand.
        is_bad: bool,
    },
    /// A typed question.
    Question {
        /// Its id.
        id: String,
        /// What it is calibrated by if it has no temperature of its own.
        key: &'static str,
        /// Its kind.
        kind: Kind,
        /// One probability per label.
        probabilities: Vec<f64>,
        /// The position of the right label.
        truth: usize,
    },
    /// A verdict that was given before: only its numbers are known.
    Given {
        /// Whether it is about one claim.
        is_claim: bool,
        /// The probability that something does not stand.
        p: Option<f64>,
        /// How sure the model was.
        confidence: Option<f64>,
        /// Whether it was said that something does not stand; none where it was left open.
        said: Option<bool>,
        /// Whether something does not stand.
        is_bad: bool,
    },
}

/// A claim, as the decision model saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenClaim {
    /// One probability per standing.
    pub probabilities: Vec<f64>,
    /// Which of the standings support it.
    pub supports: Vec<bool>,
    /// The kind of its evidence, by name.
    pub evidence_type: &'static str,
}

impl SeenClaim {
    /// The probability that it does not stand.
    fn doubt(&self, temperature: f64) -> f64 {
        let p = scaled(&self.probabilities, temperature);
        let supported: f64 =
            p.iter().zip(&self.supports).filter(|(_, supports)| **supports).map(|(p, _)| p).sum();
        (1.0 - supported).clamp(0.0, 1.0)
    }

    /// How sure the pick is, and whether it says that the claim does not stand.
    fn stand(&self, temperature: f64) -> (f64, bool) {
        let decision = Decision { probabilities: scaled(&self.probabilities, temperature), tokens: 0 };
        let kind = Kind::Choice { options: Vec::new() };
        let stands = self.supports.get(decision.pick()).copied().unwrap_or(false);
        (decision.confidence(&kind), !stands)
    }
}

/// The largest doubt over the claims, as a verdict has it.
fn hallucination(claims: &[SeenClaim], temperature: f64) -> Option<f64> {
    claims.iter().map(|claim| claim.doubt(temperature)).reduce(f64::max)
}

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

fn temperature_of(fitted: &Fitted, keys: &[&str]) -> f64 {
    keys.iter().find_map(|key| fitted.temperatures.get(*key)).copied().unwrap_or(1.0)
}

/// Whole answers: the probability that something does not stand, and whether it does not.
fn answers(seen: &[Seen], fitted: &Fitted) -> Vec<(f64, bool)> {
    let temperature = temperature_of(fitted, &["grounding"]);
    let one = |seen: &Seen| match seen {
        Seen::Answer { claims, is_bad } => Some((hallucination(claims, temperature)?, *is_bad)),
        Seen::Given { is_claim: false, p, is_bad, .. } => Some(((*p)?, *is_bad)),
        Seen::Given { .. } | Seen::Question { .. } => None,
    };
    seen.iter().filter_map(one).collect()
}

/// Single decisions as the cascade settles them: how sure, and whether right. Of an answer's claims those of which the label
/// of the answer says enough: all of a good answer, the only one of a bad answer.
fn settled(seen: &[Seen], fitted: &Fitted) -> Vec<(f64, bool)> {
    let mut settled = Vec::new();
    for one in seen {
        match one {
            Seen::Answer { claims, is_bad } if !is_bad || claims.len() == 1 => {
                let temperature = temperature_of(fitted, &["grounding"]);
                settled.extend(claims.iter().map(|claim| {
                    let (confidence, said_bad) = claim.stand(temperature);
                    (confidence, said_bad == *is_bad)
                }));
            }
            Seen::Question { id, key, kind, probabilities, truth } => {
                let probabilities = scaled(probabilities, temperature_of(fitted, &[id, key]));
                let decision = Decision { probabilities, tokens: 0 };
                settled.push((decision.confidence(kind), decision.pick() == *truth));
            }
            Seen::Given {
                confidence: Some(confidence), said: Some(said), is_bad, is_claim: true, ..
            } => {
                settled.push((*confidence, said == is_bad));
            }
            Seen::Answer { .. } | Seen::Given { .. } => {}
        }
    }
    settled
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

/// How good a calibration is on some records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Records.
    pub records: usize,
    /// Whole answers: does something not stand?
    pub answers: Option<Measured>,
    /// Typed questions, by what they are calibrated by.
    pub questions: BTreeMap<String, Measured>,
    /// Single decisions, as the cascade settles them: risk and coverage by their confidence.
    pub decisions: Vec<RiskPoint>,
    /// What the thresholds do here.
    pub thresholds: BTreeMap<String, Promise>,
}

/// Measures of one kind of answers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// How many.
    pub count: usize,
    /// The share of right ones.
    pub accuracy: Option<f64>,
    /// Expected calibration error, 10 bins.
    pub ece: Option<f64>,
    /// The same with the model's own probabilities.
    pub ece_before: Option<f64>,
    /// Brier score.
    pub brier: Option<f64>,
    /// The same with the model's own probabilities.
    pub brier_before: Option<f64>,
    /// Cohen's kappa with the labels.
    pub kappa: Option<f64>,
    /// Area under the ROC curve, of yes and no.
    pub auroc: Option<f64>,
    /// Counts, of yes and no.
    pub confusion: Option<Confusion>,
    /// What a threshold on the confidence costs and brings.
    pub risk_coverage: Vec<RiskPoint>,
}

/// A threshold and what it does.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Promise {
    /// The threshold.
    pub threshold: f64,
    /// The share of answers that reach it.
    pub coverage: f64,
    /// How many these are.
    pub answers: usize,
    /// The share of right ones among them.
    pub accuracy: Option<f64>,
    /// Its interval of 95 %.
    pub interval: [f64; 2],
}

impl Promise {
    fn of(answers: &[(f64, bool)], total: usize, threshold: f64) -> Self {
        let reached = answers.iter().filter(|(confidence, _)| *confidence >= threshold);
        let (count, right) =
            reached.fold((0, 0), |(count, right), (_, is_right)| (count + 1, right + usize::from(*is_right)));
        Self {
            threshold,
            coverage: count as f64 / total.max(1) as f64,
            answers: count,
            accuracy: (count > 0).then(|| right as f64 / count as f64),
            interval: wilson(right, count),
        }
    }
}

/// Reports on records, with the thresholds that are in force: the fitted ones, else `configured`.
pub fn report(seen: &[Seen], fitted: &Fitted, configured: Thresholds) -> Report {
    let plain = Fitted { temperatures: BTreeMap::new(), ..fitted.clone() };
    let (after, before) = (answers(seen, fitted), answers(seen, &plain));
    let binary =
        |answers: &[(f64, bool)]| answers.iter().map(|(p, bad)| Graded::binary(*p, *bad)).collect::<Vec<_>>();
    let decisions = settled(seen, fitted);
    let mut thresholds = BTreeMap::new();
    let mut promise = |name: &str, threshold: Option<f64>, answers: &[(f64, bool)]| {
        if let Some(threshold) = threshold.filter(|_| !answers.is_empty()) {
            thresholds.insert(name.to_owned(), Promise::of(answers, answers.len(), threshold));
        }
    };
    let now = &fitted.thresholds;
    promise("min_confidence", now.min_confidence.or(configured.min_confidence), &decisions);
    let bad: Vec<(f64, bool)> = after.clone();
    let good: Vec<(f64, bool)> = after.iter().map(|(p, is_bad)| (1.0 - p, !is_bad)).collect();
    promise("label.hallucination", now.hallucination.or(configured.hallucination), &bad);
    promise("label.faithful", now.faithful.or(configured.faithful), &good);
    Report {
        records: seen.len(),
        answers: (!after.is_empty()).then(|| Measured::of(&binary(&after), &binary(&before))),
        questions: questions(seen, fitted, &plain),
        decisions: if decisions.is_empty() { Vec::new() } else { risk_coverage(&decisions, &STEPS) },
        thresholds,
    }
}

fn questions(seen: &[Seen], fitted: &Fitted, plain: &Fitted) -> BTreeMap<String, Measured> {
    let graded = |fitted: &Fitted| {
        let mut graded: BTreeMap<String, Vec<Graded>> = BTreeMap::new();
        for one in seen {
            let Seen::Question { id, key, kind, probabilities, truth } = one else { continue };
            let probabilities = scaled(probabilities, temperature_of(fitted, &[id, key]));
            let decision = Decision { probabilities, tokens: 0 };
            let confidence = decision.confidence(kind);
            let answer = Graded { probabilities: decision.probabilities, truth: *truth, confidence };
            graded.entry((*key).to_owned()).or_default().push(answer);
        }
        graded
    };
    let (after, before) = (graded(fitted), graded(plain));
    after.into_iter().map(|(key, answers)| (key.clone(), Measured::of(&answers, &before[&key]))).collect()
}

impl Measured {
    fn of(answers: &[Graded], before: &[Graded]) -> Self {
        let is_binary = answers.iter().all(|answer| answer.probabilities.len() == 2);
        let pairs: Vec<(usize, usize)> = answers.iter().map(|answer| (answer.pick(), answer.truth)).collect();
        let scores: Vec<(f64, bool)> =
            answers.iter().map(|answer| (answer.probabilities[1], answer.truth == 1)).collect();
        let right: Vec<(f64, bool)> =
            answers.iter().map(|answer| (answer.confidence, answer.is_right())).collect();
        Self {
            count: answers.len(),
            accuracy: accuracy(answers),
            ece: ece(answers, BINS),
            ece_before: ece(before, BINS),
            brier: brier(answers),
            brier_before: brier(before),
            kappa: kappa(&pairs),
            auroc: if is_binary { auroc(&scores) } else { None },
            confusion: is_binary
                .then(|| Confusion::of(pairs.iter().map(|(pick, truth)| (*pick == 1, *truth == 1)))),
            risk_coverage: risk_coverage(&right, &STEPS),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
