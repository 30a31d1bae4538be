//! Spans from Kafka: three workers of one group, whose partitions come and go while they crash, freeze and fail.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::catch_unwind;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use assayd::receive::Arrival;
use assayd::receive::ledger::{Commit, Ledger, Opening, Patience, Place, Receipt, Step};
use assayd::ticket::{Outcome, Promise, Ticket};

use super::cast::{Archive, Manner, Mini, Process, START, Settled, arrival};
use super::dice::{Dice, sweep};

/// Seeds that have found something. None yet.
const REGRESSION: &[u64] = &[];

const WORKERS: usize = 3;
const PARTITIONS: usize = 4;

enum Record {
    Spans(Vec<Mini>),
    /// What nobody can read.
    Poison,
}

/// A record, or one trace's share of it, and what became of it.
type Report = (Receipt, Option<u128>, Outcome);

/// A record that there is no room for. Nothing more is read meanwhile.
struct Stalled {
    arrival: Arrival,
    delivery: usize,
    partition: usize,
    /// Whatever becomes of it, the ledger must not hear "done".
    ticket: Ticket,
}

/// What the broker does with a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Taken,
    Lost,
    /// Its note, of so many characters, is too long.
    NoteRefused(usize),
}

struct Worker {
    process: Process,
    ledger: Ledger,
    stalled: Option<Stalled>,
    /// The answers to its latest commit, of which it has not heard.
    answers: Vec<(Place, Answer)>,
    /// The records that it has delivered, by the number of the delivery: their partition, the epoch in it, and their offset.
    deliveries: Vec<(usize, usize, usize)>,
    epochs: [usize; PARTITIONS],
    /// Where it reads next in the partitions that it believes to be its own.
    positions: BTreeMap<usize, usize>,
    held: BTreeSet<usize>,
    /// Where promises report to, and where that is heard.
    report: Sender<Report>,
    reports: Receiver<Report>,
}

impl Worker {
    fn start(dice: &mut Dice, manner: Manner) -> Self {
        let patience = Patience {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(20),
            max_age: None,
            most_waiting: dice.below(6) + 1,
            note: 4_000,
        };
        let (report, reports) = mpsc::channel();
        Self {
            process: Process::start(dice, manner),
            ledger: Ledger::new(patience),
            stalled: None,
            answers: Vec::new(),
            deliveries: Vec::new(),
            epochs: [0; PARTITIONS],
            positions: BTreeMap::new(),
            held: BTreeSet::new(),
            report,
            reports,
        }
    }
}

struct World {
    dice: Dice,
    log: Vec<Vec<Record>>,
    committed: Vec<usize>,
    notes: Vec<String>,
    /// Of each partition, the records above the committed offset that are noted as done.
    noted: Vec<BTreeSet<usize>>,
    owners: Vec<usize>,
    dead_letters: BTreeSet<(usize, usize)>,
    workers: Vec<Worker>,
    archive: Archive,
    rewinds: usize,
    /// Records that heirs were spared.
    spared: usize,
    stalls: usize,
    /// Commits that the broker refused for their notes.
    refused: usize,
    /// The longest note that the broker takes.
    longest_note: usize,
    manner: Manner,
}

fn place(partition: usize) -> Place {
    Place::new("spans", i32::try_from(partition).unwrap())
}

fn number(place: &Place) -> usize {
    usize::try_from(place.partition).unwrap()
}

impl World {
    fn new(seed: u64, manner: Manner, longest_note: usize) -> Self {
        let mut dice = Dice::new(seed);
        let workers = (0..WORKERS).map(|_| Worker::start(&mut dice, manner)).collect();
        let mut world = Self {
            dice,
            log: (0..PARTITIONS).map(|_| Vec::new()).collect(),
            committed: vec![0; PARTITIONS],
            notes: vec![String::new(); PARTITIONS],
            noted: vec![BTreeSet::new(); PARTITIONS],
            owners: vec![0; PARTITIONS],
            dead_letters: BTreeSet::new(),
            workers,
            archive: Archive::new(),
            rewinds: 0,
            spared: 0,
            stalls: 0,
            refused: 0,
            longest_note,
            manner,
        };
        (0..PARTITIONS).for_each(|partition| world.assign(partition, partition % WORKERS));
        world
    }

    fn step(&mut self) {
        let worker = self.dice.below(WORKERS);
        match self.dice.below(200) {
            0..40 => self.produce(),
            40..85 => self.poll(worker),
            85..105 => self.workers[worker].process.tick(&mut self.dice),
            105..140 => {
                self.workers[worker].process.close();
                self.workers[worker].process.work(&mut self.dice, &mut self.archive);
            }
            140..160 => {
                let some = self.dice.below(4);
                self.hear(worker, some);
            }
            160..175 => self.tend(worker),
            175..188 => self.commit(worker),
            188..192 => self.notice(worker),
            192..196 => self.rebalance(),
            196..198 => self.usurp(),
            _ => self.crash(worker),
        }
    }

    /// A record is written, by trace as gateways do, sometimes anywhere, sometimes twice, sometimes with spans of several traces.
    fn produce(&mut self) {
        let trace = self.dice.below(16);
        let partition = if self.dice.percent(90) { trace % PARTITIONS } else { self.dice.below(PARTITIONS) };
        if self.dice.percent(3) {
            self.log[partition].push(Record::Poison);
            return;
        }
        let is_mixed = self.dice.percent(20);
        let mini = |dice: &mut Dice| {
            let trace = if is_mixed { dice.below(4) * PARTITIONS + trace % PARTITIONS } else { trace };
            Mini::random(dice, trace as u16)
        };
        let spans: Vec<Mini> = (0..=self.dice.below(3)).map(|_| mini(&mut self.dice)).collect();
        let times = if self.dice.percent(5) { 2 } else { 1 };
        (0..times).for_each(|_| self.log[partition].push(Record::Spans(spans.clone())));
    }

    /// The worker reads a record, as its consumer would give it.
    fn poll(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        if let Some(stalled) = worker.stalled.take() {
            let Stalled { arrival, delivery, partition, ticket } = stalled;
            match worker.process.take(arrival, delivery) {
                Ok(()) => ticket.settle(Outcome::Done),
                Err(arrival) => {
                    worker.stalled = Some(Stalled { arrival, delivery, partition, ticket });
                    return;
                }
            }
        }
        let log = &self.log;
        let readable: Vec<usize> = worker
            .positions
            .iter()
            .filter(|(partition, position)| {
                !worker.held.contains(*partition) && **position < log[**partition].len()
            })
            .map(|(partition, _)| *partition)
            .collect();
        let Some(partition) = self.dice.pick(&readable) else { return };
        let offset = worker.positions[&partition];
        worker.positions.insert(partition, offset + 1);
        let opening = worker.ledger.open(&place(partition), offset as i64, worker.process.steady);
        let is_noted = self.owners[partition] == index && self.noted[partition].contains(&offset);
        let Opening::Deliver(receipt) = opening else {
            self.spared += usize::from(is_noted);
            return;
        };
        assert!(!is_noted, "{partition}/{offset} is noted as done and read again");
        match &self.log[partition][offset] {
            Record::Spans(spans) => {
                let done = worker.ledger.shares(&receipt);
                let left: Vec<Mini> =
                    spans.iter().filter(|mini| !done.contains(&mini.share())).copied().collect();
                let (report, of_share, shared) =
                    (worker.report.clone(), worker.report.clone(), receipt.clone());
                // Of a worker that has crashed nobody hears.
                let promise = Promise::with_shares(
                    move |share| drop(of_share.send((shared.clone(), Some(share), Outcome::Done))),
                    move |outcome| drop(report.send((receipt, None, outcome))),
                );
                let delivery = worker.deliveries.len();
                worker.deliveries.push((partition, worker.epochs[partition], offset));
                let ticket = promise.ticket();
                match worker.process.take(arrival(&left, promise), delivery) {
                    Ok(()) => ticket.settle(Outcome::Done),
                    Err(arrival) => {
                        worker.stalled = Some(Stalled { arrival, delivery, partition, ticket });
                        self.stalls += 1;
                    }
                }
            }
            Record::Poison => {
                let outcome = if self.dice.percent(70) {
                    self.dead_letters.insert((partition, offset));
                    Outcome::Done
                } else {
                    Outcome::Retry
                };
                worker.report.send((receipt, None, outcome)).unwrap();
            }
        }
    }

    /// The worker hears so many reports.
    fn hear(&mut self, index: usize, most: usize) {
        let worker = &mut self.workers[index];
        for (receipt, share, outcome) in worker.reports.try_iter().take(most) {
            match share {
                Some(share) => worker.ledger.share_done(&receipt, share),
                None => worker.ledger.settled(&receipt, outcome, worker.process.steady),
            };
        }
    }

    /// Before it commits, the worker hears all of what settled a verdict.
    fn hear_whole(&mut self, index: usize) {
        let most = if self.manner == Manner::Torn { self.dice.below(2) } else { usize::MAX };
        self.hear(index, most);
    }

    fn tend(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        for step in worker.ledger.steps(worker.process.steady) {
            match step {
                Step::Hold(place) => {
                    worker.held.insert(number(&place));
                }
                Step::Release(place) => {
                    worker.held.remove(&number(&place));
                }
                Step::Rewind { place, offset } => {
                    let offset = usize::try_from(offset).unwrap();
                    let partition = number(&place);
                    assert!(offset < worker.positions[&partition], "a rewind forward");
                    if self.dice.percent(80) {
                        worker.positions.insert(partition, offset);
                        self.rewinds += 1;
                    } else {
                        worker.ledger.rewind_failed(&place, worker.process.steady);
                    }
                }
            }
        }
    }

    /// The worker commits, once it has heard what became of its last commit. The broker takes it from the partition's owner only.
    fn commit(&mut self, index: usize) {
        self.hear_answers(index);
        self.hear_whole(index);
        for (place, commit) in self.workers[index].ledger.commits() {
            let is_lost = self.dice.percent(10);
            let answer = if self.owners[number(&place)] != index || is_lost {
                Answer::Lost
            } else {
                self.accept(number(&place), &commit, index)
            };
            self.workers[index].answers.push((place, answer));
        }
    }

    fn hear_answers(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        for (place, answer) in std::mem::take(&mut worker.answers) {
            if answer != Answer::Taken {
                worker.ledger.commit_failed(&place);
            }
            if let Answer::NoteRefused(length) = answer {
                worker.ledger.note_refused(length);
            }
        }
    }

    /// A commit comes to the broker. Law: everything below its offset, and what is noted above it, is in verdicts, or among the
    /// dead letters.
    fn accept(&mut self, partition: usize, commit: &Commit, owner: usize) -> Answer {
        if commit.note.len() > self.longest_note {
            self.refused += 1;
            return Answer::NoteRefused(commit.note.len());
        }
        let offset = usize::try_from(commit.offset).unwrap();
        let has_room = self.longest_note == usize::MAX;
        assert!(commit.left_out == 0 || !has_room, "there is room for all notes");
        assert!(offset <= self.log[partition].len(), "an offset that nobody has written");
        assert!(offset >= self.committed[partition], "a commit goes back");
        let found = self.seen_by_an_heir(partition, commit);
        if has_room {
            self.notes_are_whole(partition, owner, offset, &found);
        }
        self.noted[partition] =
            found.iter().filter(|(_, open)| open.is_none()).map(|(record, _)| *record).collect();
        self.notes[partition] = commit.note.clone();
        let above = self.noted[partition].iter().copied();
        for below in (self.committed[partition]..offset).chain(above) {
            match &self.log[partition][below] {
                Record::Spans(spans) => {
                    assert!(self.archive.has(spans), "{partition}/{below} is committed and has no verdict");
                }
                Record::Poison => {
                    assert!(
                        self.dead_letters.contains(&(partition, below)),
                        "{partition}/{below} is committed and gone"
                    );
                }
            }
        }
        self.committed[partition] = offset;
        Answer::Taken
    }

    /// What whoever comes next would read of the records above the offset: none if it is done, else the shares that are done.
    fn seen_by_an_heir(&self, partition: usize, commit: &Commit) -> BTreeMap<usize, Option<Vec<u128>>> {
        let mut heir = Ledger::new(Patience::default());
        heir.inherited(place(partition), commit.offset, &commit.note, START);
        let from = usize::try_from(commit.offset).unwrap();
        let mut read = |record: usize| match heir.open(&place(partition), record as i64, START) {
            Opening::Deliver(receipt) => (record, Some(heir.shares(&receipt).to_vec())),
            _ => (record, None),
        };
        (from..self.log[partition].len()).map(&mut read).collect()
    }

    /// Law: of a verdict's share in the records of this partition, either all is committed as done or nothing, so that no heir
    /// makes a verdict of the rest.
    fn notes_are_whole(
        &self,
        partition: usize,
        owner: usize,
        offset: usize,
        found: &BTreeMap<usize, Option<Vec<u128>>>,
    ) {
        let worker = &self.workers[owner];
        for Settled { share, deliveries } in &worker.process.settled {
            let here = deliveries.iter().map(|delivery| worker.deliveries[*delivery]);
            let here = here.filter(|(of, epoch, _)| *of == partition && *epoch == worker.epochs[partition]);
            let records: BTreeSet<usize> = here.map(|(_, _, record)| record).collect();
            let is_done = |record: &&usize| {
                **record < offset || found[*record].as_ref().is_none_or(|done| done.contains(share))
            };
            let done = records.iter().filter(is_done).count();
            assert!(
                done == 0 || done == records.len(),
                "of a verdict on {records:?} only {done} are committed"
            );
        }
    }

    /// The partition goes to a worker, which begins where the group left it.
    fn assign(&mut self, partition: usize, index: usize) {
        self.forget(partition, index);
        self.owners[partition] = index;
        let worker = &mut self.workers[index];
        worker.epochs[partition] += 1;
        let (offset, note) = (self.committed[partition], &self.notes[partition]);
        worker.ledger.inherited(place(partition), offset as i64, note, worker.process.steady);
        worker.positions.insert(partition, offset);
    }

    /// The worker no longer believes the partition to be its own.
    fn forget(&mut self, partition: usize, index: usize) {
        let worker = &mut self.workers[index];
        if worker.stalled.as_ref().is_some_and(|stalled| stalled.partition == partition) {
            worker.stalled = None;
        }
        worker.positions.remove(&partition);
        worker.held.remove(&partition);
        worker.ledger.revoked(&place(partition));
    }

    /// A partition moves in good order: its owner commits and lets go.
    fn rebalance(&mut self) {
        let (partition, heir) = (self.dice.below(PARTITIONS), self.dice.below(WORKERS));
        let owner = self.owners[partition];
        self.hear_whole(owner);
        while let Some(commit) = self.workers[owner].ledger.standing(&place(partition)) {
            let Answer::NoteRefused(length) = self.accept(partition, &commit, owner) else { break };
            self.workers[owner].ledger.note_refused(length);
        }
        self.forget(partition, owner);
        self.assign(partition, heir);
    }

    /// A partition moves because its owner was silent for too long. The owner does not know yet and goes on.
    fn usurp(&mut self) {
        let (partition, heir) = (self.dice.below(PARTITIONS), self.dice.below(WORKERS));
        if heir != self.owners[partition] {
            self.assign(partition, heir);
        }
    }

    /// The worker hears that partitions are no longer its own.
    fn notice(&mut self, index: usize) {
        let lost: Vec<usize> = self.workers[index]
            .positions
            .keys()
            .copied()
            .filter(|partition| self.owners[*partition] != index)
            .collect();
        for partition in lost {
            // The broker would not take this commit.
            self.forget(partition, index);
        }
    }

    /// The worker dies; others inherit, and another one starts in its place.
    fn crash(&mut self, index: usize) {
        self.workers[index] = Worker::start(&mut self.dice, self.manner);
        for partition in 0..PARTITIONS {
            if self.owners[partition] == index {
                let heir = self.dice.below(WORKERS);
                self.assign(partition, heir);
            }
        }
    }

    /// No more faults. Law: every record is done and committed soon, and nothing is left over.
    fn heal(&mut self) {
        for _ in 0..400 {
            let is_drained = (0..PARTITIONS).all(|at| self.committed[at] == self.log[at].len());
            let is_idle = |worker: &Worker| worker.process.is_idle() && worker.ledger.pending() == 0;
            if is_drained && self.workers.iter().all(is_idle) {
                break;
            }
            for index in 0..WORKERS {
                self.notice(index);
                self.workers[index].process.wait(Duration::from_secs(40));
                for _ in 0..40 {
                    self.poll(index);
                }
                self.workers[index].process.close();
                self.workers[index].process.work_off(&mut self.archive);
                self.hear(index, usize::MAX);
                self.tend(index);
                self.commit(index);
            }
        }
        for (partition, records) in self.log.iter().enumerate() {
            assert_eq!(self.committed[partition], records.len(), "partition {partition} is not drained");
        }
        for worker in &self.workers {
            assert!(worker.process.is_idle(), "traces stay open for ever");
            assert_eq!(worker.ledger.pending(), 0, "records stay open for ever");
        }
    }
}

fn play(seed: u64, manner: Manner) -> World {
    play_before(seed, manner, usize::MAX)
}

/// A history before a broker that takes notes up to this length.
fn play_before(seed: u64, manner: Manner, longest_note: usize) -> World {
    let mut world = World::new(seed, manner, longest_note);
    for _ in 0..800 {
        world.step();
    }
    world.heal();
    world
}

#[test]
fn kafka_records_are_never_lost_and_always_committed_in_the_end() {
    sweep("kafka", REGRESSION, |seed| {
        play(seed, Manner::Right);
    });
}

#[test]
fn kafka_records_are_committed_before_a_broker_that_takes_short_notes_only() {
    let refused = (0..60).map(|seed| play_before(seed, Manner::Right, seed as usize % 30).refused);
    let refused: usize = refused.sum();
    assert!(refused > 100, "{refused} commits were refused for their notes");
}

#[test]
fn kafka_histories_have_everything_in_them() {
    let worlds: Vec<World> = (0..5).map(|seed| play(seed, Manner::Right)).collect();
    let sum = |of: fn(&World) -> usize| worlds.iter().map(of).sum::<usize>();
    let records = sum(|world| world.log.iter().map(Vec::len).sum());
    let verdicts = sum(|world| world.archive.verdicts);
    let (repeated, poorer) = (sum(|world| world.archive.repeated), sum(|world| world.archive.poorer));
    let (spared, stalls) = (sum(|world| world.spared), sum(|world| world.stalls));
    println!(
        "{records} records, {stalls} of them stalled, {verdicts} verdicts, {repeated} of them again and {poorer} on less than before; \
         {spared} records spared"
    );
    assert!(
        spared > 50 && stalls > 50 && repeated > 20,
        "{spared} spared, {stalls} stalled, {repeated} repeated"
    );
    assert!(records > 500 && verdicts > records / 4, "{records} records, {verdicts} verdicts");
    assert!(sum(|world| world.rewinds) > 20 && sum(|world| world.dead_letters.len()) > 5);
}

#[test]
fn a_worker_that_settles_what_was_not_written_is_found_out() {
    let found = (0..20).filter(|seed| catch_unwind(|| play(*seed, Manner::Hasty)).is_err());
    assert!(found.count() >= 15, "the laws see too little");
}

#[test]
fn a_worker_that_commits_a_verdict_in_parts_is_found_out() {
    let found = (0..20).filter(|seed| catch_unwind(|| play(*seed, Manner::Torn)).is_err());
    assert!(found.count() >= 10, "the laws see too little");
}
