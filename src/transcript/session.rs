//! A session from its transcript, or from the end of it, and the story of its last turn.

use std::collections::HashMap;

use super::event::{Event, TurnKey, events};
use crate::domain::{Step, StepKind, Story};

/// Tools whose results say nothing about the world.
const BOOKKEEPING: [&str; 5] = ["TodoWrite", "update_plan", "ExitPlanMode", "EnterPlanMode", "ToolSearch"];

/// A session as far as it was read.
#[derive(Debug, Clone, Default)]
pub struct Session {
    steps: Vec<Step>,
    /// The turn that the last step belongs to; 0 before the first request that was read.
    turn: u32,
    /// That turn's id, if the transcript gives one.
    key: Option<String>,
    /// Whether a Stop hook sent the agent back in this turn.
    blocked: bool,
    /// Whether the agent saw something in this turn that cannot be read here.
    unread: bool,
    /// The model's reply that the last text belongs to.
    message: Option<String>,
    calls: HashMap<String, Call>,
}

#[derive(Debug, Clone)]
struct Call {
    tool: String,
    written: String,
}

/// The story of a session's last turn, and what it does not hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// The requests, the tool output that was kept, and the answer.
    pub story: Story,
    /// Whether the agent saw more in this turn than the story holds: what is not found in it may still be true.
    pub is_partial: bool,
    /// Whether all that tools gave in this turn tells of a failure.
    pub has_failures_only: bool,
}

impl Session {
    /// Reads a transcript, or the end of one: a line at its beginning or end that is not whole tells nothing, nor does one of
    /// an unknown kind. `side` reads what sub-agents did too, for the transcript of one.
    pub fn read(text: &str, side: bool) -> Self {
        let mut session = Self::default();
        for line in text.lines() {
            for event in events(line, side) {
                session.add(event);
            }
        }
        session
    }

    /// Whether the beginning of the last turn was read: a request of the user.
    pub fn has_request(&self) -> bool {
        self.turn > 0
    }

    /// Whether a Stop hook sent the agent back in the last turn.
    pub fn was_blocked(&self) -> bool {
        self.blocked
    }

    /// Whether a tool gave something to read in the last turn.
    pub fn has_tool_output(&self) -> bool {
        let is_output = |step: &&Step| step.kind == StepKind::Observation && step.call_id.is_some();
        let is_telling = |step: &Step| !BOOKKEEPING.contains(&step.tool.as_deref().unwrap_or_default());
        self.steps.iter().rev().take_while(|step| step.turn == self.turn).filter(is_output).any(is_telling)
    }

    /// Characters of tool output that were read, of all turns.
    pub fn chars(&self) -> usize {
        let observations = self.steps.iter().filter(|step| step.kind == StepKind::Observation);
        observations.map(|step| step.text.as_deref().unwrap_or_default().chars().count()).sum()
    }

    /// The answer that the transcript ends with.
    pub fn answer(&self) -> Option<String> {
        let last =
            self.steps.last().filter(|step| step.kind == StepKind::Answer && step.turn == self.turn)?;
        last.text.clone()
    }

    /// The story of an answer: all requests, and of the tool output the last `max_chars` characters.
    pub fn told(&self, answer: &str, max_chars: usize) -> Told {
        let mut left = max_chars;
        let mut kept: Vec<Step> = Vec::new();
        let mut is_cut = false;
        for step in self.steps.iter().rev() {
            match step.kind {
                StepKind::Observation => {
                    let text = step.text.as_deref().unwrap_or_default();
                    let end = end_of(text, left);
                    left -= end.chars().count();
                    is_cut |= end.len() < text.len() && step.turn == self.turn;
                    if !end.trim().is_empty() {
                        kept.push(Step { text: Some(end.to_owned()), ..step.clone() });
                    }
                }
                StepKind::Request => kept.push(step.clone()),
                _ => {}
            }
        }
        kept.reverse();
        let last = Step { turn: self.turn, text: Some(answer.to_owned()), ..Step::new(StepKind::Answer) };
        kept.push(last);
        for (index, step) in kept.iter_mut().enumerate() {
            step.index = index;
        }
        let request = kept.iter().rev().find(|step| step.kind == StepKind::Request);
        let truncated =
            if is_cut { vec![format!("tool output: its last {max_chars} characters")] } else { vec![] };
        let story = Story {
            request: request.and_then(|step| step.text.clone()),
            steps: kept,
            answer: Some(answer.to_owned()),
            dialects: vec!["transcript".to_owned()],
            truncated,
            ..Story::default()
        };
        let of_turn = story.steps.iter().filter(|step| {
            step.turn == self.turn && step.kind == StepKind::Observation && step.call_id.is_some()
        });
        let has_failures_only =
            of_turn.clone().count() > 0 && of_turn.clone().all(|step| step.is_error == Some(true));
        Told { story, is_partial: is_cut || self.unread, has_failures_only }
    }

    fn add(&mut self, event: Event) {
        match event {
            Event::Request { text, turn } => self.request(text, turn),
            Event::Feedback => {
                self.blocked = true;
                self.message = None;
            }
            Event::Said { text, message } => self.said(text, message),
            Event::Thought(text) => self.push(StepKind::Thought, text),
            Event::Call { id, tool, arguments, written } => {
                self.rename_answers();
                let step = Step {
                    arguments,
                    call_id: id.clone(),
                    tool: Some(tool.clone()),
                    ..self.step(StepKind::ToolCall)
                };
                self.steps.push(step);
                if let Some(id) = id {
                    self.calls.insert(id, Call { tool, written });
                }
            }
            Event::Result { id, text, is_error, is_unread } => self.result(id, text, is_error, is_unread),
            Event::Attached { name, text } => {
                let step = Step { text: Some(text), tool: Some(name), ..self.step(StepKind::Observation) };
                self.steps.push(step);
            }
            Event::Unrecorded => self.unread = true,
        }
    }

    fn request(&mut self, text: String, key: TurnKey) {
        let (begins, key) = match key {
            TurnKey::New => (true, None),
            TurnKey::Running => (self.turn == 0, self.key.take()),
            TurnKey::Id(id) => (self.key.as_deref() != Some(&id), Some(id)),
        };
        if begins {
            self.turn += 1;
            self.blocked = false;
            self.unread = false;
        }
        self.key = key;
        self.message = None;
        self.push(StepKind::Request, text);
    }

    /// A text is an answer unless something follows it in its turn. Parts of one reply are one answer.
    fn said(&mut self, text: String, message: Option<String>) {
        if text.trim().is_empty() {
            return;
        }
        let continues = message.is_some() && message == self.message;
        let last = self.steps.last_mut().filter(|step| continues && step.kind == StepKind::Answer);
        match last.and_then(|step| step.text.as_mut()) {
            Some(answer) => {
                answer.push('\n');
                answer.push_str(&text);
            }
            None => {
                self.rename_answers();
                self.push(StepKind::Answer, text);
            }
        }
        self.message = message;
    }

    fn result(&mut self, id: Option<String>, text: String, is_error: bool, is_unread: bool) {
        self.unread |= is_unread;
        let call = id.as_ref().and_then(|id| self.calls.get(id));
        let tool = call.map(|call| call.tool.clone());
        let written = call.filter(|_| !is_error).map(|call| call.written.as_str()).unwrap_or_default();
        let text = [text.as_str(), written]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("\n");
        self.rename_answers();
        if text.trim().is_empty() {
            return;
        }
        let step = Step {
            text: Some(text),
            tool,
            call_id: Some(id.unwrap_or_default()),
            is_error: Some(is_error),
            ..self.step(StepKind::Observation)
        };
        self.steps.push(step);
    }

    /// What was said before a call of the same turn was no answer.
    fn rename_answers(&mut self) {
        let turn = self.turn;
        for step in self.steps.iter_mut().rev().take_while(|step| step.turn == turn) {
            if step.kind == StepKind::Answer {
                step.kind = StepKind::Thought;
            }
        }
    }

    fn push(&mut self, kind: StepKind, text: String) {
        let step = Step { text: Some(text), ..self.step(kind) };
        self.steps.push(step);
    }

    fn step(&self, kind: StepKind) -> Step {
        Step { index: self.steps.len(), turn: self.turn, ..Step::new(kind) }
    }
}

/// The last `most` characters of a text, from a line's beginning if there is one in the nearer half.
fn end_of(text: &str, most: usize) -> &str {
    let length = text.chars().count();
    if length <= most {
        return text;
    }
    let start = text.char_indices().nth(length - most).map_or(text.len(), |(at, _)| at);
    let end = &text[start..];
    match end.find('\n') {
        Some(line) if line < end.len() / 2 => &end[line + 1..],
        _ => end,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn user(text: &str, prompt: &str) -> Value {
        json!({"type": "user", "promptId": prompt, "message": {"role": "user", "content": text}})
    }

    fn says(text: &str, message: &str) -> Value {
        json!({"type": "assistant", "message": {"id": message, "content": [{"type": "text", "text": text}]}})
    }

    fn calls(id: &str, tool: &str) -> Value {
        json!({"type": "assistant", "message": {"id": "m", "content": [{"type": "tool_use", "id": id, "name": tool, "input": {}}]}})
    }

    fn gives(id: &str, text: &str) -> Value {
        json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": id, "content": text}]}})
    }

    fn session(records: &[Value]) -> Session {
        let lines: Vec<String> = records.iter().map(Value::to_string).collect();
        Session::read(&lines.join("\n"), false)
    }

    fn observations(told: &Told) -> Vec<&str> {
        let steps = told.story.steps.iter().filter(|step| step.kind == StepKind::Observation);
        steps.map(|step| step.text.as_deref().unwrap()).collect()
    }

    #[test]
    fn only_the_last_turns_output_makes_a_turn_worth_checking() {
        let first = [user("a?", "1"), calls("x", "Bash"), gives("x", "30 days"), says("30 days.", "m1")];
        let told = session(&first);
        assert!(told.has_request() && told.has_tool_output());
        assert_eq!(told.answer().as_deref(), Some("30 days."));
        let second = [&first[..], &[user("and then?", "2"), says("Then nothing.", "m2")]].concat();
        let told = session(&second);
        assert!(!told.has_tool_output());
        assert_eq!(observations(&told.told("Then nothing.", 100)), ["30 days"]);
        assert_eq!(told.told("x", 100).story.request.as_deref(), Some("and then?"));
    }

    #[test]
    fn a_request_that_comes_while_the_agent_works_begins_no_turn() {
        let told =
            session(&[user("a?", "1"), calls("x", "Bash"), gives("x", "30 days"), user("be brief", "1")]);
        assert!(told.has_tool_output());
    }

    #[test]
    fn bookkeeping_is_no_tool_output() {
        let told =
            session(&[user("a?", "1"), calls("x", "TodoWrite"), gives("x", "Todos have been modified")]);
        assert!(!told.has_tool_output());
    }

    #[test]
    fn results_join_their_calls_in_whatever_order_they_come() {
        let told = session(&[
            user("a?", "1"),
            calls("x", "A"),
            calls("y", "B"),
            gives("y", "of b"),
            gives("x", "of a"),
        ]);
        let told = told.told("x", 100);
        let tools: Vec<&str> = told.story.steps.iter().filter_map(|step| step.tool.as_deref()).collect();
        assert_eq!(tools, ["B", "A"]);
    }

    #[test]
    fn a_block_counts_until_the_next_turn() {
        let feedback = json!({"type": "user", "promptId": "1", "isMeta": true, "message": {"content": "Stop hook feedback:\nno"}});
        let blocked =
            [user("a?", "1"), calls("x", "A"), gives("x", "b"), says("c", "m1"), feedback, says("b", "m2")];
        assert!(session(&blocked).was_blocked());
        assert_eq!(session(&blocked).answer().as_deref(), Some("b"));
        let next = [&blocked[..], &[user("more", "2")]].concat();
        assert!(!session(&next).was_blocked());
    }

    #[test]
    fn parts_of_one_reply_are_one_answer_and_text_before_a_call_is_none() {
        let told = session(&[
            user("a?", "1"),
            says("I look.", "m0"),
            calls("x", "A"),
            gives("x", "b"),
            says("b", "m1"),
            says("c", "m1"),
        ]);
        assert_eq!(told.answer().as_deref(), Some("b\nc"));
        assert_eq!(session(&[user("a?", "1"), says("I look.", "m0"), calls("x", "A")]).answer(), None);
    }

    #[test]
    fn the_most_recent_output_is_kept_and_a_cut_of_this_turn_is_said() {
        let told = session(&[
            user("a?", "1"),
            calls("x", "A"),
            gives("x", "oldest line\nolder line"),
            calls("y", "B"),
            gives("y", "newest"),
        ]);
        let all = told.told("z", 100);
        assert_eq!((observations(&all), all.is_partial), (vec!["oldest line\nolder line", "newest"], false));
        let some = told.told("z", 18);
        assert_eq!((observations(&some), some.is_partial), (vec!["older line", "newest"], true));
        let none = told.told("z", 0);
        assert!(observations(&none).is_empty() && none.is_partial);
        let next = session(&[
            user("a?", "1"),
            calls("x", "A"),
            gives("x", "0123456789"),
            user("b?", "2"),
            calls("y", "B"),
            gives("y", "new"),
        ]);
        assert!(!next.told("z", 5).is_partial, "what older turns saw may be left out");
    }

    #[test]
    fn what_cannot_be_read_makes_a_turn_partial() {
        let image = json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "x", "content": [{"type": "image"}]}]}});
        let told = session(&[user("a?", "1"), calls("x", "Read"), image]);
        assert!(!told.has_tool_output() && told.told("x", 10).is_partial);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_lines_are_read_without_a_panic_and_a_cut_never_exceeds_the_cap(
            lines in prop::collection::vec("[ -~é\\n]{0,40}", 0..8), most in 0usize..60, text in "[a-zé\\n]{0,80}",
        ) {
            let mut all: Vec<String> = lines;
            all.push(user("a?", "1").to_string());
            all.push(gives("x", &text).to_string());
            let told = Session::read(&all.join("\n"), true).told("x", most);
            let kept: usize = observations(&told).iter().map(|text| text.chars().count()).sum();
            prop_assert!(kept <= most);
            prop_assert!(observations(&told).iter().all(|kept| text.trim_end().ends_with(kept)));
        }

        #[test]
        fn a_transcript_that_ends_anywhere_is_read(at in 0usize..400) {
            let text = [user("é?", "1"), calls("x", "A"), gives("x", "30 days"), says("é", "m")]
                .map(|record| record.to_string()).join("\n");
            let end = text.char_indices().map(|(index, _)| index).nth(at).unwrap_or(text.len());
            let told = Session::read(&text[..end], false);
            prop_assert!(told.told("x", 10).story.steps.len() <= 3);
        }
    }
}
