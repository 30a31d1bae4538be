//! Which waiting pieces of work share the next forward pass. Pure: no clock, no thread.

use std::collections::VecDeque;

/// What a piece of work costs in a forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Rows (sequences) of it.
    pub rows: usize,
    /// Tokens of its longest row.
    pub longest: usize,
    /// Tokens of all its rows.
    pub tokens: usize,
}

impl Size {
    /// One row of so many tokens.
    pub fn row(tokens: usize) -> Self {
        Self { rows: 1, longest: tokens, tokens }
    }

    /// Rows of these lengths.
    pub fn of_rows(lengths: impl IntoIterator<Item = usize>) -> Self {
        let mut size = Self { rows: 0, longest: 0, tokens: 0 };
        for length in lengths {
            size = size.and(Self::row(length));
        }
        size
    }

    /// Both together.
    pub fn and(self, other: Size) -> Self {
        Self {
            rows: self.rows + other.rows,
            longest: self.longest.max(other.longest),
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }
}

/// How a forward pass lays out its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Every row is filled up to the longest: `rows × longest` tokens, so rows of like length go together.
    Padded,
    /// Rows lie end to end: the sum of their tokens, whatever their lengths.
    Ragged,
}

impl Layout {
    /// Tokens that a pass over `size` computes.
    pub fn cost(self, size: Size) -> usize {
        match self {
            Layout::Padded => size.rows.saturating_mul(size.longest),
            Layout::Ragged => size.tokens,
        }
    }

    /// Rows share a padded pass within one bucket: at most a quarter of it is then padding, plus a little for short rows.
    fn bucket(self, size: Size) -> usize {
        match self {
            Layout::Padded => bucket(size.longest),
            Layout::Ragged => 0,
        }
    }
}

/// The upper end of a length's bucket: steps of 32 up to 128, then four steps to each doubling.
fn bucket(length: usize) -> usize {
    let step = (length.next_power_of_two() / 8).max(32);
    length.max(1).div_ceil(step) * step
}

/// Work that waits, oldest first.
#[derive(Debug)]
pub struct Waiting<T> {
    layout: Layout,
    budget: usize,
    entries: VecDeque<(Size, T)>,
}

impl<T> Waiting<T> {
    /// Nothing yet; batches will have at most `budget` tokens, as `layout` counts them.
    pub fn new(layout: Layout, budget: usize) -> Self {
        Self { layout, budget, entries: VecDeque::new() }
    }

    /// Adds a piece of work at the end.
    pub fn push(&mut self, size: Size, work: T) {
        self.entries.push_back((size, work));
    }

    /// How many pieces wait.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether the oldest piece already has company enough for a full batch.
    pub fn is_full(&self) -> bool {
        let mut size: Option<Size> = None;
        for (next, _) in self.of_oldest_bucket() {
            size = Some(size.map_or(next, |size| size.and(next)));
        }
        size.is_some_and(|size| self.layout.cost(size) >= self.budget)
    }

    /// Takes the next batch: the oldest piece, whatever its size, then those of its bucket, oldest first, while the budget
    /// lasts. Because every batch holds the oldest piece, none waits for ever. Pieces that nobody waits for any more
    /// (`wanted` is false) are dropped.
    pub fn next(&mut self, wanted: impl Fn(&T) -> bool) -> Vec<T> {
        self.entries.retain(|(_, work)| wanted(work));
        let Some((first, _)) = self.entries.front() else { return Vec::new() };
        let bucket = self.layout.bucket(*first);
        let mut size: Option<Size> = None;
        let mut open = true;
        let mut batch = Vec::new();
        let mut rest = VecDeque::with_capacity(self.entries.len());
        for (next, work) in self.entries.drain(..) {
            let together = size.map_or(next, |size| size.and(next));
            let fits = size.is_none() || self.layout.cost(together) <= self.budget;
            if open && self.layout.bucket(next) == bucket {
                if fits {
                    size = Some(together);
                    batch.push(work);
                    continue;
                }
                // The first that does not fit closes the batch, or smaller ones could overtake it again and again.
                open = false;
            }
            rest.push_back((next, work));
        }
        self.entries = rest;
        batch
    }

    fn of_oldest_bucket(&self) -> impl Iterator<Item = (Size, &T)> {
        let bucket = self.entries.front().map(|(size, _)| self.layout.bucket(*size));
        self.entries
            .iter()
            .filter(move |(size, _)| Some(self.layout.bucket(*size)) == bucket)
            .map(|(size, work)| (*size, work))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn waiting(layout: Layout, budget: usize, lengths: &[usize]) -> Waiting<usize> {
        let mut waiting = Waiting::new(layout, budget);
        for length in lengths {
            waiting.push(Size::row(*length), *length);
        }
        waiting
    }

    #[test]
    fn rows_of_like_length_go_together_and_the_oldest_goes_first() {
        let mut waiting = waiting(Layout::Padded, 1000, &[200, 10, 210, 12]);
        assert_eq!(waiting.next(|_| true), [200, 210]);
        assert_eq!(waiting.next(|_| true), [10, 12]);
        assert!(waiting.next(|_| true).is_empty());
    }

    #[test]
    fn padding_counts_against_the_budget() {
        // 97 × 3 rows = 291, and with the 128-token row in it 128 × 4 = 512.
        let mut waiting = waiting(Layout::Padded, 500, &[97, 97, 97, 128]);
        assert_eq!(waiting.next(|_| true), [97, 97, 97]);
        assert_eq!(waiting.next(|_| true), [128]);
    }

    #[test]
    fn ragged_rows_of_any_length_go_together() {
        let mut waiting = waiting(Layout::Ragged, 230, &[200, 10, 210, 12]);
        assert_eq!(waiting.next(|_| true), [200, 10]);
        assert_eq!(waiting.next(|_| true), [210, 12]);
    }

    #[test]
    fn work_larger_than_the_budget_runs_alone() {
        let mut waiting = waiting(Layout::Padded, 100, &[300, 300]);
        assert_eq!(waiting.next(|_| true), [300]);
        assert_eq!(waiting.next(|_| true), [300]);
    }

    #[test]
    fn work_that_nobody_waits_for_is_dropped() {
        let mut waiting = waiting(Layout::Ragged, 100, &[1, 2, 3]);
        assert_eq!(waiting.next(|length| *length != 2), [1, 3]);
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_batch_is_full_when_the_oldest_has_company_enough() {
        assert!(!waiting(Layout::Padded, 100, &[40, 10, 12]).is_full());
        assert!(waiting(Layout::Padded, 100, &[40, 10, 41, 39]).is_full());
        assert!(!waiting(Layout::Padded, 100, &[]).is_full());
    }

    #[test]
    fn a_bucket_wastes_little() {
        for length in 1..2000 {
            let top = bucket(length);
            assert!(top >= length && bucket(top) == top, "{length} -> {top}");
            assert!(top - length < 32.max(length / 4 + 1), "{length} -> {top}");
        }
    }

    proptest! {
        #[test]
        fn every_piece_runs_once_within_the_budget_and_the_oldest_is_never_left(
            lengths in prop::collection::vec(1usize..400, 0..60),
            budget in 1usize..2000,
            ragged: bool,
        ) {
            let layout = if ragged { Layout::Ragged } else { Layout::Padded };
            let mut waiting = Waiting::new(layout, budget);
            for (index, length) in lengths.iter().enumerate() {
                waiting.push(Size::row(*length), index);
            }
            let mut seen = Vec::new();
            while !waiting.is_empty() {
                let batch = waiting.next(|_| true);
                let oldest_left = (0..lengths.len()).find(|index| !seen.contains(index)).unwrap();
                prop_assert_eq!(batch[0], oldest_left);
                prop_assert!(batch.is_sorted());
                let size = Size::of_rows(batch.iter().map(|index| lengths[*index]));
                prop_assert!(batch.len() == 1 || layout.cost(size) <= budget);
                seen.extend(batch);
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..lengths.len()).collect::<Vec<_>>());
        }
    }
}
