//! Traces become conversations: those of one service that name the same session belong together.
//!
//! A conversation is over when none of its traces got a verdict for `idle`, at the latest after `max_age`. What was said is
//! kept for as long again: a later trace resumes the conversation, and the whole of it is closed again as `revision + 1`.

mod join;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::{ByteSize, Closed, Label, Period, Session, SessionTrace, Story, Time};

/// When a conversation is over, and how much of it is held until then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SessionConfig {
    /// A conversation is over when none of its traces got a verdict for so long.
    pub idle: Period,
    /// It is closed at this age even if traces still come; and for so long after its end it can be resumed.
    pub max_age: Period,
    /// Conversations that are held, closed ones that may be resumed included. Beyond it closed ones are forgotten, then the one
    /// that is due next is closed early.
    pub max_sessions: NonZeroUsize,
    /// Memory for what was said in them. Beyond it, the same.
    pub max_bytes: ByteSize,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            idle: Period::seconds(30 * 60),
            max_age: Period::seconds(24 * 60 * 60),
            max_sessions: NonZeroUsize::new(10_000).expect("a number above zero"),
            max_bytes: ByteSize::mib(64),
        }
    }
}

impl SessionConfig {
    /// Adds what contradicts itself.
    pub fn check(&self, problems: &mut Vec<String>) {
        if self.idle > self.max_age {
            problems.push(format!(
                "assemble.sessions.idle ({}) must not be longer than its max_age ({})",
                self.idle, self.max_age
            ));
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    service: Option<String>,
    id: String,
}

#[derive(Debug)]
struct Held {
    traces: Vec<SessionTrace>,
    bytes: usize,
    is_open: bool,
    revision: u32,
    /// When its first trace came, or the one that resumed it.
    opened: Time,
    /// When it is over; of one that is over, when it is forgotten.
    due: Time,
}

/// The conversations that are going on, and those that were closed not long ago.
#[derive(Debug)]
pub struct Sessions {
    config: SessionConfig,
    held: HashMap<Key, Held>,
    open: BTreeSet<(Time, Key)>,
    closed: BTreeSet<(Time, Key)>,
    /// Closed for lack of room, and not taken yet.
    early: VecDeque<Session>,
    bytes: usize,
    is_closing: bool,
}

impl Sessions {
    /// None yet.
    pub fn new(config: SessionConfig) -> Self {
        Self {
            config,
            held: HashMap::new(),
            open: BTreeSet::new(),
            closed: BTreeSet::new(),
            early: VecDeque::new(),
            bytes: 0,
            is_closing: false,
        }
    }

    /// Conversations that are going on.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// A trace got its verdict. One that names no session belongs to no conversation.
    pub fn push(&mut self, now: Time, trace: SessionTrace) {
        let Some(id) = trace.story.session_id.clone() else { return };
        let key = Key { service: trace.story.service.clone(), id };
        let mut held = self.take(&key).unwrap_or_else(|| Held {
            traces: Vec::new(),
            bytes: 0,
            is_open: true,
            revision: 0,
            opened: now,
            due: now,
        });
        if !held.is_open {
            (held.is_open, held.opened) = (true, now);
            held.revision += 1;
        }
        // A revision of a trace takes the place of the earlier one.
        match held.traces.iter_mut().find(|known| known.trace_id == trace.trace_id) {
            Some(known) => *known = trace,
            None => held.traces.push(trace),
        }
        held.bytes = held.traces.iter().map(|trace| weight(&trace.story)).sum();
        held.due = (now + self.config.idle.0).min(held.opened + self.config.max_age.0);
        self.put(key, held);
        self.make_room(now);
    }

    /// When [`pop`](Self::pop) should be called next, if nothing is pushed before.
    pub fn next_timeout(&self) -> Option<Time> {
        self.open.first().map(|(due, _)| *due)
    }

    /// From now on every conversation counts as over.
    pub fn close_all(&mut self) {
        self.is_closing = true;
    }

    /// A conversation that is over, if there is one.
    pub fn pop(&mut self, now: Time) -> Option<Session> {
        while self.closed.first().is_some_and(|(due, _)| *due <= now) {
            self.forget_one();
        }
        if let Some(session) = self.early.pop_front() {
            return Some(session);
        }
        let (due, key) = self.open.first()?.clone();
        if due > now && !self.is_closing {
            return None;
        }
        let mut held = self.take(&key)?;
        let why = if due > now {
            Closed::Shutdown
        } else if held.opened + self.config.max_age.0 <= due {
            Closed::Age
        } else {
            Closed::Idle
        };
        let session = closed(&key, &held, why, now);
        (held.is_open, held.due) = (false, now + self.config.max_age.0);
        self.put(key, held);
        session
    }

    fn take(&mut self, key: &Key) -> Option<Held> {
        let held = self.held.remove(key)?;
        let schedule = if held.is_open { &mut self.open } else { &mut self.closed };
        schedule.remove(&(held.due, key.clone()));
        self.bytes -= held.bytes;
        Some(held)
    }

    fn put(&mut self, key: Key, held: Held) {
        let schedule = if held.is_open { &mut self.open } else { &mut self.closed };
        schedule.insert((held.due, key.clone()));
        self.bytes += held.bytes;
        self.held.insert(key, held);
    }

    fn make_room(&mut self, now: Time) {
        let is_over = |all: &Self| {
            all.held.len() > all.config.max_sessions.get() || all.bytes > all.config.max_bytes.as_usize()
        };
        while is_over(self) && !self.closed.is_empty() {
            self.forget_one();
        }
        while is_over(self) {
            let Some((_, key)) = self.open.first().cloned() else { return };
            let Some(held) = self.take(&key) else { return };
            self.early.extend(closed(&key, &held, Closed::Evict, now));
        }
    }

    fn forget_one(&mut self) {
        let Some((_, key)) = self.closed.first().cloned() else { return };
        self.take(&key);
    }
}

/// None if it has no trace, which no conversation lacks.
fn closed(key: &Key, held: &Held, why: Closed, now: Time) -> Option<Session> {
    // Verdicts may overtake each other; what was said later has the later answer. Where no times are known, the order stays.
    let mut traces: Vec<&SessionTrace> = held.traces.iter().collect();
    traces.sort_by_key(|trace| trace.story.steps.iter().filter_map(|step| step.time).max());
    let probabilities = traces.iter().filter_map(|trace| trace.hallucination_probability);
    Some(Session {
        id: key.id.clone(),
        service: key.service.clone(),
        revision: held.revision,
        closed: why,
        closed_at: now,
        traces: traces.iter().map(|trace| trace.trace_id).collect(),
        story: join::joined(&traces)?,
        label: worst(traces.iter().filter_map(|trace| trace.label)),
        hallucination_probability: probabilities.max_by(f64::total_cmp),
    })
}

fn worst(labels: impl Iterator<Item = Label>) -> Option<Label> {
    labels.max_by_key(|label| match label {
        Label::Faithful => 0,
        Label::Unsure => 1,
        Label::Hallucination => 2,
    })
}

/// About the memory that a story takes.
fn weight(story: &Story) -> usize {
    const STEP: usize = 400;
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let steps = story.steps.iter().map(|step| {
        let arguments = step.arguments.as_ref().map_or(0, |arguments| arguments.to_string().len());
        STEP + text(&step.text) + arguments
    });
    STEP + text(&story.request) + text(&story.answer) + steps.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Step, StepKind};

    fn at(minutes: u64) -> Time {
        Time((1_000 + minutes * 60) * 1_000_000_000)
    }

    fn trace(number: u8, session: &str, turns: &[&str], label: Label) -> SessionTrace {
        let mut steps = Vec::new();
        for (turn, asked) in turns.iter().enumerate() {
            for (kind, text) in
                [(StepKind::Request, (*asked).to_owned()), (StepKind::Answer, format!("to {asked}"))]
            {
                let index = steps.len();
                steps.push(Step {
                    index,
                    turn: u32::try_from(turn).unwrap() + 1,
                    text: Some(text),
                    ..Step::new(kind)
                });
            }
        }
        let story: Story = serde_json::from_value(serde_json::json!({
            "trace_id": null, "session_id": session, "service": "shop", "agents": ["clerk"],
            "request": turns.last(), "steps": steps, "answer": turns.last().map(|asked| format!("to {asked}")),
            "dialects": ["gen_ai"], "truncated": [], "warnings": [],
        }))
        .unwrap();
        let trace_id = format!("{number:032x}").parse().unwrap();
        SessionTrace {
            trace_id,
            story,
            label: Some(label),
            hallucination_probability: Some(f64::from(number) / 10.0),
        }
    }

    fn requests(session: &Session) -> Vec<&str> {
        let asked = session.story.steps.iter().filter(|step| step.kind == StepKind::Request);
        asked.filter_map(|step| step.text.as_deref()).collect()
    }

    #[test]
    fn a_conversation_is_over_when_it_is_silent_and_covers_all_its_traces() {
        let mut sessions = Sessions::new(SessionConfig::default());
        sessions.push(at(0), trace(1, "s", &["a"], Label::Faithful));
        sessions.push(at(20), trace(2, "s", &["a", "b"], Label::Hallucination));
        sessions.push(at(20), trace(3, "t", &["a"], Label::Unsure));
        assert_eq!(sessions.pop(at(45)), None);
        assert_eq!(sessions.next_timeout(), Some(at(50)));
        let over = sessions.pop(at(50)).unwrap();
        assert_eq!((over.id.as_str(), over.revision, over.closed), ("s", 0, Closed::Idle));
        assert_eq!(over.traces.len(), 2);
        assert_eq!(requests(&over), ["a", "b"], "what the second trace repeats is there once");
        assert_eq!(over.label, Some(Label::Hallucination));
        assert_eq!(over.hallucination_probability, Some(0.2));
        assert_eq!(sessions.pop(at(50)).unwrap().id, "t");
        assert_eq!((sessions.pop(at(50)), sessions.open()), (None, 0));
    }

    #[test]
    fn a_conversation_that_goes_on_is_closed_again_as_a_revision_of_the_whole() {
        let mut sessions = Sessions::new(SessionConfig::default());
        sessions.push(at(0), trace(1, "s", &["a"], Label::Faithful));
        assert_eq!(sessions.pop(at(30)).unwrap().revision, 0);
        sessions.push(at(90), trace(2, "s", &["b"], Label::Faithful));
        let again = sessions.pop(at(120)).unwrap();
        assert_eq!((again.revision, again.traces.len()), (1, 2));
        assert_eq!(requests(&again), ["a", "b"]);
        let turns: Vec<u32> = again.story.steps.iter().map(|step| step.turn).collect();
        assert_eq!(turns, [1, 1, 2, 2]);
        assert!(again.story.steps.iter().enumerate().all(|(index, step)| step.index == index));
        // A day after its end it is forgotten.
        assert_eq!(sessions.pop(at(120 + 24 * 60)), None);
        sessions.push(at(3_000), trace(3, "s", &["c"], Label::Faithful));
        assert_eq!(sessions.pop(at(3_030)).unwrap().revision, 0);
    }

    #[test]
    fn a_revised_trace_takes_its_own_place() {
        let mut sessions = Sessions::new(SessionConfig::default());
        sessions.push(at(0), trace(1, "s", &["a"], Label::Hallucination));
        sessions.push(at(1), trace(1, "s", &["a"], Label::Faithful));
        let over = sessions.pop(at(31)).unwrap();
        assert_eq!((over.traces.len(), over.label), (1, Some(Label::Faithful)));
    }

    #[test]
    fn age_lack_of_room_and_the_end_close_a_conversation_too() {
        let mut sessions = Sessions::new(SessionConfig {
            max_age: Period::seconds(3600),
            max_sessions: NonZeroUsize::new(2).unwrap(),
            ..SessionConfig::default()
        });
        for minute in 0..60 {
            sessions.push(at(minute), trace(1, "long", &["a"], Label::Faithful));
        }
        assert_eq!(sessions.pop(at(60)).map(|session| session.closed), Some(Closed::Age));
        sessions.push(at(61), trace(2, "b", &["a"], Label::Faithful));
        sessions.push(at(62), trace(3, "c", &["a"], Label::Faithful));
        sessions.push(at(63), trace(4, "d", &["a"], Label::Faithful));
        let early = sessions.pop(at(63)).unwrap();
        assert_eq!((early.id.as_str(), early.closed), ("b", Closed::Evict));
        assert_eq!(sessions.pop(at(63)), None);
        sessions.close_all();
        let left: Vec<Session> = std::iter::from_fn(|| sessions.pop(at(64))).collect();
        assert_eq!(left.len(), 2);
        assert!(left.iter().all(|session| session.closed == Closed::Shutdown));
        assert_eq!(sessions.open(), 0);
    }

    #[test]
    fn equal_names_in_two_services_are_two_conversations() {
        let mut sessions = Sessions::new(SessionConfig::default());
        sessions.push(at(0), trace(1, "1", &["a"], Label::Faithful));
        let mut other = trace(2, "1", &["a"], Label::Faithful);
        other.story.service = Some("bank".to_owned());
        sessions.push(at(0), other);
        let mut nameless = trace(3, "1", &["a"], Label::Faithful);
        nameless.story.session_id = None;
        sessions.push(at(0), nameless);
        assert_eq!(sessions.open(), 2);
        assert_eq!(sessions.pop(at(30)).unwrap().traces.len(), 1);
    }
}
