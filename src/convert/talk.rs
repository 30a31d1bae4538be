//! What the dialects make of spans and records: one form for all of them.

use std::collections::BTreeSet;

use super::offers::Offers;
use crate::domain::{Json, Time};

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    System,
    User,
    Assistant,
    Tool,
}

/// One message of a conversation with a model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Message {
    pub(super) role: Role,
    pub(super) parts: Vec<Part>,
    /// The agent that speaks, where the message names it.
    pub(super) speaker: Option<String>,
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Part {
    Text(String),
    Thought(String),
    Call(Call),
    Result(Outcome),
}

/// A model asks for a tool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) id: Option<String>,
    /// Other ids by which other tellings know the same call.
    pub(super) also: Vec<String>,
    pub(super) name: String,
    /// `None` where the export does not hold them.
    pub(super) arguments: Option<Json>,
}

/// What a tool gave back, as the model was shown it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    pub(super) id: Option<String>,
    pub(super) tool: Option<String>,
    pub(super) text: String,
    pub(super) failed: Option<bool>,
}

/// One call of a model: the messages that went in and those that came out.
#[derive(Debug)]
pub(super) struct ModelCall {
    /// Position of its span among the trace's spans.
    pub(super) span: usize,
    pub(super) start: Time,
    pub(super) end: Time,
    pub(super) model: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) input: Vec<Message>,
    pub(super) output: Vec<Message>,
}

/// One run of a tool.
#[derive(Debug)]
pub(super) struct ToolRun {
    pub(super) span: usize,
    pub(super) start: Time,
    pub(super) end: Time,
    pub(super) name: Option<String>,
    pub(super) id: Option<String>,
    /// `None` where the export does not hold them.
    pub(super) arguments: Option<Json>,
    pub(super) result: Option<String>,
    pub(super) failed: Option<bool>,
    /// The error's text, from the span's status or its exception event.
    pub(super) error: Option<String>,
}

/// Documents that were looked up.
#[derive(Debug)]
pub(super) struct Retrieval {
    pub(super) span: usize,
    pub(super) start: Time,
    pub(super) name: Option<String>,
    pub(super) query: Option<String>,
    pub(super) documents: Vec<String>,
}

/// A span around others that knows what went into the whole and what came out: an agent, a chain, a workflow.
#[derive(Debug)]
pub(super) struct Invocation {
    pub(super) span: usize,
    pub(super) start: Time,
    pub(super) end: Time,
    /// The agent's name, if this is an agent.
    pub(super) agent: Option<String>,
    pub(super) is_agent: bool,
    pub(super) input: Vec<Message>,
    pub(super) output: Vec<Message>,
}

/// One agent passes on to another.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) span: usize,
    pub(super) start: Time,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
}

/// All that the dialects found in a trace.
#[derive(Debug, Default)]
pub(super) struct Talk {
    pub(super) calls: Vec<ModelCall>,
    pub(super) runs: Vec<ToolRun>,
    pub(super) retrievals: Vec<Retrieval>,
    pub(super) invocations: Vec<Invocation>,
    pub(super) passes: Vec<Pass>,
    pub(super) session: Option<String>,
    pub(super) dialects: BTreeSet<&'static str>,
    pub(super) truncated: Vec<String>,
    pub(super) warnings: Vec<String>,
    /// Whether any span is of a model, a tool or an agent, with or without content.
    pub(super) saw_agent: bool,
    /// Events of AutoGen's runtime, each of which tells one message.
    pub(super) events: Vec<Json>,
    /// What models were told and offered beside the conversation.
    pub(super) offers: Offers,
}

impl Call {
    /// Whether `id` is one of the call's.
    pub(super) fn is(&self, id: &str) -> bool {
        self.id.as_deref() == Some(id) || self.also.iter().any(|other| other == id)
    }

    /// Whether the call has no id at all.
    pub(super) fn is_nameless(&self) -> bool {
        self.id.is_none()
    }
}

impl Message {
    pub(super) fn text(role: Role, text: impl Into<String>) -> Self {
        Self::new(role, vec![Part::Text(text.into())])
    }

    pub(super) fn new(role: Role, parts: Vec<Part>) -> Self {
        Self { role, parts, speaker: None }
    }

    /// The texts of the message, joined.
    pub(super) fn joined(&self) -> String {
        let mut all = String::new();
        for part in &self.parts {
            if let Part::Text(text) = part {
                all.push_str(text);
            }
        }
        all
    }
}
