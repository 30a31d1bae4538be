//! A short memory of verdicts, and a live feed of them, for those who look at the daemon while it runs.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::config::RecentConfig;
use crate::domain::{Label, Outcome, Tier, TraceId, Verdict};

/// Verdicts that a slow reader of the feed may lag behind before it misses some.
const FEED: usize = 256;

/// A remembered verdict.
#[derive(Debug)]
pub struct Entry {
    /// Grows by one with each verdict of this process.
    pub sequence: u64,
    /// The trace.
    pub trace_id: Option<TraceId>,
    /// `service.name`.
    pub service: Option<String>,
    /// The agent that answered.
    pub agent: Option<String>,
    /// How the trace ended.
    pub outcome: Outcome,
    /// The answer as a whole.
    pub label: Option<Label>,
    /// GSAR's decision.
    pub tier: Option<Tier>,
    /// The whole verdict as JSON.
    pub json: Bytes,
}

/// Which verdicts to show; a field that is `None` lets all through.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// Only of this service.
    pub service: Option<String>,
    /// Only of this agent.
    pub agent: Option<String>,
    /// Only with this outcome.
    pub outcome: Option<Outcome>,
    /// Only with this label.
    pub label: Option<Label>,
    /// Only with this tier.
    pub tier: Option<Tier>,
    /// Only of this trace.
    pub trace_id: Option<TraceId>,
}

impl Filter {
    /// Whether it lets `entry` through.
    pub fn admits(&self, entry: &Entry) -> bool {
        fn passes<T: PartialEq>(wanted: &Option<T>, found: &Option<T>) -> bool {
            wanted.is_none() || wanted == found
        }
        passes(&self.service, &entry.service)
            && passes(&self.agent, &entry.agent)
            && passes(&self.outcome, &Some(entry.outcome))
            && passes(&self.label, &entry.label)
            && passes(&self.tier, &entry.tier)
            && passes(&self.trace_id, &entry.trace_id)
    }
}

/// The memory. Cheap to clone; all clones are one memory. Its lock is held for a push or for a walk over pointers, never for IO.
#[derive(Clone)]
pub struct Recent {
    shared: Arc<Shared>,
}

struct Shared {
    config: RecentConfig,
    held: Mutex<Held>,
    feed: broadcast::Sender<Arc<Entry>>,
}

#[derive(Default)]
struct Held {
    entries: VecDeque<Arc<Entry>>,
    bytes: usize,
    pushed: u64,
}

impl Recent {
    /// An empty memory.
    pub fn new(config: &RecentConfig) -> Self {
        let (feed, _) = broadcast::channel(FEED);
        let config = config.clone();
        Self { shared: Arc::new(Shared { config, held: Mutex::new(Held::default()), feed }) }
    }

    /// Remembers a verdict, forgets the oldest ones beyond the limits, and tells the readers of the feed.
    pub fn push(&self, verdict: &Verdict) {
        let json = serde_json::to_vec(verdict).expect("a verdict has text keys only, so it is always JSON");
        let mut held = self.held();
        held.pushed += 1;
        let entry = Arc::new(Entry {
            sequence: held.pushed,
            trace_id: verdict.trace_id,
            service: verdict.service.clone(),
            agent: verdict.agent.clone(),
            outcome: verdict.outcome,
            label: verdict.label,
            tier: verdict.grounding.as_ref().map(|grounding| grounding.tier),
            json: json.into(),
        });
        held.bytes += entry.json.len();
        held.entries.push_back(Arc::clone(&entry));
        let config = &self.shared.config;
        while held.entries.len() > config.max_verdicts.get() || held.bytes > config.max_bytes.as_usize() {
            let Some(oldest) = held.entries.pop_front() else { break };
            held.bytes -= oldest.json.len();
        }
        // Sent under the lock, so that the feed has the order of the memory. Nobody listening is no error.
        drop(self.shared.feed.send(entry));
    }

    /// The latest `limit` verdicts that the filter admits, newest first.
    pub fn latest(&self, filter: &Filter, limit: usize) -> Vec<Arc<Entry>> {
        let entries: Vec<Arc<Entry>> = self.held().entries.iter().rev().cloned().collect();
        entries.into_iter().filter(|entry| filter.admits(entry)).take(limit).collect()
    }

    /// Verdicts from now on.
    pub fn feed(&self, filter: Filter) -> Feed {
        Feed { filter, entries: self.shared.feed.subscribe() }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.shared.held.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Verdicts as they are written.
pub struct Feed {
    filter: Filter,
    entries: broadcast::Receiver<Arc<Entry>>,
}

/// A reader was too slow and missed so many verdicts (of all services, before its filter).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missed(pub u64);

impl Feed {
    /// The next verdict that the filter admits, or how many were missed; `None` when no more can come.
    pub async fn next(&mut self) -> Option<Result<Arc<Entry>, Missed>> {
        loop {
            match self.entries.recv().await {
                Ok(entry) if self.filter.admits(&entry) => return Some(Ok(entry)),
                Ok(_) => {}
                Err(RecvError::Lagged(missed)) => return Some(Err(Missed(missed))),
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::domain::ByteSize;
    use crate::emit::sample;

    fn recent(max_verdicts: usize, max_bytes: u64) -> Recent {
        Recent::new(&RecentConfig {
            max_verdicts: NonZeroUsize::new(max_verdicts).unwrap(),
            max_bytes: ByteSize(max_bytes),
        })
    }

    fn sequences(entries: &[Arc<Entry>]) -> Vec<u64> {
        entries.iter().map(|entry| entry.sequence).collect()
    }

    #[test]
    fn the_oldest_are_forgotten_by_count_and_by_bytes() {
        let few = recent(3, 1 << 20);
        let small = recent(100, 3 * serde_json::to_vec(&sample::numbered(1)).unwrap().len() as u64);
        for number in 1..=5 {
            few.push(&sample::numbered(number));
            small.push(&sample::numbered(number));
        }
        assert_eq!(sequences(&few.latest(&Filter::default(), 10)), [5, 4, 3]);
        assert_eq!(sequences(&small.latest(&Filter::default(), 10)), [5, 4, 3]);
    }

    #[test]
    fn filters_choose_and_the_limit_counts_what_they_let_through() {
        let recent = recent(100, 1 << 20);
        for number in 0..10 {
            let mut verdict = if number % 2 == 0 { sample::full() } else { sample::skipped() };
            verdict.service = Some(format!("service-{}", number % 3));
            recent.push(&verdict);
        }
        let skipped = Filter { outcome: Some(Outcome::Skipped), ..Filter::default() };
        assert_eq!(sequences(&recent.latest(&skipped, 3)), [10, 8, 6]);
        let service = Filter { service: Some("service-0".into()), ..skipped };
        assert_eq!(sequences(&recent.latest(&service, 3)), [10, 4]);
        let label =
            Filter { label: Some(Label::Hallucination), tier: Some(Tier::Replan), ..Filter::default() };
        assert_eq!(recent.latest(&label, 100).len(), 5);
    }

    #[tokio::test]
    async fn a_slow_reader_is_told_how_much_it_missed_and_goes_on() {
        let recent = recent(10, 1 << 30);
        let mut feed = recent.feed(Filter::default());
        for number in 0..FEED as u64 + 7 {
            recent.push(&sample::numbered(number));
        }
        assert_eq!(feed.next().await.unwrap().unwrap_err(), Missed(7));
        assert_eq!(feed.next().await.unwrap().unwrap().sequence, 8);
        drop(recent);
        for _ in 0..FEED - 1 {
            assert!(feed.next().await.unwrap().is_ok());
        }
        assert!(feed.next().await.is_none());
    }
}
