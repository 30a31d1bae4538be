//! The built-in evaluators. Their descriptions decide their quality: each option says what can be seen in a story, the
//! options of one question leave no gap and do not overlap, and the best one comes first.

mod agent;
mod grounding;
mod quality;
mod security;

use super::{Each, Need, StateOf};
use crate::find;

/// What an evaluator is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Grounding,
    Agent,
    Security,
    Quality,
}

impl Group {
    pub const ALL: [Group; 4] = [Group::Grounding, Group::Agent, Group::Security, Group::Quality];

    pub fn title(self) -> &'static str {
        match self {
            Group::Grounding => "Grounding",
            Group::Agent => "Agent",
            Group::Security => "Security",
            Group::Quality => "Quality",
        }
    }
}

/// How a built-in evaluator comes to its answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Task {
    /// One question for each claim of the answer; see `ask::questions`.
    Grounding,
    /// Whether the evidence holds what answers the request: a question that the embedded model knows.
    Relevance,
    /// One of these labels; the best comes first.
    Choice(&'static [(&'static str, &'static str)]),
    /// A rule over the calls.
    Loop,
    /// Finders of these kinds, then a question that may discard what they found. The first label is for nothing found.
    Leaks { kinds: &'static [find::Kind], in_calls: bool, options: [(&'static str, &'static str); 2] },
}

/// What is certain without a model, of an evaluator that else asks one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// A tool that was not offered, and whose call failed.
    Offered,
    /// Arguments that break the schema that the tool was declared with.
    Schema,
    /// An answer that holds a passage of the agent's instructions.
    Verbatim,
}

impl Rule {
    /// What it rules on, in a sentence for people.
    pub fn about(self) -> &'static str {
        match self {
            Rule::Offered => "a call of a tool that is none of the offered ones, and that failed, is `wrong`",
            Rule::Schema => {
                "arguments that break the JSON Schema that the tool was declared with are `invalid`, or `incomplete` where a \
                 required one is missing"
            }
            Rule::Verbatim => {
                "an answer that holds a passage of the recorded instructions that is addressed to the agent (16 words or more), or \
                 most of them, is `leaked`; quotations in them, and what a user or a tool said too, do not count"
            }
        }
    }
}

/// A built-in evaluator.
#[derive(Debug, Clone, Copy)]
pub(super) struct BuiltIn {
    pub name: &'static str,
    pub group: Group,
    /// What it finds out, in a sentence for people.
    pub about: &'static str,
    /// What of the story it reads and how, for people.
    pub reading: &'static str,
    pub state: StateOf,
    pub each: Each,
    /// What a story must have to be asked about.
    pub needs: &'static [Need],
    pub instructions: &'static str,
    pub task: Task,
    /// What is certain before a model is asked.
    pub rule: Option<Rule>,
    /// Labels that count as a failure.
    pub fails: &'static [&'static str],
    /// Whether the question may go to the judge.
    pub escalate: bool,
}

/// The fields that most have in common.
const PLAIN: BuiltIn = BuiltIn {
    name: "",
    group: Group::Quality,
    about: "",
    reading: "",
    state: StateOf::Story,
    each: Each::Story,
    needs: &[],
    instructions: "",
    task: Task::Loop,
    rule: None,
    fails: &[],
    escalate: true,
};

/// All of them, by group.
pub(super) fn all() -> impl Iterator<Item = &'static BuiltIn> {
    [grounding::ALL, agent::ALL, security::ALL, quality::ALL].into_iter().flatten()
}

/// The one with this name.
pub(super) fn named(name: &str) -> Option<&'static BuiltIn> {
    all().find(|built_in| built_in.name == name)
}
