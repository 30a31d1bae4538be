//! Who is above whom among the spans of a trace. Parents may be missing and may form circles.

use std::collections::HashMap;

use crate::domain::{Span, SpanId};

pub(super) struct Tree {
    parents: Vec<Option<usize>>,
    by_id: HashMap<SpanId, usize>,
}

impl Tree {
    /// `spans` in any order; of spans that share an id the first counts.
    pub(super) fn new(spans: &[&Span]) -> Self {
        let mut by_id = HashMap::with_capacity(spans.len());
        for (index, span) in spans.iter().enumerate() {
            by_id.entry(span.span_id).or_insert(index);
        }
        let parent = |span: &&Span| span.parent_id.and_then(|id| by_id.get(&id).copied());
        let mut parents: Vec<Option<usize>> = spans.iter().map(parent).collect();
        cut_circles(&mut parents);
        Self { parents, by_id }
    }

    pub(super) fn find(&self, id: SpanId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// For every span the nearest one at or above it that has a value, and that value.
    pub(super) fn nearest<T: Clone>(&self, own: &[Option<T>]) -> Vec<Option<T>> {
        let mut found: Vec<Option<Option<T>>> = vec![None; self.parents.len()];
        let mut path = Vec::new();
        for start in 0..self.parents.len() {
            let mut at = start;
            let value = loop {
                if let Some(known) = &found[at] {
                    break known.clone();
                }
                path.push(at);
                if let Some(value) = &own[at] {
                    break Some(value.clone());
                }
                match self.parents[at] {
                    Some(parent) => at = parent,
                    None => break None,
                }
            };
            for passed in path.drain(..) {
                found[passed] = Some(value.clone());
            }
        }
        found.into_iter().map(Option::flatten).collect()
    }

    /// As [`Tree::nearest`], of the spans strictly above.
    pub(super) fn above<T: Clone>(&self, own: &[Option<T>]) -> Vec<Option<T>> {
        let nearest = self.nearest(own);
        self.parents.iter().map(|parent| parent.and_then(|parent| nearest[parent].clone())).collect()
    }
}

/// Takes one link out of every circle, so that each walk upwards ends.
fn cut_circles(parents: &mut [Option<usize>]) {
    // 0: not seen, otherwise the walk on which it was seen.
    let mut seen = vec![0usize; parents.len()];
    for start in 0..parents.len() {
        let walk = start + 1;
        let mut at = start;
        while seen[at] == 0 {
            seen[at] = walk;
            match parents[at] {
                Some(parent) if seen[parent] == walk => {
                    parents[at] = None;
                    break;
                }
                Some(parent) => at = parent,
                None => break,
            }
        }
    }
}
