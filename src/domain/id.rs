//! Trace and span ids, as OpenTelemetry defines them: 16 and 8 bytes, not all zero, written as lower-case hex.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why bytes or text are no id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The byte length is wrong.
    #[error("has {found} bytes, not {expected}")]
    Length {
        /// Bytes that an id of this kind has.
        expected: usize,
        /// Bytes that were given.
        found: usize,
    },
    /// OpenTelemetry reserves the all-zero id for "invalid".
    #[error("is all zeros")]
    Zero,
    /// The text is not hexadecimal.
    #[error("is not hexadecimal")]
    NotHex,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $len:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name([u8; $len]);

        impl $name {
            /// The id's bytes, in network order.
            pub fn as_bytes(&self) -> &[u8; $len] {
                &self.0
            }
        }

        impl TryFrom<&[u8]> for $name {
            type Error = IdError;

            fn try_from(bytes: &[u8]) -> Result<Self, IdError> {
                let array: [u8; $len] = bytes
                    .try_into()
                    .map_err(|_| IdError::Length { expected: $len, found: bytes.len() })?;
                if array == [0; $len] {
                    return Err(IdError::Zero);
                }
                Ok(Self(array))
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                if text.len() != 2 * $len {
                    return Err(IdError::Length { expected: $len, found: text.len() / 2 });
                }
                let mut bytes = [0u8; $len];
                for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
                    *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
                }
                Self::try_from(&bytes[..])
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(
    /// The id that all spans of one trace share.
    TraceId,
    16
);
id!(
    /// A span's own id, unique within its trace.
    SpanId,
    8
);

fn hex_digit(digit: u8) -> Result<u8, IdError> {
    char::from(digit).to_digit(16).map(|value| value as u8).ok_or(IdError::NotHex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_its_text() {
        let id: TraceId = "4bf92f3577b34da6a3ce929d0e0e4736".parse().unwrap();
        assert_eq!(id.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(id, "4BF92F3577B34DA6A3CE929D0E0E4736".parse().unwrap());
    }

    #[test]
    fn zeros_wrong_lengths_and_other_letters_are_refused() {
        assert_eq!("0000000000000000".parse::<SpanId>(), Err(IdError::Zero));
        assert_eq!(SpanId::try_from(&[1u8; 7][..]), Err(IdError::Length { expected: 8, found: 7 }));
        assert_eq!("00f067aa0ba902bg".parse::<SpanId>(), Err(IdError::NotHex));
        assert!("é".repeat(8).parse::<SpanId>().is_err());
    }
}
