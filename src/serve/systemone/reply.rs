//! From the model's reply to the body, or to the reason why there is none.

use axum::http::StatusCode;
use serde_json::{Map, json};

use super::Problem;
use super::flaw::{Flaw, Place};
use crate::decide::{ModelInfo, Node, Reply, answer_json};
use crate::domain::{Json, Nobody, Question};
use crate::serve::reply::Refusal;

/// The body of a 200. Of questions that are not answered the first one's refusal counts, as in the reference.
pub(super) fn body(info: &ModelInfo, questions: &[Question], reply: &Reply) -> Result<String, Problem> {
    let unanswered: Vec<(&Question, &Nobody)> = questions
        .iter()
        .zip(&reply.decisions)
        .filter_map(|(question, decision)| Some((question, decision.as_ref().err()?)))
        .collect();
    if !unanswered.is_empty() {
        return Err(problem(info, &unanswered));
    }
    let mut answers = Map::new();
    for (question, decision) in questions.iter().zip(reply.decisions.iter().flatten()) {
        let options = question.kind.labels().len();
        let sound = decision.probabilities.iter().all(|p| (0.0..=1.0).contains(p));
        if !sound || decision.probabilities.len() != options {
            return Err(failed("the model's decision does not fit the question"));
        }
        answers.insert(question.id.clone(), answer_json(&question.kind, decision));
    }
    let usage = json!({"input_tokens": reply.input_tokens, "output_tokens": questions.len()});
    Ok(json!({"model": info.name, "answers": answers, "usage": usage}).to_string())
}

fn problem(info: &ModelInfo, unanswered: &[(&Question, &Nobody)]) -> Problem {
    let refused = unanswered.iter().find_map(|(_, nobody)| match nobody {
        Nobody::Refused(text) => Some(text.clone()),
        _ => None,
    });
    if let Some(text) = refused {
        return Problem::Refused(text);
    }
    let failure = unanswered.iter().find_map(|(_, nobody)| match nobody {
        Nobody::Failed(text) => Some(failed(text)),
        _ => None,
    });
    if let Some(failure) = failure {
        return failure;
    }
    let flaws = unanswered.iter().map(|(question, nobody)| {
        if matches!(nobody, Nobody::NoEvidence) {
            let msg = "the state is empty: there is nothing to hold the claim against";
            return Flaw::new("no_evidence", &Place::body().at("state"), msg, &Node::Null);
        }
        let place = Place::body().at("questions").at(question.id.clone());
        let kind = Node::String(question.kind.as_str().to_owned());
        Flaw::new("unsupported_question", &place, unsupported(info), &kind)
    });
    Problem::Invalid(flaws.collect())
}

/// What to ask instead.
fn unsupported(info: &ModelInfo) -> String {
    let name = &info.name;
    let can = info.capabilities;
    if can.general {
        return format!("the model {name} does not answer this question");
    }
    format!(
        "the model {name} does not answer general questions, only whether the state supports a claim: ask a choice of \
         grounded, ungrounded and contradicted, or a noul, with instructions {{\"claim\": \"…\"}}; or configure \
         another decision model (decide.model)"
    )
}

fn failed(message: &str) -> Problem {
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "model_failed", message).into()
}

/// What a model that does not answer everything does answer; null if it answers everything.
pub(in crate::serve) fn answers(info: &ModelInfo) -> Json {
    let can = info.capabilities;
    if can == crate::decide::Capabilities::ALL {
        return Json::Null;
    }
    let mut kinds = Vec::new();
    for (kind, has) in [("noul", can.noul), ("choice", can.choice), ("score", can.score)] {
        if has {
            kinds.push(kind);
        }
    }
    let mut subjects = Vec::new();
    for (subject, has) in [("general", can.general), ("claim", can.grounding), ("query", can.relevance)] {
        if has {
            subjects.push(subject);
        }
    }
    json!({"kinds": kinds, "subjects": subjects})
}
