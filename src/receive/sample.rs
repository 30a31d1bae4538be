//! Deliveries for tests.

use super::{Arrival, Raw};
use crate::otlp::{Encoding, Signal};
use crate::ticket::Promise;

/// A request of one log record for each of these traces, which differ in their last byte, and its bytes.
pub(crate) fn logs(traces: &[u8]) -> (Arrival, Raw) {
    let record = |last: &u8| format!(r#"{{"traceId":"{}{last:02x}"}}"#, "01".repeat(15));
    let records: Vec<String> = traces.iter().map(record).collect();
    let body = format!(r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{}]}}]}}]}}"#, records.join(","));
    let raw = Raw { signal: Signal::Logs, encoding: Encoding::Json, body: body.into() };
    (Arrival { raw: Some(raw.clone()), ..Arrival::read(&raw, Promise::unheard()).unwrap() }, raw)
}
