//! The LLM judge: answers what the decision model is unsure of, in one call. OpenAI and all that speak like it, Anthropic, or
//! AWS Bedrock; a guard in front of it keeps rates, deadlines and the budget.

mod anthropic;
mod attempt;
mod auth;
mod aws;
mod bedrock;
mod config;
mod dialect;
mod endpoint;
mod error;
mod guard;
mod http;
mod laws;
mod llm;
mod manners;
mod metric;
mod openai;
mod partition;
mod prompt;
mod reply;
mod schema;
mod sheet;
mod told;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::domain::{Inquiry, Json, JudgedPartition, Measure, Usage};

pub use config::{
    AnthropicConfig, BedrockConfig, CacheConfig, Config, OpenAiConfig, Partitioning, Price, PriceBasis,
    Pricing, PromptsConfig,
};
pub use error::{BadReply, BuildError, JudgeError, JudgeErrorKind, Waiting, Window};
pub use guard::Allowance;
#[doc(hidden)]
pub use laws::hold as hold_laws;
pub use llm::{build, build_kept, build_with};
pub use prompt::check_prompts;

/// Asks a stronger model.
pub trait Judge: Send + Sync {
    /// Answers the questions of `ask`, or says why not. Never runs past `judge.deadline`; may be dropped at any time.
    fn judge<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Judgement, JudgeError>>;

    /// The same, but for claims: they are judged together, each sorted into one of GSAR's four lists, beside the other questions
    /// in the same call. A judge that cannot do so answers them as questions.
    fn partition<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Judgement, JudgeError>> {
        self.judge(ask)
    }

    /// The value of a metric of the operator's own, valid by its schema, or why there is none.
    fn measure<'a>(&'a self, measure: &'a Measure) -> BoxFuture<'a, Result<Measured, JudgeError>> {
        let _ = measure;
        async { Err(JudgeErrorKind::Unmeasured.into()) }.boxed()
    }

    /// The judge's model, for provenance.
    fn model(&self) -> &str;

    /// What its tokens are counted at; none for a judge that costs nothing by its nature.
    fn pricing(&self) -> Option<&Pricing> {
        None
    }

    /// Digest of the prompt templates, for the plan's hash and provenance; empty for a judge without prompts.
    fn prompt_digest(&self) -> &str {
        ""
    }

    /// The windows of money that are limited, as they stand.
    fn allowances(&self) -> Vec<Allowance> {
        Vec::new()
    }

    /// Writes down what has to outlive the process, if anything has. Blocks.
    fn keep(&self) {}
}

/// What a judge is asked in one call: the original states and only the questions that are left over.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// States with their leftover questions; question ids are unique over all of them and are not shown to the judge.
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

/// A question that the judge was asked and did not answer validly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered {
    /// The question's id.
    pub id: String,
    /// What was wrong with its answer.
    pub why: Flaw,
}

/// What is wrong with the answer to one question.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// The reply has no answer to it.
    #[error("has no answer")]
    Missing,
    /// The reply answers with something that is not one of its labels.
    #[error("is answered with {found:?}, which is none of its labels")]
    NotALabel {
        /// What was found, shortened.
        found: String,
    },
    /// The reply answers it twice, differently.
    #[error("is answered twice, with {first:?} and with {second:?}")]
    Torn {
        /// One label.
        first: String,
        /// The other.
        second: String,
    },
    /// The judge says that it cannot decide.
    #[error("is left open, for the judge abstains: {reason}")]
    Abstained {
        /// Why.
        reason: String,
    },
    /// The call that asked it failed; other calls of the same ask did not.
    #[error("was not answered: {error}")]
    Failed {
        /// Why.
        error: String,
    },
}

/// A judge's answer to an ask.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Judgement {
    /// One for each question that the judge answered validly; never empty unless nothing was asked.
    pub answers: Vec<Judged>,
    /// The other questions.
    pub unanswered: Vec<Unanswered>,
    /// Tokens and money over all attempts that were made for this call; zero if the answers came from the cache.
    pub usage: Usage,
    /// Whether an equal ask had been answered before, or was being answered.
    pub cached: bool,
    /// The partition of the claims, if one was asked for; the safe default, an abstention, if it is malformed.
    pub partition: Option<JudgedPartition>,
    /// What was cut from the states to fit the judge's window, in words.
    pub truncated: Vec<String>,
}

/// The value of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Valid by the metric's schema.
    pub value: Json,
    /// Tokens and money over all attempts that were made for this call; zero if the value came from the cache.
    pub usage: Usage,
    /// Whether an equal metric of an equal state had been measured before, or was being measured.
    pub cached: bool,
    /// What was cut from the state to fit the judge's window, in words.
    pub truncated: Vec<String>,
}
