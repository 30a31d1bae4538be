//! The members of JSON text, with their places in it: `"open": 6500.0` is a piece of evidence, or a claim, of its own.

use std::ops::Range;

use super::words::spaced;

/// A member of a record: a scalar, or a short list of scalars, with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// Characters of the JSON text, the key included.
    pub range: Range<usize>,
    /// The keys that lead to it, as words.
    pub path: String,
    /// The value, as text.
    pub value: String,
    /// Which object or row it belongs to; equal for members of one.
    pub group: usize,
}

impl Record {
    /// `path: value`, as a sentence that can be understood alone.
    pub fn told(&self) -> String {
        let value = self.value.split_whitespace().collect::<Vec<_>>().join(" ");
        if self.path.is_empty() { value } else { format!("{}: {value}", self.path) }
    }

    /// Whether there is a value at all.
    pub fn says_something(&self) -> bool {
        self.value != "null" && self.value.chars().any(char::is_alphanumeric)
    }
}

/// Deeper values are one piece.
const DEEPEST: usize = 48;

/// A list of scalars that is longer, in characters, is taken item by item.
const SHORT_LIST: usize = 120;

/// The members of a JSON object or array in order; none if the text is no such thing.
pub(super) fn records(text: &[char]) -> Option<Vec<Record>> {
    if !matches!(text.first(), Some('{' | '[')) {
        return None;
    }
    let json: String = text.iter().collect();
    // The scan below relies on valid JSON. Values are not kept: only their places matter.
    serde_json::from_str::<serde::de::IgnoredAny>(&json).ok()?;
    let mut scan = Scan { text, at: 0, found: Vec::new(), groups: 0 };
    scan.value(0, "", 0, 0);
    Some(scan.found)
}

/// Walks over valid JSON. On anything unexpected it moves on by one character, so it ends on every input.
struct Scan<'a> {
    text: &'a [char],
    at: usize,
    found: Vec<Record>,
    groups: usize,
}

impl Scan<'_> {
    /// Reads a value; `from` is where its key began, `group` is the object that holds it.
    fn value(&mut self, from: usize, path: &str, group: usize, depth: usize) {
        self.space();
        match self.peek() {
            Some('{') if depth < DEEPEST => self.object(path, depth),
            Some('[') if depth < DEEPEST => self.array(from, path, group, depth),
            Some('{' | '[') => {
                let start = self.at;
                self.skip();
                let value = self.text[start..self.at].iter().collect();
                self.push(from, path, value, group);
            }
            Some(_) => {
                let value = self.scalar();
                self.push(from, path, value, group);
            }
            None => {}
        }
    }

    fn object(&mut self, path: &str, depth: usize) {
        self.groups += 1;
        let group = self.groups;
        self.at += 1;
        loop {
            self.space();
            match self.peek() {
                None => return,
                Some('}') => {
                    self.at += 1;
                    return;
                }
                Some('"') => {
                    let from = self.at;
                    let key: Vec<char> = self.string().chars().collect();
                    let key: String = spaced(&key).into_iter().collect();
                    self.space();
                    if self.peek() == Some(':') {
                        self.at += 1;
                    }
                    let inner = if path.is_empty() { key } else { format!("{path} {key}") };
                    self.value(from, &inner, group, depth + 1);
                }
                Some(_) => self.at += 1,
            }
        }
    }

    fn array(&mut self, from: usize, path: &str, group: usize, depth: usize) {
        let start = self.at;
        let mut look = Scan { text: self.text, at: start, found: Vec::new(), groups: 0 };
        if let Some(value) = look.short_list() {
            self.at = look.at;
            self.push(from, path, value, group);
            return;
        }
        self.at += 1;
        loop {
            self.space();
            match self.peek() {
                None => return,
                Some(']') => {
                    self.at += 1;
                    return;
                }
                Some(',') => self.at += 1,
                Some(_) => {
                    let item = self.at;
                    self.groups += 1;
                    let own = self.groups;
                    self.value(item, path, own, depth + 1);
                    if self.at == item {
                        self.at += 1;
                    }
                }
            }
        }
    }

    /// A list of scalars that is short enough to be one piece: its values, joined.
    fn short_list(&mut self) -> Option<String> {
        let start = self.at;
        let mut values = Vec::new();
        self.at += 1;
        loop {
            self.space();
            match self.peek()? {
                ']' => break,
                ',' => self.at += 1,
                '{' | '[' => return None,
                _ => values.push(self.scalar()),
            }
            if self.at - start > SHORT_LIST {
                return None;
            }
        }
        self.at += 1;
        Some(if values.is_empty() { "none".to_owned() } else { values.join(", ") })
    }

    fn scalar(&mut self) -> String {
        if self.peek() == Some('"') {
            return self.string();
        }
        let start = self.at;
        while self.peek().is_some_and(|c| !matches!(c, ',' | '}' | ']' | ':') && !c.is_whitespace()) {
            self.at += 1;
        }
        if self.at == start {
            self.at += 1;
        }
        self.text[start..self.at].iter().collect()
    }

    /// The content of the string at this place, its escapes undone.
    fn string(&mut self) -> String {
        let start = self.at;
        self.at += 1;
        while let Some(c) = self.peek() {
            self.at += 1;
            match c {
                '\\' => self.at += 1,
                '"' => break,
                _ => {}
            }
        }
        self.at = self.at.min(self.text.len());
        let quoted: String = self.text[start..self.at].iter().collect();
        // A lone surrogate is valid JSON for some parsers: then the raw text must do.
        serde_json::from_str(&quoted).unwrap_or_else(|_| quoted.trim_matches('"').to_owned())
    }

    /// Steps over a whole value of any depth.
    fn skip(&mut self) {
        let mut depth = 0usize;
        while let Some(c) = self.peek() {
            match c {
                '"' => {
                    self.string();
                    continue;
                }
                '{' | '[' => depth += 1,
                '}' | ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    fn push(&mut self, from: usize, path: &str, value: String, group: usize) {
        let range = from..self.at.min(self.text.len());
        self.found.push(Record { range, path: path.to_owned(), value, group });
    }

    fn space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Vec<(String, String, usize)> {
        let chars: Vec<char> = text.chars().collect();
        let found = records(&chars).unwrap_or_else(|| panic!("{text} is JSON"));
        found
            .into_iter()
            .map(|record| (chars[record.range.clone()].iter().collect(), record.told(), record.group))
            .collect()
    }

    #[test]
    fn members_are_found_with_their_keys_and_their_rows() {
        let found = read(
            r#"{"orderId": "NW-1", "lines": [{"sku": "A", "on_hand": 42}, {"sku": "B", "on_hand": 0}], "paid": 4000.0}"#,
        );
        let texts: Vec<&str> = found.iter().map(|(text, ..)| text.as_str()).collect();
        assert_eq!(
            texts,
            [
                r#""orderId": "NW-1""#,
                r#""sku": "A""#,
                r#""on_hand": 42"#,
                r#""sku": "B""#,
                r#""on_hand": 0"#,
                r#""paid": 4000.0"#
            ]
        );
        assert_eq!(found[2].1, "lines on hand: 42");
        assert_eq!(found[1].2, found[2].2);
        assert_ne!(found[2].2, found[3].2);
        assert_eq!(found[0].2, found[5].2);
    }

    #[test]
    fn short_lists_are_one_piece_and_rows_of_values_too() {
        let found = read(r#"{"tags": ["a", "b"], "points": [["14:02", 1180], ["14:04", 30012]]}"#);
        let told: Vec<&str> = found.iter().map(|(_, told, _)| told.as_str()).collect();
        assert_eq!(told, ["tags: a, b", "points: 14:02, 1180", "points: 14:04, 30012"]);
        assert_eq!(found[1].0, r#"["14:02", 1180]"#);
    }

    #[test]
    fn escapes_are_undone_in_values_and_counted_in_ranges() {
        let found = read(r#"{"text": "a \"b\"\nc é", "n": null}"#);
        assert_eq!(found[0].0, r#""text": "a \"b\"\nc é""#);
        assert_eq!(found[0].1, "text: a \"b\" c é");
        assert_eq!(found[1].1, "n: null");
    }

    #[test]
    fn what_is_no_json_object_or_array_has_no_members() {
        for text in ["", "text", "12", "{\"a\": }", "[1, 2", "{'a': 1}", "\"x\""] {
            assert_eq!(records(&text.chars().collect::<Vec<_>>()), None, "{text}");
        }
        assert_eq!(records(&['{', '}']), Some(vec![]));
    }

    #[test]
    fn deep_values_are_one_piece() {
        let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
        let found = read(&deep);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0.chars().filter(|c| *c == '1').count(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_text_is_read_without_panic_and_in_bounds(text in r#"[\[\]{}",:\\a1 é\n]{0,60}"#) {
            let chars: Vec<char> = text.chars().collect();
            let trimmed = chars.clone();
            for record in records(&trimmed).unwrap_or_default() {
                prop_assert!(record.range.start <= record.range.end && record.range.end <= chars.len());
            }
        }
    }
}
