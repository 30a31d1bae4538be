//! How far people and verdicts agree.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Mark, Predicted, Record};

/// Agreement on answers, and on claims.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Agreement {
    /// On whole answers.
    pub verdicts: Measure,
    /// On single claims.
    pub claims: Measure,
}

/// Agreement on the one question that matters: does something not stand? Where assayd did not decide (`unsure`, nobody
/// answered) there is nothing to agree with; such labels are in `labels` and `undecided` only.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measure {
    /// Labels by people.
    pub labels: u64,
    /// Of these, on what assayd had not decided.
    pub undecided: u64,
    /// Both say that something does not stand.
    pub true_positives: u64,
    /// assayd says so, the person does not.
    pub false_positives: u64,
    /// Both say that all stands.
    pub true_negatives: u64,
    /// assayd says that all stands, the person does not.
    pub false_negatives: u64,
    /// Cohen's kappa; none where it is not defined: no labels, or all of one kind on both sides.
    pub kappa: Option<f64>,
}

/// How often which mark met which prediction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Confusion {
    counts: BTreeMap<(Predicted, Mark), u64>,
}

impl Confusion {
    pub fn add(&mut self, record: &Record) {
        if let Some(label) = record.label {
            *self.counts.entry((record.predicted, label)).or_default() += 1;
        }
    }

    pub fn remove(&mut self, record: &Record) {
        if let Some(count) = record.label.and_then(|label| self.counts.get_mut(&(record.predicted, label))) {
            *count -= 1;
        }
    }

    pub fn count(&self, predicted: Predicted, label: Mark) -> u64 {
        self.counts.get(&(predicted, label)).copied().unwrap_or(0)
    }

    pub fn agreement(&self) -> Agreement {
        let of_kind = |is_of_claims| {
            let chosen =
                self.counts.iter().filter(move |((_, label), _)| label.is_of_claims() == is_of_claims);
            Measure::of(
                chosen.map(|((predicted, label), count)| (predicted.is_bad(), label.is_bad(), *count)),
            )
        };
        Agreement { verdicts: of_kind(false), claims: of_kind(true) }
    }
}

impl Measure {
    fn of(counts: impl Iterator<Item = (Option<bool>, bool, u64)>) -> Self {
        let mut measure = Self {
            labels: 0,
            undecided: 0,
            true_positives: 0,
            false_positives: 0,
            true_negatives: 0,
            false_negatives: 0,
            kappa: None,
        };
        for (predicted, marked, count) in counts {
            measure.labels += count;
            match (predicted, marked) {
                (None, _) => measure.undecided += count,
                (Some(true), true) => measure.true_positives += count,
                (Some(true), false) => measure.false_positives += count,
                (Some(false), false) => measure.true_negatives += count,
                (Some(false), true) => measure.false_negatives += count,
            }
        }
        measure.kappa = measure.cohens_kappa();
        measure
    }

    /// (observed − expected) / (1 − expected), expected being the agreement of two who guess at their own rates.
    fn cohens_kappa(&self) -> Option<f64> {
        let [tp, fp, tn, fneg] =
            [self.true_positives, self.false_positives, self.true_negatives, self.false_negatives]
                .map(|count| count as f64);
        let n = tp + fp + tn + fneg;
        let observed = (tp + tn) / n;
        let expected = ((tp + fp) * (tp + fneg) + (tn + fneg) * (tn + fp)) / (n * n);
        let kappa = (observed - expected) / (1.0 - expected);
        kappa.is_finite().then_some(kappa)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(tp: u64, fp: u64, tn: u64, fneg: u64) -> Measure {
        let counts = [
            (Some(true), true, tp),
            (Some(true), false, fp),
            (Some(false), false, tn),
            (Some(false), true, fneg),
        ];
        Measure::of(counts.into_iter())
    }

    #[test]
    fn kappa_is_cohens() {
        // Observed 0.7; expected (25·30 + 25·20) / 50² = 0.5.
        assert!((measure(20, 5, 15, 10).kappa.unwrap() - 0.4).abs() < 1e-12);
        assert_eq!(measure(10, 0, 10, 0).kappa, Some(1.0));
        assert_eq!(measure(0, 10, 0, 10).kappa, Some(-1.0));
        assert_eq!(measure(5, 5, 5, 5).kappa, Some(0.0));
    }

    #[test]
    fn kappa_of_nothing_or_of_one_kind_alone_is_no_number() {
        assert_eq!(measure(0, 0, 0, 0).kappa, None);
        assert_eq!(measure(7, 0, 0, 0).kappa, None);
    }

    #[test]
    fn the_undecided_count_as_labels_only() {
        let measure = Measure::of([(None, true, 3), (Some(true), true, 1)].into_iter());
        assert_eq!((measure.labels, measure.undecided, measure.true_positives), (4, 3, 1));
    }
}
