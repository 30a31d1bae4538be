//! The prompt's text, exactly as the reference writes it. Pure.

use crate::domain::{Json, Kind, Question};

use super::json;

/// A question's text and where its options stand in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionText {
    /// The whole text, from `<question` to `<answer>`.
    pub text: String,
    /// Each option's line, without the newline: Unicode scalar values from and up to.
    pub spans: Vec<(usize, usize)>,
}

/// The text of a state.
pub fn state_text(state: &Json) -> String {
    format!("<state>\n{}\n</state>\n", content(state))
}

/// The text of a question.
pub fn question_text(question: &Question) -> QuestionText {
    let kind = question.kind.as_str();
    let header = match question.kind {
        Kind::Noul { .. } => "Decide whether the statement is true of the state.",
        Kind::Choice { .. } => "Select exactly one option.",
        Kind::Score { .. } => "Rate the state against the ordered levels below (lowest first).",
    };
    let instructions = content(&question.instructions);
    let mut text = format!("<question type=\"{kind}\">\n{header}\n{instructions}\n<options>\n");
    let mut characters = text.chars().count();
    let mut spans = Vec::new();
    for (index, (name, description)) in options(&question.kind).into_iter().enumerate() {
        let mut line = format!("{}. {name}", index + 1);
        let description = one_line(&description);
        if !description.is_empty() {
            line.push_str(" \u{2014} ");
            line.push_str(&description);
        }
        let length = line.chars().count();
        spans.push((characters, characters + length));
        characters += length + 1;
        text.push_str(&line);
        text.push('\n');
    }
    text.push_str("</options>\n</question>\n<answer>");
    QuestionText { text, spans }
}

/// A value as text: null is empty, a string is stripped, anything else is indented JSON.
pub fn content(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text.trim_matches(is_space).to_owned(),
        other => json::render(other),
    }
}

fn options(kind: &Kind) -> Vec<(String, String)> {
    match kind {
        Kind::Noul { if_true, if_false } => {
            let describe = |given: &Option<Json>, default: &str| match given {
                Some(description) => content(description),
                None => default.to_owned(),
            };
            vec![
                ("false".to_owned(), describe(if_false, "the statement does not hold for this state")),
                ("true".to_owned(), describe(if_true, "the statement holds for this state")),
            ]
        }
        Kind::Choice { options } => {
            options.iter().map(|(name, description)| (name.clone(), content(description))).collect()
        }
        Kind::Score { levels } => {
            levels.iter().enumerate().map(|(index, level)| (index.to_string(), content(level))).collect()
        }
    }
}

fn one_line(text: &str) -> String {
    text.split(is_space).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Python's `str.isspace`: Unicode White_Space and the four information separators.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::Subject;

    fn text_of(kind: Kind, instructions: Json) -> QuestionText {
        question_text(&Question { id: "q".to_owned(), kind, instructions, subject: Subject::General })
    }

    #[test]
    fn a_choice_lists_its_options_by_line() {
        let options = vec![("a\nb".to_owned(), json!(" x \u{1c} y\n")), (String::new(), Json::Null)];
        let question = text_of(Kind::Choice { options }, json!(" Pick "));
        assert_eq!(
            question.text,
            "<question type=\"choice\">\nSelect exactly one option.\nPick\n<options>\n1. a\nb \u{2014} x y\n2. \n</options>\n\
             </question>\n<answer>"
        );
        let characters: Vec<char> = question.text.chars().collect();
        let lines: Vec<String> =
            question.spans.iter().map(|(from, to)| characters[*from..*to].iter().collect()).collect();
        assert_eq!(lines, ["1. a\nb \u{2014} x y", "2. "]);
    }

    #[test]
    fn noul_descriptions_default_only_where_none_is_given() {
        let question = text_of(Kind::Noul { if_true: Some(Json::Null), if_false: None }, Json::Null);
        assert!(question.text.ends_with(
            "state.\n\n<options>\n1. false \u{2014} the statement does not hold for this state\n2. true\n</options>\n</question>\n<answer>"
        ));
    }
}
