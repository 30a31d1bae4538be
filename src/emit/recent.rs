//! A short memory of verdicts and their stories, and a live feed, for those who look at the daemon while it runs.

mod filter;
mod rates;
mod stories;
mod variants;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

pub use self::filter::{Filter, Needle};
pub use self::rates::{Pair, Point, Tally};
pub use self::stories::Told;
pub use self::variants::{BaselineOf, Drift, Share, Variant, VariantRate};

use self::rates::Rates;
use self::stories::Stories;
use self::variants::Variants;
use super::config::RecentConfig;
use crate::domain::{Label, Outcome, Story, Tier, Time, TraceId, Verdict};

/// Verdicts that a slow reader of the feed may lag behind before it misses some.
const FEED: usize = 256;

/// A remembered verdict.
#[derive(Debug)]
pub struct Entry {
    /// Grows by one with each verdict of this process.
    pub sequence: u64,
    /// The verdict's id; a repeat has the same.
    pub verdict_id: String,
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
    /// When the verdict was made.
    pub emitted: Time,
    /// The whole verdict as JSON.
    pub json: Bytes,
    has_story: bool,
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

struct Held {
    entries: VecDeque<Arc<Entry>>,
    bytes: usize,
    pushed: u64,
    stories: Stories,
    rates: Rates,
    /// Verdicts on conversations, which are no answers.
    conversations: Rates,
    variants: Variants,
}

/// Verdicts over time and by agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// Stretches of the window, oldest first.
    pub points: Vec<Point>,
    /// The services and agents of the last three hours.
    pub agents: Vec<Pair>,
}

/// Which verdicts are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Those on answers.
    Answers,
    /// Those on conversations.
    Conversations,
}

impl Recent {
    /// An empty memory.
    pub fn new(config: &RecentConfig) -> Self {
        let (feed, _) = broadcast::channel(FEED);
        let held = Held {
            entries: VecDeque::new(),
            bytes: 0,
            pushed: 0,
            stories: Stories::new(config.story_bytes.as_usize()),
            rates: Rates::default(),
            conversations: Rates::default(),
            variants: Variants::default(),
        };
        Self { shared: Arc::new(Shared { config: config.clone(), held: Mutex::new(held), feed }) }
    }

    /// Remembers a verdict that has no story.
    pub fn push(&self, verdict: &Verdict) {
        self.keep(verdict, None);
    }

    /// Remembers a verdict and its story, forgets the oldest ones beyond the limits, and tells the readers of the feed.
    pub fn keep(&self, verdict: &Verdict, story: Option<&Story>) {
        let json = to_json(verdict);
        let told = story.filter(|_| self.keeps_stories()).map(to_json);
        let mut held = self.held();
        held.pushed += 1;
        let entry = Arc::new(Entry {
            sequence: held.pushed,
            verdict_id: verdict.verdict_id.clone(),
            trace_id: verdict.trace_id,
            service: verdict.service.clone(),
            agent: verdict.agent.clone(),
            outcome: verdict.outcome,
            label: verdict.label,
            tier: verdict.grounding.as_ref().map(|grounding| grounding.tier),
            emitted: verdict.times.emitted,
            json,
            has_story: story.is_some(),
        });
        // What a conversation covers was counted with the verdicts on its traces.
        let is_conversation = !verdict.traces.is_empty();
        if !is_conversation {
            held.variants.count(verdict);
        }
        let rates = if is_conversation { &mut held.conversations } else { &mut held.rates };
        rates.count(entry.emitted, &entry.service, &entry.agent, entry.outcome, entry.label);
        held.bytes += entry.json.len();
        held.entries.push_back(Arc::clone(&entry));
        if let Some(told) = told {
            held.stories.keep(entry.sequence, told);
        }
        let config = &self.shared.config;
        while held.entries.len() > config.max_verdicts.get() || held.bytes > config.max_bytes.as_usize() {
            let Some(oldest) = held.entries.pop_front() else { break };
            held.bytes -= oldest.json.len();
            held.stories.forget_before(oldest.sequence + 1);
        }
        // Sent under the lock, so that the feed has the order of the memory. Nobody listening is no error.
        drop(self.shared.feed.send(entry));
    }

    /// The latest `limit` verdicts that the filter admits, newest first.
    pub fn latest(&self, filter: &Filter, limit: usize) -> Vec<Arc<Entry>> {
        let entries: Vec<Arc<Entry>> = self.held().entries.iter().rev().cloned().collect();
        entries.into_iter().filter(|entry| filter.admits(entry)).take(limit).collect()
    }

    /// The verdict with this id, the latest if it was repeated, and its story.
    pub fn find(&self, verdict_id: &str) -> Option<(Arc<Entry>, Told)> {
        let held = self.held();
        let entry = held.entries.iter().rev().find(|entry| entry.verdict_id == verdict_id)?;
        let told = match held.stories.get(entry.sequence) {
            Some(story) => Told::Story(story),
            None if !entry.has_story => Told::Never,
            None if !self.keeps_stories() => Told::Off,
            None => Told::Forgotten,
        };
        Some((Arc::clone(entry), told))
    }

    /// How many verdicts there were in the last `points` stretches of `seconds_each` seconds (a multiple of 10), up to three
    /// hours back, of one service or agent, or of all; and the services and agents of the last three hours.
    pub fn rates(
        &self,
        of: Of,
        now: Time,
        seconds_each: u64,
        points: usize,
        service: Option<&str>,
        agent: Option<&str>,
    ) -> Counted {
        let held = self.held();
        let rates = match of {
            Of::Answers => &held.rates,
            Of::Conversations => &held.conversations,
        };
        Counted {
            points: rates.points(now, seconds_each / rates::SLOT, points, service, agent),
            agents: rates.pairs(now),
        }
    }

    /// The variants of all services, each with its last hour and its baseline.
    pub fn variants(&self, now: Time) -> Vec<VariantRate> {
        self.held().variants.rates(now)
    }

    fn keeps_stories(&self) -> bool {
        self.shared.config.story_bytes.as_usize() > 0
    }

    /// Verdicts from now on.
    pub fn feed(&self, filter: Filter) -> Feed {
        Feed { filter, entries: self.shared.feed.subscribe() }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.shared.held.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// In no more memory than its length, which is what the limits count: a buffer that grew has up to twice that.
fn to_json(told: &impl Serialize) -> Bytes {
    let json =
        serde_json::to_vec(told).expect("verdicts and stories have text keys only, so they are always JSON");
    json.into_boxed_slice().into()
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
            story_bytes: ByteSize::mib(1),
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

    #[test]
    fn a_conversation_is_remembered_and_counts_apart_from_answers() {
        let recent = recent(10, 1 << 20);
        let conversation = sample::full();
        assert!(!conversation.traces.is_empty());
        recent.push(&conversation);
        let now = conversation.times.emitted;
        let counted = |of| recent.rates(of, now, 60, 1, None, None);
        assert_eq!(counted(Of::Answers).agents, []);
        assert_eq!(counted(Of::Conversations).agents.len(), 1);
        assert_eq!(recent.variants(now), []);
        recent.push(&Verdict { traces: Vec::new(), ..conversation.clone() });
        assert_eq!(counted(Of::Answers).points[0].tally.scored, 1);
        assert_eq!(counted(Of::Conversations).points[0].tally.scored, 1);
        assert_eq!(recent.variants(now).len(), 1);
        assert_eq!(recent.latest(&Filter::default(), 10).len(), 2);
    }

    #[test]
    fn a_verdict_is_found_with_its_story_as_long_as_there_is_room() {
        let recent = recent(3, 1 << 20);
        let mut story = sample::story();
        recent.push(&sample::skipped());
        recent.keep(&sample::numbered(1), Some(&story));
        story.answer = Some("x".repeat(1 << 19));
        recent.keep(&sample::numbered(2), Some(&story));
        let told = |id: &str| recent.find(id).map(|(_, told)| told);
        assert_eq!(told(&sample::skipped().verdict_id), Some(Told::Never));
        let Some(Told::Story(json)) = told("verdict-1") else { panic!("the story is gone") };
        assert_eq!(serde_json::from_slice::<Story>(&json).unwrap(), sample::story());
        assert_eq!(told("verdict-2"), Some(Told::Forgotten));
        for number in 3..6 {
            recent.push(&sample::numbered(number));
        }
        assert_eq!(told("verdict-1"), None);

        let without = Recent::new(&RecentConfig { story_bytes: ByteSize(0), ..RecentConfig::default() });
        without.keep(&sample::full(), Some(&sample::story()));
        assert_eq!(without.find(&sample::full().verdict_id).unwrap().1, Told::Off);
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
