//! What a claim is held against: the observations before the answer, in order, and apart from them what the user said.

use std::collections::HashSet;

use super::matching::near;
use super::sentences::sentences;
use super::talk::states_something;
use super::units::{Index, LONGEST_SOURCE, Source};
use crate::domain::{Step, StepKind, Story};

/// Words of a user that are no question and that are so many are material, such as a document to sum up.
const MATERIAL: usize = 40;

/// Units of one claim that are looked at when evidence is cut.
const NEAREST: usize = 2_000;

/// The members of a row are kept together if there are no more.
const SMALL_ROW: usize = 12;

/// The evidence of a story's answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Evidence {
    /// The observations before the answer, each text once.
    pub observations: Vec<Source>,
    /// The users' requests before the answer.
    pub requests: Vec<Source>,
}

/// A state for a model, and what was left out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    /// One text.
    pub text: String,
    /// What was cut, in words.
    pub cut: Option<String>,
}

impl Evidence {
    /// Of a story.
    pub fn of(story: &Story) -> Self {
        let answer = story.steps.iter().rposition(|step| step.kind == StepKind::Answer);
        let before = &story.steps[..answer.unwrap_or(story.steps.len())];
        let mut evidence = Self::default();
        let mut told: HashSet<Option<&str>> = HashSet::new();
        for step in before {
            let Some(source) = source(step) else { continue };
            match step.kind {
                // A call that is told twice, or repeated with the same result, is one piece of evidence.
                StepKind::Observation if told.insert(step.text.as_deref()) => {
                    evidence.observations.push(source)
                }
                StepKind::Request => evidence.requests.push(source),
                _ => {}
            }
        }
        evidence
    }

    /// What the user stated: questions, greetings and wishes say nothing about the world.
    pub fn statements(&self) -> Vec<String> {
        let all = self.requests.iter().flat_map(|request| {
            request.text.split(|c| *c == '\n').flat_map(|line| {
                sentences(line).into_iter().map(|range| line[range].iter().collect::<String>())
            })
        });
        all.filter(|sentence| states_something(sentence)).collect()
    }

    /// Whether the user handed over something to work on, rather than a few words around a question.
    pub fn is_material(statements: &[String]) -> bool {
        statements.iter().map(|statement| statement.split_whitespace().count()).sum::<usize>() >= MATERIAL
    }

    /// The observations as one text, one after the other; at most about `budget` characters of them, those nearest to the claims.
    ///
    /// Texts stay as they are, without labels: models that read JSON lines know them by their first character.
    pub fn state(&self, index: &Index, claims: &[String], budget: usize) -> State {
        let whole: Vec<String> =
            self.observations.iter().map(|source| one_line_if_json(&source.text)).collect();
        let total: usize = whole.iter().map(|text| text.chars().count() + 1).sum();
        if total <= budget + 1 {
            return State { text: whole.join("\n"), cut: None };
        }
        let text = told(index, &choose(index, claims, budget));
        let unread = self.observations.iter().any(|source| source.text.len() > LONGEST_SOURCE);
        let note = if unread {
            format!("; no more than {LONGEST_SOURCE} of one observation were searched")
        } else {
            String::new()
        };
        let cut = format!(
            "evidence: {} of {total} characters, those nearest to the claims{note}",
            text.chars().count(),
        );
        State { text, cut: Some(cut) }
    }
}

/// Units as one text, with a mark where some are left out.
pub(super) fn told(index: &Index, units: &[usize]) -> String {
    let mut text = String::new();
    let mut last = None;
    for unit in units {
        let gap = last.is_none_or(|last| last + 1 != *unit);
        if last.is_some() {
            text.push_str(if gap { "\n…\n" } else { "\n" });
        }
        text.push_str(&index.units[*unit].told);
        last = Some(*unit);
    }
    text
}

/// The units to keep, in order: in turns the next nearest unit of each claim with what stands beside it, then from the start.
pub(super) fn choose(index: &Index, claims: &[String], budget: usize) -> Vec<usize> {
    let mut kept = Kept { units: vec![false; index.units.len()], left: budget, refused: 0 };
    let mut queues: Vec<std::vec::IntoIter<usize>> =
        claims.iter().map(|claim| near(claim, index, NEAREST).into_iter()).collect();
    while !queues.is_empty() && !kept.is_full() {
        queues.retain_mut(|queue| {
            let Some(unit) = queue.next() else { return false };
            kept.add(index, unit);
            beside(index, unit).into_iter().for_each(|neighbour| kept.add(index, neighbour));
            true
        });
    }
    let mut rest = 0..index.units.len();
    while !kept.is_full()
        && let Some(unit) = rest.next()
    {
        kept.add(index, unit);
    }
    (0..index.units.len()).filter(|unit| kept.units[*unit]).collect()
}

/// Units that are kept, within a budget of characters.
struct Kept {
    units: Vec<bool>,
    left: usize,
    refused: usize,
}

impl Kept {
    fn add(&mut self, index: &Index, unit: usize) {
        let length = index.units[unit].length + 1;
        if self.units[unit] {
            return;
        }
        if length > self.left {
            self.refused += 1;
            return;
        }
        self.units[unit] = true;
        self.left -= length;
    }

    /// Whether so many did not fit that looking on is not worth it.
    fn is_full(&self) -> bool {
        self.left == 0 || self.refused > 500
    }
}

/// The units that give a unit its sense: the rest of its row, or the sentences around it.
fn beside(index: &Index, unit: usize) -> Vec<usize> {
    let own = &index.units[unit];
    let same = |other: &usize| index.units[*other].group == own.group && *other != unit;
    let window = unit.saturating_sub(SMALL_ROW)..(unit + SMALL_ROW + 1).min(index.units.len());
    if own.is_member {
        let row: Vec<usize> = window.filter(same).collect();
        return if row.len() < SMALL_ROW { row } else { Vec::new() };
    }
    let around = [unit.checked_sub(1), Some(unit + 1)];
    around
        .into_iter()
        .flatten()
        .filter(|other| *other < index.units.len() && index.units[*other].source == own.source)
        .collect()
}

fn source(step: &Step) -> Option<Source> {
    let text = step.text.as_deref().filter(|text| !text.trim().is_empty())?;
    Some(Source { step: step.index, text: text.chars().collect() })
}

/// JSON over several lines becomes one line, its spelling kept: read line by line it would be no JSON.
fn one_line_if_json(text: &[char]) -> String {
    let plain: String = text.iter().collect();
    let trimmed = plain.trim();
    let json = trimmed.starts_with(['{', '['])
        && trimmed.contains('\n')
        && serde_json::from_str::<serde::de::IgnoredAny>(trimmed).is_ok();
    if !json {
        return trimmed.to_owned();
    }
    let mut out = String::with_capacity(trimmed.len());
    let mut quoted = false;
    let mut escaped = false;
    for c in trimmed.chars() {
        match c {
            '"' if !escaped => quoted = !quoted,
            '\n' | '\r' | '\t' | ' ' if !quoted => continue,
            _ => {}
        }
        escaped = quoted && c == '\\' && !escaped;
        out.push(c);
        // As compact JSON is written by most: a space after the marks.
        if !quoted && matches!(c, ',' | ':') {
            out.push(' ');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::tests::story;

    #[test]
    fn observations_before_the_answer_are_evidence_in_order() {
        let story = story(&[
            (StepKind::Request, "I bought shoes. Until when?"),
            (StepKind::Observation, "first"),
            (StepKind::Thought, "hm"),
            (StepKind::Observation, "second"),
            (StepKind::Observation, "first"),
            (StepKind::Observation, "  "),
            (StepKind::Answer, "It is so."),
            (StepKind::Observation, "too late"),
        ]);
        let evidence = Evidence::of(&story);
        let index = Index::new(&evidence.observations);
        assert_eq!(evidence.state(&index, &[], 1_000), State { text: "first\nsecond".to_owned(), cut: None });
        assert_eq!(evidence.statements(), ["I bought shoes."]);
    }

    #[test]
    fn json_over_several_lines_becomes_one_and_keeps_its_spelling() {
        let text: Vec<char> =
            "{\n  \"a\": 3.20,\n  \"b\": \"x \\\" {\\n y\",\n  \"c\": [1, 2]\n}".chars().collect();
        assert_eq!(one_line_if_json(&text), r#"{"a": 3.20, "b": "x \" {\n y", "c": [1, 2]}"#);
        let lines: Vec<char> = "{not json\n}".chars().collect();
        assert_eq!(one_line_if_json(&lines), "{not json\n}");
    }

    #[test]
    fn of_too_much_evidence_the_parts_nearest_to_the_claims_are_kept() {
        let filler = "Nothing of note happened on the line.\n".repeat(200);
        let long =
            format!("{filler}The penalty is 0.5% for each week of delay.\n{filler}The venue is Haifa.");
        let story = story(&[(StepKind::Observation, &long), (StepKind::Answer, "x")]);
        let evidence = Evidence::of(&story);
        let index = Index::new(&evidence.observations);
        let claims = ["The penalty is 0.5% a week.".to_owned(), "The venue is Haifa.".to_owned()];
        let state = evidence.state(&index, &claims, 400);
        assert!(state.text.contains("0.5% for each week") && state.text.contains("Haifa"), "{}", state.text);
        assert!(state.text.chars().count() <= 450);
        assert!(state.cut.unwrap().starts_with("evidence: "));
    }
}
