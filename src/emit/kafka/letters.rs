//! Dead letters: what is left of verdicts that their topic never takes, in a topic that people look into.

use rdkafka::message::{Header, OwnedHeaders};

use super::{Kafka, SINK, SMALLEST, is_too_large};
use crate::domain::Verdict;
use crate::emit::{EmitError, trim};
use crate::metrics;

/// What key and headers may add to a letter.
const OVERHEAD: usize = 1_536;
/// An error's text in a header, in characters.
const ERROR_CHARS: usize = 200;

/// Why a verdict is set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// It does not fit, not even when it is cut.
    TooLarge,
    /// The brokers do not take it.
    Refused,
}

impl Reason {
    fn as_str(self) -> &'static str {
        match self {
            Reason::TooLarge => "too_large",
            Reason::Refused => "refused",
        }
    }
}

impl Kafka {
    /// Returns when the brokers have the letter: then with `refusal`, and where the letter is. If they do not take it now, with an
    /// error that asks to try all of it again.
    pub(super) async fn write_letter(
        &self,
        topic: &str,
        verdict: &Verdict,
        reason: Reason,
        refusal: EmitError,
    ) -> EmitError {
        let limit = self.config.max_message_bytes.as_usize().saturating_sub(OVERHEAD).max(SMALLEST);
        let mut value = trim::remains(verdict, limit, |verdict| self.encode(verdict));
        loop {
            let headers = self.letter_headers(verdict, reason, &refusal.message);
            match self.send(topic, verdict, headers, value.as_deref()).await {
                Ok(()) => {
                    metrics::emit_letter(SINK, reason.as_str());
                    let message = format!("{}; a dead letter is in the topic {topic}", refusal.message);
                    return EmitError { message, ..refusal };
                }
                // The headers tell enough to find the trace by.
                Err(error) if is_too_large(&error) && value.is_some() => value = None,
                Err(error) => {
                    let error = self.judged(error);
                    let message = format!("its dead letter, to the topic {topic}: {}", error.message);
                    return EmitError { message, ..error };
                }
            }
        }
    }

    fn letter_headers(&self, verdict: &Verdict, reason: Reason, error: &str) -> OwnedHeaders {
        let error: String = error.chars().take(ERROR_CHARS).collect();
        let trace_id = verdict.trace_id.map(|id| id.to_string()).unwrap_or_default();
        let own = [
            ("assayd.dead_letter.topic", self.config.topic.clone()),
            ("assayd.dead_letter.reason", reason.as_str().to_owned()),
            ("assayd.dead_letter.error", error),
            ("assayd.dead_letter.bytes", self.encode(verdict).len().to_string()),
            ("assayd.dead_letter.verdict_id", verdict.verdict_id.clone()),
            ("assayd.dead_letter.revision", verdict.revision.to_string()),
            ("assayd.dead_letter.trace_id", trace_id),
        ];
        own.iter().fold(self.headers(verdict), |headers, (key, value)| {
            headers.insert(Header { key, value: Some(value) })
        })
    }
}
