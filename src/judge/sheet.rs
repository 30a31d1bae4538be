//! The questions of an ask, numbered. Keys stand in for ids: an id never reaches the judge, so renaming one changes nothing.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Ask, JudgeErrorKind};
use crate::domain::{Json, Question};

/// One question of an ask.
pub(super) struct Item<'a> {
    /// What the judge calls it: `q1`, `q2`, ….
    pub key: String,
    /// The question.
    pub question: &'a Question,
    /// The labels that its answer can have.
    pub labels: Vec<String>,
    /// Position of its state in [`Sheet::states`].
    pub state: usize,
}

/// All questions of an ask, and each different state once.
pub(super) struct Sheet<'a> {
    /// The states.
    pub states: Vec<&'a Json>,
    /// The questions, in the ask's order.
    pub items: Vec<Item<'a>>,
}

impl<'a> Sheet<'a> {
    /// Numbers the questions of `ask`.
    pub fn new(ask: &'a Ask) -> Result<Self, JudgeErrorKind> {
        let mut sheet = Self { states: Vec::new(), items: Vec::new() };
        let mut ids = HashSet::new();
        for inquiry in ask.inquiries.iter().filter(|inquiry| !inquiry.questions.is_empty()) {
            let state = sheet.state(&inquiry.state);
            for question in &inquiry.questions {
                if !ids.insert(question.id.as_str()) {
                    return Err(JudgeErrorKind::RepeatedId { id: question.id.clone() });
                }
                let key = format!("q{}", sheet.items.len() + 1);
                sheet.items.push(Item { key, question, labels: question.kind.labels(), state });
            }
        }
        Ok(sheet)
    }

    fn state(&mut self, state: &'a Arc<Json>) -> usize {
        let known = self.states.iter().position(|known| std::ptr::eq(*known, &**state) || *known == &**state);
        known.unwrap_or_else(|| {
            self.states.push(state);
            self.states.len() - 1
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::domain::{Inquiry, Kind, Subject};

    /// A choice question with these options.
    pub fn choice(id: &str, options: &[&str]) -> Question {
        let options = options.iter().map(|name| ((*name).to_owned(), Json::Null)).collect();
        let instructions = Json::String(format!("What about {id}?"));
        Question {
            id: id.to_owned(),
            kind: Kind::Choice { options },
            instructions,
            subject: Subject::General,
        }
    }

    /// An ask of these questions about one state.
    pub fn ask(state: &str, questions: Vec<Question>) -> Ask {
        Ask { inquiries: vec![Inquiry::new(Arc::new(Json::String(state.to_owned())), questions)] }
    }

    #[test]
    fn equal_states_are_taken_once_and_keys_run_over_all_inquiries() {
        let mut two = ask("evidence", vec![choice("a", &["x", "y"])]);
        two.inquiries.extend(ask("evidence", vec![choice("b", &["x", "y"])]).inquiries);
        two.inquiries.extend(ask("unasked", Vec::new()).inquiries);
        let sheet = Sheet::new(&two).unwrap();
        assert_eq!(sheet.states.len(), 1);
        let keys: Vec<_> = sheet.items.iter().map(|item| (item.key.as_str(), item.state)).collect();
        assert_eq!(keys, [("q1", 0), ("q2", 0)]);
    }

    #[test]
    fn a_repeated_id_is_refused_because_its_answer_would_be_ambiguous() {
        let ask = ask("s", vec![choice("a", &["x", "y"]), choice("a", &["x", "y"])]);
        assert!(matches!(Sheet::new(&ask), Err(JudgeErrorKind::RepeatedId { id }) if id == "a"));
    }
}
