//! The small words of OTLP/JSON (texts, ids, numbers, enums, bytes), each read in all the ways in which senders write them.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use opentelemetry_proto::tonic::logs::v1 as wire_logs;
use opentelemetry_proto::tonic::trace::v1 as wire;
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use crate::domain::{IdError, Value};

const ANY_PADDING: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, ANY_PADDING);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, ANY_PADDING);

/// `null` is what encoders of several languages write for an empty list or message.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A text. A limit that cuts an emoji in two leaves half a surrogate pair, valid in JSON's grammar and in no string: it
/// becomes U+FFFD, since one emoji must not cost a whole request.
#[derive(Default)]
pub(super) struct Text(pub(super) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Raw;
        impl<'de> Visitor<'de> for Raw {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Text, E> {
                Ok(Text(String::from_utf8_lossy(bytes).into_owned()))
            }

            fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Text, E> {
                let text = String::from_utf8(bytes)
                    .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
                Ok(Text(text))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Text, E> {
                Ok(Text(text))
            }

            fn visit_none<E: de::Error>(self) -> Result<Text, E> {
                Ok(Text::default())
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Text, D::Error> {
                // serde_json lets half a surrogate pair pass only where bytes are asked for.
                deserializer.deserialize_byte_buf(self)
            }
        }
        deserializer.deserialize_option(Raw)
    }
}

/// An id in hexadecimal or base64, or nothing.
pub(super) struct Id<T> {
    pub(super) id: Option<Result<T, IdError>>,
    pub(super) base64: bool,
}

impl<T> Default for Id<T> {
    fn default() -> Self {
        Self { id: None, base64: false }
    }
}

impl<T> Id<T> {
    pub(super) fn required(self) -> Result<T, IdError> {
        self.id.unwrap_or(Err(IdError::Length { expected: size_of::<T>(), found: 0 }))
    }

    /// An id of zeros means that there is none.
    pub(super) fn optional(self) -> Result<Option<T>, IdError> {
        match self.id {
            None | Some(Err(IdError::Zero)) => Ok(None),
            Some(id) => id.map(Some),
        }
    }
}

impl<'de, T> Deserialize<'de> for Id<T>
where
    T: FromStr<Err = IdError> + for<'a> TryFrom<&'a [u8], Error = IdError>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HexOrBase64<T>(PhantomData<T>);
        impl<T> Visitor<'_> for HexOrBase64<T>
        where
            T: FromStr<Err = IdError> + for<'a> TryFrom<&'a [u8], Error = IdError>,
        {
            type Value = Id<T>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an id in hexadecimal")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Id<T>, E> {
                if text.is_empty() {
                    return Ok(Id::default());
                }
                let from_hex: Result<T, IdError> = text.parse();
                if matches!(from_hex, Err(IdError::Length { .. }))
                    && let Ok(bytes) = decode_base64(text)
                    && bytes.len() == size_of::<T>()
                {
                    return Ok(Id { id: Some(T::try_from(&bytes[..])), base64: true });
                }
                Ok(Id { id: Some(from_hex), base64: false })
            }

            fn visit_unit<E: de::Error>(self) -> Result<Id<T>, E> {
                Ok(Id::default())
            }
        }
        deserializer.deserialize_any(HexOrBase64(PhantomData))
    }
}

fn decode_base64(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    STANDARD.decode(text).or_else(|_| URL_SAFE.decode(text))
}

/// A 64-bit number, as a number or a string.
#[derive(Default)]
pub(super) struct U64(pub(super) u64);

impl<'de> Deserialize<'de> for U64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrText;
        impl Visitor<'_> for NumberOrText {
            type Value = U64;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a whole number, or a string that holds one")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<U64, E> {
                Ok(U64(number))
            }

            /// Encoders that know only floating point write large times as `1.7e18`.
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<U64, E> {
                let whole = number >= 0.0 && number < u64::MAX as f64 && number.fract() == 0.0;
                if whole {
                    Ok(U64(number as u64))
                } else {
                    Err(E::invalid_value(de::Unexpected::Float(number), &self))
                }
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<U64, E> {
                if text.is_empty() {
                    return Ok(U64(0));
                }
                text.parse().map(U64).map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }

            fn visit_unit<E: de::Error>(self) -> Result<U64, E> {
                Ok(U64(0))
            }
        }
        deserializer.deserialize_any(NumberOrText)
    }
}

/// A 32-bit number; larger ones are cut to the largest.
#[derive(Default)]
pub(super) struct U32(pub(super) u32);

impl<'de> Deserialize<'de> for U32 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let U64(number) = U64::deserialize(deserializer)?;
        Ok(U32(u32::try_from(number).unwrap_or(u32::MAX)))
    }
}

/// The names of an enum, for senders that write names where OTLP/JSON asks for numbers.
pub(super) trait Names {
    const EXPECTED: &'static str;
    fn number(name: &str) -> Option<i32>;
}

#[derive(Default)]
pub(super) struct KindNames;

impl Names for KindNames {
    const EXPECTED: &'static str = "a span kind from 0 to 5";

    fn number(name: &str) -> Option<i32> {
        wire::span::SpanKind::from_str_name(name).map(|kind| kind as i32)
    }
}

#[derive(Default)]
pub(super) struct StatusNames;

impl Names for StatusNames {
    const EXPECTED: &'static str = "a status code from 0 to 2";

    fn number(name: &str) -> Option<i32> {
        wire::status::StatusCode::from_str_name(name).map(|code| code as i32)
    }
}

#[derive(Default)]
pub(super) struct SeverityNames;

impl Names for SeverityNames {
    const EXPECTED: &'static str = "a severity from 0 to 24";

    fn number(name: &str) -> Option<i32> {
        wire_logs::SeverityNumber::from_str_name(name).map(|severity| severity as i32)
    }
}

#[derive(Default)]
pub(super) struct Number<N>(pub(super) i32, PhantomData<N>);

impl<'de, N: Names> Deserialize<'de> for Number<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrName<N>(PhantomData<N>);
        impl<N: Names> Visitor<'_> for NumberOrName<N> {
            type Value = Number<N>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(N::EXPECTED)
            }

            /// Numbers that we do not know are for later versions of the protocol: they are no error.
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Number<N>, E> {
                Ok(Number(i32::try_from(number).unwrap_or_default(), PhantomData))
            }

            fn visit_i64<E: de::Error>(self, _: i64) -> Result<Number<N>, E> {
                Ok(Number(0, PhantomData))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Number<N>, E> {
                N::number(text)
                    .or_else(|| text.parse().ok())
                    .map(|number| Number(number, PhantomData))
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Number<N>, E> {
                Ok(Number(0, PhantomData))
            }
        }
        deserializer.deserialize_any(NumberOrName(PhantomData))
    }
}

pub(super) struct Int(pub(super) i64);

impl<'de> Deserialize<'de> for Int {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrText;
        impl Visitor<'_> for NumberOrText {
            type Value = Int;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a 64-bit whole number, or a string that holds one")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Int, E> {
                Ok(Int(number))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Int, E> {
                let signed = i64::try_from(number);
                signed.map(Int).map_err(|_| E::invalid_value(de::Unexpected::Unsigned(number), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Int, E> {
                text.parse().map(Int).map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(NumberOrText)
    }
}

pub(super) struct Double(pub(super) f64);

impl<'de> Deserialize<'de> for Double {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrText;
        impl Visitor<'_> for NumberOrText {
            type Value = Double;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a number, or a string such as \"NaN\" or \"-Infinity\"")
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Double, E> {
                Ok(Double(number))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Double, E> {
                Ok(Double(number as f64))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Double, E> {
                Ok(Double(number as f64))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Double, E> {
                text.parse().map(Double).map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(NumberOrText)
    }
}

pub(super) struct Base64(pub(super) Value);

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes =
            decode_base64(&text).map_err(|error| de::Error::custom(format!("bytesValue: {error}")))?;
        Ok(Base64(Value::Bytes(bytes.into())))
    }
}
