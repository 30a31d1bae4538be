//! Evidence in its smallest pieces (a sentence, a line, a member of a record), and which of them speak of what.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::records::records;
use super::sentences::{sentences, trim};
use super::words::{Class, words};

/// A text that is evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    /// Index of the step in the story.
    pub step: usize,
    /// Its characters.
    pub text: Vec<char>,
}

/// A piece of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unit {
    /// Position of its source.
    pub source: usize,
    /// Characters of the source's text, from and up to.
    pub range: Range<usize>,
    /// What it belongs to: a record, or a line. Equal for units of one.
    pub group: usize,
    /// Whether it is a member of a record.
    pub is_member: bool,
    /// Whether it says that something is not, is null, is zero, or is empty.
    pub denies: bool,
    /// How many figures it holds.
    pub numbers: usize,
    /// How many different words it holds.
    pub size: usize,
    /// How many characters `told` has.
    pub length: usize,
    /// The piece as words for a model: `key: value`, or the sentence.
    pub told: String,
}

/// Pieces of evidence by the words they hold.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    /// All pieces, in order.
    pub units: Vec<Unit>,
    by_word: HashMap<String, Vec<usize>>,
    /// The highest group.
    pub groups: usize,
}

/// A text beyond this many characters is not looked into: one observation of many megabytes must not hold up the rest.
pub(super) const LONGEST_SOURCE: usize = 2_000_000;

impl Index {
    /// Reads all sources.
    pub fn new(sources: &[Source]) -> Self {
        let mut index = Self::default();
        for (position, source) in sources.iter().enumerate() {
            index.read(position, &source.text[..source.text.len().min(LONGEST_SOURCE)]);
        }
        index
    }

    fn read(&mut self, source: usize, text: &[char]) {
        let all = trim(text, 0..text.len());
        if self.read_records(source, text, &all) {
            return;
        }
        let mut start = 0;
        for line in text.split(|c| *c == '\n') {
            let range = trim(text, start..start + line.len());
            start += line.len() + 1;
            if range.is_empty() || self.read_records(source, text, &range) {
                continue;
            }
            self.groups += 1;
            for sentence in sentences(&text[range.clone()]) {
                let sentence = range.start + sentence.start..range.start + sentence.end;
                let told = text[sentence.clone()].iter().collect();
                self.add(source, sentence, self.groups, false, told);
            }
        }
    }

    /// Adds the members of JSON text; false if it is none.
    fn read_records(&mut self, source: usize, text: &[char], range: &Range<usize>) -> bool {
        let Some(found) = records(&text[range.clone()]) else { return false };
        let base = self.groups + 1;
        for record in found {
            let shift = |at: usize| range.start + at;
            let group = base + record.group;
            self.groups = self.groups.max(group);
            let value: Vec<char> = record.value.chars().collect();
            let pieces = sentences(&value);
            let member = shift(record.range.start)..shift(record.range.end);
            if pieces.len() < 2 {
                self.add(source, member, group, true, record.told());
                continue;
            }
            // A text within a record: its sentences, each found again in the raw text, where escapes may have changed it.
            let mut from = member.start;
            for piece in pieces {
                let piece: String = value[piece].iter().collect();
                let place = find(text, from..member.end, &piece);
                from = place.as_ref().map_or(from, |place| place.end);
                let told = if record.path.is_empty() { piece } else { format!("{}: {piece}", record.path) };
                self.add(source, place.unwrap_or_else(|| member.clone()), group, false, told);
            }
        }
        true
    }

    fn add(&mut self, source: usize, range: Range<usize>, group: usize, is_member: bool, told: String) {
        let chars: Vec<char> = told.chars().collect();
        let said = words(&chars);
        let denies = said
            .iter()
            .any(|word| word.class == Class::Negation || (word.class == Class::Number && word.key == "0"))
            || (is_member && (told.ends_with(": none") || told.ends_with(": false") || told.ends_with(": ")));
        let numbers = said.iter().filter(|word| word.class == Class::Number).count();
        let keys: HashSet<String> = said.into_iter().map(|word| word.key).collect();
        let unit = self.units.len();
        let size = keys.len();
        for key in keys {
            self.by_word.entry(key).or_default().push(unit);
        }
        self.units.push(Unit {
            source,
            range,
            group,
            is_member,
            denies,
            numbers,
            size,
            length: chars.len(),
            told,
        });
    }

    /// The units that hold a word, in order.
    pub fn with(&self, key: &str) -> &[usize] {
        self.by_word.get(key).map_or(&[], Vec::as_slice)
    }
}

/// Where a decoded piece of text is in the raw text: literally, or with JSON's escapes.
fn find(text: &[char], within: Range<usize>, piece: &str) -> Option<Range<usize>> {
    let plain: Vec<char> = piece.chars().collect();
    let escaped: Vec<char> = serde_json::to_string(piece).ok()?.chars().collect();
    let escaped = escaped[1..escaped.len() - 1].to_vec();
    [plain, escaped].into_iter().find_map(|wanted| {
        let first = *wanted.first()?;
        let last = within.end.checked_sub(wanted.len())?;
        (within.start..=last)
            .find(|at| text[*at] == first && text[*at..*at + wanted.len()] == wanted[..])
            .map(|at| at..at + wanted.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(texts: &[&str]) -> (Index, Vec<Source>) {
        let sources: Vec<Source> = texts
            .iter()
            .enumerate()
            .map(|(step, text)| Source { step, text: text.chars().collect() })
            .collect();
        (Index::new(&sources), sources)
    }

    fn shown(index: &Index, sources: &[Source]) -> Vec<String> {
        index
            .units
            .iter()
            .map(|unit| sources[unit.source].text[unit.range.clone()].iter().collect())
            .collect()
    }

    #[test]
    fn sentences_lines_and_members_are_units_with_their_places() {
        let (found, sources) = index(&[
            "Two things. One line.\n\nWARN pool wait 812ms",
            r#" {"open": 6500.0} "#,
            "{\"a\": 1}\n{\"a\": 2}\ntext",
        ]);
        let expected = [
            "Two things.",
            "One line.",
            "WARN pool wait 812ms",
            r#""open": 6500.0"#,
            r#""a": 1"#,
            r#""a": 2"#,
            "text",
        ];
        assert_eq!(shown(&found, &sources), expected);
        assert_ne!(found.units[4].group, found.units[5].group);
    }

    #[test]
    fn a_long_text_in_a_record_is_found_sentence_by_sentence() {
        let text = r#"[{"id": "kb-1", "text": "It is kept for 180 days. He said \"no\".\nThen it goes."}]"#;
        let (found, sources) = index(&[text]);
        assert_eq!(
            shown(&found, &sources)[1..],
            ["It is kept for 180 days.", r#"He said \"no\"."#, "Then it goes."]
        );
    }

    #[test]
    fn what_denies_is_known() {
        let (found, _) = index(&[
            r#"{"next": null, "on_hand": 0, "tags": [], "n": 5}"#,
            "There is no exception. All is well.",
        ]);
        let denies: Vec<bool> = found.units.iter().map(|unit| unit.denies).collect();
        assert_eq!(denies, [true, true, true, false, true, false]);
    }
}
