//! What one HTTP attempt to ask a judge comes to, whatever the provider.

use std::time::Duration;

use super::{BadReply, JudgeErrorKind};

/// Tokens of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tokens {
    /// Of the prompt.
    pub input: u64,
    /// Of the reply.
    pub output: u64,
}

impl Tokens {
    /// About how many tokens `bytes` bytes of text are; rather too many than too few for most tokenizers and languages.
    pub fn estimate(bytes: usize) -> u64 {
        (bytes as u64).div_ceil(3)
    }
}

/// A reply that came whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Completion {
    /// What the model says.
    pub said: Said,
    /// What the provider counted, if it says.
    pub tokens: Option<Tokens>,
}

/// What the model says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// A text, and whether it was cut at the token limit.
    Text {
        /// The text.
        text: String,
        /// Whether it was cut.
        cut: bool,
    },
    /// It declines, or a filter does.
    Declined {
        /// In these words.
        message: String,
    },
}

/// An attempt that brought no reply.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Failure {
    /// No connection was made: nothing was sent, nothing is billed.
    NoConnection {
        /// What the client said.
        message: String,
    },
    /// It was sent, and the connection broke or the time was over: it may have been billed.
    NoReply {
        /// What the client said.
        message: String,
        /// Whether the time was over.
        timed_out: bool,
    },
    /// The endpoint says that it is asked too much.
    Overloaded {
        /// 429, 503 or 529.
        status: u16,
        /// When to come back.
        retry_after: Option<Duration>,
    },
    /// The endpoint fails; it may work the next time.
    Broken {
        /// The status.
        status: u16,
        /// What it said, shortened.
        message: String,
    },
    /// A success whose body makes no sense: it may have been billed.
    BadBody(BadReply),
    /// The endpoint refused something of the request that the next attempt will do without.
    Adapted,
    /// Trying again does not help.
    Final(JudgeErrorKind),
}

impl Failure {
    /// Whether the same attempt may work later.
    pub fn is_transient(&self) -> bool {
        !matches!(self, Failure::Final(_) | Failure::Adapted)
    }

    /// Whether the provider may bill the attempt all the same.
    pub fn may_be_billed(&self) -> bool {
        matches!(self, Failure::NoReply { .. } | Failure::BadBody(_))
    }

    /// The same with the endpoint's words as `hide` leaves them.
    pub fn without(self, hide: impl Fn(&str) -> String) -> Self {
        match self {
            Failure::Broken { status, message } => Failure::Broken { status, message: hide(&message) },
            Failure::Final(kind) => Failure::Final(kind.without(hide)),
            other => other,
        }
    }

    /// The error of an ask whose last attempt failed so.
    pub fn into_error(self, attempts: u32) -> JudgeErrorKind {
        match self {
            Failure::NoConnection { message } | Failure::NoReply { message, .. } => {
                JudgeErrorKind::Unreachable { attempts, message }
            }
            Failure::Overloaded { status, retry_after } => {
                JudgeErrorKind::RateLimited { status, attempts, retry_after }
            }
            Failure::Broken { status, message } => JudgeErrorKind::Status { status, message },
            Failure::BadBody(reply) => JudgeErrorKind::Invalid { tries: attempts, reply },
            Failure::Adapted => {
                let message = "it refuses every way of asking for JSON".to_owned();
                JudgeErrorKind::Status { status: 400, message }
            }
            Failure::Final(kind) => kind,
        }
    }

    /// The word that metrics use.
    pub fn result(&self) -> &'static str {
        match self {
            Failure::NoConnection { .. } | Failure::NoReply { timed_out: false, .. } => "unavailable",
            Failure::NoReply { timed_out: true, .. } => "timeout",
            Failure::Overloaded { .. } => "rate_limited",
            Failure::Broken { .. } => "error",
            Failure::BadBody(_) => "invalid",
            Failure::Adapted => "unsupported",
            Failure::Final(kind) => kind.result(),
        }
    }
}
