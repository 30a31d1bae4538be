//! Typed questions about a state, in systemone's three kinds.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Claim, Nobody};

/// Any JSON value. Objects keep the order of their keys.
pub type Json = serde_json::Value;

/// The kind of a question and its options, as `POST /v1/systemone` defines them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Kind {
    /// Is a statement true of the state?
    Noul {
        /// What counts as true and as false; either may be absent. `Some(Json::Null)` is a description left blank on purpose.
        #[serde(default, rename = "true")]
        if_true: Option<Json>,
        /// See `if_true`.
        #[serde(default, rename = "false")]
        if_false: Option<Json>,
    },
    /// One of 2 to 255 named options, each with a description (string, object, array or null).
    Choice {
        /// Name and description, in the asker's order.
        options: Vec<(String, Json)>,
    },
    /// One of 2 to 10 ordered levels, lowest first.
    Score {
        /// The levels' descriptions.
        levels: Vec<Json>,
    },
}

impl Kind {
    /// systemone's word for the kind.
    pub fn as_str(&self) -> &'static str {
        match self {
            Kind::Noul { .. } => "noul",
            Kind::Choice { .. } => "choice",
            Kind::Score { .. } => "score",
        }
    }

    /// The labels of the answer's probabilities, in order: `false`, `true`; the options' names; `0`, `1`, ….
    pub fn labels(&self) -> Vec<String> {
        match self {
            Kind::Noul { .. } => vec!["false".to_owned(), "true".to_owned()],
            Kind::Choice { options } => options.iter().map(|(name, _)| name.clone()).collect(),
            Kind::Score { levels } => (0..levels.len()).map(|level| level.to_string()).collect(),
        }
    }
}

/// What a question is about. A model that is made for one subject (the embedded one) answers only that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Anything that the instructions say.
    General,
    /// Whether the state supports this claim. Options of a `Choice`: `grounded`, `ungrounded`, `contradicted` (and perhaps `complementary`).
    Grounding {
        /// The claim's text.
        claim: String,
    },
    /// Whether the state holds what answers this query.
    Relevance {
        /// The query.
        query: String,
    },
}

/// One question about a state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Unique within its request; never shown to a model.
    pub id: String,
    /// Its kind and options.
    pub kind: Kind,
    /// What is asked: text, object or array; null if the options say it all.
    pub instructions: Json,
    /// What it is about.
    pub subject: Subject,
}

/// A state and the questions about it: the content of one `POST /v1/systemone`.
#[derive(Debug, Clone, PartialEq)]
pub struct Inquiry {
    /// What is asked about: text, object or array. Shared, so that many questions cost one copy.
    pub state: Arc<Json>,
    /// The questions, each id once.
    pub questions: Vec<Question>,
}

/// What is asked about one story: its claims, and the questions that come of them and of the plan.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Questions {
    /// The answer's claims, in its order. The question of claim `n` has the id [`Questions::claim_id`]`(n)`.
    pub claims: Vec<Claim>,
    /// States and the questions about them; question ids are unique over all of them.
    pub inquiries: Vec<Inquiry>,
    /// Questions that nobody can be asked, and why.
    pub unasked: Vec<(String, Nobody)>,
    /// What was cut from claims or evidence, in words.
    pub truncated: Vec<String>,
}

impl Questions {
    /// The id of the question about the claim at this position.
    pub fn claim_id(claim: usize) -> String {
        format!("claim:{claim}")
    }

    /// Whether this is the id of a claim's question.
    pub fn is_claim(id: &str) -> bool {
        id.strip_prefix("claim:").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// The name under which metrics count a question: one for all claims, else the question's own id.
    pub fn label(id: &str) -> &str {
        if Self::is_claim(id) { "grounding" } else { id }
    }
}
