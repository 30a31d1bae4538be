//! Which result belongs to which call, and what a tool really said.

use super::alike::same_tool;
use super::atom::{Atom, What};
use super::pseudo::{is_final, is_interpreter};
use super::talk::{Call, Outcome, ToolRun};
use super::thread::Thread;
use super::weave::Woven;

/// Calls that wait for their results.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) open: Vec<usize>,
}

impl Pending {
    /// The call that a result answers: by id, by name, or the one that waits longest.
    pub(super) fn take(&mut self, thread: &Thread, outcome: &Outcome) -> Option<usize> {
        let call = |a: &usize| match &thread.atoms[*a].what {
            What::Call(call) => Some(call),
            _ => None,
        };
        let by_id = outcome.id.as_ref().and_then(|id| {
            thread.atoms.iter().position(|atom| matches!(&atom.what, What::Call(call) if call.is(id)))
        });
        let place = match (by_id, &outcome.id, &outcome.tool) {
            (Some(place), _, _) => Some(place),
            (None, Some(_), tool) => {
                let fits = |a: &&usize| {
                    call(a).is_some_and(|call| tool.as_ref().is_none_or(|tool| same_tool(&call.name, tool)))
                };
                let nameless = |a: &&usize| call(a).is_some_and(|call| call.is_nameless());
                self.open.iter().filter(fits).find(nameless).or_else(|| self.open.iter().find(fits)).copied()
            }
            (None, None, Some(tool)) => {
                self.open.iter().copied().find(|a| call(a).is_some_and(|call| same_tool(&call.name, tool)))
            }
            (None, None, None) => self.open.first().copied(),
        };
        if let Some(place) = place {
            self.open.retain(|open| *open != place);
        }
        place
    }
}

/// Whether a run began after every run of the group had ended, so that it was not asked for together with them.
pub(super) fn starts_later(thread: &Thread, group: &[(usize, bool)], atom: &Atom, woven: &Woven) -> bool {
    let Some(run) = atom.run.map(|run| &woven.runs[run]) else { return false };
    let loose = |atom: &Atom| atom.run.is_some_and(|run| woven.runs[run].span == atom.span);
    !group.is_empty()
        && loose(atom)
        && group.iter().all(|(a, _)| {
            let other = &thread.atoms[*a];
            loose(other) && other.run.is_some_and(|other| woven.runs[other].end <= run.start)
        })
}

/// Whether the thread holds the result of its call at `a`.
pub(super) fn result_in(thread: &Thread, a: usize, call: &Call) -> bool {
    let mut unnamed = 0usize;
    for atom in &thread.atoms[a + 1..] {
        match &atom.what {
            What::Result(outcome) => match (&outcome.id, &call.id) {
                (Some(id), Some(_)) if call.is(id) => return true,
                (Some(id), Some(_)) if knows(thread, id) => {}
                _ if outcome
                    .tool
                    .as_deref()
                    .is_none_or(|tool| same_tool(tool, &call.name) || is_interpreter(tool)) =>
                {
                    if unnamed == 0 {
                        return true;
                    }
                    unnamed -= 1;
                }
                _ => {}
            },
            What::Call(other) if call.id.is_none() && same_tool(&other.name, &call.name) => unnamed += 1,
            _ => {}
        }
    }
    // Earlier calls of the same name without an id take the first results.
    false
}

/// Whether any call of the thread has this id.
fn knows(thread: &Thread, id: &str) -> bool {
    thread.atoms.iter().any(|atom| matches!(&atom.what, What::Call(call) if call.is(id)))
}

/// Whether a text is the last that the agent says in its turn.
pub(super) fn is_last_word(thread: &Thread, a: usize) -> bool {
    if thread.atoms[a].beside {
        return false;
    }
    for atom in &thread.atoms[a + 1..] {
        match &atom.what {
            What::Request(_) => return true,
            What::Text(_) | What::Thought(_) | What::Result(_) | What::Document(..) => return false,
            What::Call(call) if is_final(&call.name) => {}
            What::Call(_) => return false,
        }
    }
    true
}

/// What a tool said: as the model was shown it, or, where the framework wrapped the tool's error in words of its own, the
/// error itself.
pub(super) fn best_text(outcome: &Outcome, run: Option<&ToolRun>) -> String {
    let shown = outcome.text.trim();
    let Some(run) = run else { return shown.to_owned() };
    if let Some(error) = run.error.as_deref().map(str::trim).filter(|error| !error.is_empty())
        && shown.contains(error)
    {
        return error.to_owned();
    }
    let result = run.result.as_deref().map(str::trim).unwrap_or_default();
    if shown.is_empty() || result.len() > shown.len() && result.starts_with(shown) {
        return if result.is_empty() { run.error.clone().unwrap_or_default() } else { result.to_owned() };
    }
    shown.to_owned()
}
