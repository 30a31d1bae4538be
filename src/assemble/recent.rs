//! Closed traces, remembered for their late spans.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::domain::{Time, Trace, TraceId};

use super::Config;
use super::live::{Cut, Seen};

/// A closed trace.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) revision: u32,
    /// Its outcome is recorded: whoever brings the same spans again can be told that they are safe.
    pub(super) settled: bool,
    pub(super) closed_at: Time,
    /// What it held, as long as there is room for it.
    pub(super) content: Option<Content>,
    /// Which closing of all this was.
    number: u64,
}

#[derive(Debug)]
pub(super) struct Content {
    pub(super) trace: Arc<Trace>,
    pub(super) seen: Seen,
    pub(super) cut: Cut,
    pub(super) bytes: usize,
}

/// The closed traces of the last while, oldest first. Content goes first, then the memory that there was a trace at all.
#[derive(Debug, Default)]
pub(super) struct Recent {
    kept: HashMap<TraceId, Kept>,
    /// In order of closing; an entry whose number is not its trace's number any more is stale.
    order: VecDeque<(TraceId, u64)>,
    with_content: VecDeque<(TraceId, u64)>,
    bytes: usize,
    numbers: u64,
}

impl Recent {
    pub(super) fn get(&self, trace_id: TraceId) -> Option<&Kept> {
        self.kept.get(&trace_id)
    }

    pub(super) fn take(&mut self, trace_id: TraceId) -> Option<Kept> {
        let kept = self.kept.remove(&trace_id)?;
        self.bytes -= kept.content.as_ref().map_or(0, |content| content.bytes);
        Some(kept)
    }

    /// By number and not by revision: a trace that was forgotten and comes again begins with revision 0 again, and what is
    /// recorded of the first is not recorded of the second.
    pub(super) fn settle(&mut self, trace_id: TraceId, number: u64) {
        if let Some(kept) = self.kept.get_mut(&trace_id)
            && kept.number == number
        {
            kept.settled = true;
        }
    }

    /// Gives the number of this closing.
    pub(super) fn keep(&mut self, content: Content, now: Time, config: &Config) -> u64 {
        let trace_id = content.trace.trace_id;
        let revision = content.trace.revision;
        let number = self.numbers;
        self.numbers += 1;
        // One giant must not push out all the others and then itself.
        let content = Some(content).filter(|content| content.bytes <= config.keep_bytes.as_usize());
        self.bytes += content.as_ref().map_or(0, |content| content.bytes);
        let kept = Kept { revision, settled: false, closed_at: now, content, number };
        self.kept.insert(trace_id, kept);
        self.order.push_back((trace_id, number));
        self.with_content.push_back((trace_id, number));
        self.trim(now, config);
        number
    }

    /// Forgets what is too old or too much.
    pub(super) fn trim(&mut self, now: Time, config: &Config) {
        while self.bytes > config.keep_bytes.as_usize() || self.with_content.len() > config.keep_traces.get()
        {
            let Some((trace_id, number)) = self.with_content.pop_front() else { break };
            if let Some(kept) = self.kept.get_mut(&trace_id).filter(|kept| kept.number == number)
                && let Some(content) = kept.content.take()
            {
                self.bytes -= content.bytes;
            }
        }
        while let Some(&(trace_id, number)) = self.order.front() {
            let current = self.kept.get(&trace_id).filter(|kept| kept.number == number);
            let is_over = current.is_none_or(|kept| now.since(kept.closed_at) >= config.keep.0);
            if !is_over && self.order.len() <= config.keep_traces.get() {
                break;
            }
            self.order.pop_front();
            if current.is_some() {
                self.take(trace_id);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }
}
