//! Money per hour and day. Every attempt reserves what it may cost at most and settles what it did cost, so that calls at the
//! same time cannot overspend together. Pure; `now` is an argument. Counted from the daemon's start: a restart forgets it.

use std::time::Duration;

use super::super::Window;
use crate::domain::Time;

const NANOS_PER_USD: f64 = 1e9;
const HOUR: u64 = 3_600_000_000_000;
const DAY: u64 = 24 * HOUR;

/// An amount in billionths of a US dollar: whole numbers, so that taking back a reservation is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct NanoUsd(pub u64);

impl NanoUsd {
    /// Rounded up: what is spent is never less than what is counted.
    pub fn from_usd(usd: f64) -> Self {
        Self((usd * NANOS_PER_USD).ceil().max(0.0) as u64)
    }

    /// In dollars.
    pub fn usd(self) -> f64 {
        self.0 as f64 / NANOS_PER_USD
    }
}

#[derive(Debug)]
struct Purse {
    window: Window,
    length: u64,
    limit_usd: f64,
    limit: NanoUsd,
    index: u64,
    spent: u64,
}

impl Purse {
    fn new(window: Window, length: u64, limit_usd: f64) -> Self {
        Self { window, length, limit_usd, limit: NanoUsd::from_usd(limit_usd), index: 0, spent: 0 }
    }

    /// A clock that jumps back does not open a new window, or jumping would be a way to overspend.
    fn turn(&mut self, now: Time) {
        let index = now.0 / self.length;
        if index > self.index {
            self.index = index;
            self.spent = 0;
        }
    }
}

/// The budgets that are configured.
#[derive(Debug)]
pub(crate) struct Budget {
    purses: Vec<Purse>,
}

/// Money that is set aside for one attempt.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a reservation has to be settled"]
pub(crate) struct Reservation {
    amount: NanoUsd,
    /// The window of each purse in which it was made.
    indexes: Vec<u64>,
}

/// Why an attempt may not be made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spent {
    /// Whose money is spent.
    pub window: Window,
    /// The window's limit.
    pub limit_usd: f64,
    /// When it starts anew.
    pub resets_in: Duration,
}

impl Budget {
    /// Limits that are absent do not limit.
    pub fn new(usd_per_hour: Option<f64>, usd_per_day: Option<f64>) -> Self {
        let hour = usd_per_hour.map(|limit| Purse::new(Window::Hour, HOUR, limit));
        let day = usd_per_day.map(|limit| Purse::new(Window::Day, DAY, limit));
        Self { purses: hour.into_iter().chain(day).collect() }
    }

    /// Sets money aside, if every budget still has it.
    pub fn reserve(&mut self, amount: NanoUsd, now: Time) -> Result<Reservation, Spent> {
        for purse in &mut self.purses {
            purse.turn(now);
            if purse.spent.saturating_add(amount.0) > purse.limit.0 {
                let ends = (purse.index + 1).saturating_mul(purse.length);
                let resets_in = Duration::from_nanos(ends.saturating_sub(now.0));
                return Err(Spent { window: purse.window, limit_usd: purse.limit_usd, resets_in });
            }
        }
        for purse in &mut self.purses {
            purse.spent += amount.0;
        }
        Ok(Reservation { amount, indexes: self.purses.iter().map(|purse| purse.index).collect() })
    }

    /// Replaces a reservation by what the attempt did cost. In a window that began since then it counts for nothing.
    pub fn settle(&mut self, reservation: Reservation, cost: NanoUsd) {
        for (purse, index) in self.purses.iter_mut().zip(reservation.indexes) {
            if purse.index == index {
                purse.spent = purse.spent.saturating_sub(reservation.amount.0).saturating_add(cost.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ONE: NanoUsd = NanoUsd(1_000_000_000);

    #[test]
    fn calls_at_the_same_time_cannot_overspend_together() {
        let now = Time(5 * DAY + HOUR / 2);
        let mut budget = Budget::new(Some(2.0), None);
        let first = budget.reserve(ONE, now).unwrap();
        let _second = budget.reserve(ONE, now).unwrap();
        let spent = budget.reserve(NanoUsd(1), now).unwrap_err();
        assert_eq!(
            spent,
            Spent { window: Window::Hour, limit_usd: 2.0, resets_in: Duration::from_secs(1800) }
        );
        budget.settle(first, NanoUsd(0));
        assert!(budget.reserve(ONE, now).is_ok());
    }

    #[test]
    fn a_new_hour_is_a_new_budget_and_the_day_goes_on() {
        let now = Time(5 * DAY);
        let mut budget = Budget::new(Some(1.0), Some(1.5));
        let first = budget.reserve(ONE, now).unwrap();
        budget.settle(first, ONE);
        assert_eq!(budget.reserve(ONE, now).unwrap_err().window, Window::Hour);
        let later = Time(now.0 + HOUR);
        assert_eq!(budget.reserve(ONE, later).unwrap_err().window, Window::Day);
        assert!(budget.reserve(NanoUsd(ONE.0 / 2), later).is_ok());
        assert!(budget.reserve(ONE, Time(now.0 + DAY)).is_ok());
    }

    #[test]
    fn a_clock_that_jumps_back_opens_no_new_window() {
        let mut budget = Budget::new(Some(1.0), None);
        let now = Time(10 * HOUR);
        let reserved = budget.reserve(ONE, now).unwrap();
        budget.settle(reserved, ONE);
        assert!(budget.reserve(ONE, Time(5 * HOUR)).is_err());
        assert!(budget.reserve(ONE, now).is_err());
    }

    #[test]
    fn money_is_rounded_up() {
        assert_eq!(NanoUsd::from_usd(1e-10), NanoUsd(1));
        assert_eq!(NanoUsd::from_usd(2.5).usd(), 2.5);
        assert_eq!(NanoUsd::from_usd(-1.0), NanoUsd(0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_spent_in_a_window_never_exceeds_its_limit(
            attempts in prop::collection::vec((1..400u64, 0..100u64, 0..3u64, any::<bool>()), 1..80),
        ) {
            let mut budget = Budget::new(Some(1e-6), None);
            let mut now = Time(7 * DAY);
            let mut open = Vec::new();
            let mut spent_by_hour = std::collections::BTreeMap::<u64, u64>::new();
            for (amount, share, hours, settle_now) in attempts {
                now = Time(now.0 + hours * HOUR / 2);
                if let Ok(reservation) = budget.reserve(NanoUsd(amount), now) {
                    open.push((reservation, amount * share / 100, now.0 / HOUR));
                }
                if settle_now && let Some((reservation, cost, hour)) = open.pop() {
                    budget.settle(reservation, NanoUsd(cost));
                    *spent_by_hour.entry(hour).or_default() += cost;
                }
            }
            for spent in spent_by_hour.values() {
                prop_assert!(*spent <= 1000);
            }
        }
    }
}
