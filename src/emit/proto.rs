//! The verdict in protobuf (`proto/assayd/v1/verdict.proto`), and the way there and back.

mod inward;
#[cfg(test)]
mod old_reader;
mod outward;
mod run;
mod views;

use prost::Message;

use crate::domain;

include!(concat!(env!("OUT_DIR"), "/assayd.v1.rs"));

/// Why bytes are no verdict.
#[derive(Debug, thiserror::Error)]
pub enum ProtoError {
    /// They are not protobuf of this schema.
    #[error("not a protobuf verdict: {0}")]
    Decode(#[from] prost::DecodeError),
    /// A field has a value that this version does not know.
    #[error("{field} has no value that this version knows: {found}")]
    Value {
        /// The field.
        field: &'static str,
        /// What it holds.
        found: String,
    },
}

/// A verdict as protobuf bytes. Equal verdicts give equal bytes.
pub fn encode(verdict: &domain::Verdict) -> Vec<u8> {
    Verdict::from(verdict).encode_to_vec()
}

/// The verdict that protobuf bytes hold.
pub fn decode(bytes: &[u8]) -> Result<domain::Verdict, ProtoError> {
    domain::Verdict::try_from(Verdict::decode(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emit::sample;

    #[test]
    fn a_verdict_survives_protobuf_and_json() {
        for verdict in [sample::full(), sample::skipped(), sample::check(), sample::run()] {
            assert_eq!(decode(&encode(&verdict)).unwrap(), verdict);
            let json = serde_json::to_string(&verdict).unwrap();
            assert_eq!(serde_json::from_str::<domain::Verdict>(&json).unwrap(), verdict);
        }
    }

    /// The files were written by the first version of this schema. If this test fails, readers of stored verdicts fail too:
    /// change the schema so that it passes, not the files.
    #[test]
    fn verdicts_stored_by_schema_1_stay_readable() {
        let protobuf = include_bytes!("../../tests/fixtures/verdicts/schema1.pb");
        let json = include_str!("../../tests/fixtures/verdicts/schema1.json");
        let stored: domain::Verdict = serde_json::from_str(json).unwrap();
        assert_eq!(stored.schema, 1);
        assert_eq!(stored.grounding.as_ref().unwrap().claims.len(), 3);
        assert_eq!(decode(protobuf).unwrap(), stored);
        assert_eq!(encode(&stored), protobuf);
    }

    #[test]
    fn fields_of_a_later_version_are_skipped_and_its_enum_values_are_named() {
        let mut bytes = encode(&sample::full());
        bytes.extend([0xfa, 0x7f, 0x03, b'n', b'e', b'w']); // field 2047, three bytes
        assert_eq!(decode(&bytes).unwrap(), sample::full());
        let mut later = Verdict::from(&sample::full());
        later.label = 99;
        let error = decode(&later.encode_to_vec()).unwrap_err();
        assert_eq!(error.to_string(), "label has no value that this version knows: 99");
    }

    #[test]
    fn other_bytes_are_refused() {
        assert!(matches!(decode(b"{\"schema\":1}"), Err(ProtoError::Decode(_))));
        let mut short = Verdict::from(&sample::full());
        short.trace_id = Some(vec![1, 2, 3]);
        assert!(decode(&short.encode_to_vec()).unwrap_err().to_string().contains("trace_id"));
    }
}
