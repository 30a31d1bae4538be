use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn at(seconds: u64) -> Time {
    Time(seconds * SECOND)
}

fn place() -> Place {
    Place::new("spans", 0)
}

fn patience() -> Patience {
    Patience {
        first: Duration::from_secs(1),
        longest: Duration::from_secs(8),
        max_age: None,
        most_waiting: 100,
        note: 4_000,
    }
}

fn ledger() -> Ledger {
    let mut ledger = Ledger::new(patience());
    ledger.assigned(place());
    ledger
}

fn deliver(ledger: &mut Ledger, offset: i64, now: Time) -> Receipt {
    match ledger.open(&place(), offset, now) {
        Opening::Deliver(receipt) => receipt,
        other => panic!("offset {offset} is {other:?}"),
    }
}

/// The offsets of what is to be committed now.
fn commits(ledger: &mut Ledger) -> Vec<i64> {
    ledger.commits().into_iter().map(|(_, commit)| commit.offset).collect()
}

fn done(ledger: &mut Ledger, receipt: &Receipt) {
    assert_eq!(ledger.settled(receipt, Outcome::Done, at(0)), Settled::Counted);
}

#[test]
fn an_offset_is_committed_only_up_to_the_lowest_open_record() {
    let mut ledger = ledger();
    assert_eq!(ledger.commits(), [], "nothing was read");
    let receipts: Vec<Receipt> = (10..14).map(|offset| deliver(&mut ledger, offset, at(0))).collect();
    assert_eq!(commits(&mut ledger), [10]);
    assert_eq!(ledger.commits(), []);
    done(&mut ledger, &receipts[1]);
    done(&mut ledger, &receipts[3]);
    assert_eq!(commits(&mut ledger), [10], "10 is open; what is done above it is new");
    done(&mut ledger, &receipts[0]);
    assert_eq!(commits(&mut ledger), [12]);
    done(&mut ledger, &receipts[2]);
    let last = Commit { offset: 14, note: String::new(), left_out: 0 };
    assert_eq!(ledger.commits(), [(place(), last)]);
    assert_eq!(ledger.pending(), 0);
}

#[test]
fn an_heir_passes_over_what_is_done_and_reads_what_is_not() {
    let mut ledger = ledger();
    let receipts: Vec<Receipt> = (10..16).map(|offset| deliver(&mut ledger, offset, at(0))).collect();
    for index in [0, 2, 4] {
        done(&mut ledger, &receipts[index]);
    }
    assert_eq!(ledger.share_done(&receipts[3], 77), Settled::Counted);
    let Commit { offset, note, left_out } = ledger.revoked(&place()).unwrap();
    assert_eq!((offset, left_out), (11, 0));
    assert_eq!(ledger.share_done(&receipts[3], 78), Settled::Fenced);

    let mut heir = Ledger::new(patience());
    heir.inherited(place(), offset, &note, at(50));
    assert_eq!(heir.commits(), [], "there is nothing new");
    assert_eq!((heir.position(&place()), heir.pending()), (Some(11), 2));
    let first = deliver(&mut heir, 11, at(51));
    assert_eq!((first.attempt(), heir.shares(&first)), (0, &[][..]));
    assert_eq!(heir.open(&place(), 12, at(51)), Opening::Known, "it is done");
    let partly = deliver(&mut heir, 13, at(51));
    assert_eq!(heir.shares(&partly), [77]);
    assert_eq!(heir.open(&place(), 14, at(51)), Opening::Known);
    let open = deliver(&mut heir, 15, at(51));
    for receipt in [&first, &partly, &open] {
        done(&mut heir, receipt);
    }
    assert_eq!(commits(&mut heir), [16]);
}

#[test]
fn a_note_that_is_not_ours_says_nothing_and_a_log_that_begins_below_it_is_another() {
    let mut ledger = ledger();
    ledger.inherited(place(), 10, "somebody's words", at(0));
    assert_eq!(ledger.position(&place()), Some(10));
    deliver(&mut ledger, 10, at(0));

    let receipts: Vec<Receipt> = (11..14).map(|offset| deliver(&mut ledger, offset, at(0))).collect();
    done(&mut ledger, &receipts[1]);
    let commit = ledger.revoked(&place()).unwrap();
    ledger.inherited(place(), commit.offset, &commit.note, at(1));
    for offset in [3, 10, 11, 12, 13] {
        deliver(&mut ledger, offset, at(1));
    }
}

#[test]
fn what_an_earlier_owner_has_left_and_is_gone_does_not_hold_commits_for_ever() {
    let mut ledger = ledger();
    let receipts: Vec<Receipt> = (0..3).map(|offset| deliver(&mut ledger, offset, at(0))).collect();
    done(&mut ledger, &receipts[1]);
    let commit = ledger.revoked(&place()).unwrap();
    ledger.inherited(place(), commit.offset, &commit.note, at(0));
    let mut next = 2;
    for round in 0..3 {
        assert_eq!(ledger.take_vanished(), [], "not before it was looked for several times");
        let receipt = deliver(&mut ledger, next, at(round));
        done(&mut ledger, &receipt);
        next += 1;
        let Some(due) = ledger.next_step() else { break };
        assert_eq!(ledger.steps(due), [Step::Rewind { place: place(), offset: 0 }]);
    }
    assert_eq!(ledger.take_vanished(), [(place(), 0)]);
    assert_eq!(ledger.position(&place()), Some(next));
}

#[test]
fn a_note_without_room_says_less_and_says_so() {
    let mut ledger = Ledger::new(Patience { note: 12, ..patience() });
    ledger.assigned(place());
    let receipts: Vec<Receipt> = (0..100).map(|offset| deliver(&mut ledger, offset, at(0))).collect();
    receipts
        .iter()
        .filter(|receipt| receipt.offset() % 2 == 1)
        .for_each(|receipt| done(&mut ledger, receipt));
    let commit = ledger.revoked(&place()).unwrap();
    assert!(commit.note.len() <= 12 && commit.left_out > 0, "{commit:?}");
}

#[test]
fn a_commit_that_failed_is_given_again() {
    let mut ledger = ledger();
    let receipt = deliver(&mut ledger, 3, at(0));
    done(&mut ledger, &receipt);
    assert_eq!(commits(&mut ledger), [4]);
    assert_eq!(ledger.commits(), []);
    ledger.commit_failed(&place());
    assert_eq!(commits(&mut ledger), [4]);
}

#[test]
fn a_note_that_was_lost_is_given_again_though_its_offset_was_committed_before() {
    let mut ledger = ledger();
    let receipts: Vec<Receipt> = (0..3).map(|offset| deliver(&mut ledger, offset, at(0))).collect();
    assert_eq!(commits(&mut ledger), [0]);
    done(&mut ledger, &receipts[1]);
    let lost = ledger.commits();
    assert!(lost[0].1.offset == 0 && !lost[0].1.note.is_empty(), "{lost:?}");
    ledger.commit_failed(&place());
    assert_eq!(ledger.commits(), lost);
    assert_eq!(ledger.commits(), []);
}

#[test]
fn gaps_in_the_offsets_hold_nothing_up() {
    let mut ledger = ledger();
    let (first, second) = (deliver(&mut ledger, 5, at(0)), deliver(&mut ledger, 90, at(0)));
    done(&mut ledger, &second);
    done(&mut ledger, &first);
    assert_eq!(commits(&mut ledger), [91]);
}

#[test]
fn a_retry_rewinds_its_partition_after_a_delay_and_passes_over_what_is_done_or_under_way() {
    let mut ledger = ledger();
    let receipts: Vec<Receipt> = (0..5).map(|offset| deliver(&mut ledger, offset, at(0))).collect();
    done(&mut ledger, &receipts[0]);
    done(&mut ledger, &receipts[3]);
    ledger.settled(&receipts[1], Outcome::Retry, at(10));
    assert_eq!(ledger.steps(at(10)), []);
    assert_eq!(ledger.next_step(), Some(at(11)));
    assert_eq!(ledger.steps(at(11)), [Step::Rewind { place: place(), offset: 1 }]);
    assert_eq!(ledger.steps(at(12)), [], "once");
    let again = deliver(&mut ledger, 1, at(12));
    assert_eq!(again.attempt(), 1);
    assert_eq!(ledger.open(&place(), 2, at(12)), Opening::Known, "it is under way");
    assert_eq!(ledger.open(&place(), 3, at(12)), Opening::Known, "it is done");
    assert_eq!(ledger.open(&place(), 4, at(12)), Opening::Known);
    deliver(&mut ledger, 5, at(12));
    assert_eq!(ledger.settled(&receipts[1], Outcome::Done, at(12)), Settled::Fenced, "an old receipt");
    done(&mut ledger, &again);
    assert_eq!(commits(&mut ledger), [2]);
}

#[test]
fn the_delay_grows_with_each_rewind_that_does_not_help_and_starts_anew_with_one_that_does() {
    let mut ledger = ledger();
    let mut now = 0;
    let mut waits = Vec::new();
    let mut receipt = deliver(&mut ledger, 0, at(0));
    for _ in 0..5 {
        ledger.settled(&receipt, Outcome::Retry, at(now));
        let due = ledger.next_step().unwrap();
        waits.push(due.since(at(now)).as_secs());
        now = due.0 / SECOND;
        assert_eq!(ledger.steps(at(now)).len(), 1);
        receipt = deliver(&mut ledger, 0, at(now));
    }
    assert_eq!(waits, [1, 2, 4, 8, 8]);
    done(&mut ledger, &receipt);
    let other = deliver(&mut ledger, 1, at(now));
    ledger.settled(&other, Outcome::Retry, at(now));
    assert_eq!(ledger.next_step(), Some(at(now + 1)));
}

#[test]
fn retries_that_come_together_share_a_rewind() {
    let mut ledger = ledger();
    let receipts: Vec<Receipt> = (0..50).map(|offset| deliver(&mut ledger, offset, at(0))).collect();
    for receipt in receipts.iter().rev() {
        ledger.settled(receipt, Outcome::Retry, at(0));
    }
    assert_eq!(ledger.steps(at(1)), [Step::Rewind { place: place(), offset: 0 }]);
    for offset in 0..50 {
        assert_eq!(deliver(&mut ledger, offset, at(1)).attempt(), 1);
    }
}

#[test]
fn a_partition_with_too_much_to_read_again_is_not_read_on() {
    let mut ledger = Ledger::new(Patience { most_waiting: 2, ..patience() });
    ledger.assigned(place());
    let (first, second) = (deliver(&mut ledger, 0, at(0)), deliver(&mut ledger, 1, at(0)));
    ledger.settled(&first, Outcome::Retry, at(0));
    assert_eq!(ledger.steps(at(0)), []);
    ledger.settled(&second, Outcome::Retry, at(0));
    assert_eq!(ledger.steps(at(0)), [Step::Hold(place())]);
    assert_eq!(ledger.steps(at(0)), []);
    let due = ledger.steps(at(1));
    assert_eq!(due, [Step::Rewind { place: place(), offset: 0 }, Step::Release(place())]);
}

#[test]
fn a_rewind_that_cannot_be_done_is_tried_again_and_reading_goes_on_meanwhile() {
    let mut ledger = ledger();
    let receipts: Vec<Receipt> = (0..3).map(|offset| deliver(&mut ledger, offset, at(0))).collect();
    ledger.settled(&receipts[1], Outcome::Retry, at(0));
    ledger.steps(at(1));
    ledger.rewind_failed(&place(), at(1));
    deliver(&mut ledger, 3, at(1));
    assert_eq!(ledger.steps(at(3)), [Step::Rewind { place: place(), offset: 1 }]);
    deliver(&mut ledger, 1, at(3));
    assert_eq!(ledger.position(&place()), Some(0));
}

#[test]
fn a_record_that_was_tried_for_too_long_is_set_aside() {
    let mut ledger = Ledger::new(Patience { max_age: Some(Duration::from_secs(5)), ..patience() });
    ledger.assigned(place());
    let receipt = deliver(&mut ledger, 0, at(100));
    ledger.settled(&receipt, Outcome::Retry, at(101));
    ledger.steps(at(102));
    let receipt = deliver(&mut ledger, 0, at(102));
    ledger.settled(&receipt, Outcome::Retry, at(104));
    ledger.steps(at(106));
    let Opening::SetAside(receipt) = ledger.open(&place(), 0, at(106)) else { panic!("it is old") };
    assert_eq!(commits(&mut ledger), [0], "not before it is safe there");
    done(&mut ledger, &receipt);
    assert_eq!(commits(&mut ledger), [1]);
}

#[test]
fn a_receipt_from_before_a_rebalance_settles_nothing() {
    let mut ledger = ledger();
    let (first, second) = (deliver(&mut ledger, 0, at(0)), deliver(&mut ledger, 1, at(0)));
    done(&mut ledger, &first);
    let commit = ledger.revoked(&place()).unwrap();
    assert_eq!(commit.offset, 1, "what is settled is committed on the way out");
    assert_eq!(ledger.settled(&second, Outcome::Done, at(0)), Settled::Fenced);
    assert_eq!(ledger.open(&place(), 2, at(0)), Opening::Foreign);
    ledger.assigned(place());
    let again = deliver(&mut ledger, 1, at(0));
    assert_eq!(ledger.settled(&second, Outcome::Done, at(0)), Settled::Fenced);
    assert_eq!(ledger.settled(&second, Outcome::Retry, at(0)), Settled::Fenced);
    assert_eq!(ledger.position(&place()), Some(1));
    done(&mut ledger, &again);
    assert_eq!(ledger.revoked(&place()).map(|commit| commit.offset), Some(2));
    assert_eq!(ledger.revoked(&place()), None);
}

#[test]
fn a_log_that_was_made_anew_is_read_from_its_beginning() {
    let mut ledger = ledger();
    let receipts: Vec<Receipt> = (500..503).map(|offset| deliver(&mut ledger, offset, at(0))).collect();
    done(&mut ledger, &receipts[0]);
    ledger.commits();
    let first = deliver(&mut ledger, 0, at(1));
    assert_eq!(ledger.settled(&receipts[1], Outcome::Done, at(1)), Settled::Fenced);
    done(&mut ledger, &first);
    assert_eq!(commits(&mut ledger), [1]);
}

#[test]
fn a_record_that_is_gone_from_its_log_is_told_and_does_not_hold_commits_for_ever() {
    let mut ledger = ledger();
    let receipts: Vec<Receipt> = (0..3).map(|offset| deliver(&mut ledger, offset, at(0))).collect();
    done(&mut ledger, &receipts[1]);
    done(&mut ledger, &receipts[2]);
    ledger.settled(&receipts[0], Outcome::Retry, at(0));
    let mut next = 3;
    for _ in 0..3 {
        assert_eq!(ledger.take_vanished(), [], "not before it was looked for several times");
        let due = ledger.next_step().unwrap();
        assert_eq!(ledger.steps(due), [Step::Rewind { place: place(), offset: 0 }]);
        let receipt = deliver(&mut ledger, next, due);
        done(&mut ledger, &receipt);
        next += 1;
    }
    assert_eq!(ledger.take_vanished(), [(place(), 0)]);
    assert_eq!(ledger.position(&place()), Some(next));
}

/// What happens to a partition.
#[derive(Debug, Clone)]
enum Event {
    Read,
    Settle { pick: usize, done: bool },
    Share { pick: usize, share: u128 },
    Stale { pick: usize },
    Pass { seconds: u64 },
    RewindFails,
    Commit { fails: bool },
    Rebalance { commits: bool },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => Just(Event::Read),
        6 => (any::<usize>(), prop::bool::weighted(0.7)).prop_map(|(pick, done)| Event::Settle { pick, done }),
        2 => (any::<usize>(), 1u128..4).prop_map(|(pick, share)| Event::Share { pick, share }),
        1 => any::<usize>().prop_map(|pick| Event::Stale { pick }),
        2 => (0u64..5).prop_map(|seconds| Event::Pass { seconds }),
        1 => Just(Event::RewindFails),
        2 => prop::bool::weighted(0.2).prop_map(|fails| Event::Commit { fails }),
        1 => prop::bool::weighted(0.7).prop_map(|commits| Event::Rebalance { commits }),
    ];
    prop::collection::vec(event, 1..120)
}

/// A log, a reader of it that does what the ledger says, and a record of what truly became of each record.
struct Naive {
    log: Vec<i64>,
    ledger: Ledger,
    now: u64,
    /// The next offset that the reader asks for.
    reader: i64,
    is_held: bool,
    /// What the group would start from; none before the first commit.
    committed: Option<Commit>,
    /// What was done, whole or in shares, when that was committed.
    noted: BTreeSet<i64>,
    noted_shares: BTreeMap<i64, BTreeSet<u128>>,
    /// What is done as far as the present owner knows.
    heard: BTreeSet<i64>,
    shares: BTreeMap<i64, BTreeSet<u128>>,
    /// Delivered and not settled, in this epoch.
    open: Vec<Receipt>,
    stale: Vec<Receipt>,
    done: BTreeSet<i64>,
    deliveries: BTreeMap<i64, u32>,
    rewind_fails: bool,
}

impl Naive {
    fn new(gaps: &[i64]) -> Self {
        let mut offset = 0;
        let log = gaps.iter().map(|gap| {
            offset += gap;
            offset
        });
        let mut ledger = Ledger::new(Patience { most_waiting: 3, ..patience() });
        ledger.assigned(place());
        Self {
            log: log.collect(),
            ledger,
            now: 1,
            reader: 0,
            is_held: false,
            committed: None,
            noted: BTreeSet::new(),
            noted_shares: BTreeMap::new(),
            heard: BTreeSet::new(),
            shares: BTreeMap::new(),
            open: Vec::new(),
            stale: Vec::new(),
            done: BTreeSet::new(),
            deliveries: BTreeMap::new(),
            rewind_fails: false,
        }
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::Read => self.read(),
            Event::Settle { pick, done } if !self.open.is_empty() => {
                let receipt = self.open.swap_remove(pick % self.open.len());
                self.settle(receipt, *done);
            }
            Event::Share { pick, share } if !self.open.is_empty() => {
                let receipt = &self.open[pick % self.open.len()];
                assert_eq!(self.ledger.share_done(receipt, *share), Settled::Counted);
                self.shares.entry(receipt.offset()).or_default().insert(*share);
            }
            Event::Stale { pick } if !self.stale.is_empty() => {
                let receipt = &self.stale[pick % self.stale.len()];
                let outcome = if pick % 2 == 0 { Outcome::Done } else { Outcome::Retry };
                assert_eq!(self.ledger.settled(receipt, outcome, at(self.now)), Settled::Fenced);
            }
            Event::Pass { seconds } => self.now += seconds,
            Event::RewindFails => self.rewind_fails = true,
            Event::Commit { fails } => self.commit(*fails),
            Event::Rebalance { commits } => {
                let commit = self.ledger.revoked(&place());
                if let Some(commit) = commit.filter(|_| *commits) {
                    self.committed(commit);
                }
                self.stale.append(&mut self.open);
                self.is_held = false;
                self.heard = self.noted.clone();
                self.shares = self.noted_shares.clone();
                self.reader = 0;
                match &self.committed {
                    Some(commit) => {
                        self.reader = commit.offset;
                        self.ledger.inherited(place(), commit.offset, &commit.note, at(self.now));
                    }
                    None => self.ledger.assigned(place()),
                }
            }
            _ => {}
        }
        for step in self.ledger.steps(at(self.now)) {
            match step {
                Step::Hold(_) => self.is_held = true,
                Step::Release(_) => self.is_held = false,
                Step::Rewind { place, .. } if std::mem::take(&mut self.rewind_fails) => {
                    self.ledger.rewind_failed(&place, at(self.now))
                }
                Step::Rewind { offset, .. } => self.reader = offset,
            }
        }
    }

    fn read(&mut self) {
        if self.is_held {
            return;
        }
        let Some(&offset) = self.log.iter().find(|offset| **offset >= self.reader) else { return };
        self.reader = offset + 1;
        let is_open = self.open.iter().any(|receipt| receipt.offset() == offset);
        match self.ledger.open(&place(), offset, at(self.now)) {
            Opening::Deliver(receipt) => {
                assert!(!is_open, "{offset} is delivered twice at once");
                assert!(!self.noted.contains(&offset), "{offset} was committed as done");
                let shares: BTreeSet<u128> = self.ledger.shares(&receipt).iter().copied().collect();
                assert_eq!(shares, self.shares.get(&offset).cloned().unwrap_or_default(), "of {offset}");
                *self.deliveries.entry(offset).or_default() += 1;
                self.open.push(receipt);
            }
            Opening::Known => assert!(
                is_open || self.done.contains(&offset) || self.ledger.next_step().is_some(),
                "{offset} is passed over and nobody has it"
            ),
            other => panic!("{other:?}"),
        }
    }

    fn settle(&mut self, receipt: Receipt, done: bool) {
        let outcome = if done { Outcome::Done } else { Outcome::Retry };
        assert_eq!(self.ledger.settled(&receipt, outcome, at(self.now)), Settled::Counted);
        if done {
            self.done.insert(receipt.offset());
            self.heard.insert(receipt.offset());
        }
        self.stale.push(receipt);
    }

    fn commit(&mut self, fails: bool) {
        for (place, commit) in self.ledger.commits() {
            if fails {
                self.ledger.commit_failed(&place);
            } else {
                self.committed(commit);
            }
        }
    }

    /// The law: nothing below a committed offset is undone.
    fn committed(&mut self, commit: Commit) {
        let offset = commit.offset;
        assert_eq!(commit.left_out, 0, "there is room for all of it");
        let lost = self.log.iter().find(|record| **record < offset && !self.done.contains(record));
        assert_eq!(lost, None, "committed up to {offset}");
        self.noted = self.heard.clone();
        self.noted_shares = self.shares.clone();
        self.committed = Some(commit);
    }

    /// From here on everything works: all is delivered and committed.
    fn run_dry(&mut self) {
        self.rewind_fails = false;
        for _ in 0..20 * self.log.len() + 50 {
            self.apply(&Event::Read);
            self.apply(&Event::Settle { pick: 0, done: true });
            self.apply(&Event::Pass { seconds: 1 });
        }
        self.commit(false);
        assert_eq!(self.ledger.take_vanished(), []);
        assert_eq!(self.ledger.pending(), 0);
        assert_eq!(self.done.len(), self.log.len());
        if let Some(last) = self.log.last() {
            let committed = self.committed.as_ref().map_or(0, |commit| commit.offset);
            assert!(committed > *last, "{committed} of {last}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_committed_before_it_is_done_and_in_the_end_all_is(
        gaps in prop::collection::vec(1i64..4, 1..30),
        events in events(),
    ) {
        let mut naive = Naive::new(&gaps);
        for event in &events {
            naive.apply(event);
        }
        naive.run_dry();
    }

    #[test]
    fn brokers_that_take_short_notes_only_get_what_they_take_and_little_less(
        limit in 0usize..300,
        settled in prop::collection::vec(any::<bool>(), 1..600),
    ) {
        let mut ledger = ledger();
        let first = deliver(&mut ledger, 0, at(0));
        let receipts: Vec<(Receipt, bool)> = (1..)
            .zip(settled)
            .map(|(offset, is_settled)| (deliver(&mut ledger, offset, at(0)), is_settled))
            .collect();
        receipts.iter().filter(|(_, is_settled)| *is_settled).for_each(|(receipt, _)| done(&mut ledger, receipt));
        let mut refusals = 0;
        let taken = loop {
            let (_, commit) = ledger.commits().pop().expect("what was refused is given again");
            if commit.note.len() <= limit {
                break commit;
            }
            ledger.commit_failed(&place());
            let room = ledger.note_refused(commit.note.len());
            prop_assert!(room >= limit / 2, "{room} characters of {limit}");
            refusals += 1;
        };
        prop_assert!(refusals <= 9, "{refusals} refusals");
        prop_assert_eq!(taken.offset, 0, "the first record is open");
        let mut heir = Ledger::new(patience());
        heir.inherited(place(), taken.offset, &taken.note, at(0));
        deliver(&mut heir, first.offset(), at(0));
        for (receipt, is_settled) in &receipts {
            let opening = heir.open(&place(), receipt.offset(), at(0));
            prop_assert!(*is_settled || matches!(opening, Opening::Deliver(_)), "{} is open", receipt.offset());
        }
        done(&mut ledger, &first);
        prop_assert!(ledger.standing(&place()).is_some_and(|commit| commit.note.len() <= limit.max(4_000)));
    }

    #[test]
    fn without_retries_and_rebalances_each_record_is_delivered_once(
        gaps in prop::collection::vec(1i64..4, 1..30),
        picks in prop::collection::vec(any::<usize>(), 0..60),
    ) {
        let mut naive = Naive::new(&gaps);
        for pick in picks {
            naive.apply(&Event::Read);
            if pick % 3 > 0 {
                naive.apply(&Event::Settle { pick, done: true });
            }
            naive.apply(&Event::Commit { fails: pick % 5 == 0 });
        }
        naive.run_dry();
        prop_assert!(naive.deliveries.values().all(|count| *count == 1));
    }
}
