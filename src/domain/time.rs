//! A point in time, as OpenTelemetry counts it: nanoseconds since the Unix epoch.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Nanoseconds since 1970-01-01T00:00:00Z. Zero means "not known", as in OTLP.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// Whether the sender gave a time at all.
    pub fn is_known(self) -> bool {
        self.0 != 0
    }

    /// How long after `earlier` this is; zero if it is not.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add<Duration> for Time {
    type Output = Time;

    fn add(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A u64 of nanoseconds ends in the year 2554, which jiff can hold.
        match jiff::Timestamp::from_nanosecond(i128::from(self.0)) {
            Ok(timestamp) => write!(f, "{timestamp:.9}"),
            Err(_) => f.write_str("unknown"),
        }
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let timestamp = jiff::Timestamp::deserialize(deserializer)?;
        u64::try_from(timestamp.as_nanosecond())
            .map(Time)
            .map_err(|_| serde::de::Error::custom("a time before 1970"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_with_nine_digits_and_read_back() {
        let time = Time(1_796_025_600_123_456_789);
        let text = serde_json::to_string(&time).unwrap();
        assert_eq!(text, "\"2026-11-30T08:00:00.123456789Z\"");
        assert_eq!(serde_json::from_str::<Time>(&text).unwrap(), time);
    }

    #[test]
    fn differences_never_go_below_zero() {
        assert_eq!(Time(5).since(Time(9)), Duration::ZERO);
    }
}
