//! Durations and sizes as people write them in configuration: `2s`, `10m`, `256MiB`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why a text is no duration or size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {wanted}")]
pub struct UnitError {
    text: String,
    wanted: &'static str,
}

/// A duration, written as a number and a unit: `250ms`, `2s`, `10m`, `1h`, `1m 30s`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Period(pub Duration);

impl Period {
    /// So many seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// So many milliseconds.
    pub const fn millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }
}

impl FromStr for Period {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError { text: text.to_owned(), wanted: "a duration such as 250ms, 2s, 10m or 1h" };
        let span: jiff::SignedDuration = text.trim().parse().map_err(|_| wrong())?;
        Duration::try_from(span).map(Period).map_err(|_| wrong())
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::SignedDuration::try_from(self.0) {
            Ok(duration) => write!(f, "{duration:#}"),
            Err(_) => write!(f, "{:?}", self.0),
        }
    }
}

/// A number of bytes, written as a number and a unit: `512KiB`, `64MiB`, `1GiB` (also `KB`, `MB`, `GB`: powers of 1000).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ByteSize(pub u64);

const SIZES: [(&str, u64); 8] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("kB", 1_000),
    ("B", 1),
];

impl ByteSize {
    /// So many mebibytes.
    pub const fn mib(mebibytes: u64) -> Self {
        Self(mebibytes << 20)
    }

    /// The size as a length in memory.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError { text: text.to_owned(), wanted: "a size such as 512KiB, 64MiB or 1GiB" };
        let trimmed = text.trim();
        let (digits, factor) = SIZES
            .iter()
            .find_map(|(unit, factor)| trimmed.strip_suffix(unit).map(|rest| (rest, *factor)))
            .unwrap_or((trimmed, 1));
        let number: u64 = digits.trim().parse().map_err(|_| wrong())?;
        number.checked_mul(factor).map(ByteSize).ok_or_else(wrong)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) = SIZES[..3]
            .iter()
            .find(|(_, factor)| self.0 >= *factor && self.0.is_multiple_of(*factor))
            .unwrap_or(&("B", 1));
        write!(f, "{}{unit}", self.0 / factor)
    }
}

macro_rules! text_or_number {
    ($name:ident, $example:literal, $from_number:expr) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl serde::de::Visitor<'_> for Text {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($example)
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }

                    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<$name, E> {
                        let read: fn(u64) -> Option<$name> = $from_number;
                        read(number).ok_or_else(|| {
                            E::custom(format!("{number} has no unit; write {}", $example))
                        })
                    }
                }
                deserializer.deserialize_any(Text)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": ["string", "integer"], "description": $example })
            }
        }
    };
}

text_or_number!(Period, "a duration such as 250ms, 2s, 10m or 1h", |number| {
    (number == 0).then_some(Period::seconds(0))
});
text_or_number!(ByteSize, "a size such as 512KiB, 64MiB or 1GiB", |number| Some(ByteSize(number)));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        assert_eq!("256MiB".parse(), Ok(ByteSize::mib(256)));
        assert_eq!("1 GB".parse(), Ok(ByteSize(1_000_000_000)));
        assert_eq!(ByteSize::mib(64).to_string(), "64MiB");
        assert_eq!(ByteSize(1_500).to_string(), "1500B");
        assert!("many".parse::<ByteSize>().is_err());
        assert!("99999999999GiB".parse::<ByteSize>().is_err());
    }

    #[test]
    fn durations_are_read_and_written() {
        assert_eq!("2s".parse(), Ok(Period::seconds(2)));
        assert_eq!("1m 30s".parse(), Ok(Period::seconds(90)));
        assert_eq!(Period::seconds(90).to_string().parse(), Ok(Period::seconds(90)));
        assert!("-2s".parse::<Period>().is_err());
        assert!("soon".parse::<Period>().is_err());
    }

    #[test]
    fn a_bare_number_is_no_duration_but_it_is_a_size() {
        assert!(serde_json::from_str::<Period>("30").is_err());
        assert_eq!(serde_json::from_str::<ByteSize>("30").unwrap(), ByteSize(30));
    }
}
