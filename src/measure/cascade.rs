//! What a decision model, a threshold and a judge make together.

use serde::Serialize;

use super::graded::mean;
use super::{Graded, accuracy};

/// One labelled question: what was said to it, and what is right.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The item that it belongs to, by position: a judge is asked once for all that an item leaves over.
    pub item: usize,
    /// The position of the right label.
    pub truth: usize,
    /// The decision model's answer; none if it gave none.
    pub decided: Option<Decided>,
    /// The judge's pick; none if there is no judge or it gave none.
    pub judged: Option<usize>,
}

/// A decision model's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Decided {
    /// With probabilities.
    Graded(Graded),
    /// A bare pick, as an LLM gives it: it is not less sure of one than of another.
    Pick(usize),
}

impl Decided {
    fn pick(&self) -> usize {
        match self {
            Self::Graded(graded) => graded.pick(),
            Self::Pick(pick) => *pick,
        }
    }
}

/// A threshold and what comes of it. Shares are of all questions unless they say otherwise.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Answers at least this sure are settled.
    pub threshold: f64,
    /// The share of settled answers.
    pub settled: f64,
    /// The share of right ones among the settled; none if none is.
    pub accuracy_when_settled: Option<f64>,
    /// The share of right answers if the judge answers the rest; where it has no answer, the decision model's stays. None
    /// without a judge.
    pub cascade_accuracy: Option<f64>,
    /// The share of questions that go to the judge.
    pub judge_share: f64,
    /// The share of items for which the judge is asked.
    pub items_to_judge: f64,
}

/// What comes of `threshold`. `has_judge`: whether a judge answers the rest.
pub fn row(cases: &[Case], threshold: f64, has_judge: bool) -> Row {
    let is_settled = |case: &Case| case.is_settled(threshold);
    let total = cases.len().max(1) as f64;
    let settled: Vec<&Case> = cases.iter().filter(|case| is_settled(case)).collect();
    let right = |answer: Option<usize>, case: &Case| f64::from(u8::from(answer == Some(case.truth)));
    let pick = |case: &Case| case.decided.as_ref().map(Decided::pick);
    let together =
        |case: &Case| if is_settled(case) { pick(case) } else { case.judged.or_else(|| pick(case)) };
    let items = |chosen: &dyn Fn(&Case) -> bool| {
        let mut items: Vec<usize> = cases.iter().filter(|case| chosen(case)).map(|case| case.item).collect();
        items.sort_unstable();
        items.dedup();
        items.len() as f64
    };
    Row {
        threshold,
        settled: settled.len() as f64 / total,
        accuracy_when_settled: mean(settled.iter().map(|case| right(pick(case), case))),
        cascade_accuracy: if has_judge {
            mean(cases.iter().map(|case| right(together(case), case)))
        } else {
            None
        },
        judge_share: 1.0 - settled.len() as f64 / total,
        items_to_judge: items(&|case| !is_settled(case)) / items(&|_| true).max(1.0),
    }
}

impl Case {
    /// Whether the answer is at least as sure as `threshold`.
    pub fn is_settled(&self, threshold: f64) -> bool {
        match &self.decided {
            Some(Decided::Graded(graded)) => graded.confidence >= threshold,
            Some(Decided::Pick(_)) => true,
            None => false,
        }
    }

    /// Whether the decision model's pick, or its lack of one, is right.
    pub fn is_right(&self) -> bool {
        self.decided.as_ref().map(Decided::pick) == Some(self.truth)
    }

    /// The answer with probabilities, if there is one.
    pub fn graded(&self) -> Option<&Graded> {
        match &self.decided {
            Some(Decided::Graded(graded)) => Some(graded),
            _ => None,
        }
    }
}

/// The share of right answers among those that were given; none of none.
pub fn accuracy_of_answered(cases: &[Case]) -> Option<f64> {
    let graded: Vec<Graded> = cases.iter().filter_map(Case::graded).cloned().collect();
    if graded.len() == cases.len() {
        return accuracy(&graded);
    }
    let answered = cases.iter().filter(|case| case.decided.is_some());
    mean(answered.map(|case| f64::from(u8::from(case.is_right()))))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn case(item: usize, p: f64, truth: bool, judged: Option<bool>) -> Case {
        let decided = Some(Decided::Graded(Graded::binary(p, truth)));
        Case { item, truth: usize::from(truth), decided, judged: judged.map(usize::from) }
    }

    #[test]
    fn a_row_is_what_is_worked_out_by_hand() {
        let cases = [
            case(0, 0.97, true, Some(true)),
            case(0, 0.6, false, Some(false)), // wrong, 0.2 sure; the judge mends it
            case(1, 0.98, false, Some(false)), // wrong, and sure of it
            case(2, 0.4, false, None),        // right, not sure; the judge failed
        ];
        let found = row(&cases, 0.9, true);
        assert_eq!((found.settled, found.judge_share), (0.5, 0.5));
        assert_eq!(found.accuracy_when_settled, Some(0.5));
        assert_eq!(found.cascade_accuracy, Some(0.75));
        assert!((found.items_to_judge - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(row(&cases, 0.9, false).cascade_accuracy, None);
        assert_eq!(accuracy_of_answered(&cases), Some(0.5));
    }

    #[test]
    fn an_unanswered_question_is_not_settled_and_a_bare_pick_is() {
        let open = Case { item: 0, truth: 1, decided: None, judged: Some(1) };
        let picked = Case { item: 0, truth: 1, decided: Some(Decided::Pick(0)), judged: Some(1) };
        let found = row(&[open.clone(), picked.clone()], 0.5, true);
        assert_eq!(
            (found.settled, found.accuracy_when_settled, found.cascade_accuracy),
            (0.5, Some(0.0), Some(0.5))
        );
        assert_eq!(accuracy_of_answered(&[open, picked]), Some(0.0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_perfect_judge_never_makes_it_worse_and_a_higher_threshold_asks_it_more(
            cases in prop::collection::vec((0usize..6, 0.0..=1.0, any::<bool>()), 1..40),
        ) {
            let cases: Vec<Case> = cases.into_iter().map(|(item, p, truth)| case(item, p, truth, Some(truth))).collect();
            let rows: Vec<Row> = [0.0, 0.3, 0.6, 0.9, 1.1].iter().map(|threshold| row(&cases, *threshold, true)).collect();
            prop_assert!(rows.windows(2).all(|pair| pair[0].judge_share <= pair[1].judge_share + 1e-12));
            prop_assert!(rows.windows(2).all(|pair| pair[0].cascade_accuracy <= pair[1].cascade_accuracy));
            prop_assert_eq!(rows[4].cascade_accuracy, Some(1.0));
            prop_assert_eq!(rows[0].cascade_accuracy, accuracy_of_answered(&cases));
        }
    }
}
