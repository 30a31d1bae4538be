//! Masking the texts of one message.

use std::collections::HashMap;
use std::ops::Range;

use super::Redactor;
use crate::domain::Json;
use crate::find::find;

/// Masks the texts of one message. Values keep apart: the first e-mail address is `[EMAIL]`, another one `[EMAIL 2]`, so that who
/// reads the message can still tell whether two places name the same one.
#[derive(Debug)]
pub struct Mask<'a> {
    redactor: &'a Redactor,
    /// The marker of each value that was met.
    known: HashMap<(String, String), usize>,
    /// Values met so far, by marker.
    met: HashMap<String, usize>,
    masked: usize,
}

impl<'a> Mask<'a> {
    pub(super) fn new(redactor: &'a Redactor) -> Self {
        Self { redactor, known: HashMap::new(), met: HashMap::new(), masked: 0 }
    }

    /// Pieces that were masked so far.
    pub fn masked(&self) -> usize {
        self.masked
    }

    /// The text with markers.
    pub fn text(&mut self, text: &str) -> String {
        let found = self.found(text);
        if found.is_empty() {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for (range, word) in found {
            out.push_str(&text[from..range.start]);
            out.push_str(&self.marker(word, &text[range.clone()]));
            from = range.end;
        }
        out.push_str(&text[from..]);
        out
    }

    /// The value with markers in its texts. A member's name says what its text is: `{"password": "…"}` is masked as `password: …`
    /// would be.
    pub fn json(&mut self, value: &Json) -> Json {
        match value {
            Json::String(text) => Json::String(self.text(text)),
            Json::Array(items) => Json::Array(items.iter().map(|item| self.json(item)).collect()),
            Json::Object(members) => {
                let masked = members.iter().map(|(name, member)| {
                    let member = match member {
                        Json::String(text) => Json::String(self.member(name, text)),
                        other => self.json(other),
                    };
                    (name.clone(), member)
                });
                Json::Object(masked.collect())
            }
            other => other.clone(),
        }
    }

    fn member(&mut self, name: &str, text: &str) -> String {
        let named = format!("{name}: {text}");
        let start = named.len() - text.len();
        if self.found(&named).iter().any(|(range, _)| range.start >= start) && self.found(text).is_empty() {
            return self.text(&named)[start..].to_owned();
        }
        self.text(text)
    }

    /// What is masked, in order and apart; the operator's own patterns have the first say.
    fn found(&self, text: &str) -> Vec<(Range<usize>, String)> {
        let mut all: Vec<(Range<usize>, String)> = Vec::new();
        let is_free = |all: &[(Range<usize>, String)], range: &Range<usize>| {
            !range.is_empty()
                && all.iter().all(|(taken, _)| range.end <= taken.start || taken.end <= range.start)
        };
        for (marker, regex) in self.redactor.patterns.iter() {
            for found in regex.find_iter(text) {
                if is_free(&all, &found.range()) {
                    all.push((found.range(), marker.clone()));
                }
            }
        }
        for finding in find(text, &self.redactor.kinds) {
            if is_free(&all, &finding.range) {
                all.push((finding.range, finding.kind.marker().to_owned()));
            }
        }
        all.sort_by_key(|(range, _)| range.start);
        all
    }

    fn marker(&mut self, word: String, value: &str) -> String {
        self.masked += 1;
        let key = (word.clone(), value.to_owned());
        let number = *self.known.entry(key).or_insert_with(|| {
            let met = self.met.entry(word.clone()).or_default();
            *met += 1;
            *met
        });
        if number == 1 { format!("[{word}]") } else { format!("[{word} {number}]") }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use crate::find::Kind;
    use crate::redact::{Config, Pattern, Redactor};

    fn redactor(patterns: &[(&str, &str)]) -> Redactor {
        let patterns = patterns
            .iter()
            .map(|(marker, regex)| Pattern { marker: (*marker).into(), regex: (*regex).into() })
            .collect();
        let config = Config { patterns, ..Config::default() };
        Redactor::new(&config, config.judge.as_deref()).unwrap().unwrap()
    }

    #[test]
    fn values_become_markers_that_tell_them_apart_over_all_texts_of_a_message() {
        let redactor = redactor(&[]);
        let mut mask = redactor.mask();
        assert_eq!(mask.text("Ask jane.roe@posteo.de or max.moritz@posteo.de."), "Ask [EMAIL] or [EMAIL 2].");
        assert_eq!(mask.text("It was max.moritz@posteo.de!"), "It was [EMAIL 2]!");
        assert_eq!(mask.text("Pay 4539 1488 0343 6467"), "Pay [CARD]");
        assert_eq!(mask.masked(), 4);
        assert_eq!(redactor.mask().text("It was max.moritz@posteo.de!"), "It was [EMAIL]!");
    }

    #[test]
    fn own_patterns_come_first() {
        let redactor = redactor(&[("ORDER", r"\bNW-\d{5}\b"), ("STAFF", r"[a-z.]+@posteo\.de")]);
        let mut mask = redactor.mask();
        assert_eq!(mask.text("NW-48213 for jane.roe@posteo.de"), "[ORDER] for [STAFF]");
    }

    #[test]
    fn texts_in_json_are_masked_and_names_of_members_count() {
        let redactor = redactor(&[]);
        let value = json!({ "password": "s3cr3t-horse", "to": ["jane.roe@posteo.de", 7], "note": "none" });
        let masked = redactor.mask().json(&value);
        assert_eq!(masked, json!({ "password": "[PASSWORD]", "to": ["[EMAIL]", 7], "note": "none" }));
    }

    #[test]
    fn patterns_that_cannot_be_used_are_errors_and_nothing_is_let_through_for_them() {
        let wrong = [("ORDER", "("), ("order", "x"), ("", "x"), ("ANY", "x*")];
        for (marker, regex) in wrong {
            let patterns = vec![Pattern { marker: marker.into(), regex: regex.into() }];
            let config = Config { patterns, ..Config::default() };
            assert!(Redactor::new(&config, config.judge.as_deref()).is_err(), "{marker} {regex}");
            let mut problems = Vec::new();
            config.check(&mut problems);
            assert_eq!(problems.len(), 1);
        }
    }

    #[test]
    fn a_place_without_a_list_masks_nothing() {
        let config = Config::default();
        assert!(Redactor::new(&config, config.kafka.as_deref()).unwrap().is_none());
        let patterns = vec![Pattern { marker: "A".into(), regex: "a".into() }];
        let config = Config { patterns, kafka: Some(Vec::new()), ..config };
        assert!(Redactor::new(&config, config.kafka.as_deref()).unwrap().is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn nothing_that_can_be_found_is_left(text in r"(?s)[ -~äö日\n]{0,80}", value in r"[a-z]{2,8}@[a-z]{2,8}\.de|AKIA[A-Z0-9]{16}") {
            let redactor = redactor(&[]);
            let text = format!("{text} {value} {text}");
            let masked = redactor.mask().text(&text);
            prop_assert!(!masked.contains(&value), "{}", masked);
            prop_assert!(crate::find::find(&masked, &[Kind::Email, Kind::ApiKey]).is_empty() || masked != text);
        }
    }
}
