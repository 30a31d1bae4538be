//! Typed questions about a state, in systemone's three kinds.

use std::collections::BTreeMap;
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
    /// The judge's own template for these questions, as configuration names it (a path); none: the usual one. The decision
    /// model takes no notice of it.
    pub prompt: Option<Arc<str>>,
}

impl Inquiry {
    /// Questions about a state, put to a judge in the usual way.
    pub fn new(state: Arc<Json>, questions: Vec<Question>) -> Self {
        Self { state, questions, prompt: None }
    }
}

/// A metric of the operator's own, for the judge alone: its value has any shape that a JSON Schema allows.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// Its name in the configuration; unique, and never shown to a model.
    pub name: Arc<str>,
    /// What is measured.
    pub state: Arc<Json>,
    /// What is asked: text, object or array; null if the template says it all.
    pub instructions: Json,
    /// The judge's template, as configuration names it (a path); none: the usual one.
    pub prompt: Option<Arc<str>>,
    /// What the value must look like; valid JSON Schema.
    pub schema: Arc<Json>,
}

/// What a rule says, without a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// One of the labels of the question's kind.
    pub label: String,
    /// Why.
    pub reasoning: Option<String>,
}

/// How the answer to an evaluator's question is come by and read. Claims have none: they are handled as the plan says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Handling {
    /// The evaluator's name.
    pub evaluator: Arc<str>,
    /// The step that is asked about, for evaluators that ask once for each step.
    pub step: Option<usize>,
    /// The confidence below which the question goes to the judge; none: the plan's.
    pub min_confidence: Option<f64>,
    /// Whether the question may go to the judge.
    pub escalate: bool,
    /// The labels that count as a failure; none are named by evaluators that only describe.
    pub fails: Arc<[String]>,
    /// What stands if nobody answers.
    pub otherwise: Option<Ruling>,
}

/// What is asked about one story: its claims, and the questions that come of them and of the plan.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Questions {
    /// The answer's claims, in its order. The question of claim `n` has the id [`Questions::claim_id`]`(n)`.
    pub claims: Vec<Claim>,
    /// States and the questions about them; question ids are unique over all of them.
    pub inquiries: Vec<Inquiry>,
    /// Why there are no claims to ask about, as a word, where it is not that the answer makes none.
    pub unclaimed: Option<&'static str>,
    /// Questions that nobody can be asked, and why.
    pub unasked: Vec<(String, Nobody)>,
    /// Questions that a rule has answered already.
    pub ruled: Vec<(Question, Ruling)>,
    /// How the questions of evaluators are handled, by id.
    pub handling: BTreeMap<String, Handling>,
    /// Metrics of the operator's own, for the judge alone.
    pub measures: Vec<Measure>,
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

    /// The position of the claim whose question has this id.
    pub fn claim_of(id: &str) -> Option<usize> {
        id.strip_prefix("claim:").filter(|_| Self::is_claim(id))?.parse().ok()
    }

    /// The id of an evaluator's question about one step.
    pub fn step_id(evaluator: &str, step: usize) -> String {
        format!("{evaluator}:{step}")
    }

    /// The name under which metrics count a question: one for all claims, one for all steps of an evaluator, else the id.
    pub fn label(id: &str) -> &str {
        match id.rsplit_once(':') {
            _ if Self::is_claim(id) => "grounding",
            Some((evaluator, step)) if !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit()) => {
                evaluator
            }
            _ => id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_count_claims_and_steps_under_one_name_each() {
        assert_eq!(Questions::label(&Questions::claim_id(7)), "grounding");
        assert_eq!(Questions::label(&Questions::step_id("tool_choice", 12)), "tool_choice");
        assert_eq!(Questions::label("toxicity"), "toxicity");
        assert_eq!(Questions::label("own:name"), "own:name");
    }
}
