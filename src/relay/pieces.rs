//! A request's spans and log records, cut into records: by trace, and each small enough. Pure.

use std::collections::HashMap;

use prost::Message;

use crate::domain::{LogRecord, Span, TraceId};
use crate::otlp;

/// A record to be: something of one trace.
#[derive(Debug)]
pub(super) struct Piece {
    pub trace_id: TraceId,
    pub items: Items,
    pub value: Vec<u8>,
}

/// Spans or log records; OTLP has no request that holds both.
#[derive(Debug)]
pub(super) enum Items {
    Spans(Vec<Span>),
    Logs(Vec<LogRecord>),
}

/// The pieces of a request, and how many items fit into none.
#[derive(Debug, Default)]
pub(super) struct Cut {
    pub pieces: Vec<Piece>,
    pub left_out: u64,
}

impl Items {
    fn len(&self) -> usize {
        match self {
            Items::Spans(spans) => spans.len(),
            Items::Logs(records) => records.len(),
        }
    }

    fn encode(&self) -> Vec<u8> {
        match self {
            Items::Spans(spans) => otlp::to_traces(spans).encode_to_vec(),
            Items::Logs(records) => otlp::to_logs(records).encode_to_vec(),
        }
    }

    /// Its two halves, in order.
    fn halves(self) -> (Self, Self) {
        let middle = self.len() / 2;
        match self {
            Items::Spans(mut spans) => {
                let second = spans.split_off(middle);
                (Items::Spans(spans), Items::Spans(second))
            }
            Items::Logs(mut records) => {
                let second = records.split_off(middle);
                (Items::Logs(records), Items::Logs(second))
            }
        }
    }
}

/// Cuts what a request brought: each trace's spans together, and likewise its log records, in values of at most `limit` bytes.
pub(super) fn cut(spans: Vec<Span>, logs: Vec<LogRecord>, limit: usize) -> Cut {
    let mut cut = Cut::default();
    for (trace_id, group) in by_trace(spans, |span| span.trace_id) {
        cut.fit(trace_id, Items::Spans(group), limit);
    }
    for (trace_id, group) in by_trace(logs, |record| record.trace_id) {
        cut.fit(trace_id, Items::Logs(group), limit);
    }
    cut
}

impl Cut {
    /// Cuts a piece that turned out to be too large.
    pub fn again(piece: Piece) -> Self {
        let mut cut = Self::default();
        let limit = piece.value.len() / 2;
        match piece.items.len() {
            0 | 1 => cut.left_out = piece.items.len() as u64,
            _ => cut.fit(piece.trace_id, piece.items, limit),
        }
        cut
    }

    fn fit(&mut self, trace_id: TraceId, items: Items, limit: usize) {
        let value = items.encode();
        if value.len() <= limit {
            self.pieces.push(Piece { trace_id, items, value });
        } else if items.len() > 1 {
            let (first, second) = items.halves();
            self.fit(trace_id, first, limit);
            self.fit(trace_id, second, limit);
        } else {
            self.left_out += 1;
        }
    }
}

/// Groups in order of appearance.
fn by_trace<T>(items: Vec<T>, trace_id: impl Fn(&T) -> TraceId) -> Vec<(TraceId, Vec<T>)> {
    let mut index: HashMap<TraceId, usize> = HashMap::new();
    let mut groups: Vec<(TraceId, Vec<T>)> = Vec::new();
    for item in items {
        let id = trace_id(&item);
        let at = *index.entry(id).or_insert(groups.len());
        if at == groups.len() {
            groups.push((id, Vec::new()));
        }
        groups[at].1.push(item);
    }
    groups
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::{Attributes, SpanId, SpanKind, Status, Time};

    fn span(trace: u8, number: u8, name: &str) -> Span {
        Span {
            trace_id: TraceId::try_from(&[trace; 16][..]).unwrap(),
            span_id: SpanId::try_from(&[number; 8][..]).unwrap(),
            parent_id: None,
            name: name.to_owned(),
            kind: SpanKind::Client,
            start: Time(1),
            end: Time(2),
            status: Status::Error("broken".into()),
            attributes: Attributes::new(),
            events: Vec::new(),
            links: Vec::new(),
            dropped_attributes: 3,
            resource: Arc::default(),
            scope: Arc::default(),
        }
    }

    fn read(pieces: &[Piece]) -> Vec<Vec<Span>> {
        let values = pieces.iter().map(|piece| &piece.value);
        values.map(|value| otlp::decode_protobuf(value).unwrap().spans).collect()
    }

    #[test]
    fn each_trace_has_a_record_of_its_own_and_loses_nothing() {
        let spans = vec![span(1, 1, "a"), span(2, 2, "b"), span(1, 3, "c")];
        let cut = cut(spans.clone(), Vec::new(), 1_000);
        assert_eq!(cut.left_out, 0);
        let read = read(&cut.pieces);
        assert_eq!(read, [vec![spans[0].clone(), spans[2].clone()], vec![spans[1].clone()]]);
    }

    #[test]
    fn what_is_too_large_is_split_by_span_and_a_span_that_is_too_large_alone_is_left_out() {
        let mut spans: Vec<Span> = (1..=20).map(|number| span(1, number, &"x".repeat(100))).collect();
        spans.insert(7, span(1, 99, &"x".repeat(5_000)));
        let cut = cut(spans.clone(), Vec::new(), 1_000);
        assert_eq!(cut.left_out, 1);
        assert!(cut.pieces.len() > 2 && cut.pieces.iter().all(|piece| piece.value.len() <= 1_000));
        spans.remove(7);
        assert_eq!(read(&cut.pieces).concat(), spans);
    }

    #[test]
    fn a_piece_that_the_brokers_find_too_large_is_cut_again_until_it_is_one_span() {
        let spans = vec![span(1, 1, "a"), span(1, 2, "b"), span(1, 3, "c")];
        let mut waiting = cut(spans, Vec::new(), 1_000).pieces;
        let mut singles = 0;
        while let Some(piece) = waiting.pop() {
            let cut = Cut::again(piece);
            singles += cut.left_out;
            waiting.extend(cut.pieces);
        }
        assert_eq!(singles, 3);
    }
}
