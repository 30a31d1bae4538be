//! When to write down what was spent: at most once in a second, but at once where it would be too much to forget. Pure; `now`
//! is an argument.

use std::time::{Duration, Instant};

use super::budget::NanoUsd;

/// The least time between two writes that can wait.
const PAUSE: Duration = Duration::from_secs(1);

/// What is to be done after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Write {
    /// Write before going on.
    Now,
    /// Plan a write.
    In(Duration),
    /// A write that is planned already will have it.
    Planned,
}

/// The state of writing.
#[derive(Debug)]
pub(super) struct Rhythm {
    /// So much may be forgotten.
    risk: NanoUsd,
    /// What was spent since the last write began.
    since_then: NanoUsd,
    last: Option<Instant>,
    is_changed: bool,
    is_planned: bool,
}

impl Rhythm {
    /// With a first write to come.
    pub fn new(risk: NanoUsd) -> Self {
        Self { risk, since_then: NanoUsd(0), last: None, is_changed: true, is_planned: false }
    }

    /// Money is about to be spent.
    pub fn spent(&mut self, amount: NanoUsd, now: Instant) -> Write {
        self.since_then = NanoUsd(self.since_then.0.saturating_add(amount.0));
        self.is_changed = true;
        if self.since_then > self.risk || self.pause(now).is_zero() {
            return Write::Now;
        }
        self.plan(now)
    }

    /// It turned out to be less.
    pub fn changed(&mut self, now: Instant) -> Write {
        self.is_changed = true;
        self.plan(now)
    }

    fn plan(&mut self, now: Instant) -> Write {
        if std::mem::replace(&mut self.is_planned, true) {
            return Write::Planned;
        }
        Write::In(self.pause(now))
    }

    fn pause(&self, now: Instant) -> Duration {
        self.last.map_or(Duration::ZERO, |last| PAUSE.saturating_sub(now.saturating_duration_since(last)))
    }

    /// The planned write has come.
    pub fn woken(&mut self) {
        self.is_planned = false;
    }

    /// A write begins; false if there is nothing to write.
    pub fn begin(&mut self, now: Instant) -> bool {
        if !std::mem::replace(&mut self.is_changed, false) {
            return false;
        }
        self.since_then = NanoUsd(0);
        self.last = Some(now);
        true
    }

    /// Something has changed that no write is planned for: the last one failed, or nobody can plan.
    pub fn unwritten(&mut self) {
        self.is_changed = true;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RISK: NanoUsd = NanoUsd(100);
    const MOMENT: Duration = Duration::from_millis(300);

    #[test]
    fn the_first_spending_after_a_rest_is_written_before_it_and_what_follows_within_a_second() {
        let mut now = Instant::now();
        let mut rhythm = Rhythm::new(RISK);
        assert!(rhythm.begin(now), "at the start");
        assert!(!rhythm.begin(now), "nothing has changed");
        now += PAUSE;
        assert_eq!(rhythm.spent(NanoUsd(1), now), Write::Now);
        assert!(rhythm.begin(now));
        now += MOMENT;
        assert_eq!(rhythm.spent(NanoUsd(1), now), Write::In(PAUSE - MOMENT));
        assert_eq!(rhythm.changed(now), Write::Planned);
        now += PAUSE - MOMENT;
        rhythm.woken();
        assert!(rhythm.begin(now));
        assert_eq!(rhythm.changed(now), Write::In(PAUSE));
    }

    #[test]
    fn what_is_too_much_to_forget_is_written_at_once() {
        let now = Instant::now();
        let mut rhythm = Rhythm::new(RISK);
        assert!(rhythm.begin(now));
        assert!(matches!(rhythm.spent(RISK, now), Write::In(_)));
        assert_eq!(rhythm.spent(NanoUsd(1), now), Write::Now);
        assert!(rhythm.begin(now));
        rhythm.unwritten();
        assert!(rhythm.begin(now), "it is tried again");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_not_written_is_never_more_than_the_risk_and_never_older_than_a_second(
            steps in prop::collection::vec((0..150u64, 0..700u64, any::<bool>()), 1..60),
        ) {
            let mut rhythm = Rhythm::new(RISK);
            let mut now = Instant::now();
            rhythm.begin(now);
            let (mut unwritten, mut oldest, mut planned) = (0, None, None);
            for (amount, millis, pays_back) in steps {
                now += Duration::from_millis(millis);
                if planned.is_some_and(|at| at <= now) {
                    rhythm.woken();
                    if rhythm.begin(now) {
                        (unwritten, oldest) = (0, None);
                    }
                    planned = None;
                }
                let write = if pays_back { rhythm.changed(now) } else { rhythm.spent(NanoUsd(amount), now) };
                if !pays_back {
                    unwritten += amount;
                    oldest = oldest.or(Some(now));
                }
                match write {
                    Write::Now => {
                        prop_assert!(rhythm.begin(now));
                        (unwritten, oldest) = (0, None);
                    }
                    Write::In(pause) => {
                        prop_assert!(pause <= PAUSE && planned.is_none());
                        planned = Some(now + pause);
                    }
                    Write::Planned => prop_assert!(planned.is_some()),
                }
                prop_assert!(unwritten <= RISK.0);
                let is_due = oldest.is_none_or(|since: Instant| {
                    planned.is_some_and(|at: Instant| at <= since + PAUSE)
                });
                prop_assert!(is_due, "what was spent is written within a second");
            }
        }
    }
}
