//! From a record's value to spans and log records. Pure.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::ValueEncoding;
use crate::otlp::{self, DecodeError, Decoded, Encoding, Signal};

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
}

/// Reads a value. What cannot be used at all is an error: silence would be loss.
pub(super) fn read(encoding: ValueEncoding, value: &[u8]) -> Result<Decoded, Unreadable> {
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

    const JSON: &[u8] = br#"{"resourceSpans":[{"scopeSpans":[{"spans":[
        {"traceId":"01010101010101010101010101010101","spanId":"0202020202020202"}]}]}]}"#;

    #[test]
    fn spans_and_log_records_are_told_apart_by_their_content() {
        for encoding in [ValueEncoding::Auto, ValueEncoding::OtlpProto] {
            assert_eq!(read(encoding, &traces(&[1; 16])).unwrap().spans.len(), 1);
            assert_eq!(read(encoding, &logs()).unwrap().logs.len(), 1);
        }
        for encoding in [ValueEncoding::Auto, ValueEncoding::OtlpJson] {
            assert_eq!(read(encoding, JSON).unwrap().spans.len(), 1);
        }
    }

    #[test]
    fn what_holds_nothing_of_use_is_an_error_and_not_silence() {
        let other = [0x12u8, 3, b'x', b'y', b'z'];
        assert!(matches!(read(ValueEncoding::Auto, &other), Err(Unreadable::Nothing)));
        assert!(matches!(read(ValueEncoding::Auto, &traces(&[1; 3])), Err(Unreadable::AllRejected(_))));
        for value in [&b"not OTLP"[..], b"{\"resourceSpans\":7}", b"[]"] {
            assert!(read(ValueEncoding::Auto, value).is_err(), "{value:?}");
        }
        assert!(read(ValueEncoding::OtlpProto, JSON).is_err());
        assert!(read(ValueEncoding::OtlpJson, &traces(&[1; 16])).is_err());
    }
}
