//! Why a judge did not answer.

use std::path::PathBuf;
use std::time::Duration;

use super::Pricing;
use crate::domain::Usage;
use crate::error::Fault;
use crate::secret::SecretError;

/// A judge did not answer; the decision model's answers stay. Never a score.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{kind}")]
pub struct JudgeError {
    /// Why.
    pub kind: JudgeErrorKind,
    /// What the attempts cost nevertheless.
    pub usage: Usage,
}

impl From<JudgeErrorKind> for JudgeError {
    fn from(kind: JudgeErrorKind) -> Self {
        Self { kind, usage: Usage::default() }
    }
}

impl JudgeError {
    /// What to do about it.
    pub fn fault(&self) -> Fault {
        self.kind.fault()
    }

    /// The word that metrics use.
    pub fn result(&self) -> &'static str {
        self.kind.result()
    }
}

/// The window of a money budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// A full hour, UTC.
    Hour,
    /// A day, UTC.
    Day,
}

impl std::fmt::Display for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Window::Hour => "hour",
            Window::Day => "day",
        })
    }
}

/// What an ask was waiting for when its deadline came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// One of the concurrent calls.
    Slot,
    /// The limit of requests or tokens per minute, or the pause that the endpoint asked for.
    Rate,
    /// The endpoint's reply.
    Reply,
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Waiting::Slot => "a free call",
            Waiting::Rate => "the rate limit",
            Waiting::Reply => "the reply",
        })
    }
}

/// The ways in which a judge does not answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum JudgeErrorKind {
    /// The ask itself is wrong.
    #[error("question id {id:?} occurs twice in one ask")]
    RepeatedId {
        /// The id.
        id: String,
    },
    /// The prompt templates do not render.
    #[error("judge prompt {template} does not render: {message}")]
    Prompt {
        /// The template's name.
        template: String,
        /// What the template engine said.
        message: String,
    },
    /// The metric's schema is none.
    #[error("the metric's schema cannot be used: {message}")]
    Schema {
        /// Why.
        message: String,
    },
    /// This judge answers typed questions only.
    #[error("this judge measures nothing")]
    Unmeasured,
    /// The ask is larger than what the judge may be sent, or than what it takes.
    #[error("the ask of about {tokens} tokens is too long for the judge ({message})")]
    TooLong {
        /// Estimate of the prompt's tokens.
        tokens: u64,
        /// Whose limit it is.
        message: String,
    },
    /// The money for this window is spent.
    #[error(
        "the judge's budget of {limit_usd} USD per {window} is spent (counted at {pricing}); it resets in {resets_in:.0?}"
    )]
    Budget {
        /// Which window.
        window: Window,
        /// Its limit.
        limit_usd: f64,
        /// What tokens are counted at.
        pricing: Box<Pricing>,
        /// When it starts anew.
        resets_in: Duration,
    },
    /// The endpoint failed so often that it is left alone for a while.
    #[error("the judge failed {failures} times in a row and is left alone for {retry_in:.0?} more")]
    Resting {
        /// Failures in a row.
        failures: u32,
        /// When it is tried again.
        retry_in: Duration,
    },
    /// The time for this ask is over.
    #[error("no judgement within {deadline:.0?}: it was waiting for {waiting}")]
    Deadline {
        /// How long an ask may take.
        deadline: Duration,
        /// What it was waiting for.
        waiting: Waiting,
    },
    /// No connection, a broken one, or no reply within the time of an attempt.
    #[error("the judge cannot be reached after {attempts} attempts: {message}")]
    Unreachable {
        /// Attempts that were made.
        attempts: u32,
        /// What the last one said.
        message: String,
    },
    /// The endpoint says that it is asked too often or is overloaded.
    #[error("the judge refused {attempts} attempts with status {status}: too many requests")]
    RateLimited {
        /// The last status: 429, 503 or 529.
        status: u16,
        /// Attempts that were made.
        attempts: u32,
        /// When to come back, if it said so.
        retry_after: Option<Duration>,
    },
    /// The account has no money or quota left; waiting does not help.
    #[error("the judge's account has no quota left (status {status}, {code})")]
    Quota {
        /// The status.
        status: u16,
        /// The provider's code.
        code: String,
    },
    /// The key is missing, wrong or may not use the model.
    #[error("the judge refuses the key (status {status}): {message}")]
    Auth {
        /// 401 or 403.
        status: u16,
        /// What the endpoint said, shortened, without the key.
        message: String,
    },
    /// There are no credentials to sign with.
    #[error("no AWS credentials for the judge: {message}")]
    Credentials {
        /// What the chain of credentials said.
        message: String,
    },
    /// Any other error of the endpoint, by status or inside a 200.
    #[error("the judge answered with an error (status {status}): {message}")]
    Status {
        /// The status.
        status: u16,
        /// What the endpoint said, shortened.
        message: String,
    },
    /// The model, or a filter before it, declines.
    #[error("the judge declines to answer: {message}")]
    Declined {
        /// Its words, shortened, or the filter's name.
        message: String,
    },
    /// The reply cannot be used, also after it was asked for again.
    #[error("the judge's reply is invalid after {tries} tries: {reply}")]
    Invalid {
        /// Replies that were read.
        tries: u32,
        /// What is wrong with the last one.
        reply: BadReply,
    },
}

impl JudgeErrorKind {
    /// The same with the endpoint's words as `hide` leaves them.
    pub(super) fn without(self, hide: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Auth { status, message } => Self::Auth { status, message: hide(&message) },
            Self::Status { status, message } => Self::Status { status, message: hide(&message) },
            Self::TooLong { tokens, message } => Self::TooLong { tokens, message: hide(&message) },
            other => other,
        }
    }

    /// What to do about it.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Budget { .. }
            | Self::Resting { .. }
            | Self::Deadline { .. }
            | Self::Unreachable { .. }
            | Self::RateLimited { .. } => Fault::Transient,
            Self::Status { status, .. } => match status {
                404 => Fault::Fatal,
                408 | 409 | 500.. => Fault::Transient,
                _ => Fault::Poison,
            },
            Self::Auth { .. }
            | Self::Credentials { .. }
            | Self::Quota { .. }
            | Self::Prompt { .. }
            | Self::Schema { .. }
            | Self::Unmeasured => Fault::Fatal,
            Self::RepeatedId { .. } | Self::TooLong { .. } | Self::Declined { .. } | Self::Invalid { .. } => {
                Fault::Poison
            }
        }
    }

    /// The word that metrics use.
    pub fn result(&self) -> &'static str {
        match self {
            Self::RepeatedId { .. }
            | Self::Prompt { .. }
            | Self::Schema { .. }
            | Self::Unmeasured
            | Self::Status { .. } => "error",
            Self::TooLong { .. } => "too_long",
            Self::Budget { .. } => "budget",
            Self::Resting { .. } => "resting",
            Self::Deadline { .. } => "deadline",
            Self::Unreachable { .. } => "unavailable",
            Self::RateLimited { .. } => "rate_limited",
            Self::Quota { .. } => "quota",
            Self::Auth { .. } | Self::Credentials { .. } => "auth",
            Self::Declined { .. } => "refused",
            Self::Invalid { .. } => "invalid",
        }
    }
}

/// What is wrong with a reply as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadReply {
    /// There is no text in it.
    #[error("it is empty")]
    Empty,
    /// The body is not what `chat/completions` answers with.
    #[error("its body is no chat completion: {message}")]
    NotACompletion {
        /// What is missing or wrong.
        message: String,
    },
    /// The body is larger than any judgement.
    #[error("its body is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// It ends in the middle and nothing before is complete.
    #[error("it is cut off at the token limit before the first answer")]
    Truncated,
    /// There is no JSON in it.
    #[error("it has no JSON object in it: {excerpt:?}")]
    NotJson {
        /// Its beginning.
        excerpt: String,
    },
    /// There is JSON, and none of it is valid by the metric's schema.
    #[error("it is not valid by the schema: {message}")]
    NotValid {
        /// What is wrong, and where.
        message: String,
    },
    /// There are two valid values that differ.
    #[error("it holds two different values, {first} and {second}")]
    Torn {
        /// One, shortened.
        first: String,
        /// The other, shortened.
        second: String,
    },
    /// There is JSON, and no partition of the claims that could be used.
    #[error("it has no partition of the claims: {message}")]
    NoPartition {
        /// What is missing or wrong.
        message: String,
    },
    /// There is JSON, and no valid answer to any question.
    #[error("it answers none of the questions: the first one {first}")]
    NothingValid {
        /// What is wrong with the first question's answer.
        first: super::Flaw,
    },
}

/// Why a judge cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The key cannot be read.
    #[error("judge.{provider}.key: {source}")]
    Key {
        /// The provider.
        provider: &'static str,
        /// Why.
        source: SecretError,
    },
    /// The address is no URL.
    #[error("judge.{provider}.url: {url:?} is no http or https address")]
    Url {
        /// The provider.
        provider: &'static str,
        /// What was written.
        url: String,
    },
    /// A key or header cannot be sent.
    #[error("judge.{provider}.{setting} cannot be sent as an HTTP header")]
    Header {
        /// The provider.
        provider: &'static str,
        /// The setting.
        setting: &'static str,
    },
    /// The files of `judge.tls` cannot be used.
    #[error("judge.tls: {0}")]
    Tls(#[from] crate::net::TlsError),
    /// This build cannot sign AWS requests.
    #[error(
        "judge.bedrock: this build cannot sign AWS requests; build assayd with `--features bedrock`, or give a Bedrock API key in judge.bedrock.key"
    )]
    NoSignatures,
    /// The HTTP client cannot be set up.
    #[error("cannot set up the HTTP client for the judge: {0}")]
    Client(#[from] reqwest::Error),
    /// A prompt template cannot be read.
    #[error("cannot read the judge prompt {path}: {source}")]
    PromptFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// What the judge has cost cannot be kept.
    #[error("cannot {action} what the judge has cost: {}: {source}", path.display())]
    Statement {
        /// The file, below `data_dir`.
        path: PathBuf,
        /// `read` or `write`.
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A prompt template is wrong.
    #[error("judge prompt {template} is wrong: {message}")]
    Prompt {
        /// The template's file or name.
        template: String,
        /// What the template engine said, with the line.
        message: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_helps_against_overload_and_not_against_a_wrong_key() {
        let status = |status| JudgeErrorKind::Status { status, message: String::new() }.fault();
        assert_eq!(status(500), Fault::Transient);
        assert_eq!(status(400), Fault::Poison);
        assert_eq!(status(404), Fault::Fatal);
        assert_eq!(JudgeErrorKind::Auth { status: 401, message: String::new() }.fault(), Fault::Fatal);
    }
}
