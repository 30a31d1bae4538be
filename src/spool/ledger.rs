//! Which entries are live, and which segments can go. Pure.

use std::collections::{BTreeMap, HashMap};

use super::format::{Mark, Note};

/// What is known of one segment.
#[derive(Debug, Default)]
struct Segment {
    /// For each entry, whether it is settled. A damaged entry counts as settled: there is nothing left of it.
    settled: Vec<bool>,
    live: usize,
    /// Notes that are written in this segment.
    notes: Vec<Note>,
    /// Nothing is written to it any more.
    sealed: bool,
}

/// The entries of all segments.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    segments: BTreeMap<u64, Segment>,
}

impl Ledger {
    /// A segment begins.
    pub fn open(&mut self, segment: u64) {
        self.segments.entry(segment).or_default();
    }

    /// Nothing more will be written to it.
    pub fn seal(&mut self, segment: u64) {
        if let Some(segment) = self.segments.get_mut(&segment) {
            segment.sealed = true;
        }
    }

    /// The entry at this position is durable. Positions that were passed over belong to entries that are lost.
    pub fn appended(&mut self, entry: Mark) {
        let segment = self.segments.entry(entry.segment).or_default();
        let position = entry.index as usize;
        if segment.settled.len() <= position {
            segment.settled.resize(position, true);
            segment.settled.push(false);
            segment.live += 1;
        }
    }

    /// `note` is written in segment `at`. Whether it settles a live entry.
    pub fn settled(&mut self, note: impl Into<Note>, at: u64) -> bool {
        let note = note.into();
        if !self.segments.contains_key(&note.mark.segment) {
            return false;
        }
        self.segments.entry(at).or_default().notes.push(note);
        if note.share.is_some() {
            return false;
        }
        let Some(segment) = self.segments.get_mut(&note.mark.segment) else { return false };
        match segment.settled.get_mut(note.mark.index as usize) {
            Some(settled) if !*settled => {
                *settled = true;
                segment.live -= 1;
                true
            }
            _ => false,
        }
    }

    /// Segments in which nothing is live and nothing will be.
    pub fn done(&self) -> Vec<u64> {
        let done = self.segments.iter().filter(|(_, segment)| segment.sealed && segment.live == 0);
        done.map(|(number, _)| *number).collect()
    }

    /// The notes that are written in `segment` and still say something: marks for segments that exist, shares of live entries.
    pub fn notes(&self, segment: u64) -> Vec<Note> {
        let notes = self.segments.get(&segment).into_iter().flat_map(|segment| &segment.notes);
        let says_something = |note: &&Note| match note.share {
            None => self.segments.contains_key(&note.mark.segment),
            Some(_) => self.is_live(note.mark),
        };
        notes.filter(says_something).copied().collect()
    }

    /// Those of them for other segments: they have to be written again before this one goes.
    pub fn needed(&self, segment: u64) -> Vec<Note> {
        let mut notes = self.notes(segment);
        notes.retain(|note| note.mark.segment != segment);
        notes
    }

    /// The shares of live entries that are settled.
    pub fn shares(&self) -> HashMap<Mark, Vec<u128>> {
        let mut shares: HashMap<Mark, Vec<u128>> = HashMap::new();
        for note in self.segments.values().flat_map(|segment| &segment.notes) {
            if let Some(share) = note.share.filter(|_| self.is_live(note.mark)) {
                let known = shares.entry(note.mark).or_default();
                if !known.contains(&share) {
                    known.push(share);
                }
            }
        }
        shares
    }

    /// The segment is gone.
    pub fn remove(&mut self, segment: u64) {
        self.segments.remove(&segment);
    }

    /// Whether this entry is live.
    pub fn is_live(&self, entry: Mark) -> bool {
        let settled =
            self.segments.get(&entry.segment).and_then(|segment| segment.settled.get(entry.index as usize));
        settled == Some(&false)
    }

    /// Entries that are live.
    pub fn live(&self) -> usize {
        self.segments.values().map(|segment| segment.live).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mark(segment: u64, index: u32) -> Mark {
        Mark { segment, index }
    }

    #[test]
    fn a_segment_is_done_when_it_is_sealed_and_all_of_it_is_settled() {
        let mut ledger = Ledger::default();
        ledger.appended(mark(1, 0));
        ledger.appended(mark(1, 1));
        assert!(ledger.settled(mark(1, 0), 1));
        assert!(!ledger.settled(mark(1, 0), 1), "twice is once");
        ledger.seal(1);
        assert!(ledger.done().is_empty());
        assert!(ledger.settled(mark(1, 1), 2));
        assert_eq!(ledger.done(), [1]);
    }

    #[test]
    fn marks_for_older_segments_are_needed_as_long_as_those_exist() {
        let mut ledger = Ledger::default();
        ledger.appended(mark(1, 0));
        ledger.appended(mark(1, 1));
        ledger.appended(mark(2, 0));
        ledger.settled(mark(1, 1), 2);
        ledger.settled(mark(2, 0), 2);
        assert_eq!(ledger.needed(2), [Note::from(mark(1, 1))]);
        ledger.remove(1);
        assert!(ledger.needed(2).is_empty());
    }

    #[test]
    fn shares_are_needed_as_long_as_the_rest_of_their_entry_is_live() {
        let mut ledger = Ledger::default();
        ledger.appended(mark(1, 0));
        let share = Note { mark: mark(1, 0), share: Some(9) };
        assert!(!ledger.settled(share, 2), "the entry stays live");
        assert_eq!(ledger.needed(2), [share]);
        assert_eq!(ledger.shares(), HashMap::from([(mark(1, 0), vec![9])]));
        ledger.settled(mark(1, 0), 3);
        assert!(ledger.needed(2).is_empty() && ledger.shares().is_empty());
    }

    #[test]
    fn entries_that_were_lost_do_not_keep_their_segment() {
        let mut ledger = Ledger::default();
        ledger.appended(mark(1, 2));
        assert_eq!(ledger.live(), 1);
        assert!(!ledger.is_live(mark(1, 0)) && ledger.is_live(mark(1, 2)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever is settled and removed in whatever order: marks that are written again keep settled entries settled.
        #[test]
        fn what_is_settled_stays_settled_over_a_restart(
            appends in prop::collection::vec(1..6_u64, 1..30),
            settles in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        ) {
            let mut ledger = Ledger::default();
            let mut counts = BTreeMap::<u64, u32>::new();
            let mut entries = Vec::new();
            let mut order = appends;
            order.sort_unstable();
            for segment in order {
                let index = counts.entry(segment).or_default();
                entries.push(mark(segment, *index));
                ledger.appended(mark(segment, *index));
                *index += 1;
            }
            (1..6).for_each(|segment| ledger.seal(segment));
            let last = 6;
            // The marks that are on disk, by the segment that holds them.
            let mut written: Vec<(u64, Note)> = Vec::new();
            for (turn, settle) in settles.iter().enumerate() {
                let entry = entries[settle.index(entries.len())];
                let at = if turn % 2 == 0 { last } else { entry.segment };
                ledger.settled(entry, at);
                written.push((at, entry.into()));
                for done in ledger.done() {
                    for needed in ledger.needed(done) {
                        ledger.settled(needed, last);
                        written.push((last, needed));
                    }
                    ledger.remove(done);
                    written.retain(|(at, _)| *at != done);
                }
            }
            let mut after = Ledger::default();
            entries.iter().filter(|entry| ledger.segments.contains_key(&entry.segment)).for_each(|entry| after.appended(*entry));
            for (at, mark) in written {
                after.settled(mark, at);
            }
            for entry in &entries {
                prop_assert_eq!(after.is_live(*entry), ledger.is_live(*entry));
            }
        }
    }
}
