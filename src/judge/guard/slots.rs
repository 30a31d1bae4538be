//! How many calls may be in flight, as [`Aimd`] says.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::aimd::Aimd;

#[derive(Debug)]
struct State {
    aimd: Aimd,
    /// Permits that exist, free or taken.
    permits: usize,
}

/// The slots for calls to one endpoint.
#[derive(Debug)]
pub(crate) struct Slots {
    semaphore: Semaphore,
    state: Mutex<State>,
}

/// What a call says about the endpoint's load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// It answered.
    Fine,
    /// It said that it is too much, or did not answer in time.
    TooMuch,
    /// Nothing.
    Unknown,
}

/// Leave to make one call. Dropped without a report it says nothing about the load.
pub(crate) struct Slot<'a> {
    slots: &'a Slots,
    permit: Option<SemaphorePermit<'a>>,
}

impl Slots {
    /// At most so many at the same time.
    pub fn new(most: usize) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        Self {
            semaphore: Semaphore::new(most),
            state: Mutex::new(State { aimd: Aimd::new(most), permits: most }),
        }
    }

    /// Waits for a free slot, in the order of asking.
    pub async fn take(&self) -> Slot<'_> {
        let permit = self.semaphore.acquire().await.expect("the semaphore is never closed");
        Slot { slots: self, permit: Some(permit) }
    }

    /// Calls that may be in flight, and the time to leave before each.
    pub fn limit(&self) -> (usize, Duration) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.aimd.slots(), state.aimd.spacing())
    }

    fn give_back(&self, permit: SemaphorePermit<'_>, load: Load, now: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match load {
            Load::Fine => state.aimd.succeeded(),
            Load::TooMuch => state.aimd.overloaded(now),
            Load::Unknown => {}
        }
        let wanted = state.aimd.slots();
        if state.permits > wanted {
            permit.forget();
            state.permits -= 1;
            return;
        }
        drop(permit);
        self.semaphore.add_permits(wanted - state.permits);
        state.permits = wanted;
    }
}

impl Slot<'_> {
    /// Gives the slot back with what the call says about the load.
    pub fn report(mut self, load: Load, now: Instant) {
        if let Some(permit) = self.permit.take() {
            self.slots.give_back(permit, load, now);
        }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            // The time does not matter: only an overload reads it.
            self.slots.give_back(permit, Load::Unknown, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_slot_is_free_again_whatever_becomes_of_the_call() {
        let slots = Slots::new(1);
        let slot = slots.take().now_or_never().unwrap();
        assert!(slots.take().now_or_never().is_none());
        drop(slot);
        assert!(slots.take().now_or_never().is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn there_is_always_one_slot_and_never_more_than_the_most(
            steps in prop::collection::vec((0..4u8, 0..3u64), 1..100),
        ) {
            let slots = Slots::new(4);
            let mut now = Instant::now();
            let mut taken = Vec::new();
            for (step, seconds) in steps {
                now += Duration::from_secs(seconds);
                match step {
                    0 => taken.extend(slots.take().now_or_never()),
                    _ => {
                        let load = [Load::Fine, Load::TooMuch, Load::Unknown][usize::from(step) - 1];
                        if let Some(slot) = taken.pop() {
                            Slot::report(slot, load, now);
                        }
                    }
                }
                prop_assert!(taken.len() <= 4);
            }
            while let Some(slot) = taken.pop() {
                slot.report(Load::Unknown, now);
            }
            let permits = slots.state.lock().unwrap().permits;
            prop_assert_eq!(slots.semaphore.available_permits(), permits);
            prop_assert!((1..=4).contains(&permits));
        }
    }
}
