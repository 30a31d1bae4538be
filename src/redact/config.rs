//! The section `redact`.

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::find::Kind;

/// What is masked on its way out, by place. A list names what is masked there beside the own patterns; `null` masks nothing.
/// What the house decides for itself is decided on the raw text. Kinds: `private_key`, `api_key`, `jwt`, `password`, `secret`,
/// `card`, `iban`, `ssn`, `email`, `phone`, `ip_address`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Own patterns, masked at every place that masks anything.
    pub patterns: Vec<Pattern>,
    /// On the way to the LLM judge.
    pub judge: Option<Vec<Kind>>,
    /// On the way to a decision model behind a URL.
    pub decider: Option<Vec<Kind>>,
    /// In verdicts for the webhook.
    pub webhook: Option<Vec<Kind>>,
    /// In verdicts for Kafka.
    pub kafka: Option<Vec<Kind>>,
    /// In verdicts that go back as OTLP.
    pub otlp: Option<Vec<Kind>>,
    /// In verdicts for the file.
    pub jsonl: Option<Vec<Kind>>,
    /// In verdicts for standard output.
    pub stdout: Option<Vec<Kind>>,
    /// In the verdicts and stories that the console and `/v1/verdicts` show.
    pub console: Option<Vec<Kind>>,
}

/// A pattern of the operator's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// The marker's word: `ORDER` becomes `[ORDER]`. Capital letters, digits and underscores.
    pub marker: String,
    /// A regular expression (the syntax of Rust's crate `regex`: no look-around, and linear time on any text).
    pub regex: String,
}

/// Why a pattern cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The expression is none.
    #[error("redact.patterns: {marker}: {reason}")]
    Regex {
        /// Which pattern.
        marker: String,
        /// What is wrong.
        reason: String,
    },
    /// It matches nothing at all, and so would everywhere.
    #[error("redact.patterns: {marker}: the expression matches the empty text")]
    Empty {
        /// Which pattern.
        marker: String,
    },
    /// The marker is no word for a marker.
    #[error("redact.patterns: {marker:?} is no marker: use capital letters, digits and underscores")]
    Marker {
        /// What was given.
        marker: String,
    },
}

impl Default for Config {
    fn default() -> Self {
        let leaves_the_house = || Some(Kind::SECRETS.into_iter().chain(Kind::PERSONAL).collect());
        Self {
            patterns: Vec::new(),
            judge: leaves_the_house(),
            decider: leaves_the_house(),
            webhook: leaves_the_house(),
            kafka: None,
            otlp: None,
            jsonl: None,
            stdout: None,
            console: None,
        }
    }
}

impl Config {
    /// Adds what is wrong with this section.
    pub fn check(&self, problems: &mut Vec<String>) {
        problems.extend(
            self.patterns.iter().filter_map(|pattern| pattern.compile().err()).map(|e| e.to_string()),
        );
    }
}

impl Pattern {
    /// The expression, ready to be used.
    pub(super) fn compile(&self) -> Result<Regex, PatternError> {
        let marker = self.marker.clone();
        let is_word = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        if marker.is_empty() || !marker.chars().all(is_word) {
            return Err(PatternError::Marker { marker });
        }
        let regex = Regex::new(&self.regex)
            .map_err(|error| PatternError::Regex { marker: marker.clone(), reason: error.to_string() })?;
        if regex.is_match("") {
            return Err(PatternError::Empty { marker });
        }
        Ok(regex)
    }
}
