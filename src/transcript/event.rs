//! What one line of a transcript tells, whichever program wrote it.

use serde_json::{Map, Value};

use super::{claude, codex};
use crate::domain::Json;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event {
    /// The user asked.
    Request {
        /// What.
        text: String,
        /// Whether a turn begins with it.
        turn: TurnKey,
    },
    /// A Stop hook sent the agent back to work.
    Feedback,
    /// The agent said something, to the user or beside a tool call.
    Said {
        /// What.
        text: String,
        /// The model's reply that it is a part of.
        message: Option<String>,
    },
    /// The agent thought.
    Thought(String),
    /// The agent called a tool.
    Call {
        /// Joins it with its result.
        id: Option<String>,
        /// The tool's name.
        tool: String,
        /// Its arguments.
        arguments: Option<Json>,
        /// Text that the call writes to a file: once it succeeded, it is evidence of what is there.
        written: String,
    },
    /// A tool gave its result.
    Result {
        /// Joins it with its call.
        id: Option<String>,
        /// What the agent got to read.
        text: String,
        /// Whether the tool failed.
        is_error: bool,
        /// Whether a part of it is no text: an image, a document.
        is_unread: bool,
    },
    /// The user handed over a file with a request.
    Attached {
        /// Its name.
        name: String,
        /// Its content.
        text: String,
    },
    /// The agent got to see something that is not in the transcript, such as the results of a search.
    Unrecorded,
}

/// The turn that a request belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TurnKey {
    /// A turn of its own.
    New,
    /// The one that runs: it was sent while the agent worked.
    Running,
    /// The one with this id.
    Id(String),
}

/// What a line tells; nothing if it is not JSON or tells nothing that is known. `side` reads records of sub-agents too.
pub(super) fn events(line: &str, side: bool) -> Vec<Event> {
    let Ok(Value::Object(record)) = serde_json::from_str(line) else { return Vec::new() };
    if codex::is_record(&record) { codex::events(&record) } else { claude::events(&record, side) }
}

/// A text member of an object.
pub(super) fn text<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str)
}

/// A member of an object that is true.
pub(super) fn is_true(object: &Map<String, Value>, key: &str) -> bool {
    object.get(key).and_then(Value::as_bool).unwrap_or(false)
}
