//! Threads of conversation. Every model call repeats its history; a thread holds each message once, whoever told it and how
//! often, by walking along what is already there: by prefix of history, not by text, since a user may say a thing twice.

use super::talk::{Call, Message, Outcome, Part, Role};
use crate::domain::{Json, Time};

/// The smallest piece of a thread.
#[derive(Debug, Clone)]
pub(super) struct Atom {
    pub(super) what: What,
    /// Position of the span that told it first; `usize::MAX` for none.
    pub(super) span: usize,
    /// When it happened, or was first told.
    pub(super) time: Time,
    /// When the call that told it first began.
    pub(super) told: Time,
    pub(super) agent: Option<String>,
    /// Whether the text stood beside a tool call.
    pub(super) beside: bool,
    /// Whether a model said it, rather than being told.
    pub(super) reply: bool,
    /// Whether another thread tells it.
    pub(super) shared: bool,
    /// The tool run that it belongs to, by its position among the runs.
    pub(super) run: Option<usize>,
}

#[derive(Debug, Clone)]
pub(super) enum What {
    Request(String),
    Text(String),
    Thought(String),
    Call(Call),
    Result(Outcome),
    /// Documents that were looked up, and by what.
    Document(Option<String>, String),
}

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

/// Who told something, and when.
#[derive(Debug, Clone)]
pub(super) struct Teller {
    pub(super) span: usize,
    pub(super) start: Time,
    pub(super) time: Time,
    pub(super) agent: Option<String>,
}

/// Messages as atoms. The system's are left out: they are instructions, not events.
pub(super) fn atoms(messages: &mut Vec<Message>, teller: &Teller, is_output: bool) -> Vec<Atom> {
    let mut out = Vec::new();
    for message in std::mem::take(messages) {
        let beside =
            message.role == Role::Assistant && message.parts.iter().any(|part| matches!(part, Part::Call(_)));
        match message.role {
            Role::System => {}
            Role::User => user(message, teller, &mut out),
            Role::Assistant | Role::Tool => said(message, teller, beside, is_output, &mut out),
        }
    }
    without_echoes(&mut out);
    out
}

/// Some libraries tell a result twice in a row: as a tool's message and as a block of the user's.
fn without_echoes(atoms: &mut Vec<Atom>) {
    let mut group: Vec<Outcome> = Vec::new();
    atoms.retain(|atom| {
        let What::Result(outcome) = &atom.what else {
            group.clear();
            return true;
        };
        let again = outcome.id.is_some()
            && group.iter().any(|told| told.id == outcome.id && same_text(&told.text, &outcome.text));
        if !again {
            group.push(outcome.clone());
        }
        !again
    });
}

fn atom(what: What, teller: &Teller, beside: bool, is_output: bool) -> Atom {
    Atom {
        what,
        span: teller.span,
        time: if is_output { teller.time } else { teller.start },
        told: teller.start,
        agent: if is_output { teller.agent.clone() } else { None },
        beside,
        reply: is_output,
        shared: false,
        run: None,
    }
}

fn user(message: Message, teller: &Teller, out: &mut Vec<Atom>) {
    let mut text = String::new();
    for part in message.parts {
        match part {
            Part::Text(piece) if is_quoted_context(&piece) => {
                // What another agent did, told as a user's message: its own calls tell it better.
                text.clear();
                break;
            }
            Part::Text(piece) => {
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(&piece);
            }
            Part::Result(outcome) => out.push(atom(What::Result(outcome), teller, false, false)),
            Part::Thought(_) | Part::Call(_) => {}
        }
    }
    if !text.trim().is_empty() {
        out.push(atom(What::Request(text), teller, false, false));
    }
}

/// ADK's way to show one agent's doings to another.
fn is_quoted_context(text: &str) -> bool {
    text.starts_with("For context:")
}

/// Thoughts first, then text, then calls: some libraries put the text beside a call after it.
fn said(message: Message, teller: &Teller, beside: bool, is_output: bool, out: &mut Vec<Atom>) {
    let mut calls = Vec::new();
    let mut text = String::new();
    let first = out.len();
    for part in message.parts {
        match part {
            Part::Thought(thought) if !thought.trim().is_empty() => {
                flush(&mut text, teller, beside, is_output, out);
                match out[first..].last_mut().map(|atom| &mut atom.what) {
                    // One thought that came in pieces.
                    Some(What::Thought(begun)) if goes_on(begun, &thought) => begun.push_str(&thought),
                    _ => out.push(atom(What::Thought(thought), teller, beside, is_output)),
                }
            }
            // One text may be split over parts.
            Part::Text(piece) => text.push_str(&piece),
            Part::Call(call) => calls.push(atom(What::Call(call), teller, true, is_output)),
            Part::Result(outcome) => calls.push(atom(What::Result(outcome), teller, false, is_output)),
            Part::Thought(_) => {}
        }
    }
    flush(&mut text, teller, beside, is_output, out);
    out.append(&mut calls);
    if message.speaker.is_some() {
        out[first..].iter_mut().for_each(|atom| atom.agent.clone_from(&message.speaker));
    }
}

/// Whether one text is cut from the other between two words, as streams cut them.
fn goes_on(begun: &str, next: &str) -> bool {
    let inner_space = |c: char| c == ' ' || c == '\t';
    begun.ends_with(inner_space) || next.starts_with(inner_space)
}

fn flush(text: &mut String, teller: &Teller, beside: bool, is_output: bool, out: &mut Vec<Atom>) {
    if !text.trim().is_empty() {
        out.push(atom(What::Text(std::mem::take(text)), teller, beside, is_output));
    }
    text.clear();
}

impl Thread {
    /// Walks the atoms of one call along the thread and puts in what is new. The atoms of `output` follow those of `input`.
    /// If the thread went on differently at that point, it is left as it is and the other way is returned.
    pub(super) fn tell(&mut self, input: Vec<Atom>, output: Vec<Atom>) -> Option<Vec<Atom>> {
        let mut at = 0;
        for atom in input {
            at = self.put(at, atom);
        }
        let forks = !output.is_empty()
            && self.atoms[at..].iter().any(|left| matches!(left.what, What::Text(_) | What::Call(_)))
            && !output.iter().any(|atom| self.atoms[at..].iter().any(|left| same(&left.what, &atom.what)));
        if forks {
            let mut other: Vec<Atom> = self.atoms[..at].to_vec();
            other.iter_mut().for_each(|atom| atom.shared = true);
            other.extend(output);
            return Some(other);
        }
        for atom in output {
            at = self.put(at, atom);
        }
        None
    }

    /// Finds the atom at or after `at`, or puts it there; gives the place behind it.
    fn put(&mut self, at: usize, atom: Atom) -> usize {
        let rest = &self.atoms[at..];
        let found = rest.iter().position(|there| same(&there.what, &atom.what));
        let found = found.or_else(|| rest.iter().position(|there| same_work(&there.what, &atom.what)));
        match found.or_else(|| self.after_reasoning(at, &atom)) {
            Some(offset) => {
                merge(&mut self.atoms[at + offset], atom);
                at + offset + 1
            }
            None => {
                let place = at + self.untold_reply(at, &atom);
                self.atoms.insert(place, atom);
                place + 1
            }
        }
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

    /// How much of a reply stands at `at` that a history leaves out although it goes on behind it: with what its calls gave
    /// back, or, after its calls, with the next request.
    fn untold_reply(&self, at: usize, next: &Atom) -> usize {
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

/// Whether two atoms tell the same thing.
pub(super) fn same(a: &What, b: &What) -> bool {
    match (a, b) {
        (What::Request(a), What::Request(b)) => same_text(a, b),
        (What::Text(a) | What::Thought(a), What::Text(b) | What::Thought(b)) => same_text(a, b),
        (What::Call(a), What::Call(b)) => same_call(a, b),
        (What::Result(a), What::Result(b)) => match (&a.id, &b.id) {
            (Some(a), Some(b)) => a == b,
            _ => (a.tool.is_none() || b.tool.is_none() || a.tool == b.tool) && same_text(&a.text, &b.text),
        },
        _ => false,
    }
}

fn same_call(a: &Call, b: &Call) -> bool {
    if let (Some(_), Some(id)) = (&a.id, &b.id) {
        return a.is(id) && same_tool(&a.name, &b.name);
    }
    let fits = match (&a.arguments, &b.arguments) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    fits && same_tool(&a.name, &b.name)
}

/// Whether two calls are the same but for their ids: some libraries make up new ids when they repeat the history.
fn same_work(a: &What, b: &What) -> bool {
    match (a, b) {
        (What::Call(a), What::Call(b)) => {
            same_tool(&a.name, &b.name) && a.arguments.is_some() && a.arguments == b.arguments
        }
        (What::Result(a), What::Result(b)) => !a.text.is_empty() && same_text(&a.text, &b.text),
        _ => false,
    }
}

/// Whether two texts are equal up to white space.
pub(super) fn same_text(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    if a.len() > 2 * b.len() + 16 || b.len() > 2 * a.len() + 16 {
        return false;
    }
    let mut left = a.chars().filter(|c| !c.is_whitespace());
    let mut right = b.chars().filter(|c| !c.is_whitespace());
    loop {
        match (left.next(), right.next()) {
            (None, None) => return true,
            (a, b) if a != b => return false,
            _ => {}
        }
    }
}

/// Names compare by their letters and digits: `Delegate work` and `delegate_work` are one tool.
pub(super) fn squeeze(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Whether two names mean one tool.
pub(super) fn same_tool(a: &str, b: &str) -> bool {
    bare(a) == bare(b) || squeeze(bare(a)) == squeeze(bare(b))
}

/// A tool's name without the server or plugin before it.
pub(super) fn bare(name: &str) -> &str {
    if let Some(rest) = name.strip_prefix("mcp__")
        && let Some((_, tool)) = rest.split_once("__")
        && !tool.is_empty()
    {
        return tool;
    }
    match name.rfind(['-', '.', ':', '/']) {
        Some(at) if at + 1 < name.len() => &name[at + 1..],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_result_told_twice_in_a_row_is_one() {
        let mut both = vec![gave("a"), gave("b"), gave("a"), gave("b")];
        assert_eq!(atoms(&mut both, &teller(1), false).len(), 2);
    }

    #[test]
    fn names_lose_their_server_and_plugin() {
        for (name, wanted) in [
            ("mcp__crm__get_order", "get_order"),
            ("crm-get_order", "get_order"),
            ("a.b.c", "c"),
            ("plain", "plain"),
            ("x-", "x-"),
        ] {
            assert_eq!(bare(name), wanted);
        }
    }
}
