//! From a record's value to spans and log records. Pure.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::ValueEncoding;
use super::letters::Reason;
use crate::otlp::{self, DecodeError, Decoded, Encoding, Signal};
use crate::receive::Refusal;
use crate::receive::intake::UNCOUNTED_BYTES;

/// Why a value cannot be read, and never will be.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    #[error("it holds neither spans nor log records; expected are OTLP requests in protobuf or JSON")]
    Nothing,
    #[error("none of its spans or log records can be used: {0}")]
    AllRejected(String),
    #[error("reading it made a bug show: {0}")]
    Panic(String),
    /// It is small, and what it holds is not.
    #[error("unpacked, {0}")]
    Swollen(Refusal),
}

impl Unreadable {
    pub(super) fn reason(&self) -> Reason {
        match self {
            Unreadable::Swollen(_) => Reason::TooLarge,
            _ => Reason::Unreadable,
        }
    }
}

/// Reads a value. What cannot be used at all is an error: silence would be loss. `fits` says of a number of bytes whether they
/// can ever be held.
pub(super) fn read(
    encoding: ValueEncoding,
    value: &[u8],
    fits: impl Fn(usize) -> Result<(), Refusal>,
) -> Result<Decoded, Unreadable> {
    if value.len() > UNCOUNTED_BYTES {
        fits(value.len().saturating_add(swell(encoding, value))).map_err(Unreadable::Swollen)?;
    }
    // A record that makes us panic would come again after each restart.
    let decoded = catch_unwind(AssertUnwindSafe(|| decode(encoding, value))).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        Unreadable::Panic(
            text.or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "no message".to_owned()),
        )
    })??;
    if decoded.is_empty() {
        return Err(Unreadable::Nothing);
    }
    let has_good = !decoded.spans.is_empty() || !decoded.logs.is_empty() || decoded.logs_without_trace > 0;
    if !has_good {
        return Err(Unreadable::AllRejected(decoded.rejects.to_string()));
    }
    Ok(decoded)
}

fn decode(encoding: ValueEncoding, value: &[u8]) -> Result<Decoded, DecodeError> {
    match encoding {
        ValueEncoding::Auto => otlp::decode_any(value),
        ValueEncoding::OtlpProto => otlp::decode_protobuf(value),
        // JSON names its signal itself.
        ValueEncoding::OtlpJson => otlp::decode(Signal::Traces, Encoding::Json, value),
    }
}

/// What it may become in memory. Which signal it is shows only when it is decoded, and it is tried as both.
fn swell(encoding: ValueEncoding, value: &[u8]) -> usize {
    let of = |signal, encoding| otlp::swell(signal, encoding, value);
    let protobuf = || of(Signal::Traces, Encoding::Protobuf).max(of(Signal::Logs, Encoding::Protobuf));
    let json = || of(Signal::Traces, Encoding::Json);
    match encoding {
        ValueEncoding::OtlpProto => protobuf(),
        ValueEncoding::OtlpJson => json(),
        ValueEncoding::Auto if value.trim_ascii_start().first() == Some(&b'{') => protobuf().max(json()),
        ValueEncoding::Auto => protobuf(),
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
    use prost::Message;

    use super::*;

    fn traces(trace_id: &[u8]) -> Vec<u8> {
        let span = Span { trace_id: trace_id.to_vec(), span_id: vec![2; 8], ..Default::default() };
        let scope_spans = vec![ScopeSpans { spans: vec![span], ..Default::default() }];
        let resource_spans = vec![ResourceSpans { scope_spans, ..Default::default() }];
        ExportTraceServiceRequest { resource_spans }.encode_to_vec()
    }

    fn logs() -> Vec<u8> {
        let record = LogRecord { trace_id: vec![1; 16], time_unix_nano: 9, ..Default::default() };
        let scope_logs = vec![ScopeLogs { log_records: vec![record], ..Default::default() }];
        let resource_logs = vec![ResourceLogs { scope_logs, ..Default::default() }];
        ExportLogsServiceRequest { resource_logs }.encode_to_vec()
    }

    fn anything(_: usize) -> Result<(), Refusal> {
        Ok(())
    }

    const JSON: &[u8] = br#"{"resourceSpans":[{"scopeSpans":[{"spans":[
        {"traceId":"01010101010101010101010101010101","spanId":"0202020202020202"}]}]}]}"#;

    #[test]
    fn spans_and_log_records_are_told_apart_by_their_content() {
        for encoding in [ValueEncoding::Auto, ValueEncoding::OtlpProto] {
            assert_eq!(read(encoding, &traces(&[1; 16]), anything).unwrap().spans.len(), 1);
            assert_eq!(read(encoding, &logs(), anything).unwrap().logs.len(), 1);
        }
        for encoding in [ValueEncoding::Auto, ValueEncoding::OtlpJson] {
            assert_eq!(read(encoding, JSON, anything).unwrap().spans.len(), 1);
        }
    }

    #[test]
    fn what_holds_nothing_of_use_is_an_error_and_not_silence() {
        let other = [0x12u8, 3, b'x', b'y', b'z'];
        assert!(matches!(read(ValueEncoding::Auto, &other, anything), Err(Unreadable::Nothing)));
        assert!(matches!(
            read(ValueEncoding::Auto, &traces(&[1; 3]), anything),
            Err(Unreadable::AllRejected(_))
        ));
        for value in [&b"not OTLP"[..], b"{\"resourceSpans\":7}", b"[]"] {
            assert!(read(ValueEncoding::Auto, value, anything).is_err(), "{value:?}");
        }
        assert!(read(ValueEncoding::OtlpProto, JSON, anything).is_err());
        assert!(read(ValueEncoding::OtlpJson, &traces(&[1; 16]), anything).is_err());
    }

    #[test]
    fn a_small_record_that_unpacks_to_much_is_told_before_it_is_unpacked() {
        let empty = ResourceSpans {
            scope_spans: vec![ScopeSpans { spans: vec![Span::default(); 200_000], ..Default::default() }],
            ..Default::default()
        };
        let traces = ExportTraceServiceRequest { resource_spans: vec![empty] }.encode_to_vec();
        let scope_logs =
            vec![ScopeLogs { log_records: vec![LogRecord::default(); 200_000], ..Default::default() }];
        let logs = ExportLogsServiceRequest {
            resource_logs: vec![ResourceLogs { scope_logs, ..Default::default() }],
        };
        let json = format!("{{\"resourceSpans\":[{}{{}}]}}", "{},".repeat(200_000));
        let cases = [
            (ValueEncoding::Auto, traces.clone()),
            (ValueEncoding::OtlpProto, traces),
            (ValueEncoding::Auto, logs.encode_to_vec()),
            (ValueEncoding::Auto, json.clone().into_bytes()),
            (ValueEncoding::OtlpJson, json.into_bytes()),
        ];
        for (encoding, value) in cases {
            let limit = 8 << 20;
            assert!(value.len() < 1 << 20, "{}", value.len());
            let fits = |bytes| if bytes > limit { Err(Refusal::TooLarge { bytes, limit }) } else { Ok(()) };
            let error = read(encoding, &value, fits).unwrap_err();
            assert_eq!(error.reason(), Reason::TooLarge, "{error}");
            assert!(error.to_string().contains("8388608"), "{error}");
        }
    }
}
