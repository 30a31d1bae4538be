//! Masking the texts of one message.

use std::collections::{BTreeMap, HashMap};
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
        for (start, (end, word)) in found {
            out.push_str(&text[from..start]);
            out.push_str(&self.marker(word, &text[start..end]));
            from = end;
        }
        out.push_str(&text[from..]);
        out
    }

    /// The value with markers in its texts, its numbers and the names of its members. A member's name says what it is:
    /// `{"password": "…"}` is masked as `password: …` would be.
    pub fn json(&mut self, value: &Json) -> Json {
        match value {
            Json::String(text) => Json::String(self.text(text)),
            Json::Number(number) => {
                let (shown, masked) = (number.to_string(), self.text(&number.to_string()));
                if masked == shown { value.clone() } else { Json::String(masked) }
            }
            Json::Array(items) => Json::Array(items.iter().map(|item| self.json(item)).collect()),
            Json::Object(members) => {
                let masked = members.iter().map(|(name, member)| {
                    let member = match member {
                        Json::String(text) => Json::String(self.member(name, text)),
                        Json::Number(number) => {
                            let (shown, masked) =
                                (number.to_string(), self.member(name, &number.to_string()));
                            if masked == shown { member.clone() } else { Json::String(masked) }
                        }
                        other => self.json(other),
                    };
                    (self.text(name), member)
                });
                Json::Object(masked.collect())
            }
            other => other.clone(),
        }
    }

    fn member(&mut self, name: &str, text: &str) -> String {
        let named = format!("{name}: {text}");
        let start = named.len() - text.len();
        if self.found(&named).range(start..).next().is_some() && self.found(text).is_empty() {
            return self.text(&named)[start..].to_owned();
        }
        self.text(text)
    }

    /// What is masked, apart from each other: ends and markers by where they start. The operator's own patterns have the first say.
    fn found(&self, text: &str) -> BTreeMap<usize, (usize, String)> {
        let mut all = BTreeMap::new();
        for (marker, regex) in self.redactor.patterns.iter() {
            for found in regex.find_iter(text) {
                take(&mut all, found.range(), marker);
            }
        }
        for finding in find(text, &self.redactor.kinds) {
            take(&mut all, finding.range, finding.kind.marker());
        }
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

/// Takes a range unless a part of it is taken.
fn take(all: &mut BTreeMap<usize, (usize, String)>, range: Range<usize>, marker: &str) {
    let before = all.range(..range.end).next_back();
    let is_free = before.is_none_or(|(_, (end, _))| *end <= range.start);
    if is_free && !range.is_empty() {
        all.insert(range.start, (range.end, marker.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
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
    fn neither_numbers_nor_names_of_members_carry_out_what_texts_may_not() {
        let redactor = redactor(&[("ORDER", r"\b48213\d\b")]);
        let value = json!({
            "balances": { "jane.roe@posteo.de": 12.5, "max.moritz@posteo.de": 7 },
            "card": 4539148803436467_u64,
            "orders": [482131, 17],
        });
        let masked = json!({
            "balances": { "[EMAIL]": 12.5, "[EMAIL 2]": 7 },
            "card": "[CARD]",
            "orders": ["[ORDER]", 17],
        });
        assert_eq!(redactor.mask().json(&value), masked);
    }

    #[test]
    fn the_first_say_holds_wherever_a_later_finding_overlaps() {
        let mut all = BTreeMap::new();
        take(&mut all, 10..20, "FIRST");
        for range in [5..11, 19..25, 12..15, 0..30, 10..20, 3..3] {
            take(&mut all, range, "LATER");
        }
        assert_eq!(all.len(), 1);
        take(&mut all, 20..25, "AFTER");
        take(&mut all, 5..10, "BEFORE");
        assert_eq!(all.into_values().map(|(end, _)| end).collect::<Vec<_>>(), [10, 20, 25]);
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
