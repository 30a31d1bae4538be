//! Spans, log records and traces, as OpenTelemetry defines them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Attributes, SpanId, Time, TraceId, Value};

/// OTLP's `Span.SpanKind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SpanKind {
    /// Not said.
    #[default]
    Unspecified,
    /// Work within one service.
    Internal,
    /// Serves a remote request.
    Server,
    /// Makes a remote request.
    Client,
    /// Puts a message on a queue.
    Producer,
    /// Takes a message off a queue.
    Consumer,
}

/// OTLP's `Status`. `Unset` is the state of most spans that went well.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Status {
    /// The instrumentation said nothing.
    #[default]
    Unset,
    /// Somebody vouches for success.
    Ok,
    /// The operation failed; the text is the sender's description, often empty.
    Error(String),
}

/// Who produced telemetry: attributes of the process or service.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Resource {
    /// Resource attributes.
    pub attributes: Attributes,
}

impl Resource {
    /// The attribute that marks telemetry of this daemon's own: it is never evaluated, whatever a collector has made of its
    /// service's name.
    pub const OWN: &str = "assayd.own";

    /// Whether it bears that mark.
    pub fn is_own(&self) -> bool {
        match self.attributes.get(Self::OWN) {
            Some(Value::Bool(is_own)) => *is_own,
            // Some backends make texts of everything.
            Some(Value::String(text)) => text == "true",
            _ => false,
        }
    }

    /// `service.name`, if it was set.
    pub fn service(&self) -> Option<&str> {
        self.attributes.text("service.name")
    }

    /// `service.version`, if it was set.
    pub fn service_version(&self) -> Option<&str> {
        self.attributes.text("service.version")
    }
}

/// The instrumentation library that made a span or record.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scope {
    /// Its name, often a package path.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its attributes.
    pub attributes: Attributes,
}

/// Something that happened within a span at a point in time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Event {
    /// Its name, such as `exception` or `gen_ai.choice`.
    pub name: String,
    /// When.
    pub time: Time,
    /// Its attributes.
    pub attributes: Attributes,
    /// Attributes that the sender's limits threw away.
    pub dropped_attributes: u32,
}

/// A pointer from a span to a span of this or another trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// The other trace.
    pub trace_id: TraceId,
    /// The other span.
    pub span_id: SpanId,
    /// The link's attributes.
    pub attributes: Attributes,
}

/// One operation of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The trace that it belongs to.
    pub trace_id: TraceId,
    /// Its own id.
    pub span_id: SpanId,
    /// The span that caused it; none for a root. The parent may never arrive.
    pub parent_id: Option<SpanId>,
    /// Its name.
    pub name: String,
    /// Its role in a remote call.
    pub kind: SpanKind,
    /// When it began, by the sender's clock.
    pub start: Time,
    /// When it ended, by the sender's clock; may lie before `start` on a broken clock.
    pub end: Time,
    /// How it went.
    pub status: Status,
    /// Its attributes.
    pub attributes: Attributes,
    /// Its events.
    pub events: Vec<Event>,
    /// Its links.
    pub links: Vec<Link>,
    /// Attributes that the sender's limits threw away.
    pub dropped_attributes: u32,
    /// Who sent it.
    pub resource: Arc<Resource>,
    /// What made it.
    pub scope: Arc<Scope>,
}

impl Span {
    /// A span of which nothing is said but its ids.
    pub fn new(trace_id: TraceId, span_id: SpanId) -> Self {
        Self {
            trace_id,
            span_id,
            parent_id: None,
            name: String::new(),
            kind: SpanKind::default(),
            start: Time::default(),
            end: Time::default(),
            status: Status::default(),
            attributes: Attributes::default(),
            events: Vec::new(),
            links: Vec::new(),
            dropped_attributes: 0,
            resource: Arc::default(),
            scope: Arc::default(),
        }
    }

    /// Bytes that this span holds in memory, roughly; its resource and scope are shared and not counted.
    pub fn weight(&self) -> usize {
        let events: usize =
            self.events.iter().map(|e| size_of::<Event>() + e.name.len() + e.attributes.weight()).sum();
        let links: usize = self.links.iter().map(|l| size_of::<Link>() + l.attributes.weight()).sum();
        size_of::<Span>() + self.name.len() + self.attributes.weight() + events + links
    }
}

/// A log record that belongs to a trace; several instrumentations put message content here instead of on spans.
#[derive(Debug, Clone, PartialEq)]
pub struct LogRecord {
    /// The trace that it belongs to.
    pub trace_id: TraceId,
    /// The span in whose context it was emitted.
    pub span_id: Option<SpanId>,
    /// When it happened, else when it was observed.
    pub time: Time,
    /// The event's name: OTLP's `eventName`, else the attribute `event.name`.
    pub event_name: String,
    /// Its body; often a map.
    pub body: Value,
    /// Its attributes.
    pub attributes: Attributes,
    /// Who sent it.
    pub resource: Arc<Resource>,
    /// What made it.
    pub scope: Arc<Scope>,
}

impl LogRecord {
    /// A record of which nothing is said but its trace.
    pub fn new(trace_id: TraceId) -> Self {
        Self {
            trace_id,
            span_id: None,
            time: Time::default(),
            event_name: String::new(),
            body: Value::Null,
            attributes: Attributes::default(),
            resource: Arc::default(),
            scope: Arc::default(),
        }
    }

    /// Bytes that this record holds in memory, roughly.
    pub fn weight(&self) -> usize {
        size_of::<LogRecord>() + self.event_name.len() + self.body.weight() + self.attributes.weight()
    }
}

/// Why a trace was taken as complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Closed {
    /// Its root ended, no parent is missing, and the grace is over.
    Root,
    /// Nothing arrived for the idle time.
    Idle,
    /// It has been open for the longest time allowed.
    Age,
    /// The store was full and this was the oldest trace.
    Evict,
    /// A span carried the explicit end marker.
    End,
    /// The daemon stops, or its input has ended.
    Shutdown,
}

impl Closed {
    /// The word that metrics and verdicts use.
    pub fn as_str(self) -> &'static str {
        match self {
            Closed::Root => "root",
            Closed::Idle => "idle",
            Closed::Age => "age",
            Closed::Evict => "evict",
            Closed::End => "end",
            Closed::Shutdown => "shutdown",
        }
    }
}

/// All that arrived of one trace, when it was taken as complete.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// Its id.
    pub trace_id: TraceId,
    /// 0 the first time; one more each time late spans reopen it.
    pub revision: u32,
    /// Its spans in order of arrival, each span id once.
    pub spans: Vec<Span>,
    /// Log records of this trace in order of arrival.
    pub logs: Vec<LogRecord>,
    /// Why it was closed.
    pub closed: Closed,
    /// What limits cut off, in words, such as `spans: 12 beyond the limit of 10000`.
    pub truncated: Vec<String>,
    /// When its first span arrived here.
    pub first_arrival: Time,
    /// When it was closed, by this machine's clock.
    pub closed_at: Time,
}

impl Trace {
    /// A trace without spans, complete since its input has ended, at no known time.
    pub fn new(trace_id: TraceId) -> Self {
        Self {
            trace_id,
            revision: 0,
            spans: Vec::new(),
            logs: Vec::new(),
            closed: Closed::Shutdown,
            truncated: Vec::new(),
            first_arrival: Time::default(),
            closed_at: Time::default(),
        }
    }
}
