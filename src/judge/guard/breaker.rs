//! Leaves an endpoint alone that keeps failing, and tries it again by one call at a time. Pure; `now` is an argument.

use std::time::{Duration, Instant};

/// Counts failures in a row.
#[derive(Debug)]
pub(crate) struct Breaker {
    limit: u32,
    pause: Duration,
    failures: u32,
    resting_until: Option<Instant>,
}

/// Why a call may not be made now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resting {
    /// Failures in a row.
    pub failures: u32,
    /// When it is worth asking again.
    pub retry_in: Duration,
}

impl Breaker {
    /// Rests for `pause` after `limit` failures in a row.
    pub fn new(limit: u32, pause: Duration) -> Self {
        Self { limit, pause, failures: 0, resting_until: None }
    }

    /// Whether calls are being let through; changes nothing.
    pub fn check(&self, now: Instant) -> Result<(), Resting> {
        match self.resting_until {
            Some(until) if until > now => {
                Err(Resting { failures: self.failures, retry_in: until.saturating_duration_since(now) })
            }
            _ => Ok(()),
        }
    }

    /// Asks for leave to make a call. After a rest one call gets it, the others after another pause, unless that one succeeds:
    /// a call that never reports back so does not keep the breaker open for ever.
    pub fn enter(&mut self, now: Instant) -> Result<(), Resting> {
        self.check(now)?;
        if self.resting_until.is_some() {
            self.resting_until = Some(now + self.pause);
        }
        Ok(())
    }

    /// A call got a reply.
    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.resting_until = None;
    }

    /// A call failed. Whether the endpoint is left alone from now on.
    pub fn failed(&mut self, now: Instant) -> bool {
        self.failures = self.failures.saturating_add(1);
        if self.failures < self.limit {
            return false;
        }
        let begins = self.resting_until.is_none();
        self.resting_until = Some(now + self.pause);
        begins
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAUSE: Duration = Duration::from_secs(30);

    #[test]
    fn it_rests_after_failures_in_a_row_then_one_call_tries() {
        let start = Instant::now();
        let mut breaker = Breaker::new(2, PAUSE);
        assert!(!breaker.failed(start));
        breaker.succeeded();
        assert!(!breaker.failed(start));
        assert!(breaker.failed(start));
        assert_eq!(breaker.enter(start), Err(Resting { failures: 2, retry_in: PAUSE }));
        let later = start + PAUSE;
        assert_eq!(breaker.enter(later), Ok(()));
        assert!(breaker.enter(later).is_err());
        breaker.succeeded();
        assert_eq!(breaker.enter(later), Ok(()));
    }

    #[test]
    fn a_trial_that_is_lost_does_not_close_the_way_for_ever() {
        let start = Instant::now();
        let mut breaker = Breaker::new(1, PAUSE);
        breaker.failed(start);
        assert_eq!(breaker.enter(start + PAUSE), Ok(()));
        assert_eq!(breaker.enter(start + 2 * PAUSE), Ok(()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_never_rests_longer_than_its_pause(steps in prop::collection::vec((0..4u8, 0..60u64), 1..60)) {
            let mut now = Instant::now();
            let mut breaker = Breaker::new(3, PAUSE);
            for (step, seconds) in steps {
                now += Duration::from_secs(seconds);
                match step {
                    0 => breaker.succeeded(),
                    1 => drop(breaker.enter(now)),
                    _ => drop(breaker.failed(now)),
                }
                if let Err(resting) = breaker.check(now) {
                    prop_assert!(resting.retry_in <= PAUSE && resting.failures >= 3);
                }
                prop_assert!(breaker.check(now + PAUSE).is_ok());
            }
        }
    }
}
