//! Threads of conversation. Every model call repeats its history; a thread holds each message once, whoever told it and how
//! often, by walking along what is already there: by prefix of history, not by text, since a user may say a thing twice.

use super::alike::{same, same_text, same_work};
use super::atom::{Atom, What};
use super::talk::Outcome;
use crate::domain::{Json, Time};

/// One conversation.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pub(super) atoms: Vec<Atom>,
    /// The tool run inside which it was held.
    pub(super) scope: Option<usize>,
    pub(super) start: Time,
    pub(super) end: Time,
    pub(super) model: Option<String>,
    pub(super) span: usize,
}

/// Where a telling stands on its way along a thread.
#[derive(Debug, Default)]
struct Walk {
    at: usize,
    /// Results that it went past.
    passed: Vec<usize>,
}

impl Thread {
    /// Walks the atoms of one call along the thread and puts in what is new. The atoms of `output` follow those of `input`.
    /// If the thread went on differently at that point, it is left as it is and the other way is returned.
    pub(super) fn tell(&mut self, input: Vec<Atom>, output: Vec<Atom>) -> Option<Vec<Atom>> {
        let mut walk = Walk::default();
        for atom in input {
            self.put(&mut walk, atom);
        }
        let rest = &self.atoms[walk.at..];
        let forks = !output.is_empty()
            && rest.iter().any(|left| matches!(left.what, What::Text(_) | What::Call(_)))
            && !output.iter().any(|atom| rest.iter().any(|left| same(&left.what, &atom.what)));
        if forks {
            let mut other: Vec<Atom> = self.atoms[..walk.at].to_vec();
            other.iter_mut().for_each(|atom| atom.shared = true);
            other.extend(output);
            return Some(other);
        }
        for atom in output {
            self.put(&mut walk, atom);
        }
        None
    }

    /// Finds the atom at or after the walk's place, or puts it there; the walk goes on behind it.
    fn put(&mut self, walk: &mut Walk, atom: Atom) {
        let rest = &self.atoms[walk.at..];
        let found = rest.iter().position(|there| same(&there.what, &atom.what));
        let found = found.or_else(|| rest.iter().position(|there| same_work(&there.what, &atom.what)));
        if let Some(offset) = found.or_else(|| self.after_reasoning(walk.at, &atom)) {
            let place = walk.at + offset;
            let passed = (walk.at..place).filter(|at| matches!(self.atoms[*at].what, What::Result(_)));
            walk.passed.extend(passed);
            merge(&mut self.atoms[place], atom);
            walk.at = place + 1;
            return;
        }
        // Results of parallel calls are told in different orders.
        let passed = walk.passed.iter().position(|at| same(&self.atoms[*at].what, &atom.what));
        if let Some(passed) = passed {
            let place = walk.passed.remove(passed);
            merge(&mut self.atoms[place], atom);
            return;
        }
        let place = walk.at + self.untold_reply(walk.at, &atom);
        self.atoms.insert(place, atom);
        walk.at = place + 1;
    }

    /// The reply that a history repeats with its reasoning in front, as one text; the reasoning is told apart.
    fn after_reasoning(&mut self, at: usize, told: &Atom) -> Option<usize> {
        let What::Text(whole) = &told.what else { return None };
        let mut near = self.atoms[at..].iter().take_while(|atom| !matches!(atom.what, What::Request(_)));
        let is_end = |atom: &Atom| match &atom.what {
            What::Text(said) => atom.reply && said.len() >= 12 && whole.trim_end().ends_with(said.trim_end()),
            _ => false,
        };
        let offset = near.position(is_end).filter(|_| !told.reply)?;
        let What::Text(said) = &self.atoms[at + offset].what else { return None };
        let before = whole.trim_end().strip_suffix(said.trim_end())?.trim().to_owned();
        let told_before = (at..at + offset).any(
            |place| matches!(&self.atoms[place].what, What::Thought(thought) if same_text(thought, &before)),
        );
        if before.is_empty() || told_before {
            return Some(offset);
        }
        let mut thought = self.atoms[at + offset].clone();
        thought.what = What::Thought(before);
        self.atoms.insert(at + offset, thought);
        Some(offset + 1)
    }

    /// Where a call is that has this id: at or after `at`, or else nearest before it.
    fn call_place(&self, at: usize, id: &str) -> Option<usize> {
        let is_it = |atom: &Atom| matches!(&atom.what, What::Call(call) if call.is(id));
        let ahead = self.atoms[at..].iter().position(is_it).map(|offset| at + offset);
        ahead.or_else(|| self.atoms[..at].iter().rposition(is_it))
    }

    /// How far behind `at` a result belongs whose call the thread knows: behind the call, in the order of the calls. Where the
    /// server keeps the history, an input begins with what the last calls gave back.
    fn behind_call(&self, at: usize, next: &Atom) -> Option<usize> {
        let What::Result(Outcome { id: Some(id), .. }) = &next.what else { return None };
        let call = self.call_place(at, id)?;
        let is_ahead = call >= at;
        let start = if is_ahead { call + 1 } else { at };
        let goes_before = |atom: &&Atom| match &atom.what {
            What::Call(_) => is_ahead,
            What::Result(Outcome { id: Some(other), .. }) => {
                self.call_place(at, other).is_none_or(|place| place < call)
            }
            What::Result(_) => is_ahead,
            _ => false,
        };
        Some(start + self.atoms[start..].iter().take_while(goes_before).count() - at)
    }

    /// How much of a reply stands at `at` that a history leaves out although it goes on behind it: with what its calls gave
    /// back, or, after its calls, with the next request.
    fn untold_reply(&self, at: usize, next: &Atom) -> usize {
        if let Some(behind) = self.behind_call(at, next) {
            return behind;
        }
        let speech_too = match next.what {
            What::Result(_) if !next.reply => true,
            What::Request(_) => false,
            _ => return 0,
        };
        let Some(first) = self.atoms.get(at) else { return 0 };
        let is_of_reply = |atom: &&Atom| {
            let counts = match atom.what {
                What::Call(_) => true,
                What::Text(_) | What::Thought(_) => speech_too,
                _ => false,
            };
            counts && atom.reply && atom.span == first.span
        };
        self.atoms[at..].iter().take_while(is_of_reply).count()
    }
}

/// What a second telling adds.
fn merge(there: &mut Atom, told: Atom) {
    there.beside |= told.beside;
    if there.agent.is_none() {
        there.agent = told.agent;
    }
    match (&mut there.what, told.what) {
        (What::Call(call), What::Call(other)) => {
            match (&call.id, other.id) {
                (None, id) => call.id = id,
                (Some(_), Some(id)) if !call.is(&id) => call.also.push(id),
                _ => {}
            }
            if call.arguments.as_ref().is_none_or(|arguments| !arguments.is_object())
                && other.arguments.as_ref().is_some_and(Json::is_object)
            {
                call.arguments = other.arguments;
            }
        }
        (What::Result(outcome), What::Result(other)) => {
            if outcome.id.is_none() {
                outcome.id = other.id;
            }
            if outcome.tool.is_none() {
                outcome.tool = other.tool;
            }
            if outcome.failed.is_none() {
                outcome.failed = other.failed;
            }
            // A longer text with the same beginning is the one that was not cut.
            if outcome.text.is_empty()
                || other.text.len() > outcome.text.len() && other.text.starts_with(&outcome.text)
            {
                outcome.text = other.text;
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::atom::{Teller, atoms};
    use crate::convert::talk::{Call, Message, Part, Role};

    fn teller(start: u64) -> Teller {
        Teller { span: 0, start: Time(start), time: Time(start + 5), agent: Some("a".into()) }
    }

    fn user(text: &str) -> Message {
        Message::text(Role::User, text)
    }

    fn model(text: &str) -> Message {
        Message::text(Role::Assistant, text)
    }

    fn told(thread: &mut Thread, at: u64, mut input: Vec<Message>, mut output: Vec<Message>) -> bool {
        let input = atoms(&mut input, &teller(at), false);
        let output = atoms(&mut output, &teller(at), true);
        thread.tell(input, output).is_some()
    }

    fn texts(thread: &Thread) -> Vec<&str> {
        thread
            .atoms
            .iter()
            .map(|atom| match &atom.what {
                What::Request(text) | What::Text(text) | What::Thought(text) => text.as_str(),
                _ => "-",
            })
            .collect()
    }

    #[test]
    fn repeated_history_appears_once_and_repeated_words_as_often_as_they_were_said() {
        let mut thread = Thread::default();
        told(&mut thread, 1, vec![user("again")], vec![model("done")]);
        told(&mut thread, 10, vec![user("again"), model("done"), user("again")], vec![model("done")]);
        told(
            &mut thread,
            20,
            vec![user("again"), model("done"), user("again"), model("done"), user("thanks")],
            vec![model("bye")],
        );
        assert_eq!(texts(&thread), ["again", "done", "again", "done", "thanks", "bye"]);
    }

    #[test]
    fn the_same_call_told_twice_appears_once() {
        let mut thread = Thread::default();
        assert!(!told(&mut thread, 1, vec![user("q")], vec![model("a")]));
        assert!(!told(&mut thread, 1, vec![user("q")], vec![model(" a\n")]));
        assert_eq!(texts(&thread), ["q", "a"]);
    }

    #[test]
    fn another_reply_to_the_same_history_goes_its_own_way() {
        let mut thread = Thread::default();
        assert!(!told(&mut thread, 1, vec![user("q")], vec![model("a title")]));
        assert!(told(&mut thread, 2, vec![user("q")], vec![model("an answer")]));
        assert_eq!(texts(&thread), ["q", "a title"]);
    }

    fn called(id: &str) -> Part {
        Part::Call(Call { id: Some(id.into()), also: Vec::new(), name: "look".into(), arguments: None })
    }

    fn gave(id: &str) -> Message {
        let outcome = Outcome { id: Some(id.into()), tool: None, text: id.to_uppercase(), failed: None };
        Message::new(Role::Tool, vec![Part::Result(outcome)])
    }

    #[test]
    fn results_follow_calls_that_the_history_leaves_out() {
        let mut thread = Thread::default();
        let asks = Message::new(Role::Assistant, vec![Part::Text("wait".into()), called("a"), called("b")]);
        told(&mut thread, 1, vec![user("q")], vec![asks]);
        told(&mut thread, 10, vec![user("q"), model("wait"), gave("a"), gave("b")], vec![model("done")]);
        let kinds: Vec<&str> = thread
            .atoms
            .iter()
            .map(|atom| match &atom.what {
                What::Call(_) => "call",
                What::Result(_) => "result",
                _ => "text",
            })
            .collect();
        assert_eq!(kinds, ["text", "text", "call", "call", "result", "result", "text"]);
    }

    #[test]
    fn a_history_with_reasoning_before_the_reply_is_told_apart() {
        let mut thread = Thread::default();
        let reply = "I look at the thermometer.";
        told(&mut thread, 1, vec![user("q")], vec![model(reply)]);
        for at in [10, 20] {
            let joined = model("First, where is Oslo?I look at the thermometer.");
            told(&mut thread, at, vec![user("q"), joined, user("and?")], vec![model("done")]);
        }
        assert_eq!(texts(&thread), ["q", "First, where is Oslo?", reply, "and?", "done"]);
    }

    #[test]
    fn results_of_parallel_calls_are_told_once_in_whatever_order() {
        let mut thread = Thread::default();
        let asks = || Message::new(Role::Assistant, vec![called("a"), called("b")]);
        told(&mut thread, 1, vec![user("q")], vec![asks()]);
        told(&mut thread, 5, vec![user("q"), asks(), gave("b")], vec![]);
        told(&mut thread, 6, vec![user("q"), asks(), gave("a")], vec![]);
        told(&mut thread, 9, vec![user("q"), asks(), gave("a"), gave("b")], vec![model("done")]);
        assert_eq!(texts(&thread), ["q", "-", "-", "-", "-", "done"]);
        let results: Vec<&str> = thread
            .atoms
            .iter()
            .filter_map(|atom| match &atom.what {
                What::Result(outcome) => Some(outcome.text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(results, ["A", "B"]);
    }

    #[test]
    fn an_input_that_begins_with_results_goes_on_behind_their_calls() {
        let mut thread = Thread::default();
        let asks = Message::new(Role::Assistant, vec![called("a"), called("b")]);
        told(&mut thread, 1, vec![user("q")], vec![asks]);
        told(&mut thread, 9, vec![gave("a"), gave("b")], vec![model("done")]);
        assert_eq!(texts(&thread), ["q", "-", "-", "-", "-", "done"]);
    }
}
