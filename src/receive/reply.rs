//! Answers, in the encoding of the request.

use std::time::Duration;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsPartialSuccess, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use prost::Message;
use serde_json::json;
use tonic::Code;
use tonic_types::{ErrorDetails, StatusExt};

use crate::otlp::{Encoding, Signal};

use super::door::Refusal;
use super::intake::{Accepted, Refused};

/// Parsers cite what they do not like, and that may be long.
const MESSAGE_CHARS: usize = 1000;

/// The response to an admitted request; `partial_success` only if something was left out, as OTLP demands.
pub(super) fn accepted(signal: Signal, encoding: Encoding, accepted: &Accepted) -> Bytes {
    let is_partial = accepted.rejected > 0;
    let rejected = i64::try_from(accepted.rejected).unwrap_or(i64::MAX);
    let error_message = accepted.message.clone();
    let bytes = match (encoding, signal) {
        (Encoding::Protobuf, Signal::Traces) => ExportTraceServiceResponse {
            partial_success: is_partial
                .then_some(ExportTracePartialSuccess { rejected_spans: rejected, error_message }),
        }
        .encode_to_vec(),
        (Encoding::Protobuf, Signal::Logs) => ExportLogsServiceResponse {
            partial_success: is_partial
                .then_some(ExportLogsPartialSuccess { rejected_log_records: rejected, error_message }),
        }
        .encode_to_vec(),
        (Encoding::Json, _) if !is_partial => b"{}".to_vec(),
        (Encoding::Json, _) => {
            let counter = match signal {
                Signal::Traces => "rejectedSpans",
                Signal::Logs => "rejectedLogRecords",
            };
            // 64-bit numbers are strings in OTLP/JSON.
            json!({ "partialSuccess": { counter: rejected.to_string(), "errorMessage": error_message } })
                .to_string()
                .into_bytes()
        }
    };
    bytes.into()
}

/// When to come back, for refusals after which coming back helps.
pub(super) fn retry_after(refused: &Refused, delay: Duration) -> Option<Duration> {
    match refused {
        Refused::Door(Refusal::Full | Refusal::NotStored | Refusal::Closing) => Some(delay),
        _ => None,
    }
}

/// A refusal as gRPC says it. Senders retry on `UNAVAILABLE`, and drop on `INVALID_ARGUMENT` and on `RESOURCE_EXHAUSTED`
/// without RetryInfo.
pub(super) fn status(refused: &Refused, delay: Duration) -> tonic::Status {
    let message: String = refused.to_string().chars().take(MESSAGE_CHARS).collect();
    match retry_after(refused, delay) {
        Some(delay) => {
            let details = ErrorDetails::with_retry_info(Some(delay));
            tonic::Status::with_error_details(code(refused), message, details)
        }
        None => tonic::Status::new(code(refused), message),
    }
}

/// A refusal as the body of an HTTP response: `google.rpc.Status`.
pub(super) fn refused(encoding: Encoding, refused: &Refused, delay: Duration) -> Bytes {
    let status = status(refused, delay);
    match encoding {
        Encoding::Protobuf if status.details().is_empty() => tonic_types::pb::Status {
            code: status.code().into(),
            message: status.message().to_owned(),
            details: Vec::new(),
        }
        .encode_to_vec()
        .into(),
        // With details, tonic keeps the whole message encoded.
        Encoding::Protobuf => Bytes::copy_from_slice(status.details()),
        Encoding::Json => {
            let details = retry_after(refused, delay).map(|delay| {
                json!({
                    "@type": "type.googleapis.com/google.rpc.RetryInfo",
                    "retryDelay": format!("{}s", delay.as_secs_f64()),
                })
            });
            let details: Vec<_> = details.into_iter().collect();
            let code = i32::from(status.code());
            json!({ "code": code, "message": status.message(), "details": details }).to_string().into()
        }
    }
}

fn code(refused: &Refused) -> Code {
    match refused {
        Refused::Door(Refusal::Full | Refusal::NotStored | Refusal::Closing) => Code::Unavailable,
        Refused::Door(Refusal::TooLarge { .. }) | Refused::Oversized { .. } => Code::ResourceExhausted,
        Refused::Slow { .. } => Code::DeadlineExceeded,
        Refused::Unauthenticated => Code::Unauthenticated,
        Refused::Malformed(_)
        | Refused::Garbled { .. }
        | Refused::Broken(_)
        | Refused::ContentType { .. }
        | Refused::ContentEncoding { .. } => Code::InvalidArgument,
    }
}
