//! Which verdicts to show.

use regex::bytes::{Regex, RegexBuilder};
use serde_json::Value;

use super::Entry;
use crate::domain::{Label, Outcome, Tier, Time, TraceId};

/// Which verdicts to show; a field that is `None` lets all through.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// Only of this service.
    pub service: Option<String>,
    /// Only of this agent.
    pub agent: Option<String>,
    /// Only with this outcome.
    pub outcome: Option<Outcome>,
    /// Only with this label.
    pub label: Option<Label>,
    /// Only with this tier.
    pub tier: Option<Tier>,
    /// Only of this trace.
    pub trace_id: Option<TraceId>,
    /// Only those made at this time or later.
    pub since: Option<Time>,
    /// Only those that hold this text.
    pub text: Option<Needle>,
}

impl Filter {
    /// Whether it lets `entry` through.
    pub fn admits(&self, entry: &Entry) -> bool {
        fn passes<T: PartialEq>(wanted: &Option<T>, found: &Option<T>) -> bool {
            wanted.is_none() || wanted == found
        }
        passes(&self.service, &entry.service)
            && passes(&self.agent, &entry.agent)
            && passes(&self.outcome, &Some(entry.outcome))
            && passes(&self.label, &entry.label)
            && passes(&self.tier, &entry.tier)
            && passes(&self.trace_id, &entry.trace_id)
            && self.since.is_none_or(|since| entry.emitted >= since)
            && self.text.as_ref().is_none_or(|needle| needle.is_in(&entry.json))
    }
}

/// A text to look for, upper or lower case.
#[derive(Debug, Clone)]
pub struct Needle {
    text: String,
    plain: Regex,
    /// The same as it stands in JSON, where quotes and line breaks are escaped.
    escaped: Regex,
}

impl PartialEq for Needle {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Needle {
    /// Longest text, in characters.
    pub const MAX_CHARS: usize = 200;

    /// None if `text` is empty or too long to look for.
    pub fn new(text: &str) -> Option<Self> {
        if text.is_empty() || text.chars().count() > Self::MAX_CHARS {
            return None;
        }
        let quoted = Value::from(text).to_string();
        let compiled = |literal: &str| {
            RegexBuilder::new(&regex::escape(literal)).case_insensitive(true).unicode(true).build().ok()
        };
        Some(Self {
            text: text.to_owned(),
            plain: compiled(text)?,
            escaped: compiled(&quoted[1..quoted.len() - 1])?,
        })
    }

    /// Whether a value of this verdict's JSON holds it. What does not hold it at all is not parsed.
    fn is_in(&self, json: &[u8]) -> bool {
        self.escaped.is_match(json)
            && serde_json::from_slice::<Value>(json).is_ok_and(|verdict| self.is_in_values(&verdict))
    }

    /// Names of fields do not count, and neither do thresholds, or every verdict would hold the word `proceed`.
    fn is_in_values(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.plain.is_match(text.as_bytes()),
            Value::Array(items) => items.iter().any(|item| self.is_in_values(item)),
            Value::Object(fields) => fields.values().any(|field| self.is_in_values(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finds(text: &str, json: &Value) -> bool {
        Needle::new(text).unwrap().is_in(json.to_string().as_bytes())
    }

    #[test]
    fn a_text_is_found_in_values_and_not_in_names_of_fields() {
        let verdict = serde_json::json!({
            "thresholds": {"proceed": 0.8},
            "grounding": {"claims": [{"text": "Überweisung \"7\"\nkam an."}]},
        });
        assert!(finds("überweisung", &verdict));
        assert!(finds("\"7\"\nKAM", &verdict));
        assert!(!finds("proceed", &verdict));
        assert!(!finds("n", &serde_json::json!(["\n"])), "an escape is not a letter");
        assert!(!finds("a.*b", &serde_json::json!("a--b")), "a needle is no pattern");
    }

    #[test]
    fn nothing_and_too_much_are_no_needle() {
        assert!(Needle::new("").is_none());
        assert!(Needle::new(&"é".repeat(Needle::MAX_CHARS)).is_some());
        assert!(Needle::new(&"é".repeat(Needle::MAX_CHARS + 1)).is_none());
    }
}
