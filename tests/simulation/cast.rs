//! What all histories have in common: spans, verdicts, a process that evaluates, and its clock.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use assayd::assemble::{Assembler, ClosedTrace, Config};
use assayd::domain::{
    Attributes, ByteSize, Period, Resource, Scope, Span, SpanId, SpanKind, Status, Time, Trace, TraceId,
};
use assayd::score::{self, Origin, Plan};
use assayd::ticket::{Outcome, Promise, Ticket};

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
    ids: BTreeMap<(TraceId, u32), String>,
    by_id: BTreeMap<String, (TraceId, u32)>,
    /// The most spans that a verdict of this id knew.
    spans: BTreeMap<String, usize>,
    pub verdicts: usize,
    /// Verdicts that came again and knew fewer spans than before.
    pub poorer: usize,
}

impl Archive {
    pub fn new() -> Self {
        let plan = Plan::new(Default::default(), &serde_json::json!({}), "simulated".to_owned(), None, 0.9);
        Self {
            plan,
            written: BTreeSet::new(),
            ids: BTreeMap::new(),
            by_id: BTreeMap::new(),
            spans: BTreeMap::new(),
            verdicts: 0,
            poorer: 0,
        }
    }

    /// A verdict arrives. Laws: one id for each trace and revision, and no two share one.
    fn write(&mut self, trace: &Trace) {
        let verdict = score::failed(&Origin::of(trace), "simulated", &self.plan, START);
        let key = (trace.trace_id, trace.revision);
        let id = self.ids.entry(key).or_insert_with(|| verdict.verdict_id.clone());
        assert_eq!(*id, verdict.verdict_id, "{key:?} has two verdict ids");
        let most = self.spans.entry(verdict.verdict_id.clone()).or_default();
        self.poorer += usize::from(trace.spans.len() < *most);
        *most = trace.spans.len().max(*most);
        assert_eq!(
            *self.by_id.entry(verdict.verdict_id).or_insert(key),
            key,
            "two traces share a verdict id"
        );
        let low = |bytes: &[u8]| u16::from_be_bytes([bytes[bytes.len() - 2], bytes[bytes.len() - 1]]);
        let number = low(trace.trace_id.as_bytes()) - 1;
        self.written.extend(trace.spans.iter().map(|span| (number, low(span.span_id.as_bytes()))));
        self.verdicts += 1;
    }

    /// Whether all these spans are in verdicts.
    pub fn has(&self, spans: &[Mini]) -> bool {
        spans.iter().all(|mini| self.written.contains(&(mini.trace, mini.span)))
    }
}

/// How a process treats a trace whose verdict was not written. The hasty one is wrong, and must be found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Right,
    Hasty,
}

/// A process: it assembles and evaluates. Dropped, it has crashed.
pub struct Process {
    assembler: Assembler<Ticket>,
    tasks: Vec<ClosedTrace<Ticket>>,
    /// The machine's clock: it may be set.
    now: Time,
    /// Time that only goes on, as the thread of Kafka counts it.
    pub steady: Time,
    most_open: usize,
    manner: Manner,
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
        Self {
            assembler: Assembler::new(config),
            tasks: Vec::new(),
            now: START,
            steady: START,
            most_open,
            manner,
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

    /// A delivery comes in.
    pub fn take(&mut self, spans: &[Mini], promise: Promise) {
        let spans = spans.iter().map(|mini| mini.whole()).collect();
        self.assembler.push(self.now, spans, Vec::new(), |_| promise.ticket());
        // What is over the limit leaves with the pops that belong to every push.
        self.close();
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

    fn finish(
        &mut self,
        closed: ClosedTrace<Ticket>,
        is_written: bool,
        is_known: bool,
        archive: &mut Archive,
    ) {
        let ClosedTrace { trace, payloads: tickets, number } = closed;
        if is_written {
            archive.write(&trace);
        }
        if is_known {
            self.assembler.settled(trace.trace_id, number);
        }
        if is_known || self.manner == Manner::Hasty {
            tickets.into_iter().for_each(|ticket| ticket.settle(Outcome::Done));
        }
    }

    /// Whether it has nothing to do.
    pub fn is_idle(&self) -> bool {
        self.assembler.open() == 0 && self.tasks.is_empty()
    }
}
