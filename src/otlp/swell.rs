//! What a request's bytes may become in memory: two bytes are an empty attribute, and an empty attribute is a hundred bytes. Counted
//! before anything is made of them, so that a small request cannot fill the machine. A rough estimate, better for protobuf than for
//! JSON. Pure.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1 as wire_logs;
use opentelemetry_proto::tonic::trace::v1 as wire;

use super::{Encoding, Signal};
use crate::domain::{Event, Link, LogRecord, Resource, Scope, Span, Value};

/// Nesting that is looked into; the decoder refuses deeper values.
const DEEPEST: usize = 100;
/// What an object of JSON becomes, on the whole: most are attributes and their values.
const JSON_OBJECT: usize = 96;
/// What a list, or a text of a list, becomes beside its bytes.
const HEADER: usize = size_of::<String>();

/// A message: its size, as it is read and as we hold it, and the messages within it by their field's number.
struct Shape {
    size: usize,
    within: &'static [(u32, &'static Shape)],
}

static VALUE: Shape =
    Shape { size: larger(size_of::<AnyValue>(), size_of::<Value>()), within: &[(5, &LIST), (6, &MAP)] };
static LIST: Shape = Shape { size: HEADER, within: &[(1, &VALUE)] };
static MAP: Shape = Shape { size: HEADER, within: &[(1, &PAIR)] };
/// One is made of the other, span by span.
static PAIR: Shape =
    Shape { size: larger(size_of::<KeyValue>(), size_of::<(String, Value)>()), within: &[(2, &INNER)] };
/// A pair's value lies in the pair.
static INNER: Shape = Shape { size: 0, within: &[(5, &LIST), (6, &MAP)] };
static EVENT: Shape =
    Shape { size: size_of::<wire::span::Event>() + size_of::<Event>(), within: &[(3, &PAIR)] };
static LINK: Shape = Shape { size: size_of::<wire::span::Link>() + size_of::<Link>(), within: &[(4, &PAIR)] };
static SPAN: Shape = Shape {
    size: size_of::<wire::Span>() + size_of::<Span>(),
    within: &[(9, &PAIR), (11, &EVENT), (13, &LINK)],
};
static RECORD: Shape = Shape {
    size: size_of::<wire_logs::LogRecord>() + size_of::<LogRecord>(),
    within: &[(5, &INNER), (6, &PAIR)],
};
static ENTITY: Shape = Shape { size: 4 * HEADER, within: &[(3, &TEXT), (4, &TEXT)] };
static TEXT: Shape = Shape { size: HEADER, within: &[] };
static RESOURCE: Shape = Shape { size: size_of::<Resource>(), within: &[(1, &PAIR), (3, &ENTITY)] };
static SCOPE: Shape = Shape { size: size_of::<Scope>(), within: &[(3, &PAIR)] };
static SPANS_OF_SCOPE: Shape =
    Shape { size: size_of::<wire::ScopeSpans>() + size_of::<Scope>(), within: &[(1, &SCOPE), (2, &SPAN)] };
static RECORDS_OF_SCOPE: Shape = Shape {
    size: size_of::<wire_logs::ScopeLogs>() + size_of::<Scope>(),
    within: &[(1, &SCOPE), (2, &RECORD)],
};
static SPANS_OF_RESOURCE: Shape = Shape {
    size: size_of::<wire::ResourceSpans>() + size_of::<Resource>(),
    within: &[(1, &RESOURCE), (2, &SPANS_OF_SCOPE)],
};
static RECORDS_OF_RESOURCE: Shape = Shape {
    size: size_of::<wire_logs::ResourceLogs>() + size_of::<Resource>(),
    within: &[(1, &RESOURCE), (2, &RECORDS_OF_SCOPE)],
};
static TRACES: Shape = Shape { size: 0, within: &[(1, &SPANS_OF_RESOURCE)] };
static LOGS: Shape =
    Shape { size: size_of::<ExportLogsServiceRequest>(), within: &[(1, &RECORDS_OF_RESOURCE)] };

const fn larger(one: usize, other: usize) -> usize {
    if one > other { one } else { other }
}

/// Bytes of memory that decoding this body may take, beside the body itself.
pub fn swell(signal: Signal, encoding: Encoding, body: &[u8]) -> usize {
    let structure = match (encoding, signal) {
        (Encoding::Json, _) => json(body),
        (Encoding::Protobuf, Signal::Traces) => protobuf(&TRACES, body, 0),
        (Encoding::Protobuf, Signal::Logs) => protobuf(&LOGS, body, 0),
    };
    structure.max(body.len())
}

/// What is broken ends the count: it ends the decoding too.
fn protobuf(shape: &Shape, bytes: &[u8], depth: usize) -> usize {
    let mut rest = bytes;
    let mut all = 0;
    while let Some((field, content)) = next(&mut rest) {
        let Some(content) = content else { continue };
        let inner = shape.within.iter().find(|(number, _)| *number == field).map(|(_, inner)| *inner);
        all += match inner {
            Some(inner) if depth < DEEPEST => inner.size + protobuf(inner, content, depth + 1),
            // Within the size of its message.
            _ => 0,
        };
    }
    all
}

/// The next field's number, with its content if it has a length.
fn next<'a>(rest: &mut &'a [u8]) -> Option<(u32, Option<&'a [u8]>)> {
    let key = varint(rest)?;
    let field = u32::try_from(key >> 3).ok()?;
    let skip = match key & 7 {
        0 => {
            varint(rest)?;
            return Some((field, None));
        }
        1 => 8,
        5 => 4,
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            let (content, after) = rest.split_at_checked(length)?;
            *rest = after;
            return Some((field, Some(content)));
        }
        // Groups are not in OTLP.
        _ => return None,
    };
    *rest = rest.get(skip..)?;
    Some((field, None))
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for place in 0..10 {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Objects, lists and their items outside of texts.
fn json(body: &[u8]) -> usize {
    let mut all = 0;
    let mut rest = body.iter();
    while let Some(byte) = rest.next() {
        match byte {
            b'{' => all += JSON_OBJECT,
            b'[' | b',' => all += HEADER,
            b'"' => {
                while let Some(byte) = rest.next() {
                    match byte {
                        b'"' => break,
                        b'\\' => {
                            rest.next();
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::decode;

    fn message(field: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![field << 3 | 2];
        let mut length = content.len();
        while length > 127 {
            bytes.push(length as u8 & 0x7f | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
        bytes.extend(content);
        bytes
    }

    #[test]
    fn what_is_made_of_recordings_is_covered_and_not_overrated() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/traces");
        let mut seen = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let file = entry.unwrap().path().join("s01.otlp.pb");
            let Ok(body) = std::fs::read(file) else { continue };
            let decoded = decode(Signal::Traces, Encoding::Protobuf, &body).unwrap();
            let counted = swell(Signal::Traces, Encoding::Protobuf, &body);
            assert!(2 * counted >= decoded.weight(), "{counted} {}", decoded.weight());
            assert!(counted <= 3 * body.len(), "{counted} of {}", body.len());
            seen += 1;
        }
        assert!(seen > 0);
    }

    #[test]
    fn empty_messages_count_for_what_they_become_wherever_they_stand() {
        let many = |field: u8| message(field, b"").repeat(1_000);
        let in_span = |content: &[u8]| message(1, &message(2, &message(2, content)));
        let value = |content: &[u8]| in_span(&message(9, &message(2, content)));
        let cases = [
            many(1),
            message(1, &many(2)),
            message(1, &message(2, &many(2))),
            in_span(&many(9)),
            in_span(&many(11)),
            in_span(&many(13)),
            value(&message(5, &many(1))),
            value(&message(6, &many(1))),
        ];
        for (number, body) in cases.iter().enumerate() {
            let counted = swell(Signal::Traces, Encoding::Protobuf, body);
            assert!(counted > 15 * body.len(), "{number}: {counted} of {}", body.len());
        }
    }

    #[test]
    fn broken_and_deep_bodies_are_counted_to_where_they_can_be() {
        let mut deep = message(1, b"x");
        for _ in 0..2_000 {
            deep = message(5, &message(1, &deep));
        }
        let body = message(1, &message(2, &message(2, &message(9, &message(2, &deep)))));
        assert!(swell(Signal::Traces, Encoding::Protobuf, &body) < 100_000);
        for broken in [
            &b"\x0a\xff\xff\xff\xff\x0f"[..],
            b"\x0b",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\x09\x01",
        ] {
            assert_eq!(swell(Signal::Logs, Encoding::Protobuf, broken), broken.len());
        }
    }

    #[test]
    fn objects_in_texts_are_no_objects() {
        let empty = swell(Signal::Traces, Encoding::Json, br#"{"a":"{{{{[[[[,,,,\"{{{{"}"#);
        assert_eq!(empty, JSON_OBJECT);
        let many = format!("[{}]", "{},".repeat(1_000));
        assert!(swell(Signal::Traces, Encoding::Json, many.as_bytes()) > 30 * many.len());
    }
}
