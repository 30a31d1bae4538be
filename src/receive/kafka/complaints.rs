//! Says what the brokers complain of: once when it begins, and then once in a while.

use std::time::{Duration, Instant};

use rdkafka::error::RDKafkaErrorCode;

/// How often the same complaint is repeated.
const REPEAT: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Complaints {
    last: Option<(String, Instant)>,
    is_connected: Option<bool>,
    has_told_of_notes: bool,
}

impl Complaints {
    /// An error that librdkafka deals with itself, sooner or later.
    pub fn met(&mut self, error: &dyn std::error::Error) {
        self.say(error.to_string());
    }

    /// The brokers did not take a commit, which is tried again.
    pub fn not_committed(&mut self, error: RDKafkaErrorCode) {
        self.say(format!("offsets were not committed, as happens during a rebalance: {error}"));
    }

    /// The brokers refuse a commit for the length of its note. Told once: what follows is that notes are shorter.
    pub fn note_refused(&mut self, length: usize) {
        if std::mem::replace(&mut self.has_told_of_notes, true) {
            return;
        }
        tracing::warn!(
            length,
            "kafka: the brokers refuse what receive.kafka.commit_metadata allows beside an offset; from here on less is noted, until \
             they take it. Set receive.kafka.commit_metadata to their offset.metadata.max.bytes, or raise that"
        );
    }

    fn say(&mut self, text: String) {
        let is_new =
            self.last.as_ref().is_none_or(|(last, since)| *last != text || since.elapsed() >= REPEAT);
        if is_new {
            tracing::warn!(error = text, "kafka: trying again");
            self.last = Some((text, Instant::now()));
        }
    }

    /// Whether any broker can be reached.
    pub fn connected(&mut self, is_connected: bool) {
        match (self.is_connected.replace(is_connected), is_connected) {
            (Some(true), false) => tracing::warn!("kafka: no broker can be reached; trying again"),
            (None, false) => tracing::warn!("kafka: no broker can be reached yet; trying again"),
            (Some(false) | None, true) => {
                tracing::info!("kafka: connected");
                self.last = None;
            }
            (Some(true), true) | (Some(false), false) => {}
        }
    }
}
