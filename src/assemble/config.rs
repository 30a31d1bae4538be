use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SessionConfig;
use crate::domain::{ByteSize, Period};

/// When a trace is taken as complete, and how much of it is held until then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// How long to wait for stragglers once the root span is here and no parent is missing.
    pub root_grace: Period,
    /// A trace without its root, or with a parent missing, is complete when nothing came for this long.
    pub idle: Period,
    /// A trace is closed at this age even if spans still come.
    pub max_age: Period,
    /// Open traces; beyond it the oldest is closed early.
    pub max_traces: NonZeroUsize,
    /// Memory for open traces; beyond it the oldest is closed early. Below `receive.max_bytes`, or senders are refused first.
    pub max_bytes: ByteSize,
    /// Spans of one trace, and likewise its log records; more are counted and left out, and the trace says so.
    pub max_spans: NonZeroUsize,
    /// What a span does that comes after its trace was closed.
    pub late: Late,
    /// How long a closed trace is remembered for its late spans.
    pub keep: Period,
    /// Memory for the spans of closed traces; beyond it late spans make a revision without the earlier ones.
    pub keep_bytes: ByteSize,
    /// Closed traces that are remembered at all, with spans or without.
    pub keep_traces: NonZeroUsize,
    /// Other patience for single services, by `service.name`. A trace of several services waits for the most patient one.
    pub services: BTreeMap<String, Patience>,
    /// Traces of one service that name the same session are put together as a conversation, which gets a verdict of its own when
    /// it is over; `evaluate.sessions` says what it is evaluated for. Not set: no conversations.
    pub sessions: Option<SessionConfig>,
}

/// What a span does that comes after its trace was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Late {
    /// It reopens the trace, which is evaluated again as a new revision.
    Revise,
    /// It is counted and dropped.
    Ignore,
}

/// How long to wait for the spans of one service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Patience {
    /// Instead of `assemble.root_grace`.
    pub root_grace: Option<Period>,
    /// Instead of `assemble.idle`.
    pub idle: Option<Period>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            root_grace: Period::seconds(2),
            idle: Period::seconds(30),
            max_age: Period::seconds(600),
            max_traces: NonZeroUsize::new(20_000).expect("a number above zero"),
            max_bytes: ByteSize::mib(224),
            max_spans: NonZeroUsize::new(10_000).expect("a number above zero"),
            late: Late::Revise,
            keep: Period::seconds(600),
            keep_bytes: ByteSize::mib(64),
            keep_traces: NonZeroUsize::new(100_000).expect("a number above zero"),
            services: BTreeMap::new(),
            sessions: None,
        }
    }
}

impl Config {
    /// Adds what contradicts itself.
    pub fn check(&self, problems: &mut Vec<String>) {
        let mut ordered = |name: &str, root_grace: Period, idle: Period| {
            if root_grace > idle {
                problems.push(format!(
                    "assemble{name}.root_grace ({root_grace}) must not be longer than its idle ({idle})"
                ));
            }
            if idle > self.max_age {
                problems.push(format!(
                    "assemble{name}.idle ({idle}) must not be longer than assemble.max_age ({})",
                    self.max_age
                ));
            }
        };
        ordered("", self.root_grace, self.idle);
        for (service, patience) in &self.services {
            let (root_grace, idle) = self.waits(patience);
            ordered(&format!(".services.{service}"), root_grace, idle);
        }
        if let Some(sessions) = &self.sessions {
            sessions.check(problems);
        }
    }

    /// Root grace and idle time of a service.
    pub(super) fn waits_for(&self, service: Option<&str>) -> (Period, Period) {
        match service.and_then(|name| self.services.get(name)) {
            Some(patience) => self.waits(patience),
            None => (self.root_grace, self.idle),
        }
    }

    fn waits(&self, patience: &Patience) -> (Period, Period) {
        (patience.root_grace.unwrap_or(self.root_grace), patience.idle.unwrap_or(self.idle))
    }
}
