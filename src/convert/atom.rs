//! Messages become atoms, the smallest pieces that a thread of conversation is made of.

use super::alike::same_text;
use super::talk::{Call, Message, Outcome, Part, Role};
use crate::domain::Time;

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

#[cfg(test)]
mod tests {
    use super::*;

    fn gave(id: &str) -> Message {
        let outcome = Outcome { id: Some(id.into()), tool: None, text: id.to_uppercase(), failed: None };
        Message::new(Role::Tool, vec![Part::Result(outcome)])
    }

    fn teller() -> Teller {
        Teller { span: 0, start: Time(1), time: Time(6), agent: None }
    }

    #[test]
    fn a_result_told_twice_in_a_row_is_one() {
        let mut both = vec![gave("a"), gave("b"), gave("a"), gave("b")];
        assert_eq!(atoms(&mut both, &teller(), false).len(), 2);
    }

    #[test]
    fn a_thought_that_came_in_pieces_is_one_and_two_thoughts_are_two() {
        let thoughts = |texts: [&str; 3]| {
            let parts = texts.iter().map(|text| Part::Thought((*text).to_owned())).collect();
            atoms(&mut vec![Message::new(Role::Assistant, parts)], &teller(), true).len()
        };
        assert_eq!(thoughts(["The ", "first ", "step."]), 1);
        assert_eq!(thoughts(["First this.", "Then that.", "Now the rest."]), 3);
    }
}
