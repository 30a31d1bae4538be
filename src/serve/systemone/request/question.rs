//! One question of a body: its form, its criteria, and what it is about.

use serde_json::json;

use super::{Dialect, MAX_FLAWS, Reader, is_text};
use crate::decide::Node;
use crate::domain::{Json, Kind, Question, Standing, Subject};
use crate::serve::systemone::flaw::{Flaw, Place};

/// What precedes the claim in assayd's own grounding questions, which another assayd may send here.
const CLAIM: &str = "\nClaim: ";

impl Reader {
    /// None if something is wrong with it, which is then among the flaws.
    pub(super) fn question(
        &mut self,
        id: String,
        node: Node,
        dialect: Dialect,
        within: &Place,
    ) -> Option<Question> {
        let place = within.at(id.clone());
        if !matches!(node, Node::Object(_)) {
            match dialect {
                Dialect::TypeSafe => self.flaw(Flaw::no_question(&place, &node)),
                Dialect::Strands => {
                    Form::ALL
                        .iter()
                        .for_each(|form| self.flaw(Flaw::no_question(&place.at(form.member()), &node)));
                }
            }
            return None;
        }
        let form = self.form(&node, dialect, &place)?;
        let place = place.at(form.member());
        let flaws = self.flaws.len();
        let criteria = node.member("criteria");
        let kind = match form {
            Form::Noul => self.noul(criteria, &place.at("criteria")),
            Form::Choice => self.choice(criteria, &node, &place.at("criteria")),
            Form::Score => self.score(criteria, &node, &place.at("criteria")),
        };
        let asked = node.member("instructions");
        let asked = asked.filter(|asked| dialect == Dialect::Strands || !matches!(asked, Node::Null));
        let at = place.at("instructions");
        match asked {
            Some(asked) if !is_text(asked) => self.no_text(&at, asked),
            None if dialect == Dialect::Strands => self.flaw(Flaw::missing(&at, &node)),
            None if matches!(&kind, Kind::Noul { if_true, if_false } if !is_described(if_true) && !is_described(if_false)) =>
            {
                self.flaw(Flaw::missing(&at, &node));
            }
            _ => {}
        }
        if self.flaws.len() > flaws || flaws >= MAX_FLAWS {
            return None;
        }
        let instructions = asked.cloned().unwrap_or(Node::Null).into_json();
        let subject = subject(&kind, &instructions);
        Some(Question { id, kind, instructions, subject })
    }

    fn form(&mut self, node: &Node, dialect: Dialect, place: &Place) -> Option<Form> {
        let Some(told) = node.member("type") else {
            if dialect == Dialect::TypeSafe {
                self.flaw(Flaw::missing(&place.at("type"), node));
                return None;
            }
            return Some(Form::of(node.member("criteria")));
        };
        let form = match told {
            Node::String(word) => Form::ALL.into_iter().find(|form| form.word() == word),
            _ => None,
        };
        if form.is_none() {
            for form in Form::ALL {
                let wanted = format!("'{}'", form.word());
                let place = place.at(form.member()).at("type");
                let flaw = Flaw::new("literal_error", &place, format!("Input should be {wanted}"), told);
                self.flaw(flaw.with(json!({ "expected": wanted })));
            }
        }
        form
    }

    fn noul(&mut self, criteria: Option<&Node>, place: &Place) -> Kind {
        let mut sides = [None, None];
        match criteria {
            None | Some(Node::Null) => {}
            Some(found @ Node::Object(members)) => {
                let flaws = self.flaws.len();
                let mut has_others = false;
                for (name, value) in members {
                    let description = self.description(value, &place.at(name.clone()));
                    match name.as_str() {
                        "true" => sides[0] = description,
                        "false" => sides[1] = description,
                        _ => has_others = true,
                    }
                }
                if has_others && self.flaws.len() == flaws {
                    let rule = "noul criteria keys must be a subset of {'true', 'false'}";
                    self.flaw(Flaw::value(place, rule, found));
                }
            }
            Some(other) => self.flaw(Flaw::no_map(place, other)),
        }
        let [if_true, if_false] = sides;
        Kind::Noul { if_true, if_false }
    }

    fn choice(&mut self, criteria: Option<&Node>, question: &Node, place: &Place) -> Kind {
        let mut options = Vec::new();
        match criteria {
            None => self.flaw(Flaw::missing(place, question)),
            Some(found @ Node::Object(members)) => {
                let flaws = self.flaws.len();
                for (name, value) in members {
                    if let Some(description) = self.description(value, &place.at(name.clone())) {
                        options.push((name.clone(), description));
                    }
                }
                let rule = match members.len() {
                    0 | 1 => Some("choice requires at least 2 options"),
                    2..=255 => None,
                    _ => Some("choice allows at most 255 options"),
                };
                // Of members that are wrong themselves the number is not told too.
                if let Some(rule) = rule.filter(|_| self.flaws.len() == flaws) {
                    self.flaw(Flaw::value(place, rule, found));
                }
            }
            Some(other) => self.flaw(Flaw::no_map(place, other)),
        }
        Kind::Choice { options }
    }

    fn score(&mut self, criteria: Option<&Node>, question: &Node, place: &Place) -> Kind {
        let mut levels = Vec::new();
        match criteria {
            None => self.flaw(Flaw::missing(place, question)),
            Some(found @ Node::Array(items)) => {
                let flaws = self.flaws.len();
                for (index, item) in items.iter().enumerate() {
                    if is_text(item) {
                        levels.push(item.clone().into_json());
                    } else {
                        self.flaw(Flaw::no_string(&place.at(index), item));
                    }
                }
                if self.flaws.len() == flaws && !(2..=10).contains(&items.len()) {
                    self.flaw(Flaw::value(place, "score requires between 2 and 10 levels", found));
                }
            }
            Some(other) => self.flaw(Flaw::no_list(place, other)),
        }
        Kind::Score { levels }
    }

    /// An option's description: text or nothing.
    fn description(&mut self, value: &Node, place: &Place) -> Option<Json> {
        if !is_text(value) && !matches!(value, Node::Null) {
            self.no_text(place, value);
            return None;
        }
        Some(value.clone().into_json())
    }
}

/// The three forms of questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Noul,
    Choice,
    Score,
}

impl Form {
    const ALL: [Form; 3] = [Form::Noul, Form::Choice, Form::Score];

    fn word(self) -> &'static str {
        match self {
            Form::Noul => "noul",
            Form::Choice => "choice",
            Form::Score => "score",
        }
    }

    /// What the reference calls it where it says what is wrong.
    fn member(self) -> &'static str {
        match self {
            Form::Noul => "NoulQuestion",
            Form::Choice => "ChoiceQuestion",
            Form::Score => "ScoreQuestion",
        }
    }

    /// The form that criteria have.
    fn of(criteria: Option<&Node>) -> Self {
        match criteria {
            Some(Node::Array(_)) => Form::Score,
            Some(Node::Object(members))
                if members.iter().any(|(name, _)| name != "true" && name != "false") =>
            {
                Form::Choice
            }
            _ => Form::Noul,
        }
    }
}

fn is_described(side: &Option<Json>) -> bool {
    side.as_ref().is_some_and(|side| !side.is_null())
}

/// What a model that answers only one subject may take the question for: a choice between standings, or instructions that
/// are an object with the key `claim` or `query`.
fn subject(kind: &Kind, instructions: &Json) -> Subject {
    let text = |key: &str| instructions.get(key).and_then(Json::as_str).map(str::trim).unwrap_or_default();
    let claim = match (kind, instructions) {
        (Kind::Choice { options }, Json::String(asked)) if are_standings(options) => {
            asked.split_once(CLAIM).map_or(asked.as_str(), |(_, claim)| claim).trim()
        }
        (Kind::Choice { options }, _) if !are_standings(options) => "",
        (Kind::Score { .. }, _) => "",
        _ => text("claim"),
    };
    match (claim, kind) {
        ("", Kind::Noul { .. }) if !text("query").is_empty() => {
            Subject::Relevance { query: text("query").to_owned() }
        }
        ("", _) => Subject::General,
        (claim, _) => Subject::Grounding { claim: claim.to_owned() },
    }
}

fn are_standings(options: &[(String, Json)]) -> bool {
    let required = [Standing::Grounded, Standing::Ungrounded, Standing::Contradicted];
    options.iter().all(|(name, _)| Standing::parse(name).is_some())
        && required.iter().all(|standing| options.iter().any(|(name, _)| name == standing.as_str()))
}
