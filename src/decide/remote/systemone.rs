//! `POST /v1/systemone` as a client writes and reads it. Pure.

use serde_json::{Map, json};

use super::answer::{broken, count, decision, number, text, yes_or_no};
use super::api::{Answers, wire_name};
use crate::decide::models::strands::{Node, content};
use crate::domain::{Decision, Json, Kind, Nobody, Question};

/// The body. Instructions are always there and levels are always text: the Strands server takes nothing else, and a prompt
/// reads the same.
pub fn request(model: &str, state: &Json, questions: &[&Question]) -> Json {
    let asked: Map<String, Json> = questions
        .iter()
        .enumerate()
        .map(|(position, question)| (wire_name(position), asked(question)))
        .collect();
    json!({"model": model, "state": as_text(state), "questions": asked})
}

fn asked(question: &Question) -> Json {
    let mut asked = Map::new();
    asked.insert("type".to_owned(), json!(question.kind.as_str()));
    asked.insert("instructions".to_owned(), as_text(&question.instructions));
    let criteria = match &question.kind {
        Kind::Noul { if_true: None, if_false: None } => None,
        Kind::Noul { if_true, if_false } => {
            let sides = [("true", if_true), ("false", if_false)];
            let given = sides.into_iter().filter_map(|(side, told)| Some((side.to_owned(), told.clone()?)));
            Some(Json::Object(given.collect()))
        }
        Kind::Choice { options } => Some(Json::Object(options.iter().cloned().collect())),
        Kind::Score { levels } => Some(levels.iter().map(|level| Json::String(content(level))).collect()),
    };
    if let Some(criteria) = criteria {
        asked.insert("criteria".to_owned(), criteria);
    }
    Json::Object(asked)
}

/// Only texts, objects and arrays may stand where the contract takes text.
fn as_text(json: &Json) -> Json {
    match json {
        Json::String(_) | Json::Object(_) | Json::Array(_) => json.clone(),
        other => Json::String(content(other)),
    }
}

/// What a body answers. Answers to questions that were not asked may be another caller's: then none of them counts.
pub fn read(body: &Node, questions: &[&Question]) -> Result<Answers, String> {
    let Some(Node::Object(answers)) = body.member("answers") else {
        return Err("it has no answers".to_owned());
    };
    let names: Vec<String> = (0..questions.len()).map(wire_name).collect();
    if let Some((other, _)) = answers.iter().find(|(name, _)| !names.contains(name)) {
        let other: String = other.chars().take(60).collect();
        return Err(format!("it answers {other:?}, which was not asked"));
    }
    let decisions = questions.iter().zip(&names).map(|(question, name)| {
        let answer = answers.iter().find(|(told, _)| told == name).map(|(_, answer)| answer);
        answer.ok_or_else(|| broken("it is missing")).and_then(|answer| one(question, answer))
    });
    let tokens = body.member("usage").and_then(|usage| count(usage.member("input_tokens")));
    Ok(Answers { decisions: decisions.collect(), tokens: tokens.unwrap_or(0) })
}

fn one(question: &Question, answer: &Node) -> Result<Decision, Nobody> {
    let kind = question.kind.as_str();
    match text(answer.member("type")) {
        Some(told) if told == kind => {}
        told => {
            return Err(broken(&format!(
                "its type is {:?}, the question's {kind}",
                told.unwrap_or("missing")
            )));
        }
    }
    if let Kind::Noul { .. } = question.kind {
        return yes_or_no(number(answer.member("noul")));
    }
    let labels = question.kind.labels();
    let Some(Node::Object(told)) = answer.member("probabilities") else {
        return Err(broken("it has no probabilities"));
    };
    if told.len() != labels.len() {
        return Err(broken(&format!("it has {} probabilities for {} options", told.len(), labels.len())));
    }
    // By name: a server may sort its keys.
    let by_name: std::collections::HashMap<&str, &Node> =
        told.iter().map(|(name, p)| (name.as_str(), p)).collect();
    decision(labels.iter().map(|label| number(by_name.get(label.as_str()).copied())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Subject;

    fn question(kind: Kind) -> Question {
        Question { id: "claim:0".into(), kind, instructions: Json::Null, subject: Subject::General }
    }

    fn questions() -> [Question; 3] {
        [
            question(Kind::Noul { if_true: None, if_false: Some(Json::Null) }),
            question(Kind::Choice { options: vec![("b".into(), Json::Null), ("a".into(), json!({"x": 1}))] }),
            question(Kind::Score { levels: vec![json!("low"), json!({"level": 1})] }),
        ]
    }

    fn read_text(body: &str) -> Result<Answers, String> {
        let questions = questions();
        read(&Node::read(body).unwrap(), &questions.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_request_is_what_every_server_takes() {
        let questions = questions();
        let body = request("jev-latest", &Json::Null, &questions.iter().collect::<Vec<_>>());
        assert_eq!(
            body.to_string(),
            r#"{"model":"jev-latest","state":"","questions":{"q0":{"type":"noul","instructions":"","criteria":{"false":null}},"q1":{"type":"choice","instructions":"","criteria":{"b":null,"a":{"x":1}}},"q2":{"type":"score","instructions":"","criteria":["low","{\n  \"level\": 1\n}"]}}}"#
        );
    }

    #[test]
    fn answers_are_read_by_name_and_the_server_s_confidence_is_not_looked_at() {
        let Answers { decisions, tokens } = read_text(
            r#"{"model": "m", "answers": {"q2": {"type": "score", "score": 9, "probabilities": {"1": 0.75, "0": 0.25}, "confidence": 7},
                "q1": {"type": "choice", "choice": "b", "probabilities": {"a": 0.9, "b": 0.1}},
                "q0": {"type": "noul", "noul": 0.5}}, "usage": {"input_tokens": 80, "output_tokens": 3}}"#,
        )
        .unwrap();
        assert_eq!(tokens, 80);
        let probabilities: Vec<Vec<f64>> =
            decisions.into_iter().map(|decision| decision.unwrap().probabilities).collect();
        assert_eq!(probabilities, [[0.5, 0.5], [0.1, 0.9], [0.25, 0.75]]);
    }

    #[test]
    fn each_broken_answer_is_a_failure_of_its_own() {
        let Answers { decisions, tokens } = read_text(
            r#"{"answers": {"q0": {"type": "noul", "noul": NaN},
                "q1": {"type": "score", "probabilities": {"a": 0.9, "b": 0.1}},
                "q2": {"type": "score", "probabilities": {"1": 0.9, "2": 0.1}}}}"#,
        )
        .unwrap();
        assert_eq!(tokens, 0);
        for decision in decisions {
            assert!(matches!(decision, Err(Nobody::Failed(_))), "{decision:?}");
        }
    }

    #[test]
    fn a_body_for_somebody_else_answers_nothing() {
        for body in [
            r#"{"answers": {"q0": {"type": "noul", "noul": 0.5}, "x": {}}}"#,
            r#"{"answers": []}"#,
            "{}",
            "[]",
        ] {
            assert!(read_text(body).is_err(), "{body}");
        }
    }
}
