//! One run over many traces: where a message queue lies between agents, its spans point at each other by links.

use std::collections::HashMap;

use crate::domain::{Span, SpanKind, Trace, TraceId};

/// Joins traces of one run: those whose spans on a message queue link to each other, as producer and consumer do. A link
/// between ordinary spans, such as from one turn of a conversation to the turn before, joins nothing. The joined trace has
/// the id of the earliest one.
pub fn join_runs(traces: Vec<Trace>) -> Vec<Trace> {
    let mut place: HashMap<TraceId, usize> = HashMap::with_capacity(traces.len());
    for (index, trace) in traces.iter().enumerate() {
        place.entry(trace.trace_id).or_insert(index);
    }
    let mut heads: Vec<usize> = (0..traces.len()).collect();
    for (index, trace) in traces.iter().enumerate() {
        for link in trace.spans.iter().filter(|span| is_messaging(span)).flat_map(|span| &span.links) {
            if let Some(other) = place.get(&link.trace_id) {
                let (a, b) = (head(&mut heads, index), head(&mut heads, *other));
                heads[a.max(b)] = a.min(b);
            }
        }
    }
    let mut groups: Vec<Vec<Trace>> = traces.iter().map(|_| Vec::new()).collect();
    for (index, trace) in traces.into_iter().enumerate() {
        let at = head(&mut heads, index);
        groups[at].push(trace);
    }
    groups.into_iter().filter_map(merge).collect()
}

fn is_messaging(span: &Span) -> bool {
    matches!(span.kind, SpanKind::Producer | SpanKind::Consumer)
        || span.attributes.iter().any(|(key, _)| key.starts_with("messaging.operation"))
}

fn head(heads: &mut [usize], mut at: usize) -> usize {
    while heads[at] != at {
        heads[at] = heads[heads[at]];
        at = heads[at];
    }
    at
}

fn merge(group: Vec<Trace>) -> Option<Trace> {
    let began = |trace: &Trace| trace.spans.iter().map(|span| span.start).min();
    let first = group
        .iter()
        .enumerate()
        .min_by_key(|(index, trace)| (began(trace).is_none(), began(trace), *index))?
        .0;
    let id = group[first].trace_id;
    let mut parts = group.into_iter();
    let mut whole = parts.next()?;
    for part in parts {
        whole.spans.extend(part.spans);
        whole.logs.extend(part.logs);
        whole.truncated.extend(part.truncated);
        whole.first_arrival = whole.first_arrival.min(part.first_arrival);
        whole.closed_at = whole.closed_at.max(part.closed_at);
    }
    whole.trace_id = id;
    Some(whole)
}
