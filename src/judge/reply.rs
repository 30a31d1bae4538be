//! Reads a judge's text: which of the open questions does it answer validly? Pure, and safe on any text.
//!
//! A number that the judge writes about its own confidence is not read at all: it says nothing (see `docs/design.md`).

use serde_json::{Deserializer, Map};

use super::sheet::Item;
use super::{BadReply, Flaw};
use crate::domain::Json;

/// Names under which models give the pick and the reason; the first are what the prompt asks for.
const PICK: [&str; 6] = ["answer", "label", "choice", "value", "pick", "verdict"];
const REASON: [&str; 5] = ["reasoning", "reason", "explanation", "rationale", "justification"];
/// Names under which items of a list say which question they answer.
const KEY: [&str; 5] = ["key", "id", "question", "question_id", "name"];
/// A reply may hold JSON that is not the answer (quoted evidence); more than this many pieces are not looked at.
const MAX_PIECES: usize = 64;
/// Bytes of a reasoning or excerpt that are kept.
const MAX_REASONING: usize = 2000;
const MAX_EXCERPT: usize = 120;

/// The answer to one question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pick {
    /// One of the question's labels.
    pub label: String,
    /// Why.
    pub reasoning: Option<String>,
}

/// What a text answers: one per item, in order.
pub(super) type Reading = Vec<Result<Pick, Flaw>>;

/// Reads `text` as the answers to `items`; `cut` says that the endpoint stopped it at the token limit.
/// `Ok` holds at least one valid answer.
pub(super) fn read(text: &str, cut: bool, items: &[&Item]) -> Result<Reading, BadReply> {
    let text =
        without_thoughts(text).trim_matches(|letter: char| letter.is_whitespace() || letter == '\u{feff}');
    if text.is_empty() {
        return Err(if cut { BadReply::Truncated } else { BadReply::Empty });
    }
    let (pieces, ends_early) = pieces(text);
    let alone = pieces.len() == 1;
    let mut reading: Reading = vec![Err(Flaw::Missing); items.len()];
    for piece in &pieces {
        for (position, item) in items.iter().enumerate() {
            for found in answers_to(item, piece, alone && items.len() == 1) {
                merge(&mut reading[position], pick(item, found));
            }
        }
    }
    if reading.iter().any(Result::is_ok) {
        return Ok(reading);
    }
    if cut || ends_early {
        return Err(BadReply::Truncated);
    }
    if !pieces.iter().any(Json::is_object) && !pieces.iter().any(holds_objects) {
        return Err(BadReply::NotJson { excerpt: shorten(text, MAX_EXCERPT) });
    }
    match reading.into_iter().find_map(Result::err) {
        Some(first) => Err(BadReply::NothingValid { first }),
        None => Err(BadReply::Empty),
    }
}

/// Shortens a text that goes into an error or a verdict, at a character's boundary.
pub(super) fn shorten(text: &str, limit: usize) -> String {
    let text = text.trim();
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = (0..=limit).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &text[..end])
}

/// Reasoning models write their thoughts before the reply when nothing in front of them takes those out.
pub(super) fn without_thoughts(text: &str) -> &str {
    text.rsplit_once("</think>").map_or(text, |(_, rest)| rest)
}

fn holds_objects(piece: &Json) -> bool {
    piece.as_array().is_some_and(|items| items.iter().any(Json::is_object))
}

/// The JSON objects and arrays in `text`, and whether the last one ends in the middle. A cut one is closed after its last
/// complete part, so that the answers before the cut count.
pub(super) fn pieces(text: &str) -> (Vec<Json>, bool) {
    // Some proxies encode the reply twice.
    if let Ok(inner) = serde_json::from_str::<String>(text) {
        return if inner.len() < text.len() { pieces(inner.trim()) } else { (Vec::new(), false) };
    }
    let mut pieces = Vec::new();
    let mut at = 0;
    for _ in 0..MAX_PIECES {
        let Some(start) = text[at..].find(['{', '[']).map(|offset| at + offset) else { break };
        let mut stream = Deserializer::from_str(&text[start..]).into_iter::<Json>();
        match stream.next() {
            Some(Ok(piece)) => {
                at = start + stream.byte_offset();
                pieces.push(piece);
            }
            Some(Err(error)) if error.is_eof() => {
                if let Some(piece) = close(&text[start..]) {
                    pieces.push(piece);
                }
                return (pieces, true);
            }
            _ => at = start + 1,
        }
    }
    (pieces, false)
}

/// Parses JSON that ends in the middle, up to its last complete object or array.
fn close(text: &str) -> Option<Json> {
    let end = brackets(text).1?;
    let still_open = brackets(&text[..end]).0;
    let closed: String = text[..end].chars().chain(still_open.into_iter().rev()).collect();
    serde_json::from_str(&closed).ok()
}

/// The brackets that would close what is open at the end, innermost last; and where the last closing one ends.
fn brackets(text: &str) -> (Vec<char>, Option<usize>) {
    let mut open = Vec::new();
    let mut in_string = false;
    let mut escaped = false;
    let mut complete = None;
    for (at, letter) in text.char_indices() {
        if in_string {
            in_string = escaped || letter != '"';
            escaped = !escaped && letter == '\\';
            continue;
        }
        match letter {
            '"' => in_string = true,
            '{' => open.push('}'),
            '[' => open.push(']'),
            '}' | ']' => {
                open.pop();
                complete = Some(at + 1);
            }
            _ => {}
        }
    }
    (open, complete)
}

/// Everything in `piece` that answers `item`. `unnamed`: it is the only question and this the only piece, so an answer
/// that names no key can mean nothing else.
fn answers_to<'a>(item: &Item, piece: &'a Json, unnamed: bool) -> Vec<&'a Json> {
    match piece {
        Json::Object(map) => {
            if let Some(answer) = member(map, &item.key) {
                return vec![answer];
            }
            if let Some(inner) = member(map, "answers") {
                return answers_to(item, inner, unnamed);
            }
            let names_it = KEY.iter().filter_map(|name| map.get(*name)).any(|key| names(key, &item.key));
            let is_answer = first(map, &PICK).is_some();
            if names_it || (unnamed && is_answer && !map.keys().any(|key| is_key(key))) {
                return vec![piece];
            }
            Vec::new()
        }
        Json::Array(list) => {
            let unnamed = unnamed && list.len() == 1;
            list.iter()
                .filter(|entry| entry.is_object())
                .flat_map(|entry| answers_to(item, entry, unnamed))
                .collect()
        }
        _ => Vec::new(),
    }
}

pub(super) fn member<'a>(map: &'a Map<String, Json>, key: &str) -> Option<&'a Json> {
    map.get(key).or_else(|| {
        map.iter().find(|(name, _)| name.trim().eq_ignore_ascii_case(key)).map(|(_, value)| value)
    })
}

fn names(found: &Json, key: &str) -> bool {
    found.as_str().is_some_and(|found| found.trim().eq_ignore_ascii_case(key))
}

/// Whether this looks like the key of a question.
fn is_key(name: &str) -> bool {
    name.strip_prefix(['q', 'Q'])
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|digit| digit.is_ascii_digit()))
}

fn first<'a>(map: &'a Map<String, Json>, names: &[&str]) -> Option<&'a Json> {
    names.iter().find_map(|name| member(map, name)).filter(|value| !value.is_null())
}

/// Reads one answer: an object with pick and reason, or the bare pick.
fn pick(item: &Item, found: &Json) -> Result<Pick, Flaw> {
    let (picked, reasoning) = match found {
        Json::Object(map) => {
            let reasoning = first(map, &REASON).and_then(Json::as_str).filter(|text| !text.trim().is_empty());
            let named = first(map, &PICK).or_else(|| first(map, &[item.question.kind.as_str()]));
            (named.ok_or(Flaw::Missing)?, reasoning.map(|text| shorten(text, MAX_REASONING)))
        }
        Json::Null => return Err(Flaw::Missing),
        bare => (bare, None),
    };
    match label(item, picked) {
        Some(label) => Ok(Pick { label, reasoning }),
        None => {
            let shown = picked.as_str().map_or_else(|| picked.to_string(), str::to_owned);
            Err(Flaw::NotALabel { found: shorten(&shown, MAX_EXCERPT) })
        }
    }
}

/// The label that a JSON value means, if it means exactly one.
fn label(item: &Item, picked: &Json) -> Option<String> {
    let text = match picked {
        Json::String(text) => text.clone(),
        Json::Bool(truth) => truth.to_string(),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.to_string(),
            // 4.0 is level 4; 4.5 is none.
            (None, Some(level)) if level.fract() == 0.0 && level.abs() < 1e6 => format!("{level:.0}"),
            _ => return None,
        },
        _ => return None,
    };
    if let Some(exact) = item.labels.iter().find(|label| **label == text) {
        return Some(exact.clone());
    }
    let bare = plain(&text);
    let mut alike = item.labels.iter().filter(|label| plain(label) == bare);
    if let (Some(only), None) = (alike.next(), alike.next()) {
        return Some(only.clone());
    }
    let is_noul = item.question.kind.as_str() == "noul";
    match bare.as_str() {
        "yes" if is_noul => Some("true".to_owned()),
        "no" if is_noul => Some("false".to_owned()),
        _ => None,
    }
}

/// A label without case, quotes, spaces and a full stop around it.
pub(super) fn plain(label: &str) -> String {
    label.trim_matches(|letter: char| letter.is_whitespace() || "\"'`*.".contains(letter)).to_lowercase()
}

/// A valid answer beats a flaw; two different valid answers are none.
fn merge(known: &mut Result<Pick, Flaw>, found: Result<Pick, Flaw>) {
    match (&*known, &found) {
        (Err(Flaw::Torn { .. }), _) => {}
        (Ok(first), Ok(second)) if first.label != second.label => {
            *known = Err(Flaw::Torn { first: first.label.clone(), second: second.label.clone() });
        }
        (Ok(_), _) => {}
        (Err(_), _) => *known = found,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sheet::Sheet;
    use super::super::sheet::tests::{ask, choice};
    use super::*;
    use crate::domain::{Kind, Question, Subject};

    fn typed(id: &str, kind: Kind) -> Question {
        Question { id: id.to_owned(), kind, instructions: Json::Null, subject: Subject::General }
    }

    /// q1: grounded or ungrounded; q2: noul; q3: five levels.
    fn three() -> Vec<Question> {
        vec![
            choice("a", &["grounded", "ungrounded"]),
            typed("b", Kind::Noul { if_true: None, if_false: None }),
            typed("c", Kind::Score { levels: vec![Json::Null; 5] }),
        ]
    }

    fn read_for(
        questions: Vec<Question>,
        text: &str,
        cut: bool,
    ) -> Result<Vec<Result<String, Flaw>>, BadReply> {
        let ask = ask("s", questions);
        let sheet = Sheet::new(&ask.inquiries, false).unwrap();
        let items: Vec<&Item> = sheet.items.iter().collect();
        let reading = read(text, cut, &items)?;
        Ok(reading.into_iter().map(|answer| answer.map(|pick| pick.label)).collect())
    }

    fn all(text: &str) -> Vec<Result<String, Flaw>> {
        read_for(three(), text, false).unwrap()
    }

    fn one(text: &str) -> Result<String, BadReply> {
        let reading = read_for(three()[..1].to_vec(), text, false)?;
        Ok(reading[0].clone().unwrap())
    }

    fn labels(found: [&str; 3]) -> Vec<Result<String, Flaw>> {
        found.map(|label| Ok(label.to_owned())).to_vec()
    }

    const RIGHT: &str = r#"{"answers":{"q1":{"reasoning":"r","answer":"grounded"},"q2":{"answer":"true"},"q3":{"answer":"4"}}}"#;

    #[test]
    fn answers_are_found_in_every_shape_that_models_give_them() {
        let fenced = format!("Here is my judgement:\n```json\n{RIGHT}\n```\nLet me know if you need more.");
        let twice_encoded = serde_json::to_string(RIGHT).unwrap();
        let shapes = [
            RIGHT,
            &fenced,
            &twice_encoded,
            r#"{"q1":"grounded","q2":true,"q3":4}"#,
            r#"{"answers":[{"key":"q1","answer":"grounded"},{"id":"q2","value":"yes"},{"question":"q3","label":4.0}]}"#,
            r#"[{"key":"q3","answer":"4"},{"key":"q1","answer":"grounded"},{"key":"q2","answer":true}]"#,
            r#"{"Answers":{"Q1":{"Answer":" Grounded. "},"q2":{"noul":"TRUE"},"q3":{"score":4,"confidence":0.2}},"q9":1}"#,
            "<think>{\"q1\":\"ungrounded\"}, or is it?</think>{\"q1\":\"grounded\"}\n{\"q2\":true}\n{\"q3\":4}",
        ];
        for shape in shapes {
            assert_eq!(all(shape), labels(["grounded", "true", "4"]), "{shape}");
        }
    }

    #[test]
    fn valid_answers_are_kept_and_the_others_say_what_is_wrong() {
        let reading = all(r#"{"q1":{"answer":"supported"},"q3":{"answer":2}}"#);
        assert_eq!(reading[0], Err(Flaw::NotALabel { found: "supported".into() }));
        assert_eq!(reading[1], Err(Flaw::Missing));
        assert_eq!(reading[2], Ok("2".into()));
    }

    #[test]
    fn a_reply_that_is_no_answer_says_what_it_is() {
        let not_json = |text: &str| BadReply::NotJson { excerpt: text.to_owned() };
        assert_eq!(one("  \n"), Err(BadReply::Empty));
        assert_eq!(one("Score: 5"), Err(not_json("Score: 5")));
        assert_eq!(one("I'm sorry, I can't help."), Err(not_json("I'm sorry, I can't help.")));
        assert_eq!(one(r#"{"q1":{"answer":NaN}}"#), Err(not_json(r#"{"q1":{"answer":NaN}}"#)));
        assert_eq!(one("[1, 2]"), Err(not_json("[1, 2]")));
        let nothing = |first| Err(BadReply::NothingValid { first });
        assert_eq!(one(r#"{"score":5}"#), nothing(Flaw::Missing));
        assert_eq!(one(r#"{"q1":{"answer":"NaN"}}"#), nothing(Flaw::NotALabel { found: "NaN".into() }));
        assert_eq!(
            one(r#"{"q1":{"answer":["grounded"]}}"#),
            nothing(Flaw::NotALabel { found: r#"["grounded"]"#.into() })
        );
        assert_eq!(one(r#"{"q1":{"reasoning":"r"}}"#), nothing(Flaw::Missing));
        assert_eq!(one(r#"{"q2":"grounded"}"#), nothing(Flaw::Missing));
    }

    #[test]
    fn a_level_out_of_range_or_between_levels_is_no_label() {
        for wrong in ["5", "-1", "1.5", "1e99"] {
            let reading = all(&format!(r#"{{"q1":"grounded","q3":{wrong}}}"#));
            assert!(matches!(reading[2], Err(Flaw::NotALabel { .. })), "{wrong}: {reading:?}");
        }
    }

    #[test]
    fn answers_before_a_cut_count_and_the_one_that_was_cut_does_not() {
        let cut = r#"{"answers":{"q1":{"reasoning":"a } in \" text","answer":"grounded"},"q2":{"reasoning":"x","answer":"tru"#;
        let reading = read_for(three(), cut, true).unwrap();
        assert_eq!(reading, [Ok("grounded".to_owned()), Err(Flaw::Missing), Err(Flaw::Missing)]);
        let early = r#"{"answers":{"q1":{"reasoning":"the order"#;
        assert_eq!(read_for(three(), early, true), Err(BadReply::Truncated));
        assert_eq!(read_for(three(), early, false), Err(BadReply::Truncated));
        assert_eq!(read_for(three(), "", true), Err(BadReply::Truncated));
    }

    #[test]
    fn two_different_answers_to_one_question_are_none() {
        let torn =
            "{\"q1\":\"grounded\",\"q2\":true}\nor rather\n{\"q1\":\"ungrounded\"}\n{\"q1\":\"grounded\"}";
        let reading = all(torn);
        assert_eq!(reading[0], Err(Flaw::Torn { first: "grounded".into(), second: "ungrounded".into() }));
        assert_eq!(reading[1], Ok("true".into()));
    }

    #[test]
    fn an_answer_without_a_key_counts_only_if_it_can_mean_nothing_else() {
        assert_eq!(one(r#"{"reasoning":"r","answer":"grounded"}"#), Ok("grounded".into()));
        assert_eq!(one(r#"[{"label":"grounded"}]"#), Ok("grounded".into()));
        assert!(one(r#"{"answer":"grounded"} but the trace says {"answer":"ungrounded"}"#).is_err());
        assert!(read_for(three(), r#"{"answer":"grounded"}"#, false).is_err());
    }

    #[test]
    fn labels_that_differ_only_in_case_are_not_guessed() {
        let question = vec![choice("a", &["A", "a"])];
        assert_eq!(read_for(question.clone(), r#"{"q1":"a"}"#, false).unwrap()[0], Ok("a".into()));
        assert!(read_for(question, r#"{"q1":" A "}"#, false).is_err());
    }

    #[test]
    fn a_long_reasoning_is_shortened_at_a_character() {
        let text = format!(r#"{{"q1":{{"reasoning":"{}","answer":"grounded"}}}}"#, "é".repeat(3000));
        let ask = ask("s", three()[..1].to_vec());
        let sheet = Sheet::new(&ask.inquiries, false).unwrap();
        let reading = read(&text, false, &[&sheet.items[0]]).unwrap();
        let reasoning = reading[0].clone().unwrap().reasoning.unwrap();
        assert!(reasoning.ends_with("é…") && reasoning.len() <= MAX_REASONING + '…'.len_utf8());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn no_text_panics_and_only_labels_come_out(text in r#"(?s)([\[\]{}:,"q123 \\]|answer|grounded|true|</think>|é|.){0,80}"#, cut: bool) {
            if let Ok(reading) = read_for(three(), &text, cut) {
                let known = [vec!["grounded", "ungrounded"], vec!["false", "true"], vec!["0", "1", "2", "3", "4"]];
                for (answer, labels) in reading.iter().zip(known) {
                    if let Ok(label) = answer {
                        prop_assert!(labels.contains(&label.as_str()));
                    }
                }
            }
        }

        #[test]
        fn a_right_reply_cut_anywhere_never_changes_an_answer(at in 0..RIGHT.len()) {
            if let Ok(reading) = read_for(three(), &RIGHT[..at], true) {
                for (answer, right) in reading.iter().zip(labels(["grounded", "true", "4"])) {
                    prop_assert!(*answer == right || *answer == Err(Flaw::Missing));
                }
            }
        }
    }
}
