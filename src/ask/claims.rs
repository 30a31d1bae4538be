//! The claims of an answer, and how each is put to a model.

use std::ops::Range;

use super::blocks::{Block, blocks, cells};
use super::records::{Record, records};
use super::sentences::{sentences, trim};
use super::talk::{is_lead_in, states_something};

/// A claim before its evidence is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Characters of the answer, from and up to.
    pub range: Range<usize>,
    /// The claim as a sentence that can be understood alone: Markdown taken out, a fragment's context put in front.
    pub asked: String,
}

/// Items and cells of fewer words are fragments: they need the words that lead to them.
const FRAGMENT: usize = 8;

/// An answer whose only claim has fewer words is read as the end of its question.
const TERSE: usize = 4;

/// Context is for understanding; more of it would drown the claim.
const LONGEST_CONTEXT: usize = 200;

/// The claims of an answer, in order; their ranges neither touch nor leave the answer. `request` is what it answers.
///
/// - Running text: its sentences, but for questions, greetings, offers of help and the like.
/// - Lists: each item's sentences; a fragment with the words that lead to its list ("It costs:" + "EUR 4.95").
/// - Tables: each row below the header, as `column: cell; column: cell`.
/// - Headings and rules are no claims. Code is no statement about the world and is left out.
/// - An answer that is one JSON object or array, bare or in a fence, is data: each of its members is a claim.
pub(super) fn claims(answer: &[char], request: Option<&str>) -> Vec<Found> {
    if let Some(members) = data(answer) {
        return members;
    }
    let mut reader = Reader { answer, found: Vec::new(), lead_in: None, parents: Vec::new() };
    for block in blocks(answer) {
        reader.read(&block);
    }
    let mut found = reader.found;
    if found.is_empty() {
        found.extend(terse(answer));
    }
    if let [only] = &mut found[..]
        && only.asked.split_whitespace().count() < TERSE
        && let Some(question) = request.and_then(last_question)
    {
        only.asked = format!("{question} {}", only.asked);
    }
    found
}

/// Reads block after block and remembers what a fragment would need.
struct Reader<'a> {
    answer: &'a [char],
    found: Vec<Found>,
    /// The words that lead to the next list or table.
    lead_in: Option<String>,
    /// Items that lead to inner items, with their depths.
    parents: Vec<(usize, String)>,
}

impl Reader<'_> {
    fn read(&mut self, block: &Block) {
        match block {
            Block::Heading(range) => {
                let heading = clean(&self.answer[range.clone()]);
                self.lead_in = (!heading.is_empty()).then_some(heading);
                self.parents.clear();
            }
            Block::Prose(range) => {
                self.lead_in = None;
                self.parents.clear();
                self.sentences(range, None);
            }
            Block::Item { range, depth } => {
                self.parents.retain(|(above, _)| above < depth);
                let context =
                    self.parents.last().map(|(_, text)| text.clone()).or_else(|| self.lead_in.clone());
                let before = self.lead_in.clone();
                self.sentences(range, context.as_deref());
                // What an item leads to is its inner items, not the items beside it.
                let leads = self.lead_in.take().filter(|text| Some(text) != before.as_ref());
                self.lead_in = before;
                let text = leads.unwrap_or_else(|| clean(&self.answer[range.clone()]));
                self.parents.push((*depth, context.map_or(text.clone(), |context| join(&context, &text))));
            }
            Block::Row { range, header } => {
                let row = cells(&self.answer[range.clone()]);
                let named = header.iter().map(Some).chain(std::iter::repeat(None));
                let parts: Vec<String> = row
                    .iter()
                    .zip(named)
                    .filter(|(cell, _)| !cell.is_empty())
                    .map(|(cell, name)| match name {
                        Some(name) if !name.is_empty() => format!("{}: {}", plain(name), plain(cell)),
                        _ => plain(cell),
                    })
                    .collect();
                let asked = parts.join("; ");
                if asked.chars().any(char::is_alphanumeric) {
                    self.found.push(Found { range: range.clone(), asked });
                }
            }
            Block::Code(_) => {}
        }
    }

    /// Adds the statements among the sentences of a range; remembers a last sentence that leads to what follows.
    fn sentences(&mut self, range: &Range<usize>, context: Option<&str>) {
        for sentence in sentences(&self.answer[range.clone()]) {
            let sentence = range.start + sentence.start..range.start + sentence.end;
            let asked = clean(&self.answer[sentence.clone()]);
            if is_lead_in(&asked) {
                self.lead_in = Some(asked.clone());
            }
            if !states_something(&asked) {
                continue;
            }
            let fragment = asked.split_whitespace().count() < FRAGMENT;
            let asked = match context {
                Some(context) if fragment => join(context, &asked),
                _ => asked,
            };
            self.found.push(Found { range: sentence, asked });
        }
    }
}

/// "Yes." to a question is a claim that only the question makes clear: the first word of assent, or else nothing.
fn terse(answer: &[char]) -> Option<Found> {
    let all = trim(answer, 0..answer.len());
    let text = clean(&answer[all.clone()]);
    let words: Vec<String> = text
        .split_whitespace()
        .map(|word| word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect())
        .collect();
    let assent = [
        "yes",
        "no",
        "true",
        "false",
        "ja",
        "nein",
        "oui",
        "non",
        "sí",
        "sim",
        "não",
        "да",
        "нет",
        "نعم",
        "לא",
        "כן",
        "是",
        "不是",
        "はい",
        "いいえ",
    ];
    let is_assent = words.len() == 1 && words.first().is_some_and(|word| assent.contains(&word.as_str()));
    is_assent.then_some(Found { range: all, asked: text })
}

/// The last question of a request, for an answer that makes no sense without it.
fn last_question(request: &str) -> Option<String> {
    let chars: Vec<char> = request.chars().collect();
    let asked = sentences(&chars).pop().map(|range| clean(&chars[range]))?;
    (asked.chars().count() <= LONGEST_CONTEXT).then_some(asked)
}

/// The members of an answer that is data.
fn data(answer: &[char]) -> Option<Vec<Found>> {
    let all = match &blocks(answer)[..] {
        [Block::Code(range)] => trim(answer, range.clone()),
        _ => trim(answer, 0..answer.len()),
    };
    let records = records(&answer[all.clone()])?;
    let shift = |range: &Range<usize>| all.start + range.start..all.start + range.end;
    let found = records
        .iter()
        .filter(|record| record.says_something())
        .map(|record: &Record| Found { range: shift(&record.range), asked: record.told() });
    Some(found.collect())
}

/// "Your options:" and "a refund" are "Your options: a refund".
fn join(context: &str, text: &str) -> String {
    let context = context.trim_end_matches(['.', ' ']);
    let context: String = match context.char_indices().nth(LONGEST_CONTEXT) {
        // The end of a long lead-in is what leads.
        Some(_) => context.chars().skip(context.chars().count() - LONGEST_CONTEXT).collect(),
        None => context.to_owned(),
    };
    if context.ends_with([':', '：']) { format!("{context} {text}") } else { format!("{context}: {text}") }
}

/// Text as it is read: no emphasis, links by their words, one space between words.
fn clean(text: &[char]) -> String {
    plain(&text.iter().collect::<String>())
}

fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let chars: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < chars.len() {
        match chars[at] {
            '*' | '`' => at += 1,
            '_' if chars.get(at + 1) == Some(&'_') => at += 2,
            '[' => match link(&chars, at) {
                Some((words, end)) => {
                    out.push_str(&plain(&words));
                    at = end;
                }
                None => {
                    out.push('[');
                    at += 1;
                }
            },
            c => {
                out.push(c);
                at += 1;
            }
        }
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `[words](address)` at `at`: the words and where it ends. Bounded, so that brackets without end cost little.
fn link(chars: &[char], at: usize) -> Option<(String, usize)> {
    let close = chars[at + 1..].iter().take(300).position(|c| matches!(c, ']' | '['))? + at + 1;
    if chars[close] != ']' || chars.get(close + 1) != Some(&'(') {
        return None;
    }
    let end = chars[close + 2..].iter().take(2_000).position(|c| matches!(c, ')' | '\n'))? + close + 2;
    (chars[end] == ')').then(|| (chars[at + 1..close].iter().collect(), end + 1))
}
