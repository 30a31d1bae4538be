//! One partition in one epoch.

use std::collections::BTreeMap;

use super::{Patience, Place, Settled, Step};
use crate::domain::Time;
use crate::ticket::Outcome;

/// A record that a rewind passed over so many times is no longer in its log.
const MISSES: u8 = 3;

/// A record that is open.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    /// When it was read for the first time.
    pub since: Time,
    /// How often it was delivered before.
    pub attempt: u32,
    state: State,
    /// Rewinds for it after which it did not come.
    misses: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Delivered, and not yet settled.
    UnderWay,
    /// To be read again once the wait is over.
    Waiting,
    /// The wait is over: to be delivered as soon as it is read again.
    Sought,
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
    /// When the wait for the next rewind is over.
    due: Option<Time>,
    /// Rewinds since one helped.
    failures: u32,
    is_held: bool,
    committed: Option<i64>,
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
            due: None,
            failures: 0,
            is_held: false,
            committed: None,
            rewound_from: None,
        }
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
        if self.unread == 0 {
            return Vec::new();
        }
        let mut gone = Vec::new();
        let mut missed = false;
        for (passed, pending) in self.pending.range_mut(from..offset) {
            if pending.state != State::Sought {
                continue;
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
        }
        if missed {
            self.wait(now, patience);
        }
        gone
    }

    /// The record at `offset`, if it is to be delivered now.
    pub fn admit(&mut self, offset: i64, now: Time) -> Option<Pending> {
        if self.end.is_none_or(|end| offset >= end) {
            self.end = Some(offset + 1);
            let fresh = Pending { since: now, attempt: 0, state: State::UnderWay, misses: 0 };
            self.pending.insert(offset, fresh);
            return Some(fresh);
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
                Some(*pending)
            }
        }
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

    pub fn committed(&self) -> Option<i64> {
        self.committed
    }

    pub fn commit(&mut self) -> Option<i64> {
        let position = self.position().filter(|position| self.committed != Some(*position))?;
        self.committed = Some(position);
        Some(position)
    }

    pub fn commit_failed(&mut self) {
        self.committed = None;
    }

    fn wait(&mut self, now: Time, patience: &Patience) {
        let factor = 1u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        let wait = patience.first.saturating_mul(factor).min(patience.longest);
        self.due.get_or_insert(now + wait);
    }
}
