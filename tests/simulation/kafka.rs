//! Spans from Kafka: three workers of one group, whose partitions come and go while they crash, freeze and fail.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::catch_unwind;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use assayd::receive::ledger::{Ledger, Opening, Patience, Place, Receipt, Step};
use assayd::ticket::{Outcome, Promise};

use super::cast::{Archive, Manner, Mini, Process};
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

struct Worker {
    process: Process,
    ledger: Ledger,
    /// Where it reads next in the partitions that it believes to be its own.
    positions: BTreeMap<usize, usize>,
    held: BTreeSet<usize>,
    /// Where promises report to, and where that is heard.
    report: Sender<(Receipt, Outcome)>,
    reports: Receiver<(Receipt, Outcome)>,
}

impl Worker {
    fn start(dice: &mut Dice, manner: Manner) -> Self {
        let patience = Patience {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(20),
            max_age: None,
            most_waiting: dice.below(6) + 1,
        };
        let (report, reports) = mpsc::channel();
        Self {
            process: Process::start(dice, manner),
            ledger: Ledger::new(patience),
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
    owners: Vec<usize>,
    dead_letters: BTreeSet<(usize, usize)>,
    workers: Vec<Worker>,
    archive: Archive,
    rewinds: usize,
    manner: Manner,
}

fn place(partition: usize) -> Place {
    Place::new("spans", i32::try_from(partition).unwrap())
}

fn number(place: &Place) -> usize {
    usize::try_from(place.partition).unwrap()
}

impl World {
    fn new(seed: u64, manner: Manner) -> Self {
        let mut dice = Dice::new(seed);
        let workers = (0..WORKERS).map(|_| Worker::start(&mut dice, manner)).collect();
        let mut world = Self {
            dice,
            log: (0..PARTITIONS).map(|_| Vec::new()).collect(),
            committed: vec![0; PARTITIONS],
            owners: vec![0; PARTITIONS],
            dead_letters: BTreeSet::new(),
            workers,
            archive: Archive::new(),
            rewinds: 0,
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
            140..160 => self.hear(worker),
            160..175 => self.tend(worker),
            175..188 => self.commit(worker),
            188..192 => self.notice(worker),
            192..196 => self.rebalance(),
            196..198 => self.usurp(),
            _ => self.crash(worker),
        }
    }

    /// A record is written, by trace as gateways do, sometimes anywhere, sometimes twice.
    fn produce(&mut self) {
        let trace = self.dice.below(16);
        let partition = if self.dice.percent(90) { trace % PARTITIONS } else { self.dice.below(PARTITIONS) };
        if self.dice.percent(3) {
            self.log[partition].push(Record::Poison);
            return;
        }
        let spans: Vec<Mini> =
            (0..=self.dice.below(3)).map(|_| Mini::random(&mut self.dice, trace as u16)).collect();
        let times = if self.dice.percent(5) { 2 } else { 1 };
        (0..times).for_each(|_| self.log[partition].push(Record::Spans(spans.clone())));
    }

    /// The worker reads a record, as its consumer would give it.
    fn poll(&mut self, index: usize) {
        let worker = &mut self.workers[index];
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
        let Opening::Deliver(receipt) = opening else { return };
        match &self.log[partition][offset] {
            Record::Spans(spans) => {
                let report = worker.report.clone();
                let promise = Promise::new(move |outcome| {
                    // Of a worker that has crashed nobody hears.
                    let _ = report.send((receipt, outcome));
                });
                worker.process.take(spans, promise);
            }
            Record::Poison => {
                let outcome = if self.dice.percent(70) {
                    self.dead_letters.insert((partition, offset));
                    Outcome::Done
                } else {
                    Outcome::Retry
                };
                worker.report.send((receipt, outcome)).unwrap();
            }
        }
    }

    fn hear(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        while let Ok((receipt, outcome)) = worker.reports.try_recv() {
            worker.ledger.settled(&receipt, outcome, worker.process.steady);
        }
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

    /// The worker commits. The broker takes it from the partition's owner only.
    fn commit(&mut self, index: usize) {
        for (place, offset) in self.workers[index].ledger.commits() {
            let is_lost = self.dice.percent(10);
            if self.owners[number(&place)] == index && !is_lost {
                self.accept(number(&place), offset);
            } else {
                self.workers[index].ledger.commit_failed(&place);
            }
        }
    }

    /// An offset is committed. Law: everything below it is in verdicts, or among the dead letters.
    fn accept(&mut self, partition: usize, offset: i64) {
        let offset = usize::try_from(offset).unwrap();
        assert!(offset <= self.log[partition].len(), "an offset that nobody has written");
        assert!(offset >= self.committed[partition], "a commit goes back");
        for below in self.committed[partition]..offset {
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
    }

    /// The partition goes to a worker, which begins where the group left it.
    fn assign(&mut self, partition: usize, index: usize) {
        self.forget(partition, index);
        self.owners[partition] = index;
        let worker = &mut self.workers[index];
        worker.ledger.assigned(place(partition));
        worker.positions.insert(partition, self.committed[partition]);
    }

    /// The worker no longer believes the partition to be its own.
    fn forget(&mut self, partition: usize, index: usize) -> Option<i64> {
        let worker = &mut self.workers[index];
        worker.positions.remove(&partition);
        worker.held.remove(&partition);
        worker.ledger.revoked(&place(partition))
    }

    /// A partition moves in good order: its owner commits and lets go.
    fn rebalance(&mut self) {
        let (partition, heir) = (self.dice.below(PARTITIONS), self.dice.below(WORKERS));
        let owner = self.owners[partition];
        self.hear(owner);
        if let Some(offset) = self.forget(partition, owner) {
            self.accept(partition, offset);
        }
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
        for _ in 0..80 {
            for index in 0..WORKERS {
                self.notice(index);
                self.workers[index].process.wait(Duration::from_secs(40));
                for _ in 0..40 {
                    self.poll(index);
                }
                self.workers[index].process.close();
                self.workers[index].process.work_off(&mut self.archive);
                self.hear(index);
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
    let mut world = World::new(seed, manner);
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
fn kafka_histories_have_everything_in_them() {
    let worlds: Vec<World> = (0..5).map(|seed| play(seed, Manner::Right)).collect();
    let sum = |of: fn(&World) -> usize| worlds.iter().map(of).sum::<usize>();
    let records = sum(|world| world.log.iter().map(Vec::len).sum());
    let verdicts = sum(|world| world.archive.verdicts);
    let poorer = sum(|world| world.archive.poorer);
    println!("{records} records, {verdicts} verdicts, {poorer} of them again with fewer spans than before");
    assert!(records > 500 && verdicts > records / 4, "{records} records, {verdicts} verdicts");
    assert!(sum(|world| world.rewinds) > 20 && sum(|world| world.dead_letters.len()) > 5);
}

#[test]
fn a_worker_that_settles_what_was_not_written_is_found_out() {
    let found = (0..20).filter(|seed| catch_unwind(|| play(*seed, Manner::Hasty)).is_err());
    assert!(found.count() >= 15, "the laws see too little");
}
