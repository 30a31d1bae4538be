//! The daemon's clock: wall time that never jumps.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::domain::Time;

/// Wall time at start plus the monotonic time since. Timeouts hold when somebody sets the machine's clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
    base: Time,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        let base = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { start: Instant::now(), base: Time(u64::try_from(base.as_nanos()).unwrap_or_default()) }
    }

    /// Now.
    pub fn now(&self) -> Time {
        self.base + self.start.elapsed()
    }

    /// The instant of `time`, for a timer; now if it has passed.
    pub fn instant(&self, time: Time) -> Instant {
        self.start + time.since(self.base)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_and_instants_agree() {
        let clock = Clock::start();
        let later = clock.now() + Duration::from_secs(5);
        let ahead = clock.instant(later).saturating_duration_since(Instant::now());
        assert!(ahead <= Duration::from_secs(5) && ahead > Duration::from_secs(4));
        assert!(clock.instant(Time(1)) <= Instant::now());
    }
}
