//! How much an endpoint is asked at once: more by little steps while it answers, half as much when it says that it is too
//! much. Below one call at a time, calls are spaced out. Pure; `now` is an argument.

use std::time::{Duration, Instant};

/// Calls that were in flight together report the same overload; it counts once.
pub(super) const ONE_OVERLOAD: Duration = Duration::from_secs(1);

/// The slowest pace: one call in this time.
const SLOWEST: Duration = Duration::from_secs(32);
/// The pace when one call at a time is too much.
const FIRST_SPACING: Duration = Duration::from_millis(500);
/// What a success adds to the pace, in calls per second. Faster than [`NO_SPACING`] there is nothing to space out.
const FASTER: f64 = 0.25;
const NO_SPACING: Duration = Duration::from_millis(250);

/// Additive increase, multiplicative decrease.
#[derive(Debug)]
pub(super) struct Aimd {
    most: f64,
    limit: f64,
    spacing: Duration,
    decreased: Option<Instant>,
}

impl Aimd {
    /// Starts with the most.
    pub fn new(most: usize) -> Self {
        let most = most.max(1) as f64;
        Self { most, limit: most, spacing: Duration::ZERO, decreased: None }
    }

    /// A call got an answer: one slot more for each round of them, once calls need no spacing.
    pub fn succeeded(&mut self) {
        if self.spacing.is_zero() {
            self.limit = (self.limit + 1.0 / self.limit).min(self.most);
            return;
        }
        let pace = 1.0 / self.spacing.as_secs_f64() + FASTER;
        let spacing = Duration::from_secs_f64(1.0 / pace);
        self.spacing = if spacing <= NO_SPACING { Duration::ZERO } else { spacing };
    }

    /// The endpoint said that it is too much: half the slots, or half the pace where there is only one.
    pub fn overloaded(&mut self, now: Instant) {
        if self.decreased.is_some_and(|at| now.saturating_duration_since(at) < ONE_OVERLOAD) {
            return;
        }
        self.decreased = Some(now);
        if self.limit >= 2.0 {
            self.limit /= 2.0;
            return;
        }
        self.limit = 1.0;
        self.spacing = (self.spacing * 2).clamp(FIRST_SPACING, SLOWEST);
    }

    /// Calls that may be in flight.
    pub fn slots(&self) -> usize {
        self.limit as usize
    }

    /// Time to leave before a call; zero but where one call at a time is too much.
    pub fn spacing(&self) -> Duration {
        self.spacing
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn overload_halves_once_for_calls_that_flew_together_and_success_wins_it_back() {
        let now = Instant::now();
        let mut aimd = Aimd::new(16);
        aimd.overloaded(now);
        aimd.overloaded(now);
        assert_eq!(aimd.slots(), 8);
        aimd.overloaded(now + ONE_OVERLOAD);
        assert_eq!(aimd.slots(), 4);
        (0..5).for_each(|_| aimd.succeeded());
        assert_eq!(aimd.slots(), 5);
        (0..500).for_each(|_| aimd.succeeded());
        assert_eq!(aimd.slots(), 16);
    }

    #[test]
    fn where_one_call_at_a_time_is_too_much_calls_are_spaced_out_and_then_come_back() {
        let mut now = Instant::now();
        let mut aimd = Aimd::new(2);
        let mut seen = Vec::new();
        for _ in 0..9 {
            now += ONE_OVERLOAD;
            aimd.overloaded(now);
            seen.push((aimd.slots(), aimd.spacing().as_millis()));
        }
        let spaced = [500, 1000, 2000, 4000, 8000, 16000, 32000, 32000].map(|spacing| (1, spacing));
        assert_eq!(seen[0], (1, 0));
        assert_eq!(seen[1..], spaced);
        let mut before = aimd.spacing();
        while !aimd.spacing().is_zero() {
            aimd.succeeded();
            assert!(aimd.spacing() < before && aimd.slots() == 1);
            before = aimd.spacing();
        }
        aimd.succeeded();
        assert_eq!(aimd.slots(), 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn limits_hold_and_each_report_moves_the_pace_in_its_own_direction_only(
            most in 1..64usize,
            steps in prop::collection::vec((any::<bool>(), 0..3000u64), 1..200),
        ) {
            let mut aimd = Aimd::new(most);
            let mut now = Instant::now();
            for (fine, millis) in steps {
                now += Duration::from_millis(millis);
                let (slots, spacing) = (aimd.slots(), aimd.spacing());
                if fine {
                    aimd.succeeded();
                    prop_assert!(aimd.slots() >= slots && aimd.slots() <= slots + 1);
                    prop_assert!(aimd.spacing() <= spacing);
                } else {
                    aimd.overloaded(now);
                    prop_assert!(aimd.slots() <= slots && aimd.slots() >= slots / 2);
                    prop_assert!(aimd.spacing() >= spacing);
                }
                prop_assert!((1..=most).contains(&aimd.slots()));
                prop_assert!(aimd.spacing() <= SLOWEST);
                prop_assert!(aimd.spacing().is_zero() || aimd.slots() == 1);
            }
        }

        #[test]
        fn whatever_happened_success_brings_back_the_most(
            most in 1..32usize,
            overloads in 0..40u64,
        ) {
            let start = Instant::now();
            let mut aimd = Aimd::new(most);
            (0..overloads).for_each(|count| aimd.overloaded(start + ONE_OVERLOAD * count as u32));
            (0..2000).for_each(|_| aimd.succeeded());
            prop_assert_eq!((aimd.slots(), aimd.spacing()), (most, Duration::ZERO));
        }
    }
}
