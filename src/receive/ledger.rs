//! What became of the records of each partition, how far its offset may be committed, and what must be read again. Pure: the
//! thread that owns the consumer owns this too and does what it says.
//!
//! A record is *open* from [`Ledger::open`] until it is settled. The offset to commit is that of the lowest open record; so a
//! crash reads again what is not done. What is done above that offset goes along as a note ([`Commit::note`]), and the
//! partition's next owner passes over it: read again, the end of a trace whose beginning lies below the offset would be judged
//! without it. A record is noted in whole, or by its traces that are done. A record that is settled with [`Outcome::Retry`] is
//! read again: after a growing delay the partition is rewound to it, and on the way back to where it was, what is done or under
//! way is passed over. Each assignment of a partition is an epoch of its own: a receipt of an earlier one settles nothing.
//!
//! Memory grows with the open records, not with those that are done above them.

mod note;
mod partition;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::partition::Partition;
use crate::domain::Time;
use crate::ticket::Outcome;

/// A partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
}

impl Place {
    /// The partition of this number.
    pub fn new(topic: &str, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.topic, self.partition)
    }
}

/// How long to wait, and for how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// The wait before the first rewind; it doubles with each one that did not help.
    pub first: Duration,
    /// The longest wait before a rewind.
    pub longest: Duration,
    /// A record that is to be read again this long after it was first read is set aside instead. None means never.
    pub max_age: Option<Duration>,
    /// Records of a partition that may wait for its rewind; with so many, it is not read on.
    pub most_waiting: usize,
    /// Characters that the note of a commit may have.
    pub note: usize,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(60),
            max_age: None,
            most_waiting: 10_000,
            note: 4_000,
        }
    }
}

/// Proof that a record was opened; with it the record is settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    place: Place,
    epoch: u64,
    offset: i64,
    attempt: u32,
}

impl Receipt {
    /// The record's partition.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The record's offset.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// How often it was opened before, in this epoch.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }
}

/// What to do with a record that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// Deliver it.
    Deliver(Receipt),
    /// It was tried for too long: put it where a person finds it.
    SetAside(Receipt),
    /// Pass over it: it is done, under way, or waits for a later rewind.
    Known,
    /// Pass over it: its partition is not ours.
    Foreign,
}

/// What to do with a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Do not read on: too much waits for its rewind.
    Hold(Place),
    /// Read on.
    Release(Place),
    /// Read again from this offset. If that cannot be done, say so with [`Ledger::rewind_failed`].
    Rewind {
        /// The partition.
        place: Place,
        /// The lowest record that waits.
        offset: i64,
    },
}

/// What to commit of a partition: both in one, or an heir would take the one for the other's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Everything below is done.
    pub offset: i64,
    /// What is done above it, for [`Ledger::inherited`]; empty if nothing is.
    pub note: String,
    /// Parts of the note that [`Patience::note`] had no room for. What they say may be judged again in part.
    pub left_out: usize,
}

/// What settling a record did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It counts.
    Counted,
    /// It does not: the partition was given away since, or the record has been settled before.
    Fenced,
}

/// The records of all partitions that are ours.
#[derive(Debug)]
pub struct Ledger {
    patience: Patience,
    partitions: BTreeMap<Place, Partition>,
    epochs: u64,
    /// Records that are gone from their log though they were to be read again.
    vanished: Vec<(Place, i64)>,
}

impl Ledger {
    /// A ledger without partitions.
    pub fn new(patience: Patience) -> Self {
        Self { patience, partitions: BTreeMap::new(), epochs: 0, vanished: Vec::new() }
    }

    /// The partition is ours from now on, and nobody has committed anything of it. What was open in it is forgotten.
    pub fn assigned(&mut self, place: Place) {
        self.epochs += 1;
        self.partitions.insert(place, Partition::new(self.epochs));
    }

    /// The same for a partition of which this was committed: reading begins at `offset`. A note that is not ours says nothing.
    pub fn inherited(&mut self, place: Place, offset: i64, note: &str, now: Time) {
        self.epochs += 1;
        self.partitions.insert(place, Partition::inherited(self.epochs, offset, note, now));
    }

    /// The partition is no longer ours. Gives what to commit, if anything was read; whoever gets the partition reads on from
    /// there.
    pub fn revoked(&mut self, place: &Place) -> Option<Commit> {
        self.partitions.remove(place)?.standing(self.patience.note)
    }

    /// A record was read. Records of a partition come in the order of their offsets, but after a rewind.
    pub fn open(&mut self, place: &Place, offset: i64, now: Time) -> Opening {
        let Some(partition) = self.partitions.get_mut(place) else { return Opening::Foreign };
        if partition.goes_back_to(offset) {
            // Nobody asked for it, so the log was cut or made anew: what is known of it does not hold any more.
            self.epochs += 1;
            *partition = Partition::new(self.epochs);
        }
        for gone in partition.pass(offset, now, &self.patience) {
            self.vanished.push((place.clone(), gone));
        }
        let Some((since, attempt)) = partition.admit(offset, now) else { return Opening::Known };
        let age = now.since(since);
        let receipt = Receipt { place: place.clone(), epoch: partition.epoch(), offset, attempt };
        match self.patience.max_age {
            Some(max_age) if attempt > 0 && age >= max_age => Opening::SetAside(receipt),
            _ => Opening::Deliver(receipt),
        }
    }

    /// Says what became of a record.
    pub fn settled(&mut self, receipt: &Receipt, outcome: Outcome, now: Time) -> Settled {
        let Some(partition) = self.partitions.get_mut(&receipt.place) else { return Settled::Fenced };
        if partition.epoch() != receipt.epoch {
            return Settled::Fenced;
        }
        partition.settle(receipt.offset, receipt.attempt, outcome, now, &self.patience)
    }

    /// This trace's share of a record is done while others are not.
    pub fn share_done(&mut self, receipt: &Receipt, share: u128) -> Settled {
        let Some(partition) = self.partitions.get_mut(&receipt.place) else { return Settled::Fenced };
        if partition.epoch() != receipt.epoch {
            return Settled::Fenced;
        }
        partition.share_done(receipt.offset, receipt.attempt, share)
    }

    /// The traces of a record that are done, by this owner of its partition or an earlier one: they must not be judged again.
    pub fn shares(&self, receipt: &Receipt) -> &[u128] {
        self.partitions.get(&receipt.place).map_or(&[], |partition| partition.shares(receipt.offset))
    }

    /// What is due now.
    pub fn steps(&mut self, now: Time) -> Vec<Step> {
        let mut steps = Vec::new();
        for (place, partition) in &mut self.partitions {
            partition.steps(place, now, &self.patience, &mut steps);
        }
        steps
    }

    /// When [`steps`](Self::steps) has something to say next, if nothing happens before.
    pub fn next_step(&self) -> Option<Time> {
        self.partitions.values().filter_map(Partition::due).min()
    }

    /// The partition could not be rewound: it is tried again later.
    pub fn rewind_failed(&mut self, place: &Place, now: Time) {
        if let Some(partition) = self.partitions.get_mut(place) {
            partition.rewind_failed(now, &self.patience);
        }
    }

    /// What has changed since it was given last; it counts as committed unless [`commit_failed`](Self::commit_failed) says
    /// otherwise. Call it only when all settlements of a verdict were told, or none (`ticket::apart`).
    pub fn commits(&mut self) -> Vec<(Place, Commit)> {
        let (room, changed) = (self.patience.note, self.partitions.iter_mut());
        changed.filter_map(|(place, partition)| Some((place.clone(), partition.commit(room)?))).collect()
    }

    /// What stands to be committed of a partition now, whether or not it was given before.
    pub fn standing(&self, place: &Place) -> Option<Commit> {
        self.partitions.get(place)?.standing(self.patience.note)
    }

    /// The partition's commit failed: [`commits`](Self::commits) gives it again.
    pub fn commit_failed(&mut self, place: &Place) {
        if let Some(partition) = self.partitions.get_mut(place) {
            partition.commit_failed();
        }
    }

    /// The brokers refuse a note of so many characters: from now on a note has at most half of them, in the end none. Gives the
    /// room that notes have left. The commits that were refused have failed, which is to be said of each.
    pub fn note_refused(&mut self, length: usize) -> usize {
        self.patience.note = self.patience.note.min(length / 2);
        self.patience.note
    }

    /// The offset that could be committed now: the lowest open record, or one past the last one that was read. None if nothing
    /// was read yet, or if the partition is not ours.
    pub fn position(&self, place: &Place) -> Option<i64> {
        self.partitions.get(place)?.position()
    }

    /// The partitions that are ours.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.partitions.keys()
    }

    /// Whether the partition is ours.
    pub fn owns(&self, place: &Place) -> bool {
        self.partitions.contains_key(place)
    }

    /// Records that are open, of all partitions.
    pub fn pending(&self) -> usize {
        self.partitions.values().map(Partition::pending).sum()
    }

    /// Records that were to be read again and are gone from their log, by retention or compaction: they can never be
    /// delivered, and count as done. Each is given once.
    pub fn take_vanished(&mut self) -> Vec<(Place, i64)> {
        std::mem::take(&mut self.vanished)
    }
}

#[cfg(test)]
mod tests;
