//! What lay in the partitions when they came to us. Until it is read, what a trace misses may be in it. Pure but for whom it tells.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::domain::Time;
use crate::receive::kafka::context::End;
use crate::receive::ledger::Place;
use crate::receive::{Backlog, Backlogs};

/// A partition that brings nothing for so long, though it is read, is not waited for: its brokers may be away for hours.
const STANDSTILL: Duration = Duration::from_secs(60);

/// Partitions that are not read up to where they ended when they came to us.
#[derive(Debug, Default)]
pub(super) struct Arrears {
    partitions: BTreeMap<Place, Arrear>,
    /// Tells of them, as long as there are any.
    backlog: Option<Backlog>,
}

#[derive(Debug)]
struct Arrear {
    /// Where it ended, as soon as that is known.
    end: Option<i64>,
    /// How far it was read, and since when.
    reached: i64,
    since: Time,
}

impl Arrears {
    /// These partitions are ours from now on.
    pub fn begin(&mut self, places: &[Place], now: Time, backlogs: &Backlogs) {
        let arrear = || Arrear { end: None, reached: i64::MIN, since: now };
        self.partitions.extend(places.iter().map(|place| (place.clone(), arrear())));
        if self.backlog.is_none() && !self.partitions.is_empty() {
            self.backlog = Some(backlogs.begin());
        }
    }

    /// These partitions are no longer ours.
    pub fn forget(&mut self, places: &[Place]) {
        self.partitions.retain(|place, _| !places.contains(place));
        self.tell();
    }

    /// Whether there is no room for what is read next.
    pub fn stuck(&mut self, is_stuck: bool) {
        if let Some(backlog) = &mut self.backlog {
            backlog.stuck(is_stuck);
        }
    }

    /// A look at the partitions. `read_to` is the next offset that reading can bring, where that is known.
    pub fn seen(
        &mut self,
        ends: &[End],
        is_paused: bool,
        now: Time,
        read_to: impl Fn(&Place) -> Option<i64>,
    ) {
        self.partitions.retain(|place, arrear| {
            let seen = ends.iter().find(|end| end.place == *place);
            let (read, fetched) =
                (read_to(place).unwrap_or(i64::MIN), seen.map_or(i64::MIN, |seen| seen.fetched_to));
            if is_paused || read.max(fetched) > arrear.reached {
                arrear.since = now;
            }
            arrear.reached = arrear.reached.max(read).max(fetched);
            if let Some(seen) = seen {
                let end = *arrear.end.get_or_insert(seen.end);
                // What stands at the end may be no record but a transaction's marker, which no reading brings.
                let is_drained = !is_paused && fetched >= end && seen.waiting == 0;
                if is_drained || read >= end {
                    return false;
                }
            }
            now.since(arrear.since) < STANDSTILL
        });
        self.tell();
    }

    fn tell(&mut self) {
        if self.partitions.is_empty() {
            self.backlog = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive::Progress;

    fn end(partition: i32, end: i64, fetched_to: i64, waiting: i64) -> End {
        End { place: Place::new("spans", partition), end, committed: -1, begin: 0, fetched_to, waiting }
    }

    fn at(seconds: u64) -> Time {
        Time(1) + Duration::from_secs(seconds)
    }

    #[test]
    fn a_partition_is_behind_until_it_is_read_to_where_it_ended_when_it_came() {
        let backlogs = Backlogs::default();
        let mut sources = backlogs.watch();
        let places = [0, 1, 2].map(|partition| Place::new("spans", partition));
        let mut arrears = Arrears::default();
        arrears.begin(&places, at(0), &backlogs);
        assert_eq!(sources.progress(), Progress::Behind);
        // The first is read, the second ends in a marker that was fetched and brings nothing, the third goes away.
        let nothing = |_: &Place| None;
        arrears.seen(&[end(0, 10, 10, 4), end(1, 7, 7, 0)], true, at(2), nothing);
        assert_eq!(arrears.partitions.len(), 3, "nothing is read while they are paused");
        arrears.seen(&[end(0, 90, 90, 4), end(1, 9, 7, 0)], false, at(4), nothing);
        assert_eq!(arrears.partitions.len(), 2);
        arrears.stuck(true);
        assert_eq!(sources.progress(), Progress::Stuck);
        arrears.seen(&[end(0, 95, 95, 4)], false, at(6), |_| Some(9));
        assert_eq!(arrears.partitions.len(), 2);
        arrears.seen(&[end(0, 99, 99, 4)], false, at(8), |place| (place.partition == 0).then_some(10));
        assert_eq!((arrears.partitions.len(), sources.progress()), (1, Progress::Stuck));
        arrears.forget(&places[2..]);
        assert_eq!(sources.progress(), Progress::Level);
    }

    #[test]
    fn a_partition_that_brings_nothing_is_not_waited_for_unless_it_is_paused() {
        let backlogs = Backlogs::default();
        let mut sources = backlogs.watch();
        let mut arrears = Arrears::default();
        arrears.begin(&[Place::new("spans", 0)], at(0), &backlogs);
        arrears.seen(&[end(0, 50, 5, 0)], false, at(50), |_| None);
        arrears.seen(&[end(0, 50, 9, 0)], false, at(100), |_| None);
        arrears.seen(&[], true, at(159), |_| None);
        arrears.seen(&[], false, at(200), |_| None);
        assert_eq!(sources.progress(), Progress::Behind);
        arrears.seen(&[], false, at(219), |_| None);
        assert_eq!(sources.progress(), Progress::Level);
    }
}
