//! Requests and tokens per minute, and the pauses that the endpoint asks for.

use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use tokio::time::Instant;

/// An endpoint that asks for more is not believed.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// When the next request may be sent.
pub(crate) struct Pace {
    requests: Option<DefaultDirectRateLimiter>,
    tokens: Option<(DefaultDirectRateLimiter, NonZeroU32)>,
    paused_until: Mutex<Option<Instant>>,
    clock: DefaultClock,
}

/// It would take longer than the caller can wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLate;

impl Pace {
    /// Limits that are absent do not limit.
    pub fn new(requests: Option<NonZeroU32>, tokens: Option<NonZeroU32>) -> Self {
        let limiter = |limit| RateLimiter::direct(Quota::per_minute(limit));
        Self {
            requests: requests.map(limiter),
            tokens: tokens.map(|limit| (limiter(limit), limit)),
            paused_until: Mutex::new(None),
            clock: DefaultClock::default(),
        }
    }

    /// Nobody sends for this long: one caller's `Retry-After` holds for all.
    pub fn pause(&self, pause: Duration, now: Instant) {
        let until = now + pause.min(LONGEST_PAUSE);
        let mut paused = self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        *paused = Some(paused.map_or(until, |known| known.max(until)));
    }

    /// Waits until one request of `tokens` tokens may be sent. Gives up at once if that is after `deadline`.
    pub async fn wait(&self, tokens: u64, deadline: Instant) -> Result<(), TooLate> {
        if let Some(requests) = &self.requests {
            self.draw(requests, NonZeroU32::MIN, deadline).await?;
        }
        if let Some((limiter, most)) = &self.tokens {
            // An ask that is larger than a minute's worth takes a whole minute's worth; refusing it would help nobody.
            let wanted = u32::try_from(tokens).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX);
            self.draw(limiter, wanted.min(*most), deadline).await?;
        }
        while let Some(until) = self.paused() {
            sleep_until(until, deadline).await?;
        }
        Ok(())
    }

    /// Leaves this much time before a request; the one slot that there is then spaces out all of them.
    pub async fn space(&self, spacing: Duration, deadline: Instant) -> Result<(), TooLate> {
        if spacing.is_zero() {
            return Ok(());
        }
        sleep_until(Instant::now() + spacing, deadline).await
    }

    fn paused(&self) -> Option<Instant> {
        let paused = *self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        paused.filter(|until| *until > Instant::now())
    }

    async fn draw(
        &self,
        limiter: &DefaultDirectRateLimiter,
        count: NonZeroU32,
        deadline: Instant,
    ) -> Result<(), TooLate> {
        while let Ok(Err(not_yet)) = limiter.check_n(count) {
            let wait = not_yet.wait_time_from(self.clock.now()).max(Duration::from_millis(1));
            sleep_until(Instant::now() + wait, deadline).await?;
        }
        Ok(())
    }
}

async fn sleep_until(until: Instant, deadline: Instant) -> Result<(), TooLate> {
    if until > deadline {
        return Err(TooLate);
    }
    tokio::time::sleep_until(until).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn limit(limit: u32) -> Option<NonZeroU32> {
        NonZeroU32::new(limit)
    }

    #[tokio::test]
    async fn what_is_over_the_limit_waits_or_gives_up_at_once_if_it_would_be_too_late() {
        let soon = Instant::now() + Duration::from_secs(1);
        let pace = Pace::new(limit(2), None);
        for _ in 0..2 {
            assert_eq!(pace.wait(1, soon).now_or_never(), Some(Ok(())));
        }
        assert_eq!(pace.wait(1, soon).now_or_never(), Some(Err(TooLate)));
        assert_eq!(pace.wait(1, soon + Duration::from_secs(60)).now_or_never(), None);
    }

    #[tokio::test]
    async fn tokens_are_limited_and_an_ask_over_a_minutes_worth_goes_through_alone() {
        let soon = Instant::now() + Duration::from_secs(1);
        let pace = Pace::new(None, limit(1000));
        assert_eq!(pace.wait(u64::MAX, soon).now_or_never(), Some(Ok(())));
        assert_eq!(pace.wait(500, soon).now_or_never(), Some(Err(TooLate)));
    }

    #[tokio::test]
    async fn a_pause_holds_for_everyone_and_a_shorter_one_does_not_end_it() {
        let start = Instant::now();
        let pace = Pace::new(None, None);
        pace.pause(Duration::from_millis(40), start);
        pace.pause(Duration::from_millis(5), start);
        assert_eq!(pace.wait(1, start + Duration::from_millis(20)).now_or_never(), Some(Err(TooLate)));
        assert_eq!(pace.wait(1, start + Duration::from_secs(30)).await, Ok(()));
        assert!(Instant::now() >= start + Duration::from_millis(40));
    }
}
