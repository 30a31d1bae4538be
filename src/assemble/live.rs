//! One open trace.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;

use crate::domain::{
    Attributes, Closed, LogRecord, Period, Resource, Span, SpanId, Time, Trace, TraceId, Value,
};

use super::{Config, END_MARKER};

/// What is known of a trace already, so that nothing counts twice.
#[derive(Debug, Default)]
pub(super) struct Seen {
    spans: HashSet<SpanId>,
    logs: HashSet<u64>,
}

impl Seen {
    pub(super) fn has_span(&self, id: SpanId) -> bool {
        self.spans.contains(&id)
    }

    pub(super) fn has_log(&self, fingerprint: u64) -> bool {
        self.logs.contains(&fingerprint)
    }
}

/// What became of a span or log record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Added {
    /// It is part of the trace now.
    New,
    /// It was there already.
    Duplicate,
    /// The trace is full.
    Beyond,
}

/// What limits have cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cut {
    pub(super) spans: u64,
    pub(super) logs: u64,
    /// Earlier spans were closed and are no longer kept.
    pub(super) history: bool,
}

#[derive(Debug)]
pub(super) struct Live<P> {
    spans: Vec<Span>,
    logs: Vec<LogRecord>,
    pub(super) seen: Seen,
    /// Parents that spans name and that have not arrived.
    missing: HashSet<SpanId>,
    has_root: bool,
    /// An end marker came.
    ended: bool,
    pub(super) cut: Cut,
    /// The revision that it had when it closed last.
    base_revision: Option<u32>,
    /// Whether anything new came since.
    grew: bool,
    pub(super) bytes: usize,
    pub(super) payloads: Vec<P>,
    root_grace: Period,
    idle: Period,
    /// By the caller's clock, for the record.
    pub(super) first_arrival: Time,
    /// By the assembler's own time, which never runs backwards.
    opened: Time,
    last_arrival: Time,
    /// Its place in the order of opening.
    pub(super) sequence: u64,
}

impl<P> Live<P> {
    /// Memory of an open trace without its spans, roughly.
    pub(super) const OVERHEAD: usize = size_of::<Live<()>>() + 256;

    pub(super) fn new(now: Time, wall: Time, sequence: u64) -> Self {
        Self {
            spans: Vec::new(),
            logs: Vec::new(),
            seen: Seen::default(),
            missing: HashSet::new(),
            has_root: false,
            ended: false,
            cut: Cut::default(),
            base_revision: None,
            grew: false,
            bytes: Self::OVERHEAD,
            payloads: Vec::new(),
            root_grace: Period::seconds(0),
            idle: Period::seconds(0),
            first_arrival: wall,
            opened: now,
            last_arrival: now,
            sequence,
        }
    }

    /// A closed trace whose spans are gone: only its number is known.
    pub(super) fn continued(mut self, revision: u32) -> Self {
        self.base_revision = Some(revision);
        self.cut.history = true;
        // What is no longer kept cannot be compared: whatever comes counts as new.
        self.grew = true;
        self
    }

    /// A closed trace, whole.
    pub(super) fn reopened(
        mut self,
        trace: Trace,
        seen: Seen,
        cut: Cut,
        bytes: usize,
        config: &Config,
    ) -> Self {
        self.base_revision = Some(trace.revision);
        self.first_arrival = trace.first_arrival;
        self.seen = seen;
        self.cut = cut;
        self.bytes = bytes;
        for span in &trace.spans {
            self.has_root |= span.parent_id.is_none();
            self.missing.extend(span.parent_id.filter(|id| !self.seen.has_span(*id)));
        }
        self.spans = trace.spans;
        self.logs = trace.logs;
        let resources =
            self.spans.iter().map(|span| &span.resource).chain(self.logs.iter().map(|log| &log.resource));
        let services: HashSet<_> = resources.map(|resource| resource.service()).collect();
        let waits: Vec<_> = services.into_iter().map(|service| config.waits_for(service)).collect();
        waits.into_iter().for_each(|waits| self.wait_at_least(waits));
        self
    }

    pub(super) fn add_span(&mut self, mut span: Span, config: &Config) -> Added {
        self.ended |= marks_the_end(&span.attributes);
        if self.seen.has_span(span.span_id) {
            return Added::Duplicate;
        }
        if self.spans.len() >= config.max_spans.get() {
            self.cut.spans += 1;
            return Added::Beyond;
        }
        self.wait_for(&span.resource, config);
        if let Some(last) = self.spans.last() {
            share(&mut span.resource, &last.resource);
            share(&mut span.scope, &last.scope);
        }
        self.seen.spans.insert(span.span_id);
        self.missing.remove(&span.span_id);
        match span.parent_id {
            None => self.has_root = true,
            Some(parent) if !self.seen.has_span(parent) => {
                self.missing.insert(parent);
            }
            Some(_) => {}
        }
        let weight = span.weight();
        self.spans.push(span);
        self.grow(weight)
    }

    pub(super) fn add_log(&mut self, mut record: LogRecord, fingerprint: u64, config: &Config) -> Added {
        self.ended |= marks_the_end(&record.attributes);
        if self.seen.has_log(fingerprint) {
            return Added::Duplicate;
        }
        if self.logs.len() >= config.max_spans.get() {
            self.cut.logs += 1;
            return Added::Beyond;
        }
        self.wait_for(&record.resource, config);
        if let Some(last) = self.logs.last() {
            share(&mut record.resource, &last.resource);
            share(&mut record.scope, &last.scope);
        }
        self.seen.logs.insert(fingerprint);
        let weight = record.weight();
        self.logs.push(record);
        self.grow(weight)
    }

    pub(super) fn span_count(&self) -> usize {
        self.spans.len()
    }

    pub(super) fn touch(&mut self, now: Time) {
        self.last_arrival = now;
    }

    /// When it closes if nothing more comes, and why.
    pub(super) fn deadline(&self, config: &Config) -> (Time, Closed) {
        if self.ended {
            return (self.last_arrival, Closed::End);
        }
        let quiet = if self.has_root && self.missing.is_empty() {
            (self.last_arrival + self.root_grace.0, Closed::Root)
        } else {
            (self.last_arrival + self.idle.0, Closed::Idle)
        };
        let age = (self.opened + config.max_age.0, Closed::Age);
        if age.0 < quiet.0 { age } else { quiet }
    }

    /// The trace as it stands, and what its successor would have to know.
    pub(super) fn close(
        self,
        trace_id: TraceId,
        closed: Closed,
        closed_at: Time,
        config: &Config,
    ) -> (Trace, Seen, Vec<P>) {
        let revision = match self.base_revision {
            None => 0,
            Some(base) if self.grew => base.saturating_add(1),
            Some(base) => base,
        };
        let trace = Trace {
            trace_id,
            revision,
            spans: self.spans,
            logs: self.logs,
            closed,
            truncated: self.cut.words(config),
            first_arrival: self.first_arrival,
            closed_at,
        };
        (trace, self.seen, self.payloads)
    }

    fn grow(&mut self, weight: usize) -> Added {
        self.grew = true;
        self.bytes += weight;
        Added::New
    }

    fn wait_for(&mut self, resource: &Arc<Resource>, config: &Config) {
        let is_known = !config.services.is_empty()
            && self.spans.last().is_some_and(|last| Arc::ptr_eq(&last.resource, resource));
        if !is_known {
            let service = if config.services.is_empty() { None } else { resource.service() };
            self.wait_at_least(config.waits_for(service));
        }
    }

    fn wait_at_least(&mut self, (root_grace, idle): (Period, Period)) {
        self.root_grace = self.root_grace.max(root_grace);
        self.idle = self.idle.max(idle);
    }
}

impl Cut {
    fn words(self, config: &Config) -> Vec<String> {
        let mut words = Vec::new();
        if self.spans > 0 {
            words.push(format!("spans: {} beyond the limit of {}", self.spans, config.max_spans));
        }
        if self.logs > 0 {
            words.push(format!("logs: {} beyond the limit of {}", self.logs, config.max_spans));
        }
        if self.history {
            words.push("spans: the earlier ones of this trace are no longer kept".to_owned());
        }
        words
    }
}

/// A number that two records share only if they are the same record.
pub(super) fn fingerprint(record: &LogRecord, state: &RandomState) -> u64 {
    let mut hasher = state.build_hasher();
    record.time.hash(&mut hasher);
    record.span_id.hash(&mut hasher);
    record.event_name.hash(&mut hasher);
    hash_value(&record.body, &mut hasher);
    hash_attributes(&record.attributes, &mut hasher);
    hasher.finish()
}

fn hash_value(value: &Value, hasher: &mut impl Hasher) {
    std::mem::discriminant(value).hash(hasher);
    match value {
        Value::Null => {}
        Value::Bool(truth) => truth.hash(hasher),
        Value::Int(number) => number.hash(hasher),
        Value::Double(number) => number.to_bits().hash(hasher),
        Value::String(text) => text.hash(hasher),
        Value::Bytes(bytes) => bytes.hash(hasher),
        Value::List(items) => {
            items.len().hash(hasher);
            items.iter().for_each(|item| hash_value(item, hasher));
        }
        Value::Map(attributes) => hash_attributes(attributes, hasher),
    }
}

fn hash_attributes(attributes: &Attributes, hasher: &mut impl Hasher) {
    attributes.len().hash(hasher);
    for (key, value) in attributes.iter() {
        key.hash(hasher);
        hash_value(value, hasher);
    }
}

fn marks_the_end(attributes: &Attributes) -> bool {
    match attributes.get(END_MARKER) {
        Some(Value::Bool(truth)) => *truth,
        Some(Value::String(text)) => text == "true",
        _ => false,
    }
}

/// Every request brings its own copy of the resource; equal ones are held once per trace.
fn share<T: PartialEq>(mine: &mut Arc<T>, other: &Arc<T>) {
    if !Arc::ptr_eq(mine, other) && mine == other {
        *mine = Arc::clone(other);
    }
}
