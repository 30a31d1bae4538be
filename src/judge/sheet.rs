//! The questions of an ask, numbered. Keys stand in for ids: an id never reaches the judge, so renaming one changes nothing.

use std::collections::HashSet;

use super::JudgeErrorKind;
use crate::ask::excerpt;
use crate::domain::{Inquiry, Json, Question, Questions, Subject};

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

/// One claim of an ask that wants a partition.
pub(super) struct ClaimItem<'a> {
    /// What the judge calls it: `c1`, `c2`, ….
    pub key: String,
    /// Its question's id.
    pub id: &'a str,
    /// Its position among the answer's claims.
    pub claim: usize,
    /// Its text.
    pub text: &'a str,
    /// Position of its state in [`Sheet::states`].
    pub state: usize,
}

/// All questions of an ask, and each different state once.
#[derive(Default)]
pub(super) struct Sheet<'a> {
    /// The states as the judge reads them, perhaps in part.
    pub states: Vec<String>,
    /// The questions, in the ask's order.
    pub items: Vec<Item<'a>>,
    /// The claims to partition, in the ask's order.
    pub claims: Vec<ClaimItem<'a>>,
    /// What was cut from the states, in words.
    pub cuts: Vec<String>,
    whole: Vec<&'a Json>,
}

impl<'a> Sheet<'a> {
    /// Numbers the questions of these inquiries. `partition`: those about claims become claims to partition.
    pub fn new(
        inquiries: impl IntoIterator<Item = &'a Inquiry>,
        partition: bool,
    ) -> Result<Self, JudgeErrorKind> {
        let mut sheet = Self::default();
        let mut ids = HashSet::new();
        for inquiry in inquiries.into_iter().filter(|inquiry| !inquiry.questions.is_empty()) {
            let state = sheet.state(&inquiry.state);
            for question in &inquiry.questions {
                if !ids.insert(question.id.as_str()) {
                    return Err(JudgeErrorKind::RepeatedId { id: question.id.clone() });
                }
                match claim(question).filter(|_| partition) {
                    Some((claim, text)) => {
                        let key = format!("c{}", sheet.claims.len() + 1);
                        sheet.claims.push(ClaimItem { key, id: &question.id, claim, text, state });
                    }
                    None => {
                        let key = format!("q{}", sheet.items.len() + 1);
                        let labels = question.kind.labels();
                        sheet.items.push(Item { key, question, labels, state });
                    }
                }
            }
        }
        Ok(sheet)
    }

    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && self.claims.is_empty()
    }

    fn state(&mut self, state: &'a Json) -> usize {
        let known = self.whole.iter().position(|known| std::ptr::eq(*known, state) || *known == state);
        known.unwrap_or_else(|| {
            self.whole.push(state);
            self.states.push(text(state));
            self.states.len() - 1
        })
    }

    /// Bytes of all states.
    pub fn weight(&self) -> usize {
        self.states.iter().map(String::len).sum()
    }

    /// Cuts the states to about `budget` bytes together: from each keeps what is nearest to its claims and questions. Small
    /// ones stay whole as long as they can.
    pub fn shrink(&mut self, budget: usize) {
        self.cuts.clear();
        let mut order: Vec<usize> = (0..self.whole.len()).collect();
        let whole: Vec<String> = self.whole.iter().map(|state| text(state)).collect();
        order.sort_by_key(|state| whole[*state].len());
        let mut left = budget;
        for (done, state) in order.iter().copied().enumerate() {
            let share = left / (order.len() - done);
            let full = &whole[state];
            let chars = full.chars().count();
            let most = share.saturating_mul(chars) / full.len().max(1);
            if let Some(part) = excerpt(full, &self.topics(state), most) {
                let kept = part.chars().count();
                self.cuts.push(format!(
                    "evidence for the judge: {kept} of {chars} characters, those nearest to what it was asked"
                ));
                self.states[state] = part;
            } else {
                self.states[state].clone_from(full);
            }
            left = left.saturating_sub(self.states[state].len());
        }
    }

    /// What is asked about a state, claims first.
    fn topics(&self, state: usize) -> Vec<String> {
        let claims =
            self.claims.iter().filter(|claim| claim.state == state).map(|claim| claim.text.to_owned());
        let items =
            self.items.iter().filter(|item| item.state == state).map(|item| match &item.question.subject {
                Subject::Grounding { claim: text } | Subject::Relevance { query: text } => text.clone(),
                Subject::General => self::text(&item.question.instructions),
            });
        claims.chain(items).collect()
    }
}

/// A claim's position and text, if the question is about one.
fn claim(question: &Question) -> Option<(usize, &str)> {
    let Subject::Grounding { claim } = &question.subject else { return None };
    Some((Questions::claim_of(&question.id)?, claim))
}

/// A state as the judge reads it: text as it is, anything else as JSON.
pub(super) fn text(state: &Json) -> String {
    match state {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use super::super::Ask;
    use super::*;
    use crate::domain::Kind;

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

    /// The question about the claim at a position.
    pub fn about(claim: usize, text: &str) -> Question {
        let subject = Subject::Grounding { claim: text.to_owned() };
        Question {
            subject,
            ..choice(&Questions::claim_id(claim), &["grounded", "ungrounded", "contradicted"])
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
        let sheet = Sheet::new(&two.inquiries, false).unwrap();
        assert_eq!(sheet.states.len(), 1);
        let keys: Vec<_> = sheet.items.iter().map(|item| (item.key.as_str(), item.state)).collect();
        assert_eq!(keys, [("q1", 0), ("q2", 0)]);
    }

    #[test]
    fn a_repeated_id_is_refused_because_its_answer_would_be_ambiguous() {
        let ask = ask("s", vec![choice("a", &["x", "y"]), choice("a", &["x", "y"])]);
        let error = Sheet::new(&ask.inquiries, false).err();
        assert!(matches!(error, Some(JudgeErrorKind::RepeatedId { id }) if id == "a"));
    }

    #[test]
    fn questions_about_claims_become_claims_only_for_a_partition() {
        let ask = ask("s", vec![choice("tone", &["x", "y"]), about(4, "It rains.")]);
        assert_eq!(Sheet::new(&ask.inquiries, false).unwrap().items.len(), 2);
        let sheet = Sheet::new(&ask.inquiries, true).unwrap();
        assert_eq!((sheet.items.len(), sheet.claims.len()), (1, 1));
        let claim = &sheet.claims[0];
        assert_eq!((claim.key.as_str(), claim.claim, claim.text), ("c1", 4, "It rains."));
    }

    #[test]
    fn states_are_cut_to_what_is_nearest_and_small_ones_stay_whole() {
        let filler = "Nothing of note happened on the line.\n".repeat(100);
        let long = format!("{filler}The order was refunded on Monday.\n{filler}");
        let mut two = ask(&long, vec![about(0, "The order was refunded on Monday.")]);
        two.inquiries.extend(ask("A short one.", vec![choice("b", &["x", "y"])]).inquiries);
        let mut sheet = Sheet::new(&two.inquiries, false).unwrap();
        sheet.shrink(500);
        assert!(
            sheet.states[0].contains("refunded on Monday") && sheet.weight() <= 560,
            "{:?}",
            sheet.states
        );
        assert_eq!(sheet.states[1], "A short one.");
        assert_eq!(sheet.cuts.len(), 1);
        sheet.shrink(100_000);
        assert_eq!((sheet.states[0].len(), sheet.cuts.len()), (long.len(), 0));
    }
}
