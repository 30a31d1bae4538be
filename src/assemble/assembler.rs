use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::{Closed, LogRecord, Span, Time, Trace, TraceId};

use super::live::{Added, Live, Seen, fingerprint};
use super::recent::{Content, Recent};
use super::{Config, Late};

/// A trace that was taken as complete, with the payload of every delivery that brought something of it.
#[derive(Debug)]
pub struct ClosedTrace<P> {
    /// The trace. The assembler holds on to it for late spans; nobody changes it.
    pub trace: Arc<Trace>,
    /// What the deliveries left with it, in order of arrival: their tickets and memory.
    pub payloads: Vec<P>,
    /// Which closing of all this is, for [`Assembler::settled`].
    pub number: u64,
}

/// What became of a delivery, in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pushed {
    /// Spans that are part of a trace now.
    pub spans: u64,
    /// Log records that are part of a trace now.
    pub logs: u64,
    /// Spans and log records that were known already.
    pub duplicates: u64,
    /// Spans and log records beyond the limit of their trace.
    pub beyond: u64,
    /// Late spans and log records that were dropped, because [`Late::Ignore`] says so.
    pub ignored: u64,
    /// Traces that were opened for the first time.
    pub opened: u64,
    /// Traces that were closed and are open again: how long they had been closed.
    pub reopened: Vec<Duration>,
}

/// What the assembler knows of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// Nothing: it never came, or it was closed so long ago that it is forgotten.
    Unknown,
    /// It waits for more spans.
    Open {
        /// Spans that are here.
        spans: usize,
        /// When the first of them came, by the caller's clock.
        first_arrival: Time,
        /// When it closes if nothing more comes.
        closes_by: Time,
    },
    /// It was taken as complete.
    Closed {
        /// 0 the first time; one more each time that late spans reopened it.
        revision: u32,
        /// Whether its outcome is recorded; else it is being evaluated.
        settled: bool,
    },
}

/// Puts spans and log records together by trace, and says when a trace is complete.
///
/// `P` is what a delivery leaves with each trace that it touches; [`push`](Self::push) asks for it. Work is O(log n) in the
/// number of open traces. Memory: open traces up to `max_bytes` (beyond it by one delivery at most, until the next
/// [`pop`](Self::pop)), closed ones up to `keep_bytes`; resources and scopes are shared and not counted.
#[derive(Debug)]
pub struct Assembler<P> {
    config: Config,
    clock: Clock,
    open: HashMap<TraceId, Live<P>>,
    /// When each open trace closes if nothing more comes.
    timers: BTreeSet<(Time, TraceId)>,
    /// Open traces, oldest first.
    oldest: BTreeMap<u64, TraceId>,
    recent: Recent,
    bytes: usize,
    sequence: u64,
    closing: bool,
    hash_state: RandomState,
}

impl<P> Assembler<P> {
    /// An empty assembler.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            clock: Clock::default(),
            open: HashMap::new(),
            timers: BTreeSet::new(),
            oldest: BTreeMap::new(),
            recent: Recent::default(),
            bytes: 0,
            sequence: 0,
            closing: false,
            hash_state: RandomState::new(),
        }
    }

    /// Takes the spans and log records of one delivery. `payload` is called once for each trace that now waits for them, with
    /// its id and the bytes that they add to it: 0 if they were known but the trace's outcome is still open. No call for a trace means
    /// that nothing of it waits any more.
    ///
    /// Then call [`pop`](Self::pop) until there is none.
    pub fn push(
        &mut self,
        now: Time,
        spans: Vec<Span>,
        logs: Vec<LogRecord>,
        mut payload: impl FnMut(TraceId, usize) -> P,
    ) -> Pushed {
        let wall = now;
        let now = self.clock.advance(wall);
        self.recent.trim(now, &self.config);
        let mut pushed = Pushed::default();
        for group in self.by_trace(spans, logs) {
            self.push_group(group, now, wall, &mut payload, &mut pushed);
        }
        pushed
    }

    /// The next trace that is complete, if there is one. At the limits that is the oldest one.
    pub fn pop(&mut self, now: Time) -> Option<ClosedTrace<P>> {
        let wall = now;
        let now = self.clock.advance(wall);
        if let Some(&(deadline, trace_id)) = self.timers.first()
            && deadline <= now
        {
            return self.close(trace_id, None, now, wall);
        }
        let is_over =
            self.open.len() > self.config.max_traces.get() || self.bytes > self.config.max_bytes.as_usize();
        if !is_over && !self.closing {
            return None;
        }
        let oldest = *self.oldest.first_key_value()?.1;
        let closed = if self.closing { Closed::Shutdown } else { Closed::Evict };
        self.close(oldest, Some(closed), now, wall)
    }

    /// When [`pop`](Self::pop) should be called next, if nothing is pushed before.
    pub fn next_timeout(&self) -> Option<Time> {
        self.timers.first().map(|(deadline, _)| self.clock.by_caller(*deadline))
    }

    /// From now on every trace counts as complete: [`pop`](Self::pop) gives all that are open, oldest first.
    pub fn close_all(&mut self) {
        self.closing = true;
    }

    /// The outcome of this closing is recorded: its spans need not be evaluated again when somebody repeats them.
    pub fn settled(&mut self, trace_id: TraceId, number: u64) {
        self.recent.settle(trace_id, number);
    }

    /// What is known of a trace now.
    pub fn sight(&self, trace_id: TraceId) -> Sight {
        if let Some(live) = self.open.get(&trace_id) {
            let (deadline, _) = live.deadline(&self.config);
            let (spans, first_arrival) = (live.span_count(), live.first_arrival);
            return Sight::Open { spans, first_arrival, closes_by: self.clock.by_caller(deadline) };
        }
        match self.recent.get(trace_id) {
            Some(kept) => Sight::Closed { revision: kept.revision, settled: kept.settled },
            None => Sight::Unknown,
        }
    }

    /// How many traces are open.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Memory of the open traces, roughly.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn by_trace(&self, spans: Vec<Span>, logs: Vec<LogRecord>) -> Vec<Group> {
        let mut groups = Groups::default();
        for span in spans {
            groups.of(span.trace_id).spans.push(span);
        }
        for record in logs {
            let fingerprint = fingerprint(&record, &self.hash_state);
            groups.of(record.trace_id).logs.push((fingerprint, record));
        }
        groups.list
    }

    fn push_group(
        &mut self,
        group: Group,
        now: Time,
        wall: Time,
        payload: &mut impl FnMut(TraceId, usize) -> P,
        pushed: &mut Pushed,
    ) {
        let trace_id = group.trace_id;
        let Some(mut live) = self.enter(&group, now, wall, pushed) else { return };
        let bytes_before = live.bytes;
        for span in group.spans {
            match live.add_span(span, &self.config) {
                Added::New => pushed.spans += 1,
                Added::Duplicate => pushed.duplicates += 1,
                Added::Beyond => pushed.beyond += 1,
            }
        }
        for (fingerprint, record) in group.logs {
            match live.add_log(record, fingerprint, &self.config) {
                Added::New => pushed.logs += 1,
                Added::Duplicate => pushed.duplicates += 1,
                Added::Beyond => pushed.beyond += 1,
            }
        }
        live.touch(now);
        live.payloads.push(payload(trace_id, live.bytes - bytes_before));
        self.put(trace_id, live);
    }

    /// The open trace that a group belongs to, taken out of the store; none if the group has nothing to wait for.
    fn enter(&mut self, group: &Group, now: Time, wall: Time, pushed: &mut Pushed) -> Option<Live<P>> {
        if let Some(live) = self.take(group.trace_id) {
            return Some(live);
        }
        let fresh = Live::new(now, wall, self.sequence);
        self.sequence += 1;
        let Some(kept) = self.recent.get(group.trace_id) else {
            pushed.opened += 1;
            return Some(fresh);
        };
        if kept.settled {
            if let Some(content) = &kept.content
                && group.adds_nothing(content, &self.config)
            {
                let duplicates = group.known(&content.seen);
                pushed.duplicates += duplicates;
                pushed.beyond += group.len() - duplicates;
                return None;
            }
            if self.config.late == Late::Ignore {
                pushed.ignored += group.len();
                return None;
            }
        }
        let kept = self.recent.take(group.trace_id)?;
        pushed.reopened.push(now.since(kept.closed_at));
        Some(match kept.content {
            Some(Content { trace, seen, cut, bytes }) => {
                fresh.reopened(Arc::unwrap_or_clone(trace), seen, cut, bytes, &self.config)
            }
            None => fresh.continued(kept.revision),
        })
    }

    fn close(
        &mut self,
        trace_id: TraceId,
        closed: Option<Closed>,
        now: Time,
        wall: Time,
    ) -> Option<ClosedTrace<P>> {
        let live = self.take(trace_id)?;
        let closed = closed.unwrap_or_else(|| live.deadline(&self.config).1);
        let (cut, bytes) = (live.cut, live.bytes);
        let (trace, seen, payloads) = live.close(trace_id, closed, wall, &self.config);
        let trace = Arc::new(trace);
        let number =
            self.recent.keep(Content { trace: Arc::clone(&trace), seen, cut, bytes }, now, &self.config);
        Some(ClosedTrace { trace, payloads, number })
    }

    fn put(&mut self, trace_id: TraceId, live: Live<P>) {
        let (deadline, _) = live.deadline(&self.config);
        self.timers.insert((deadline, trace_id));
        self.oldest.insert(live.sequence, trace_id);
        self.bytes += live.bytes;
        self.open.insert(trace_id, live);
    }

    fn take(&mut self, trace_id: TraceId) -> Option<Live<P>> {
        let live = self.open.remove(&trace_id)?;
        let (deadline, _) = live.deadline(&self.config);
        self.timers.remove(&(deadline, trace_id));
        self.oldest.remove(&live.sequence);
        self.bytes -= live.bytes;
        Some(live)
    }
}

/// What a delivery brings for one trace.
#[derive(Debug)]
struct Group {
    trace_id: TraceId,
    spans: Vec<Span>,
    logs: Vec<(u64, LogRecord)>,
}

impl Group {
    fn len(&self) -> u64 {
        (self.spans.len() + self.logs.len()) as u64
    }

    /// How much of it the trace has already.
    fn known(&self, seen: &Seen) -> u64 {
        let spans = self.spans.iter().filter(|span| seen.has_span(span.span_id)).count();
        let logs = self.logs.iter().filter(|(fingerprint, _)| seen.has_log(*fingerprint)).count();
        (spans + logs) as u64
    }

    /// Whether the closed trace has all of it, or no room for what it has not.
    fn adds_nothing(&self, content: &Content, config: &Config) -> bool {
        let limit = config.max_spans.get();
        let no_span = self.spans.is_empty() || content.trace.spans.len() >= limit;
        let no_log = self.logs.is_empty() || content.trace.logs.len() >= limit;
        (no_span || self.spans.iter().all(|span| content.seen.has_span(span.span_id)))
            && (no_log || self.logs.iter().all(|(fingerprint, _)| content.seen.has_log(*fingerprint)))
    }
}

/// The groups of a delivery, in order of appearance.
#[derive(Default)]
struct Groups {
    list: Vec<Group>,
    index: HashMap<TraceId, usize>,
}

impl Groups {
    fn of(&mut self, trace_id: TraceId) -> &mut Group {
        let index = *self.index.entry(trace_id).or_insert(self.list.len());
        if index == self.list.len() {
            self.list.push(Group { trace_id, spans: Vec::new(), logs: Vec::new() });
        }
        &mut self.list[index]
    }
}

/// Time that never runs backwards: when the caller's clock does, it goes on from where it was.
#[derive(Debug, Default)]
struct Clock {
    caller: Time,
    own: Time,
}

impl Clock {
    fn advance(&mut self, caller: Time) -> Time {
        self.own = self.own + caller.since(self.caller);
        self.caller = caller;
        self.own
    }

    fn by_caller(&self, own: Time) -> Time {
        self.caller + own.since(self.own)
    }
}
