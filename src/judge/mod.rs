//! The LLM judge: answers what the decision model is unsure of, in one call.

use futures::future::BoxFuture;

use crate::domain::{Inquiry, Usage};

/// Asks a stronger model.
pub trait Judge: Send + Sync {
    /// Answers every question of `ask`, or says why not. Never blocks past the ask's deadline.
    fn judge<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Judgement, JudgeError>>;

    /// The judge's model, for provenance.
    fn model(&self) -> &str;
}

/// What a judge is asked in one call: the original states and only the questions that are left over.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// States with their leftover questions; question ids are unique over all of them.
    pub inquiries: Vec<Inquiry>,
}

/// A judge's answer to one question: a pick and its reasoning, no probabilities.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The question's id.
    pub id: String,
    /// One of the labels of the question's kind.
    pub label: String,
    /// Why.
    pub reasoning: Option<String>,
}

/// A judge's answer to an ask.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// One for each question that the judge answered validly.
    pub answers: Vec<Judged>,
    /// Tokens and money over all attempts.
    pub usage: Usage,
}

/// Why a judge did not answer.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {}
