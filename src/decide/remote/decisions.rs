//! OpenAI's `POST /v1/decisions` as a client writes and reads it: a noul is a predicate, whose criteria stand in the
//! instructions; options are choices; levels are levels. Pure.

use serde_json::{Map, json};

use super::answer::{broken, count, decision, number, text, yes_or_no};
use super::api::{Answers, wire_name};
use crate::decide::models::strands::{Node, content};
use crate::domain::{Decision, Json, Kind, Nobody, Question};

/// A level's label is its text, up to this many characters.
const LABEL: usize = 100;

/// The body.
pub fn request(model: &str, state: &Json, questions: &[&Question]) -> Json {
    let asked: Vec<Json> =
        questions.iter().enumerate().map(|(position, question)| asked(position, question)).collect();
    json!({"model": model, "input": content(state), "questions": asked})
}

fn asked(position: usize, question: &Question) -> Json {
    let mut asked = Map::new();
    let mut add = |key: &str, value: Json| asked.insert(key.to_owned(), value);
    let (kind, default) = match question.kind {
        Kind::Noul { .. } => ("predicate", "Is the statement true of the input?"),
        Kind::Choice { .. } => ("choice", "Which option fits the input?"),
        Kind::Score { .. } => ("score", "Which level fits the input?"),
    };
    add("type", json!(kind));
    add("name", json!(wire_name(position)));
    let told = content(&question.instructions);
    let told = if told.is_empty() { default.to_owned() } else { told };
    match &question.kind {
        Kind::Noul { if_true, if_false } => {
            add("instructions", json!(with_sides(told, [("True", if_true), ("False", if_false)])));
        }
        Kind::Choice { options } => {
            add("instructions", json!(told));
            add("choices", options.iter().map(|(name, told)| described("value", name, told)).collect());
        }
        Kind::Score { levels } => {
            add("instructions", json!(told));
            add("levels", levels_of(levels));
        }
    }
    Json::Object(asked)
}

/// A predicate has no criteria: they follow the question.
fn with_sides(mut told: String, sides: [(&str, &Option<Json>); 2]) -> String {
    for (side, meaning) in sides {
        let meaning = meaning.as_ref().map(content).unwrap_or_default();
        if !meaning.is_empty() {
            told.push_str(&format!("\n{side} means: {meaning}"));
        }
    }
    told
}

fn levels_of(levels: &[Json]) -> Json {
    let texts: Vec<String> = levels.iter().map(content).collect();
    let is_label = |text: &String| {
        !text.is_empty()
            && text.chars().count() <= LABEL
            && texts.iter().filter(|other| *other == text).count() == 1
    };
    let as_labels = texts.iter().all(is_label);
    let level = |(number, text): (usize, &String)| match as_labels {
        true => json!({"label": text}),
        false => described("label", &number.to_string(), &json!(text)),
    };
    texts.iter().enumerate().map(level).collect()
}

fn described(key: &str, name: &str, told: &Json) -> Json {
    let told = content(told);
    if told.is_empty() { json!({key: name}) } else { json!({key: name, "description": told}) }
}

/// What a body answers: in the order of the questions, with their names.
pub fn read(body: &Node, questions: &[&Question]) -> Result<Answers, String> {
    let Some(Node::Array(answers)) = body.member("answers") else {
        return Err("it has no answers".to_owned());
    };
    if answers.len() != questions.len() {
        return Err(format!("it has {} answers to {} questions", answers.len(), questions.len()));
    }
    for (position, answer) in answers.iter().enumerate() {
        match answer.member("name") {
            None | Some(Node::Null) => {}
            Some(Node::String(name)) if *name == wire_name(position) => {}
            Some(_) => return Err("its answers are not in the order of the questions".to_owned()),
        }
    }
    let decisions = questions.iter().zip(answers).map(|(question, answer)| one(question, answer));
    let tokens = body.member("usage").and_then(|usage| count(usage.member("input_tokens")));
    Ok(Answers { decisions: decisions.collect(), tokens: tokens.unwrap_or(0) })
}

fn one(question: &Question, answer: &Node) -> Result<Decision, Nobody> {
    let told = text(answer.member("type")).unwrap_or("missing");
    match (&question.kind, told) {
        (_, "refusal") => Err(Nobody::Refused("the remote model declines to answer".to_owned())),
        (Kind::Noul { .. }, "predicate") => yes_or_no(number(answer.member("probability"))),
        (Kind::Choice { options }, "choice") => {
            let told = probabilities(answer, options.len())?;
            let of = |name: &str| {
                told.iter().find(|item| text(item.member("value")) == Some(name)).and_then(probability)
            };
            decision(options.iter().map(|(name, _)| of(name)).collect())
        }
        (Kind::Score { levels }, "score") => {
            let told = probabilities(answer, levels.len())?;
            let of = |level: usize| {
                told.iter()
                    .find(|item| number(item.member("value")) == Some(level as f64))
                    .and_then(probability)
            };
            decision((0..levels.len()).map(of).collect())
        }
        (kind, told) => Err(broken(&format!("its type is {told:?}, the question is a {}", kind.as_str()))),
    }
}

fn probabilities(answer: &Node, wanted: usize) -> Result<&[Node], Nobody> {
    match answer.member("probabilities") {
        Some(Node::Array(items)) if items.len() == wanted => Ok(items),
        Some(Node::Array(items)) => {
            Err(broken(&format!("it has {} probabilities for {wanted} options", items.len())))
        }
        _ => Err(broken("it has no probabilities")),
    }
}

fn probability(item: &Node) -> Option<f64> {
    number(item.member("probability"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Subject;

    fn question(instructions: Json, kind: Kind) -> Question {
        Question { id: "x".into(), kind, instructions, subject: Subject::General }
    }

    fn questions() -> [Question; 3] {
        [
            question(
                json!("Urgent?"),
                Kind::Noul { if_true: Some(json!("now")), if_false: Some(Json::Null) },
            ),
            question(
                Json::Null,
                Kind::Choice { options: vec![("a".into(), json!("first")), ("b".into(), Json::Null)] },
            ),
            question(json!("How?"), Kind::Score { levels: vec![json!("low"), json!("high")] }),
        ]
    }

    fn read_text(body: &str) -> Result<Answers, String> {
        let questions = questions();
        read(&Node::read(body).unwrap(), &questions.iter().collect::<Vec<_>>())
    }

    #[test]
    fn questions_are_mapped_to_predicates_choices_and_levels() {
        let questions = questions();
        let body = request("gpt-6-luna", &json!({"a": [1]}), &questions.iter().collect::<Vec<_>>());
        assert_eq!(
            body,
            json!({"model": "gpt-6-luna", "input": "{\n  \"a\": [\n    1\n  ]\n}", "questions": [
                {"type": "predicate", "name": "q0", "instructions": "Urgent?\nTrue means: now"},
                {"type": "choice", "name": "q1", "instructions": "Which option fits the input?",
                 "choices": [{"value": "a", "description": "first"}, {"value": "b"}]},
                {"type": "score", "name": "q2", "instructions": "How?", "levels": [{"label": "low"}, {"label": "high"}]},
            ]})
        );
        let long = levels_of(&[json!("x".repeat(200)), json!("y")]);
        assert_eq!(
            long,
            json!([{"label": "0", "description": "x".repeat(200)}, {"label": "1", "description": "y"}])
        );
    }

    #[test]
    fn answers_are_read_and_a_refusal_is_a_refusal_of_its_question() {
        let Answers { decisions, tokens } = read_text(
            r#"{"model": "gpt-6-luna", "answers": [
                {"type": "predicate", "name": "q0", "probability": 0.75},
                {"type": "choice", "name": "q1", "choice": "b", "confidence": 0.1,
                 "probabilities": [{"value": "b", "probability": 0.9}, {"value": "a", "probability": 0.1}]},
                {"type": "refusal", "name": "q2"}], "usage": {"input_tokens": 164, "output_tokens": 0}}"#,
        )
        .unwrap();
        assert_eq!(tokens, 164);
        assert_eq!(decisions[0].as_ref().unwrap().probabilities, [0.25, 0.75]);
        assert_eq!(decisions[1].as_ref().unwrap().probabilities, [0.1, 0.9]);
        assert!(matches!(&decisions[2], Err(Nobody::Refused(_))));
    }

    #[test]
    fn broken_answers_are_failures_and_answers_out_of_order_are_none() {
        let Answers { decisions, .. } = read_text(
            r#"{"answers": [{"type": "choice", "name": null}, {"type": "choice", "probabilities": [{"value": "a", "probability": 1}]},
                {"type": "score", "probabilities": [{"value": 0, "probability": 0.5}, {"value": 0, "probability": 0.5}]}]}"#,
        )
        .unwrap();
        assert!(decisions.iter().all(|decision| matches!(decision, Err(Nobody::Failed(_)))), "{decisions:?}");
        for body in [
            r#"{"answers": [{"name": "q1"}, {"name": "q0"}, {"name": "q2"}]}"#,
            r#"{"answers": [{"name": "q0"}]}"#,
            r#"{"error": {"message": "x"}}"#,
        ] {
            assert!(read_text(body).is_err(), "{body}");
        }
    }
}
