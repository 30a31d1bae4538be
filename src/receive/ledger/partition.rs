//! One partition in one epoch.

use std::collections::BTreeMap;

use super::{Commit, Patience, Place, Settled, Step, note};
use crate::domain::Time;
use crate::ticket::Outcome;

/// A record that a rewind passed over so many times is no longer in its log.
const MISSES: u8 = 3;

/// A record that is open.
#[derive(Debug)]
struct Pending {
    /// When it was read for the first time.
    since: Time,
    /// How often it was delivered before.
    attempt: u32,
    state: State,
    /// Rewinds for it after which it did not come.
    misses: u8,
    /// The traces of it that are done.
    shares: Vec<u128>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Delivered, and not yet settled.
    UnderWay,
    /// To be read again once the wait is over.
    Waiting,
    /// The wait is over: to be delivered as soon as it is read again.
    Sought,
    /// Left open by the partition's earlier owner, and not yet read by this one.
    Left,
}

#[derive(Debug)]
pub(super) struct Partition {
    epoch: u64,
    /// The next offset that reading can bring; none before the first record.
    next: Option<i64>,
    /// One past the highest offset that was ever read; none before the first record.
    end: Option<i64>,
    pending: BTreeMap<i64, Pending>,
    /// How many of them wait or are sought.
    unread: usize,
    /// How many of them an earlier owner has left.
    left: usize,
    /// When the wait for the next rewind is over.
    due: Option<Time>,
    /// Rewinds since one helped.
    failures: u32,
    is_held: bool,
    committed: Option<Commit>,
    /// Whether there may be something new to commit.
    is_changed: bool,
    /// Where reading stood when it was last rewound.
    rewound_from: Option<i64>,
}

impl Partition {
    pub fn new(epoch: u64) -> Self {
        Self {
            epoch,
            next: None,
            end: None,
            pending: BTreeMap::new(),
            unread: 0,
            left: 0,
            due: None,
            failures: 0,
            is_held: false,
            committed: None,
            is_changed: false,
            rewound_from: None,
        }
    }

    pub fn inherited(epoch: u64, offset: i64, note: &str, now: Time) -> Self {
        let note = note::read(offset, note).unwrap_or(note::Note { open: Vec::new(), end: offset });
        let left = |shares| Pending { since: now, attempt: 0, state: State::Left, misses: 0, shares };
        let pending: BTreeMap<i64, Pending> =
            note.open.into_iter().map(|(record, shares)| (record, left(shares))).collect();
        Self { next: Some(offset), end: Some(note.end), left: pending.len(), pending, ..Self::new(epoch) }
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    pub fn due(&self) -> Option<Time> {
        self.due
    }

    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whether reading has jumped back without a rewind.
    pub fn goes_back_to(&self, offset: i64) -> bool {
        self.next.is_some_and(|next| offset < next)
    }

    /// Reading has come to `offset`. Gives the records that were sought before it and are not there any more.
    pub fn pass(&mut self, offset: i64, now: Time, patience: &Patience) -> Vec<i64> {
        let from = self.next.replace(offset + 1).unwrap_or(offset);
        if self.unread + self.left == 0 {
            return Vec::new();
        }
        let mut gone = Vec::new();
        let mut missed = false;
        for (passed, pending) in self.pending.range_mut(from..offset) {
            match pending.state {
                State::Sought => {}
                State::Left => {
                    self.left -= 1;
                    self.unread += 1;
                }
                State::UnderWay | State::Waiting => continue,
            }
            pending.misses += 1;
            // Once could be a rewind that did not take; committing past a record must not rest on that.
            if pending.misses >= MISSES {
                gone.push(*passed);
            } else {
                pending.state = State::Waiting;
                missed = true;
            }
        }
        for passed in &gone {
            self.pending.remove(passed);
            self.unread -= 1;
            self.is_changed = true;
        }
        if missed {
            self.wait(now, patience);
        }
        gone
    }

    /// If the record at `offset` is to be delivered now: when it was first read, and how often it was delivered before.
    pub fn admit(&mut self, offset: i64, now: Time) -> Option<(Time, u32)> {
        if self.end.is_none_or(|end| offset >= end) {
            self.is_changed |= self.end.is_none();
            self.end = Some(offset + 1);
            let state = State::UnderWay;
            let fresh = Pending { since: now, attempt: 0, state, misses: 0, shares: Vec::new() };
            self.pending.insert(offset, fresh);
            return Some((now, 0));
        }
        let is_due = self.due.is_none_or(|due| due <= now);
        let pending = self.pending.get_mut(&offset)?;
        match pending.state {
            State::UnderWay => None,
            State::Waiting if !is_due => None,
            State::Waiting | State::Sought => {
                pending.state = State::UnderWay;
                pending.attempt += 1;
                pending.misses = 0;
                self.unread -= 1;
                Some((pending.since, pending.attempt))
            }
            State::Left => {
                pending.state = State::UnderWay;
                pending.since = now;
                self.left -= 1;
                Some((now, 0))
            }
        }
    }

    pub fn shares(&self, offset: i64) -> &[u128] {
        self.pending.get(&offset).map_or(&[], |pending| &pending.shares)
    }

    pub fn share_done(&mut self, offset: i64, attempt: u32, share: u128) -> Settled {
        let Some(pending) = self.pending.get_mut(&offset) else { return Settled::Fenced };
        if pending.state != State::UnderWay || pending.attempt != attempt {
            return Settled::Fenced;
        }
        if !pending.shares.contains(&share) {
            pending.shares.push(share);
            self.is_changed = true;
        }
        Settled::Counted
    }

    pub fn settle(
        &mut self,
        offset: i64,
        attempt: u32,
        outcome: Outcome,
        now: Time,
        patience: &Patience,
    ) -> Settled {
        let Some(pending) = self.pending.get_mut(&offset) else { return Settled::Fenced };
        if pending.state != State::UnderWay || pending.attempt != attempt {
            return Settled::Fenced;
        }
        match outcome {
            Outcome::Done => {
                self.pending.remove(&offset);
                self.is_changed = true;
                if attempt > 0 {
                    self.failures = 0;
                }
            }
            Outcome::Retry => {
                pending.state = State::Waiting;
                self.unread += 1;
                self.wait(now, patience);
            }
        }
        Settled::Counted
    }

    pub fn steps(&mut self, place: &Place, now: Time, patience: &Patience, steps: &mut Vec<Step>) {
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            self.seek(place, steps);
            if std::mem::take(&mut self.is_held) {
                steps.push(Step::Release(place.clone()));
            }
        }
        if !self.is_held && self.due.is_some() && self.unread >= patience.most_waiting {
            self.is_held = true;
            steps.push(Step::Hold(place.clone()));
        }
    }

    fn seek(&mut self, place: &Place, steps: &mut Vec<Step>) {
        let mut lowest = None;
        for (offset, pending) in &mut self.pending {
            if pending.state == State::Waiting {
                pending.state = State::Sought;
                lowest = lowest.or(Some(*offset));
            }
        }
        let Some(lowest) = lowest else { return };
        self.failures = self.failures.saturating_add(1);
        // Ahead of where an earlier rewind has come to, it will be read anyway.
        if let Some(next) = self.next.filter(|next| lowest < *next) {
            self.rewound_from = Some(next);
            self.next = Some(lowest);
            steps.push(Step::Rewind { place: place.clone(), offset: lowest });
        }
    }

    pub fn rewind_failed(&mut self, now: Time, patience: &Patience) {
        // Reading goes on from where it was.
        if let Some(from) = self.rewound_from.take() {
            self.next = Some(from);
        }
        for pending in self.pending.values_mut().filter(|pending| pending.state == State::Sought) {
            pending.state = State::Waiting;
        }
        if self.unread > 0 {
            self.wait(now, patience);
        }
    }

    /// The lowest open record, or one past the last that was read.
    pub fn position(&self) -> Option<i64> {
        self.pending.first_key_value().map(|(offset, _)| *offset).or(self.end)
    }

    /// What can be committed.
    pub fn standing(&self, room: usize) -> Option<Commit> {
        let offset = self.position()?;
        let open = self.pending.iter().map(|(record, pending)| (*record, &pending.shares[..]));
        let (note, left_out) = note::write(offset, open, self.end.unwrap_or(offset), room);
        Some(Commit { offset, note, left_out })
    }

    pub fn commit(&mut self, room: usize) -> Option<Commit> {
        if !std::mem::take(&mut self.is_changed) {
            return None;
        }
        let commit = self.standing(room).filter(|commit| self.committed.as_ref() != Some(commit))?;
        self.committed = Some(commit.clone());
        Some(commit)
    }

    pub fn commit_failed(&mut self) {
        self.committed = None;
        self.is_changed = true;
    }

    fn wait(&mut self, now: Time, patience: &Patience) {
        let factor = 1u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        let wait = patience.first.saturating_mul(factor).min(patience.longest);
        self.due.get_or_insert(now + wait);
    }
}
