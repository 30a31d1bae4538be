//! What a trace knew when it was judged, as a digest: the same spans and log records, the same digest, on every machine.

use sha2::{Digest, Sha256};

use crate::domain::{Attributes, LogRecord, Trace, Value};

/// A digest of the trace's span ids and of its log records, which have no ids; in 32 hex digits. The order in which they came
/// does not matter.
pub(super) fn known(trace: &Trace) -> String {
    let mut spans: Vec<&[u8; 8]> = trace.spans.iter().map(|span| span.span_id.as_bytes()).collect();
    spans.sort_unstable();
    let mut logs: Vec<[u8; 32]> = trace.logs.iter().map(of_log).collect();
    logs.sort_unstable();
    let mut hash = Sha256::new();
    hash.update((spans.len() as u64).to_be_bytes());
    spans.iter().for_each(|id| hash.update(id));
    logs.iter().for_each(|log| hash.update(log));
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn of_log(record: &LogRecord) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(record.time.0.to_be_bytes());
    hash.update(record.span_id.map_or([0; 8], |id| *id.as_bytes()));
    bytes(&mut hash, record.event_name.as_bytes());
    value(&mut hash, &record.body);
    attributes(&mut hash, &record.attributes);
    hash.finalize().into()
}

fn value(hash: &mut Sha256, of: &Value) {
    match of {
        Value::Null => hash.update([0]),
        Value::Bool(truth) => hash.update([1, u8::from(*truth)]),
        Value::Int(number) => {
            hash.update([2]);
            hash.update(number.to_be_bytes());
        }
        Value::Double(number) => {
            hash.update([3]);
            hash.update(number.to_bits().to_be_bytes());
        }
        Value::String(text) => {
            hash.update([4]);
            bytes(hash, text.as_bytes());
        }
        Value::Bytes(content) => {
            hash.update([5]);
            bytes(hash, content);
        }
        Value::List(items) => {
            hash.update([6]);
            hash.update((items.len() as u64).to_be_bytes());
            items.iter().for_each(|item| value(hash, item));
        }
        Value::Map(map) => {
            hash.update([7]);
            attributes(hash, map);
        }
    }
}

fn attributes(hash: &mut Sha256, of: &Attributes) {
    hash.update((of.len() as u64).to_be_bytes());
    for (key, of) in of.iter() {
        bytes(hash, key.as_bytes());
        value(hash, of);
    }
}

/// With its length, so that no two texts run into each other.
fn bytes(hash: &mut Sha256, of: &[u8]) {
    hash.update((of.len() as u64).to_be_bytes());
    hash.update(of);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Span, SpanId, TraceId};

    fn trace_id() -> TraceId {
        TraceId::try_from(&[1; 16][..]).unwrap()
    }

    fn span(id: u8) -> Span {
        Span::new(trace_id(), SpanId::try_from(&[id; 8][..]).unwrap())
    }

    fn log(body: Value) -> LogRecord {
        LogRecord { body, ..LogRecord::new(trace_id()) }
    }

    fn of(spans: &[u8], logs: &[Value]) -> String {
        known(&Trace {
            spans: spans.iter().map(|id| span(*id)).collect(),
            logs: logs.iter().map(|body| log(body.clone())).collect(),
            ..Trace::new(trace_id())
        })
    }

    #[test]
    fn it_depends_on_what_came_and_not_on_the_order() {
        let (one, two) = (Value::from("one"), Value::List(vec![Value::from("on"), Value::from("e")]));
        assert_eq!(of(&[1, 2], &[one.clone(), two.clone()]), of(&[2, 1], &[two.clone(), one.clone()]));
        let all = [
            of(&[], &[]),
            of(&[1], &[]),
            of(&[1, 2], &[]),
            of(&[1, 2], std::slice::from_ref(&one)),
            of(&[1, 2], std::slice::from_ref(&two)),
            of(&[1, 2], &[one, two]),
            of(&[1, 2], &[Value::Int(1)]),
            of(&[1, 2], &[Value::Double(1.0)]),
            of(&[1, 2], &[Value::Bool(true)]),
        ];
        let distinct: std::collections::BTreeSet<&String> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
