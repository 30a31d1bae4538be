//! What became of a story for one evaluator: asked, or why not.

use std::fmt;
use std::sync::Arc;

/// What a story must have for an evaluator to be asked about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Need {
    /// An answer with something to claim.
    Claims,
    /// A user's request.
    Request,
    /// A tool call.
    ToolCalls,
    /// A tool's result or a retrieved document.
    Observations,
    /// A thought.
    Thoughts,
}

impl Need {
    /// The word for a story that lacks it.
    pub fn reason(self) -> &'static str {
        match self {
            Need::Claims => "no_claims",
            Need::Request => "no_request",
            Need::ToolCalls => "no_tool_calls",
            Need::Observations => "no_observations",
            Need::Thoughts => "no_thoughts",
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Need::Claims => "the answer makes no claim",
            Need::Request => "the story has no request of a user",
            Need::ToolCalls => "the last turn has no tool call",
            Need::Observations => "the story has no tool result or document",
            Need::Thoughts => "the story has no thought of the agent",
        }
    }
}

/// What became of a story for one evaluator.
#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    /// It asks so many questions.
    Asked {
        /// How many.
        questions: usize,
        /// Questions beside those that a rule has answered already.
        ruled: usize,
    },
    /// A rule has answered already.
    Ruled,
    /// The trace is not one of those it is for.
    NotMatched {
        /// What does not fit: `service`, `agent`, `model`, or an attribute's name.
        what: String,
        /// The pattern.
        wanted: String,
        /// What the trace has.
        found: Option<String>,
    },
    /// It is one of those, and not in the sample.
    NotSampled {
        /// The share of traces that are.
        share: f64,
    },
    /// The story lacks something.
    Lacks(Need),
}

impl Fate {
    /// Whether there is something to answer.
    pub fn is_taken(&self) -> bool {
        matches!(self, Fate::Asked { .. } | Fate::Ruled)
    }

    /// Why not, as a word for metrics; none if it is taken.
    pub fn reason(&self) -> Option<&'static str> {
        match self {
            Fate::Asked { .. } | Fate::Ruled => None,
            Fate::NotMatched { .. } => Some("not_matched"),
            Fate::NotSampled { .. } => Some("not_sampled"),
            Fate::Lacks(need) => Some(need.reason()),
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Asked { questions, ruled } => {
                write!(f, "{questions} question{}", if *questions == 1 { "" } else { "s" })?;
                if *ruled > 0 { write!(f, ", {ruled} answered by a rule") } else { Ok(()) }
            }
            Fate::Ruled => f.write_str("answered by a rule"),
            Fate::NotMatched { what, wanted, found: Some(found) } => {
                write!(f, "{what} is {found:?}, and match wants {wanted:?}")
            }
            Fate::NotMatched { what, wanted, found: None } => {
                write!(f, "the trace has no {what}, and match wants {wanted:?}")
            }
            Fate::NotSampled { share } => write!(f, "not in the sample of {share}"),
            Fate::Lacks(need) => f.write_str(need.as_str()),
        }
    }
}

/// One evaluator or own metric, and what became of a story for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// Its name.
    pub evaluator: Arc<str>,
    /// What became of the story.
    pub fate: Fate,
}
