//! How many questions each evaluator may send to the judge in an hour.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

/// Limits by evaluator; those without one are free. Clones share what is left.
#[derive(Clone, Default)]
pub struct Allowances(Arc<HashMap<Arc<str>, DefaultDirectRateLimiter>>);

impl Allowances {
    /// These limits. Each may be used up at once, and comes back evenly over the hour.
    pub fn new(limits: impl IntoIterator<Item = (Arc<str>, NonZeroU32)>) -> Self {
        let limiter = |limit| RateLimiter::direct(Quota::per_hour(limit));
        Self(Arc::new(limits.into_iter().map(|(evaluator, limit)| (evaluator, limiter(limit))).collect()))
    }

    /// Takes one question's place; false if none is left.
    pub fn take(&self, evaluator: &str) -> bool {
        self.0.get(evaluator).is_none_or(|limiter| limiter.check().is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_holds_for_its_evaluator_and_its_clones() {
        let allowances = Allowances::new([("tone".into(), NonZeroU32::new(2).unwrap())]);
        let same = allowances.clone();
        assert!(allowances.take("tone") && same.take("tone"));
        assert!(!allowances.take("tone") && !same.take("tone"));
        assert!((0..100).all(|_| allowances.take("toxicity")));
    }
}
