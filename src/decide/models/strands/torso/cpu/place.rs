//! Where the segments of a pass lie, and what comes before each.

use std::ops::Range;

use super::super::{After, Segment};
use super::State;

/// One segment's place.
pub struct Place {
    /// Its rows in the pass.
    pub rows: Range<usize>,
    /// Tokens before it.
    pub prefix: usize,
    /// The segment before it, if that is in this pass.
    pub parent: Option<usize>,
    /// Whether its state is needed: to be kept, or by a later segment.
    pub needed: bool,
    /// Whether its state is to be kept.
    pub keep: bool,
    /// The segments of one wave do not depend on each other.
    pub wave: usize,
}

/// The places of a pass.
pub struct Places<'a> {
    /// One per segment.
    pub places: Vec<Place>,
    /// Per segment: the state that comes before it, if it is the prefix of an earlier pass.
    pub kept: Vec<Option<&'a State>>,
    /// Rows of the pass whose hidden rows are wanted.
    pub wanted: Vec<usize>,
    /// Rows of all segments.
    pub rows: usize,
}

impl<'a> Places<'a> {
    pub fn new(segments: &[Segment<'a, State>]) -> Self {
        let mut places: Vec<Place> = Vec::with_capacity(segments.len());
        let mut kept = Vec::with_capacity(segments.len());
        let mut wanted = Vec::new();
        let mut start = 0;
        for segment in segments {
            let rows = start..start + segment.tokens.len();
            let mut state = None;
            let (prefix, parent, wave) = match segment.after {
                After::Nothing => (0, None, 0),
                After::Kept(before) => {
                    state = Some(before);
                    (before.tokens, None, 0)
                }
                After::Segment(before) => {
                    let parent = &mut places[before];
                    parent.needed = true;
                    (parent.prefix + parent.rows.len(), Some(before), parent.wave + 1)
                }
            };
            wanted.extend(segment.wanted.iter().map(|offset| start + offset));
            start = rows.end;
            places.push(Place { rows, prefix, parent, needed: segment.keep, keep: segment.keep, wave });
            kept.push(state);
        }
        Self { places, kept, wanted, rows: start }
    }

    /// How many waves there are.
    pub fn waves(&self) -> usize {
        self.places.iter().map(|place| place.wave + 1).max().unwrap_or(0)
    }

    /// The segments from the first ancestor in this pass down to `segment` itself.
    pub fn line(&self, segment: usize) -> Vec<usize> {
        let mut line = vec![segment];
        while let Some(parent) = self.places[line[line.len() - 1]].parent {
            line.push(parent);
        }
        line.reverse();
        line
    }
}
