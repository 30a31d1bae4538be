//! What all histories have in common: spans, verdicts, a process that evaluates, and its clock.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use assayd::assemble::{Assembler, ClosedTrace, Config};
use assayd::domain::{
    Attributes, ByteSize, Period, Resource, Scope, Span, SpanId, SpanKind, Status, Time, Trace, TraceId,
};
use assayd::receive::{self, Acknowledge, Arrival, Delivery, Door, Fence, Stake};
use assayd::score::{self, Origin, Plan};
use assayd::ticket::{Outcome, Promise};
use tokio::sync::mpsc::Receiver;

use super::dice::Dice;

/// When every clock begins.
pub const START: Time = Time(1_796_025_600_000_000_000);

/// A span by the numbers of its trace, itself and its parent; parent 0 is a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mini {
    pub trace: u16,
    pub span: u16,
    pub parent: u16,
}

impl Mini {
    /// A random span of a random trace. Few traces and few spans: histories in which nothing meets prove nothing.
    pub fn random(dice: &mut Dice, trace: u16) -> Self {
        let span = dice.below(8) as u16 + 1;
        Self { trace, span, parent: dice.below(usize::from(span)) as u16 }
    }

    /// The name of its trace's share in a delivery.
    pub fn share(self) -> u128 {
        u128::from(self.trace + 1)
    }

    fn whole(self) -> Span {
        let id = |number: u16| SpanId::try_from(&u64::from(number).to_be_bytes()[..]).unwrap();
        Span {
            trace_id: TraceId::try_from(&u128::from(self.trace + 1).to_be_bytes()[..]).unwrap(),
            span_id: id(self.span),
            parent_id: (self.parent > 0).then(|| id(self.parent)),
            name: String::new(),
            kind: SpanKind::Internal,
            start: START,
            end: START,
            status: Status::Unset,
            attributes: Attributes::new(),
            events: Vec::new(),
            links: Vec::new(),
            dropped_attributes: 0,
            resource: Arc::new(Resource::default()),
            scope: Arc::new(Scope::default()),
        }
    }
}

/// The outside world's memory: which spans are in a verdict that was written.
pub struct Archive {
    plan: Plan,
    written: BTreeSet<(u16, u16)>,
    /// Of each trace, what its verdicts knew, and under which id.
    known: BTreeMap<u16, BTreeMap<BTreeSet<u16>, String>>,
    by_id: BTreeMap<String, (u16, BTreeSet<u16>)>,
    pub verdicts: usize,
    /// Verdicts that said again what one before had said.
    pub repeated: usize,
    /// Verdicts that knew a part of what one before had known. Under an id of their own.
    pub poorer: usize,
}

impl Archive {
    pub fn new() -> Self {
        let plan = Plan::new(Default::default(), &serde_json::json!({}), "simulated".to_owned(), None, 0.9);
        Self {
            plan,
            written: BTreeSet::new(),
            known: BTreeMap::new(),
            by_id: BTreeMap::new(),
            verdicts: 0,
            repeated: 0,
            poorer: 0,
        }
    }

    /// A verdict arrives. Laws: what knows the same has the same id, and what has the same id knows the same.
    fn write(&mut self, trace: &Trace) {
        let verdict = score::failed(&Origin::of(trace), "simulated", &self.plan, START);
        let low = |bytes: &[u8]| u16::from_be_bytes([bytes[bytes.len() - 2], bytes[bytes.len() - 1]]);
        let number = low(trace.trace_id.as_bytes()) - 1;
        let spans: BTreeSet<u16> = trace.spans.iter().map(|span| low(span.span_id.as_bytes())).collect();
        let before = self.known.entry(number).or_default();
        self.repeated += usize::from(before.contains_key(&spans));
        self.poorer += usize::from(before.keys().any(|more| *more != spans && more.is_superset(&spans)));
        let id = before.entry(spans.clone()).or_insert_with(|| verdict.verdict_id.clone());
        assert_eq!(*id, verdict.verdict_id, "{number} {spans:?} has two verdict ids");
        self.written.extend(spans.iter().map(|span| (number, *span)));
        let known = self.by_id.entry(verdict.verdict_id).or_insert_with(|| (number, spans.clone()));
        assert_eq!(*known, (number, spans), "a verdict id means two things");
        self.verdicts += 1;
    }

    /// Whether all these spans are in verdicts.
    pub fn has(&self, spans: &[Mini]) -> bool {
        spans.iter().all(|mini| self.written.contains(&(mini.trace, mini.span)))
    }
}

/// How a process keeps its promises. All but the first are wrong, and must be found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Right,
    /// Settles a trace whose verdict was not written.
    Hasty,
    /// Notes some of what settled a verdict without the rest.
    Torn,
}

/// What a trace holds of a delivery: which one it is, and its stake in it.
struct Part {
    delivery: usize,
    stake: Stake,
}

/// A verdict that was written and settled: its trace's share in these deliveries.
#[derive(Debug, Clone)]
pub struct Settled {
    pub share: u128,
    pub deliveries: Vec<usize>,
}

/// A process: it admits, assembles and evaluates. Dropped, it has crashed.
pub struct Process {
    door: Door,
    inside: Receiver<Delivery>,
    assembler: Assembler<Part>,
    tasks: Vec<ClosedTrace<Part>>,
    /// The machine's clock: it may be set.
    now: Time,
    /// Time that only goes on, as the thread of Kafka counts it.
    pub steady: Time,
    most_open: usize,
    /// Bytes of memory for spans.
    room: usize,
    manner: Manner,
    /// All verdicts that it has settled.
    pub settled: Vec<Settled>,
    /// Deliveries for which there was no room at first.
    pub refused: usize,
}

impl Process {
    pub fn start(dice: &mut Dice, manner: Manner) -> Self {
        let most_open = dice.below(5) + 1;
        let keep_bytes = if dice.percent(50) { 0 } else { 1 << 20 };
        let config = Config {
            root_grace: Period::seconds(2),
            idle: Period::seconds(30),
            max_age: Period::seconds(120),
            max_traces: NonZeroUsize::new(most_open).unwrap(),
            max_bytes: ByteSize::mib(1),
            keep: Period::seconds(dice.below(200) as u64),
            keep_bytes: ByteSize(keep_bytes),
            keep_traces: NonZeroUsize::new(dice.below(5) + 1).unwrap(),
            ..Config::default()
        };
        // Room for the largest delivery, and maybe for little more.
        let room = (5 + dice.below(20)) * Mini { trace: 0, span: 1, parent: 0 }.whole().weight();
        let (door, inside) = receive::open(&receive::Config {
            max_bytes: ByteSize(room as u64),
            acknowledge: Acknowledge::Admitted,
            ..receive::Config::default()
        });
        Self {
            door,
            inside,
            assembler: Assembler::new(config),
            tasks: Vec::new(),
            now: START,
            steady: START,
            most_open,
            room,
            manner,
            settled: Vec::new(),
            refused: 0,
        }
    }

    /// Its clock goes on, or jumps.
    pub fn tick(&mut self, dice: &mut Dice) {
        match dice.below(20) {
            0 => self.now = Time(self.now.0.saturating_sub(dice.below(3_600) as u64 * 1_000_000_000)),
            1 => self.wait(Duration::from_secs(dice.below(3_600) as u64)),
            _ => self.wait(Duration::from_millis(dice.below(10_000) as u64)),
        }
    }

    pub fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.steady = self.steady + time;
    }

    /// A delivery comes to the door: it is let in, or given back. Its number is the caller's.
    pub fn take(&mut self, arrival: Arrival, delivery: usize) -> Result<(), Arrival> {
        let bytes = arrival.weight();
        let admitted = self.door.try_admit(arrival, bytes, &Fence::default());
        self.refused += usize::from(admitted.is_err());
        admitted?;
        let (spans, logs, mut stakes) = self.inside.try_recv().expect("it was let in").into_parts();
        self.assembler.push(self.now, spans, logs, |trace_id, bytes| Part {
            delivery,
            stake: stakes.cut_for(trace_id, bytes),
        });
        drop(stakes);
        // What is over the limit leaves with the pops that belong to every push.
        self.close();
        Ok(())
    }

    /// Whether this would be let in now.
    pub fn has_room(&self, arrival: &Arrival) -> bool {
        self.door.held_bytes() + arrival.weight() <= self.room
    }

    /// Complete traces become tasks.
    pub fn close(&mut self) {
        while let Some(closed) = self.assembler.pop(self.now) {
            self.tasks.push(closed);
        }
        assert!(self.assembler.open() <= self.most_open, "more open traces than allowed");
    }

    /// One of the tasks ends, in any way that a task can.
    pub fn work(&mut self, dice: &mut Dice, archive: &mut Archive) {
        if self.tasks.is_empty() {
            return;
        }
        let closed = self.tasks.swap_remove(dice.below(self.tasks.len()));
        let (is_written, is_known) = match dice.below(10) {
            // The sink failed, or the task panicked or was cancelled.
            0 | 1 => (false, false),
            // The sink has it, and nobody heard.
            2 => (true, false),
            _ => (true, true),
        };
        self.finish(closed, is_written, is_known, archive);
    }

    /// All tasks end well.
    pub fn work_off(&mut self, archive: &mut Archive) {
        for closed in std::mem::take(&mut self.tasks) {
            self.finish(closed, true, true, archive);
        }
    }

    fn finish(&mut self, closed: ClosedTrace<Part>, is_written: bool, is_known: bool, archive: &mut Archive) {
        let ClosedTrace { trace, payloads: parts, number } = closed;
        if is_written {
            archive.write(&trace);
        }
        if is_known {
            self.assembler.settled(trace.trace_id, number);
            let share = receive::share(trace.trace_id);
            self.settled
                .push(Settled { share, deliveries: parts.iter().map(|part| part.delivery).collect() });
        }
        if is_known || self.manner == Manner::Hasty {
            Stake::settle_all(parts.into_iter().map(|part| part.stake), Outcome::Done);
        }
    }

    /// Whether it has nothing to do, and its room is free.
    pub fn is_idle(&self) -> bool {
        self.assembler.open() == 0 && self.tasks.is_empty() && self.door.held_bytes() == 0
    }
}

/// The spans as they arrive.
pub fn arrival(spans: &[Mini], promise: Promise) -> Arrival {
    let spans = spans.iter().map(|mini| mini.whole()).collect();
    Arrival { spans, logs: Vec::new(), promise, raw: None }
}
