//! A request cut into its spans or log records, byte for byte as they came, and put together again: what a version of OTLP holds
//! that this one does not know passes unharmed.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use opentelemetry_proto::tonic::trace::v1 as wire;
use prost::Message;
use prost::encoding::{
    DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, encoded_len_varint,
    skip_field,
};

use super::{DecodeError, Encoding, Signal, json, protobuf};
use crate::domain::{Resource, Scope, SpanId, TraceId};

/// In requests, resources and scopes, of spans and of log records alike: what holds the next smaller thing.
const RESOURCES: u32 = 1;
const SCOPES: u32 = 2;
const ITEMS: u32 = 2;
/// Where resources held spans before OTLP 0.15. Nobody reads it, and it is no part of any one span.
const FORMER_SCOPES: u32 = 1000;

/// A span or log record in protobuf, and what it came in.
#[derive(Debug, Clone)]
pub struct Part {
    /// Spans or log records; OTLP has no request that holds both.
    pub signal: Signal,
    /// The trace that it belongs to.
    pub trace_id: TraceId,
    /// Its resource's message, without scopes. The same pointer for all that came together.
    resource: Arc<Vec<u8>>,
    /// Its scope's message, without items; likewise.
    scope: Arc<Vec<u8>>,
    item: Bytes,
}

impl Part {
    pub(super) fn new(
        signal: Signal,
        trace_id: TraceId,
        resource: &Arc<Vec<u8>>,
        scope: &Arc<Vec<u8>>,
        item: Bytes,
    ) -> Self {
        Self { signal, trace_id, resource: Arc::clone(resource), scope: Arc::clone(scope), item }
    }
}

/// The spans and log records of a request, in order: those that [`decode`](super::decode) takes, but for those whose resource and
/// scope `skip` names. Protobuf is not copied.
pub fn parts(
    signal: Signal,
    encoding: Encoding,
    body: &Bytes,
    skip: impl Fn(&Resource, &Scope) -> bool,
) -> Result<Vec<Part>, DecodeError> {
    match encoding {
        Encoding::Json => json::parts(body, skip),
        Encoding::Protobuf => {
            cut(signal, body, skip).map_err(|source| DecodeError::Protobuf { signal, source })
        }
    }
}

/// A request of these parts, all of one signal. What came together stays together.
pub fn join(parts: &[Part]) -> Vec<u8> {
    let mut request = Vec::new();
    for of_resource in parts.chunk_by(|one, next| Arc::ptr_eq(&one.resource, &next.resource)) {
        let of_scopes = || of_resource.chunk_by(|one, next| Arc::ptr_eq(&one.scope, &next.scope));
        let scopes: usize = of_scopes().map(|run| framed(scope_len(run))).sum();
        let resource = &of_resource[0].resource;
        frame(RESOURCES, resource.len() + scopes, &mut request);
        request.put_slice(resource);
        for of_scope in of_scopes() {
            frame(SCOPES, scope_len(of_scope), &mut request);
            request.put_slice(&of_scope[0].scope);
            for part in of_scope {
                frame(ITEMS, part.item.len(), &mut request);
                request.put_slice(&part.item);
            }
        }
    }
    request
}

fn scope_len(parts: &[Part]) -> usize {
    let items: usize = parts.iter().map(|part| framed(part.item.len())).sum();
    parts[0].scope.len() + items
}

/// With a key of one byte, as all numbers here have.
fn framed(length: usize) -> usize {
    1 + encoded_len_varint(length as u64) + length
}

fn frame(number: u32, length: usize, out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(length as u64, out);
}

fn cut(
    signal: Signal,
    body: &Bytes,
    skip: impl Fn(&Resource, &Scope) -> bool,
) -> Result<Vec<Part>, prost::DecodeError> {
    let mut parts = Vec::new();
    let (resources, _) = split(body, RESOURCES)?;
    for message in resources {
        let (scopes, rest) = split(message, SCOPES)?;
        let known = protobuf::resource(wire::ResourceSpans::decode(&rest[..])?.resource);
        let resource = Arc::new(rest);
        for message in scopes {
            let (items, rest) = split(message, ITEMS)?;
            if skip(&known, &protobuf::scope(wire::ScopeSpans::decode(&rest[..])?.scope)) {
                continue;
            }
            let scope = Arc::new(rest);
            for item in items {
                if let Some(trace_id) = trace_of(signal, item)? {
                    parts.push(Part::new(signal, trace_id, &resource, &scope, body.slice_ref(item)));
                }
            }
        }
    }
    Ok(parts)
}

/// The messages in the fields of this number, and all other fields as they are.
fn split(message: &[u8], number: u32) -> Result<(Vec<&[u8]>, Vec<u8>), prost::DecodeError> {
    let (mut found, mut rest) = (Vec::new(), Vec::new());
    each_field(message, |field| match field.content {
        Some(content) if field.number == number => found.push(content),
        _ if field.number == FORMER_SCOPES => {}
        _ => rest.extend_from_slice(field.whole),
    })?;
    Ok((found, rest))
}

struct Field<'a> {
    number: u32,
    /// With key and length.
    whole: &'a [u8],
    /// Of a field that has a length: what comes after it.
    content: Option<&'a [u8]>,
}

fn each_field<'a>(message: &'a [u8], mut look: impl FnMut(Field<'a>)) -> Result<(), prost::DecodeError> {
    let mut rest = message;
    while rest.has_remaining() {
        let start = rest;
        let (number, kind) = decode_key(&mut rest)?;
        let mut content = rest;
        skip_field(kind, number, &mut rest, DecodeContext::default())?;
        let whole = &start[..start.len() - rest.len()];
        content = &content[..content.len() - rest.len()];
        let content = match kind {
            WireType::LengthDelimited => {
                decode_varint(&mut content)?;
                Some(content)
            }
            _ => None,
        };
        look(Field { number, whole, content });
    }
    Ok(())
}

/// The trace of a span or log record; none if one of its ids is bad, or it is a log record without a trace.
fn trace_of(signal: Signal, item: &[u8]) -> Result<Option<TraceId>, prost::DecodeError> {
    let (of_trace, of_span, of_parent) = match signal {
        Signal::Traces => (1, 2, Some(4)),
        Signal::Logs => (9, 10, None),
    };
    let (mut trace, mut span, mut parent) = (&[][..], &[][..], &[][..]);
    each_field(item, |field| {
        // Of a field that is there twice, the last one counts.
        if let Some(content) = field.content {
            match field.number {
                number if number == of_trace => trace = content,
                number if number == of_span => span = content,
                number if Some(number) == of_parent => parent = content,
                _ => {}
            }
        }
    })?;
    let is_sound = match signal {
        Signal::Traces => SpanId::try_from(span).is_ok() && protobuf::optional_span_id(parent).is_ok(),
        Signal::Logs => protobuf::optional_span_id(span).is_ok(),
    };
    Ok(TraceId::try_from(trace).ok().filter(|_| is_sound))
}
