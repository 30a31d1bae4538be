//! The stories of recent verdicts, as JSON, within a limit of bytes.

use std::collections::VecDeque;

use bytes::Bytes;

/// What is known of a verdict's story.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// The story as JSON.
    Story(Bytes),
    /// The verdict was made without a story: nothing could be told of the trace.
    Never,
    /// There was one; it was too large to keep, or had to make room for newer ones.
    Forgotten,
    /// Stories are not kept (`emit.recent.story_bytes` is 0, or the console is off).
    Off,
}

/// Stories by their verdict's sequence number, oldest first.
#[derive(Debug, Default)]
pub(super) struct Stories {
    max_bytes: usize,
    bytes: usize,
    kept: VecDeque<(u64, Bytes)>,
}

impl Stories {
    pub fn new(max_bytes: usize) -> Self {
        Self { max_bytes, ..Self::default() }
    }

    /// Whether a story of so many bytes is worth keeping: one giant must not push out all the others.
    pub fn admits(&self, bytes: usize) -> bool {
        bytes <= self.max_bytes / 4
    }

    /// Numbers must rise.
    pub fn keep(&mut self, sequence: u64, story: Bytes) {
        if !self.admits(story.len()) {
            return;
        }
        self.bytes += story.len();
        self.kept.push_back((sequence, story));
        while self.bytes > self.max_bytes {
            self.forget_oldest();
        }
    }

    pub fn get(&self, sequence: u64) -> Option<Bytes> {
        let at = self.kept.binary_search_by_key(&sequence, |(number, _)| *number).ok()?;
        Some(self.kept[at].1.clone())
    }

    /// Forgets those of verdicts that are forgotten: all numbers below `sequence`.
    pub fn forget_before(&mut self, sequence: u64) {
        while self.kept.front().is_some_and(|(number, _)| *number < sequence) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, story)) = self.kept.pop_front() {
            self.bytes -= story.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn story(bytes: usize) -> Bytes {
        vec![b'x'; bytes].into()
    }

    #[test]
    fn the_oldest_stories_make_room_and_a_giant_does_not() {
        let mut stories = Stories::new(100);
        for sequence in [1, 2, 5, 6, 9] {
            stories.keep(sequence, story(25));
        }
        stories.keep(10, story(26));
        let known: Vec<u64> = (0..=10).filter(|sequence| stories.get(*sequence).is_some()).collect();
        assert_eq!(known, [2, 5, 6, 9]);
        stories.forget_before(6);
        assert_eq!(stories.get(5), None);
        assert_eq!(stories.bytes, 50);
    }
}
