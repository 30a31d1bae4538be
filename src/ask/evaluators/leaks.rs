//! What an answer, or the arguments of a call, give away: found by rule, put to a model only so that it can discard examples.

use std::collections::{BTreeMap, HashSet};

use serde_json::json;

use crate::domain::{Json, StepKind, Story};
use crate::find::{self, Finding, Kind};

/// Characters around a value that a model gets to see.
const AROUND: usize = 80;

/// Values that a model gets to see.
const MOST: usize = 20;

/// What was found in a story.
#[derive(Debug, Default)]
pub(super) struct Leaks {
    /// Values that may be real, each with the text around it; for a model.
    suspects: Vec<Json>,
    counts: BTreeMap<Kind, usize>,
    /// Values that are only examples, or that the user brought.
    discarded: usize,
}

impl Leaks {
    /// In the last turn of a story.
    pub fn of(story: &Story, kinds: &[Kind], in_calls: bool) -> Self {
        let mut leaks = Self::default();
        let said = Said::new(story);
        let mut seen = HashSet::new();
        if let Some(answer) = &story.answer {
            leaks.search(answer, "answer", kinds, &said, &mut seen);
        }
        if in_calls {
            let last_turn = story.steps.last().map_or(1, |step| step.turn);
            let calls =
                story.steps.iter().filter(|step| step.kind == StepKind::ToolCall && step.turn == last_turn);
            for arguments in calls.filter_map(|call| call.arguments.as_ref()) {
                leaks.search(&arguments.to_string(), "arguments of a tool call", kinds, &said, &mut seen);
            }
        }
        leaks
    }

    /// Whether there is nothing left to ask about.
    pub fn is_empty(&self) -> bool {
        self.suspects.is_empty()
    }

    /// What was found, by kind and without the values: `2 e-mail addresses` is for people, a value is for nobody.
    pub fn summary(&self) -> String {
        let mut parts: Vec<String> =
            self.counts.iter().map(|(kind, count)| format!("{count} {}", kind.as_str())).collect();
        if self.discarded > 0 {
            parts.push(format!("{} known examples or the user's own words", self.discarded));
        }
        if parts.is_empty() { "nothing found".to_owned() } else { format!("found {}", parts.join(", ")) }
    }

    /// The state for a model.
    pub fn state(&self) -> Json {
        json!({ "values": self.suspects })
    }

    fn search(&mut self, text: &str, place: &str, kinds: &[Kind], said: &Said, seen: &mut HashSet<String>) {
        for finding in find::find(text, kinds) {
            let value = &text[finding.range.clone()];
            if !seen.insert(value.to_owned()) {
                continue;
            }
            if finding.placeholder || said.by_user(finding.kind, value) {
                self.discarded += 1;
                continue;
            }
            *self.counts.entry(finding.kind).or_default() += 1;
            if self.suspects.len() < MOST {
                let view = json!({ "looks_like": finding.kind.as_str(), "value": value, "in": place, "text": around(text, &finding) });
                self.suspects.push(view);
            }
        }
    }
}

/// What the users said: personal data that they bring is no leak. A secret is one even then.
struct Said(String);

impl Said {
    fn new(story: &Story) -> Self {
        let requests = story.steps.iter().filter(|step| step.kind == StepKind::Request);
        let texts = requests.filter_map(|step| step.text.as_deref()).chain(story.request.as_deref());
        Self(texts.map(plain).collect::<Vec<_>>().join("\n"))
    }

    fn by_user(&self, kind: Kind, value: &str) -> bool {
        !Kind::SECRETS.contains(&kind) && self.0.contains(&plain(value))
    }
}

/// Without what people write differently: case, spaces, marks.
fn plain(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric() || matches!(c, '@')).flat_map(char::to_lowercase).collect()
}

fn around(text: &str, finding: &Finding) -> String {
    let before: Vec<char> = text[..finding.range.start].chars().rev().take(AROUND).collect();
    let after: String = text[finding.range.end..].chars().take(AROUND).collect();
    format!("{}{}{after}", before.iter().rev().collect::<String>(), &text[finding.range.clone()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::tests::story;

    fn pii(request: &str, answer: &str) -> Leaks {
        let story = story(&[(StepKind::Request, request), (StepKind::Answer, answer)]);
        Leaks::of(&story, &Kind::PERSONAL, false)
    }

    #[test]
    fn what_the_user_brought_and_what_is_an_example_does_not_count() {
        let leaks =
            pii("My mail is Jane.Roe@posteo.de", "I wrote to jane.roe@posteo.de and to help@example.com.");
        assert!(leaks.is_empty());
        assert_eq!(leaks.summary(), "found 2 known examples or the user's own words");
    }

    #[test]
    fn what_is_left_is_shown_with_its_surroundings_and_never_in_the_summary() {
        let leaks = pii("Who is it?", "It is max.muster@posteo.de, again max.muster@posteo.de.");
        assert_eq!(leaks.summary(), "found 1 email");
        let state = leaks.state();
        assert_eq!(state["values"][0]["value"], "max.muster@posteo.de");
        assert!(state["values"][0]["text"].as_str().unwrap().starts_with("It is max"));
        assert!(pii("x", "nothing here").is_empty());
    }

    #[test]
    fn secrets_in_the_arguments_of_calls_count() {
        let mut story =
            story(&[(StepKind::Request, "go"), (StepKind::ToolCall, ""), (StepKind::Answer, "done")]);
        story.steps[1].arguments = Some(json!({"header": "Authorization: Bearer 7f9aK2mQ8xZ1vB4nT6"}));
        assert_eq!(Leaks::of(&story, &Kind::SECRETS, true).summary(), "found 1 secret");
        assert!(Leaks::of(&story, &Kind::SECRETS, false).is_empty());
    }
}
