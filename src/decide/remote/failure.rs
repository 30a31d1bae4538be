//! What a request to a remote model comes to when it brings no answer.

use std::time::Duration;

use super::super::models::strands::Node;
use super::answer::text;
use crate::error::Fault;

/// Longest message of a server's that is shown.
const SHOWN: usize = 300;
/// The first wait before another attempt; it doubles.
const BACKOFF: Duration = Duration::from_millis(250);
/// The longest wait, also if the server asks for more.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Why there is no answer. Messages are the server's, shortened, without the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No connection, or it broke.
    #[error("{place} cannot be reached: {message}")]
    Unreachable {
        /// Which address, without its query.
        place: String,
        /// What the client said.
        message: String,
    },
    /// The time was over.
    #[error("{place} did not answer in time")]
    Timeout {
        /// Which address.
        place: String,
    },
    /// It is asked too much.
    #[error("{place} is overloaded ({status}): {message}")]
    Overloaded {
        /// Which address.
        place: String,
        /// 429, 503 or 529.
        status: u16,
        /// Its words.
        message: String,
        /// When to come back.
        retry_after: Option<Duration>,
    },
    /// It fails.
    #[error("{place} fails ({status}): {message}")]
    Broken {
        /// Which address.
        place: String,
        /// 5xx.
        status: u16,
        /// Its words.
        message: String,
    },
    /// The key is not taken.
    #[error("{place} does not take the key ({status}): {message}")]
    Denied {
        /// Which address.
        place: String,
        /// 401 or 403.
        status: u16,
        /// Its words.
        message: String,
    },
    /// It does not take this request.
    #[error("{place} refuses the request ({status}): {message}")]
    Refused {
        /// Which address.
        place: String,
        /// 400, 413 or 422.
        status: u16,
        /// Its words.
        message: String,
    },
    /// There is no such model or path, or something else that a person must look at.
    #[error("{place} answers {status}: {message}")]
    Unexpected {
        /// Which address.
        place: String,
        /// The status.
        status: u16,
        /// Its words.
        message: String,
    },
    /// A success whose body makes no sense.
    #[error("the answer of {place} makes no sense: {message}")]
    Nonsense {
        /// Which address.
        place: String,
        /// Why not.
        message: String,
    },
    /// It serves other models.
    #[error("{place} serves {found}, not {wanted}: set {setting}, or check_model: false")]
    OtherModel {
        /// Which address.
        place: String,
        /// As configured.
        wanted: String,
        /// What it told.
        found: String,
        /// The key in the configuration.
        setting: String,
    },
}

impl Failure {
    /// A response that is no success.
    pub fn of_status(place: String, status: u16, message: String, retry_after: Option<Duration>) -> Self {
        match status {
            429 | 503 | 529 => Self::Overloaded { place, status, message, retry_after },
            408 => Self::Timeout { place },
            500..=599 => Self::Broken { place, status, message },
            401 | 403 => Self::Denied { place, status, message },
            400 | 413 | 422 => Self::Refused { place, status, message },
            _ => Self::Unexpected { place, status, message },
        }
    }

    /// How long to wait before attempt number `attempt` + 1; none if it would not help. A server that fails outright is asked
    /// once more only: it may fail on this very request.
    pub fn wait(&self, attempt: u32) -> Option<Duration> {
        let backoff = BACKOFF.saturating_mul(1 << attempt.clamp(1, 10).saturating_sub(1));
        match self {
            Self::Overloaded { retry_after: Some(asked), .. } => Some((*asked).min(MAX_WAIT)),
            Self::Overloaded { .. } | Self::Unreachable { .. } => Some(backoff.min(MAX_WAIT)),
            Self::Broken { status: 500, .. } if attempt > 1 => None,
            Self::Broken { .. } => Some(backoff.min(MAX_WAIT)),
            _ => None,
        }
    }

    /// Who must act.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::Overloaded { .. }
            | Self::Broken { .. } => Fault::Transient,
            Self::Refused { .. } | Self::Nonsense { .. } => Fault::Poison,
            Self::Denied { .. } | Self::Unexpected { .. } | Self::OtherModel { .. } => Fault::Fatal,
        }
    }

    /// The word that metrics use.
    pub fn result(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "unreachable",
            Self::Timeout { .. } => "timeout",
            Self::Overloaded { .. } => "overloaded",
            Self::Broken { .. } => "error",
            Self::Denied { .. } => "denied",
            Self::Refused { .. } => "refused",
            Self::Unexpected { .. } | Self::OtherModel { .. } => "unexpected",
            Self::Nonsense { .. } => "invalid",
        }
    }
}

/// What an error body says: FastAPI's `detail` (a text, an object or a list), OpenAI's `error`, or the text itself.
pub fn message(body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    let told = Node::read(&body).ok().and_then(|node| told(&node));
    let told = told.unwrap_or_else(|| body.trim().to_owned());
    if told.is_empty() {
        return "no message".to_owned();
    }
    match told.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &told[..end]),
        None => told,
    }
}

fn told(node: &Node) -> Option<String> {
    for key in ["detail", "error", "message"] {
        match node.member(key) {
            Some(Node::String(text)) => return Some(text.clone()),
            Some(Node::Array(flaws)) => {
                let flaws: Vec<String> = flaws.iter().take(5).filter_map(flaw).collect();
                return Some(flaws.join("; ")).filter(|text| !text.is_empty());
            }
            Some(object @ Node::Object(_)) => return told(object),
            _ => {}
        }
    }
    None
}

fn flaw(node: &Node) -> Option<String> {
    let message = text(node.member("msg"))?;
    let Some(Node::Array(place)) = node.member("loc") else { return Some(message.to_owned()) };
    let steps: Vec<&str> = place
        .iter()
        .filter_map(|step| match step {
            Node::String(text) | Node::Number(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    Some(format!("{}: {message}", steps.join(".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_in_all_their_places() {
        for (body, words) in [
            (r#"{"detail": "too long"}"#, "too long"),
            (r#"{"detail": {"error_type": "not_found", "message": "no such model"}}"#, "no such model"),
            (
                r#"{"detail": [{"loc": ["body", "state"], "msg": "Field required"}]}"#,
                "body.state: Field required",
            ),
            (r#"{"error": {"message": "no key"}}"#, "no key"),
            (r#"{"error": "model not found"}"#, "model not found"),
            ("plain words\n", "plain words"),
            ("", "no message"),
        ] {
            assert_eq!(message(body.as_bytes()), words, "{body}");
        }
        assert_eq!(message("é".repeat(1_000).as_bytes()).chars().count(), SHOWN + 1);
    }

    #[test]
    fn only_what_may_pass_is_tried_again_and_what_the_server_asks_counts_up_to_a_cap() {
        let of = |status: u16, retry_after: Option<Duration>| {
            Failure::of_status("x".into(), status, String::new(), retry_after)
        };
        for status in [429, 503, 529] {
            assert_eq!(of(status, Some(Duration::from_secs(3))).wait(1), Some(Duration::from_secs(3)));
            assert_eq!(of(status, Some(Duration::from_secs(600))).wait(1), Some(MAX_WAIT));
            assert_eq!(of(status, None).wait(3), Some(BACKOFF * 4));
        }
        assert!(of(500, None).wait(1).is_some() && of(500, None).wait(2).is_none());
        assert!(of(502, None).wait(30).is_some_and(|wait| wait <= MAX_WAIT * 9));
        for status in [400, 401, 403, 404, 413, 422, 302] {
            assert_eq!(of(status, None).wait(1), None, "{status}");
        }
    }
}
