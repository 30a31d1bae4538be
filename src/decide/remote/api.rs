//! The protocols, and what differs between them.

use super::{decisions, systemone};
use crate::decide::models::strands::Node;
use crate::domain::{Decision, Json, Nobody, Question};

/// The protocols that remote models speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// `POST /v1/systemone`.
    Systemone,
    /// `POST /v1/decisions`.
    Decisions,
}

/// What a body answers.
#[derive(Debug)]
pub struct Answers {
    /// A decision for each question, or why there is none.
    pub decisions: Vec<Result<Decision, Nobody>>,
    /// Tokens that were read.
    pub tokens: u64,
}

impl Api {
    /// The word in configuration, and before an address.
    pub fn word(self) -> &'static str {
        match self {
            Api::Systemone => "systemone",
            Api::Decisions => "decisions",
        }
    }

    /// The hosted service.
    pub(super) fn home(self) -> &'static str {
        match self {
            Api::Systemone => "https://api.typesafe.ai",
            Api::Decisions => "https://api.openai.com",
        }
    }

    /// The variable in which the hosted service's own clients look for a key.
    pub(super) fn home_key(self) -> &'static str {
        match self {
            Api::Systemone => "TYPESAFE_API_KEY",
            Api::Decisions => "OPENAI_API_KEY",
        }
    }

    pub(super) fn default_model(self) -> &'static str {
        match self {
            Api::Systemone => "jev-latest",
            Api::Decisions => "gpt-6-luna",
        }
    }

    pub(super) fn request(self, model: &str, state: &Json, questions: &[&Question]) -> Json {
        match self {
            Api::Systemone => systemone::request(model, state, questions),
            Api::Decisions => decisions::request(model, state, questions),
        }
    }

    /// What a body answers. `Err` says why it is no answer to these questions at all.
    pub(super) fn read(self, body: &Node, questions: &[&Question]) -> Result<Answers, String> {
        match self {
            Api::Systemone => systemone::read(body, questions),
            Api::Decisions => decisions::read(body, questions),
        }
    }
}

/// The name under which a question is sent: servers may be particular about names, and ours hold colons.
pub(super) fn wire_name(position: usize) -> String {
    format!("q{position}")
}
