//! Money per hour and day. Every attempt reserves what it may cost at most and settles what it did cost, so that calls at the
//! same time cannot overspend together. Pure; `now` is an argument. What was spent can be told and taken up again, so that a
//! restart does not forget it.

use std::time::Duration;

use super::super::Window;
use crate::domain::Time;

/// Part of the smallest budget that a kill may make forgotten: what would be more is written down before it is spent.
const RISK: u64 = 100;
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

/// What was spent in one window: what outlives a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spending {
    /// Which kind of window.
    pub window: Window,
    /// When it began.
    pub began: Time,
    /// Reservations included: of a call that was under way when the process ended, nobody knows whether it was billed.
    pub spent: NanoUsd,
}

/// A budget as it stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Allowance {
    /// Which window.
    pub window: Window,
    /// What may be spent in it.
    pub limit_usd: f64,
    /// What was spent in it, calls under way included at the most that they may cost.
    pub spent_usd: f64,
    /// When it starts anew.
    pub resets_in: Duration,
}

#[derive(Debug)]
struct Purse {
    window: Window,
    length: u64,
    /// None: it is only counted, in case a later configuration limits it.
    limit_usd: Option<f64>,
    index: u64,
    spent: u64,
}

impl Purse {
    fn new(window: Window, length: u64, limit_usd: Option<f64>) -> Self {
        Self { window, length, limit_usd, index: 0, spent: 0 }
    }

    fn limit(&self) -> Option<u64> {
        self.limit_usd.map(|limit| NanoUsd::from_usd(limit).0)
    }

    fn resets_in(&self, now: Time) -> Duration {
        let ends = (self.index + 1).saturating_mul(self.length);
        Duration::from_nanos(ends.saturating_sub(now.0))
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

/// The budgets of the hour and of the day.
#[derive(Debug)]
pub(crate) struct Budget {
    purses: [Purse; 2],
}

/// Money that is set aside for one attempt.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a reservation has to be settled"]
pub(crate) struct Reservation {
    amount: NanoUsd,
    /// The window of each purse in which it was made.
    indexes: [u64; 2],
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
        Self {
            purses: [Purse::new(Window::Hour, HOUR, usd_per_hour), Purse::new(Window::Day, DAY, usd_per_day)],
        }
    }

    /// Takes up what an earlier process has spent; windows that are over count for nothing. Gives those that begin in the future:
    /// a clock was wrong, then or now, and what was spent in them counts for the window that is now.
    pub fn take_up(&mut self, earlier: &[Spending], now: Time) -> Vec<Spending> {
        let mut odd = Vec::new();
        for purse in &mut self.purses {
            purse.turn(now);
            for told in earlier.iter().filter(|told| told.window == purse.window) {
                let index = told.began.0 / purse.length;
                if index >= purse.index {
                    purse.spent = purse.spent.saturating_add(told.spent.0);
                }
                if index > purse.index {
                    odd.push(*told);
                }
            }
        }
        odd
    }

    /// Nothing more may be spent in the windows that are now: nobody knows what was.
    pub fn exhaust(&mut self, now: Time) {
        for purse in &mut self.purses {
            purse.turn(now);
            purse.spent = purse.spent.max(purse.limit().unwrap_or_default());
        }
    }

    /// What was spent in the windows that are now.
    pub fn spending(&self) -> [Spending; 2] {
        self.purses.each_ref().map(|purse| Spending {
            window: purse.window,
            began: Time(purse.index.saturating_mul(purse.length)),
            spent: NanoUsd(purse.spent),
        })
    }

    /// The limited windows as they stand now.
    pub fn allowances(&mut self, now: Time) -> Vec<Allowance> {
        let limited = self.purses.iter_mut().filter_map(|purse| {
            purse.turn(now);
            Some(Allowance {
                window: purse.window,
                limit_usd: purse.limit_usd?,
                spent_usd: NanoUsd(purse.spent).usd(),
                resets_in: purse.resets_in(now),
            })
        });
        limited.collect()
    }

    /// So much may be forgotten at a kill.
    pub fn risk(&self) -> NanoUsd {
        NanoUsd(self.purses.iter().filter_map(Purse::limit).min().unwrap_or(u64::MAX) / RISK)
    }

    /// Sets money aside, if every budget still has it.
    pub fn reserve(&mut self, amount: NanoUsd, now: Time) -> Result<Reservation, Spent> {
        for purse in &mut self.purses {
            purse.turn(now);
            let (Some(limit), Some(limit_usd)) = (purse.limit(), purse.limit_usd) else { continue };
            if purse.spent.saturating_add(amount.0) > limit {
                return Err(Spent { window: purse.window, limit_usd, resets_in: purse.resets_in(now) });
            }
        }
        for purse in &mut self.purses {
            purse.spent = purse.spent.saturating_add(amount.0);
        }
        Ok(Reservation { amount, indexes: self.purses.each_ref().map(|purse| purse.index) })
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
    fn what_an_earlier_process_spent_counts_until_its_window_is_over() {
        let now = Time(5 * DAY + HOUR / 2);
        let mut first = Budget::new(Some(1.0), Some(1.5));
        let _under_way = first.reserve(ONE, now).unwrap();
        let told = first.spending();
        let again = |later: Time| {
            let mut budget = Budget::new(Some(1.0), Some(1.5));
            assert_eq!(budget.take_up(&told, later), []);
            budget
        };
        assert_eq!(again(now).reserve(NanoUsd(1), now).unwrap_err().window, Window::Hour);
        let next_hour = Time(now.0 + HOUR);
        assert_eq!(again(next_hour).reserve(ONE, next_hour).unwrap_err().window, Window::Day);
        assert!(again(next_hour).reserve(NanoUsd(ONE.0 / 2), next_hour).is_ok());
        let next_day = Time(now.0 + DAY);
        assert!(again(next_day).reserve(ONE, next_day).is_ok());
        let mut only_day = Budget::new(None, Some(1.5));
        only_day.take_up(&told, now);
        assert!(only_day.reserve(ONE, now).is_err(), "a window that is not limited was counted too");
    }

    #[test]
    fn spending_in_the_future_is_told_and_counts_now() {
        let now = Time(5 * DAY);
        let future = Spending { window: Window::Day, began: Time(9 * DAY), spent: ONE };
        let mut budget = Budget::new(None, Some(1.0));
        assert_eq!(budget.take_up(&[future], now), [future]);
        assert!(budget.reserve(NanoUsd(1), now).is_err());
        assert!(
            budget.reserve(ONE, Time(6 * DAY)).is_ok(),
            "it does not stay spent until the future has come"
        );
    }

    #[test]
    fn what_nobody_knows_is_taken_as_spent_until_the_windows_are_over() {
        let now = Time(5 * DAY);
        let mut budget = Budget::new(Some(1.0), Some(2.0));
        budget.exhaust(now);
        assert_eq!(budget.reserve(NanoUsd(1), now).unwrap_err().window, Window::Hour);
        assert_eq!(budget.reserve(NanoUsd(1), Time(now.0 + HOUR)).unwrap_err().window, Window::Day);
        assert!(budget.reserve(ONE, Time(now.0 + DAY)).is_ok());
        let told: Vec<f64> = budget.allowances(now).iter().map(|told| told.spent_usd).collect();
        assert_eq!(told, [1.0, 1.0]);
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
            attempts in prop::collection::vec((1..400u64, 0..100u64, 0..3u64, any::<bool>(), 0..8u8), 1..80),
        ) {
            let mut budget = Budget::new(Some(1e-6), None);
            let mut now = Time(7 * DAY);
            let mut open = Vec::new();
            let mut spent_by_hour = std::collections::BTreeMap::<u64, u64>::new();
            for (amount, share, hours, settle_now, restarts) in attempts {
                now = Time(now.0 + hours * HOUR / 2);
                if restarts == 0 {
                    // What is under way may be billed nevertheless.
                    for (_, cost, hour) in open.drain(..) {
                        *spent_by_hour.entry(hour).or_default() += cost;
                    }
                    let told = budget.spending();
                    budget = Budget::new(Some(1e-6), None);
                    budget.take_up(&told, now);
                }
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
