//! A request's spans and log records, put together as records: by trace, and each small enough. Pure.

use std::collections::HashMap;

use crate::domain::TraceId;
use crate::otlp::{self, Part};

/// A record to be: something of one trace, spans or log records.
#[derive(Debug)]
pub(super) struct Piece {
    pub trace_id: TraceId,
    pub parts: Vec<Part>,
    pub value: Vec<u8>,
}

/// The pieces of a request, and how many items fit into none.
#[derive(Debug, Default)]
pub(super) struct Cut {
    pub pieces: Vec<Piece>,
    pub left_out: u64,
}

/// Sorts what a request brought: each trace's spans together, and likewise its log records, in values of at most `limit` bytes.
pub(super) fn cut(parts: Vec<Part>, limit: usize) -> Cut {
    let mut cut = Cut::default();
    for group in by_trace(parts) {
        cut.fit(group, limit);
    }
    cut
}

impl Cut {
    /// Cuts a piece that turned out to be too large.
    pub fn again(piece: Piece) -> Self {
        let mut cut = Self::default();
        let limit = piece.value.len() / 2;
        match piece.parts.len() {
            0 | 1 => cut.left_out = piece.parts.len() as u64,
            _ => cut.fit(piece.parts, limit),
        }
        cut
    }

    fn fit(&mut self, mut parts: Vec<Part>, limit: usize) {
        let Some(first) = parts.first() else { return };
        let trace_id = first.trace_id;
        let value = otlp::join(&parts);
        if value.len() <= limit {
            self.pieces.push(Piece { trace_id, parts, value });
        } else if parts.len() > 1 {
            let second = parts.split_off(parts.len() / 2);
            self.fit(parts, limit);
            self.fit(second, limit);
        } else {
            self.left_out += 1;
        }
    }
}

/// Groups of one trace and one signal, in order of appearance.
fn by_trace(parts: Vec<Part>) -> Vec<Vec<Part>> {
    let mut index = HashMap::new();
    let mut groups: Vec<Vec<Part>> = Vec::new();
    for part in parts {
        let at = *index.entry((part.trace_id, part.signal)).or_insert(groups.len());
        if at == groups.len() {
            groups.push(Vec::new());
        }
        groups[at].push(part);
    }
    groups
}

#[cfg(test)]
mod tests;
