//! Files of what people, or models, say is right: one JSON object a line, in three forms.
//!
//! - `{state, questions, labels}`: typed questions, as `POST /v1/systemone` has them, and the right answers by their ids;
//! - `{context, query?, response, label: faithful|hallucination}`: a response as `assayd check` gets it;
//! - `{verdict_id, claim, label, predicted, hallucination_probability, confidence}`: the console's export of feedback, on
//!   answers that assayd has evaluated already.
//!
//! Each may say who labelled it: `labeled_by: human`, or `model`, or any other word.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::domain::{Inquiry, Kind, Question};
use crate::serve::{CheckRequest, read_inquiry};

/// A line of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Labelled {
    /// Its number, from 1.
    pub line: usize,
    /// Who labelled it.
    pub labeled_by: Option<String>,
    /// What it says.
    pub record: Record,
}

/// What a line says.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// Typed questions.
    Item(Item),
    /// A response.
    Check {
        /// What to check.
        request: CheckRequest,
        /// Whether something in it does not stand.
        is_hallucination: bool,
    },
    /// A verdict that was given.
    Feedback(Feedback),
}

/// Typed questions about a state, and the right answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The state and its questions.
    pub inquiry: Inquiry,
    /// For each question the position of the right label; none for one that is not labelled.
    pub truths: Vec<Option<usize>>,
    /// Digest of state and questions: equal for equal items, whatever their labels.
    pub digest: String,
}

/// A verdict that was given, and what is right.
#[derive(Debug, Clone, PartialEq)]
pub struct Feedback {
    /// The verdict.
    pub verdict_id: String,
    /// Its trace.
    pub trace_id: Option<String>,
    /// The claim that is meant; none for the whole answer.
    pub claim: Option<u64>,
    /// Whether it was said that something does not stand; none where assayd did not decide.
    pub said: Option<bool>,
    /// How probable that was.
    pub p: Option<f64>,
    /// How sure the model was.
    pub confidence: Option<f64>,
    /// Whether something does not stand.
    pub is_hallucination: bool,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct LineError {
    /// Its number, from 1.
    pub line: usize,
    /// What.
    pub message: String,
}

/// Reads a file: what it says, and what is wrong with the other lines. Blank lines are passed over.
pub fn read_labelled(text: &str) -> (Vec<Labelled>, Vec<LineError>) {
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    let lines = text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate();
    for (at, text) in lines.filter(|(_, text)| !text.trim().is_empty()) {
        let line = at + 1;
        match read(text) {
            Ok((labeled_by, record)) => found.push(Labelled { line, labeled_by, record }),
            Err(messages) => errors.extend(messages.into_iter().map(|message| LineError { line, message })),
        }
    }
    (found, errors)
}

fn read(text: &str) -> Result<(Option<String>, Record), Vec<String>> {
    let value: Value = serde_json::from_str(text).map_err(|error| vec![not_json(&error)])?;
    let Value::Object(members) = value else { return Err(vec!["it is not a JSON object".to_owned()]) };
    let labeled_by = match members.get("labeled_by") {
        None | Some(Value::Null) => None,
        Some(Value::String(by)) if !by.trim().is_empty() => Some(by.trim().to_lowercase()),
        Some(other) => {
            return Err(vec![format!("labeled_by must be a word such as human or model, not {other}")]);
        }
    };
    let record = if members.contains_key("verdict_id") {
        feedback(&members).map(Record::Feedback)
    } else if members.contains_key("response") || members.contains_key("context") {
        check(&members)
    } else {
        item(text, &members).map(Record::Item)
    };
    Ok((labeled_by, record?))
}

/// The reader knows one line only, and calls it the first.
fn not_json(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    format!("it is not JSON: {} at column {}", text.strip_suffix(&place).unwrap_or(&text), error.column())
}

fn item(text: &str, members: &Map<String, Value>) -> Result<Item, Vec<String>> {
    let inquiry = read_inquiry(text)?;
    let Some(labels) = members.get("labels") else {
        return Err(vec!["labels is missing: an object from question ids to the right answers".to_owned()]);
    };
    let Some(labels) = labels.as_object() else {
        return Err(vec!["labels must be an object from question ids to the right answers".to_owned()]);
    };
    let mut problems = Vec::new();
    let known = |id: &str| inquiry.questions.iter().any(|question| question.id == id);
    for id in labels.keys().filter(|id| !known(id)) {
        let ids: Vec<&str> = inquiry.questions.iter().map(|question| question.id.as_str()).collect();
        problems.push(format!("labels.{id}: there is no such question; there are {}", ids.join(", ")));
    }
    let mut truths = Vec::new();
    for question in &inquiry.questions {
        truths.push(match labels.get(&question.id) {
            None | Some(Value::Null) => None,
            Some(label) => match truth(question, label) {
                Ok(truth) => Some(truth),
                Err(wanted) => {
                    problems.push(format!("labels.{}: {label} is {wanted}", question.id));
                    None
                }
            },
        });
    }
    if problems.is_empty() && truths.iter().all(Option::is_none) {
        problems.push("labels holds no label".to_owned());
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let digest = digest(&inquiry);
    Ok(Item { inquiry, truths, digest })
}

/// The position of a label among those of a question, or what would be one.
fn truth(question: &Question, label: &Value) -> Result<usize, String> {
    let labels = question.kind.labels();
    let said = match label {
        Value::Bool(yes) => yes.to_string(),
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    };
    if let Some(at) = labels.iter().position(|known| *known == said) {
        return Ok(at);
    }
    match &question.kind {
        Kind::Noul { .. } => Err("neither true nor false".to_owned()),
        Kind::Choice { .. } => Err(format!("none of its options: {}", labels.join(", "))),
        Kind::Score { levels } => {
            let by_text = levels.iter().position(|level| level.as_str() == Some(said.as_str()));
            by_text.ok_or_else(|| format!("none of its levels: 0 to {}, or a level's text", levels.len() - 1))
        }
    }
}

/// 16 hex digits over a state and its questions.
fn digest(inquiry: &Inquiry) -> String {
    let questions = serde_json::to_string(&inquiry.questions).unwrap_or_default();
    let mut hash = Sha256::new();
    hash.update(inquiry.state.to_string());
    hash.update([0]);
    hash.update(questions);
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn check(members: &Map<String, Value>) -> Result<Record, Vec<String>> {
    let mut problems = Vec::new();
    let is_hallucination = match members.get("label").and_then(Value::as_str) {
        Some(label) => {
            bad(label).ok_or_else(|| format!("label is {label:?}; write faithful or hallucination"))
        }
        None => Err("label is missing: faithful or hallucination".to_owned()),
    };
    let response = match members.get("response").and_then(Value::as_str) {
        Some(text) if !text.trim().is_empty() => text.to_owned(),
        _ => {
            problems.push("response must be a text that is not empty".to_owned());
            String::new()
        }
    };
    let context = members.get("context").cloned().unwrap_or_else(|| {
        problems.push("context is missing: what the response must be supported by".to_owned());
        Value::Null
    });
    let query = match members.get("query") {
        None | Some(Value::Null) => None,
        Some(Value::String(query)) => Some(query.clone()),
        Some(_) => {
            problems.push("query must be a text".to_owned());
            None
        }
    };
    match is_hallucination {
        Ok(is_hallucination) if problems.is_empty() => Ok(Record::Check {
            request: CheckRequest { context, query, response, service: None },
            is_hallucination,
        }),
        Ok(_) => Err(problems),
        Err(problem) => {
            problems.push(problem);
            Err(problems)
        }
    }
}

/// Whether a label says that something does not stand; none for an unknown one.
fn bad(label: &str) -> Option<bool> {
    match label {
        "faithful" | "grounded" | "complementary" => Some(false),
        "hallucination" | "ungrounded" | "contradicted" => Some(true),
        _ => None,
    }
}

fn feedback(members: &Map<String, Value>) -> Result<Feedback, Vec<String>> {
    let text = |key: &str| members.get(key).and_then(Value::as_str);
    let number = |key: &str| match members.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64().filter(|value| (0.0..=1.0).contains(value)) {
            Some(value) => Ok(Some(value)),
            None => Err(vec![format!("{key} must be from 0 to 1, not {value}")]),
        },
    };
    let Some(label) = text("label") else { return Err(vec!["label is missing".to_owned()]) };
    let Some(is_hallucination) = bad(label) else {
        return Err(vec![format!("label is {label:?}; write faithful, hallucination or a claim's standing")]);
    };
    Ok(Feedback {
        verdict_id: text("verdict_id").unwrap_or_default().to_owned(),
        trace_id: text("trace_id").map(str::to_owned),
        claim: members.get("claim").and_then(Value::as_u64),
        said: text("predicted").and_then(bad),
        p: number("hallucination_probability")?,
        confidence: number("confidence")?,
        is_hallucination,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(line: &Value) -> Vec<String> {
        let (found, errors) = read_labelled(&line.to_string());
        assert!(found.is_empty(), "{found:?}");
        errors.into_iter().map(|error| error.to_string()).collect()
    }

    fn line() -> Value {
        json!({"state": "My payouts fail!", "labeled_by": "Human", "questions": {
            "urgent": {"type": "noul", "instructions": "Is it urgent?"},
            "team": {"type": "choice", "instructions": "Which team?", "criteria": {"billing": null, "sales": null}},
            "anger": {"type": "score", "instructions": "How angry?", "criteria": ["calm", "cross", "furious"]},
        }, "labels": {"urgent": true, "team": "billing", "anger": "cross"}})
    }

    #[test]
    fn the_three_forms_are_read() {
        let (found, errors) = read_labelled(&format!("\n{}\n", line()));
        assert_eq!(errors, []);
        let [Labelled { line: 2, labeled_by: Some(by), record: Record::Item(item) }] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!((by.as_str(), &item.truths[..]), ("human", &[Some(1), Some(0), Some(1)][..]));
        let checked = json!({"context": {"a": 1}, "response": "It is 1.", "label": "faithful"});
        let given = json!({"verdict_id": "v", "trace_id": null, "claim": 2, "label": "ungrounded", "predicted": "grounded",
                           "hallucination_probability": 0.25, "confidence": 0.5, "labeled_by": "human"});
        let (found, errors) = read_labelled(&format!("{checked}\n{given}"));
        assert_eq!(errors, []);
        assert!(matches!(&found[0].record, Record::Check { is_hallucination: false, .. }));
        let Record::Feedback(feedback) = &found[1].record else { panic!("{:?}", found[1]) };
        assert_eq!((feedback.said, feedback.is_hallucination, feedback.p), (Some(false), true, Some(0.25)));
    }

    #[test]
    fn an_items_digest_does_not_follow_its_labels() {
        let digest = |line: &Value| match &read_labelled(&line.to_string()).0[0].record {
            Record::Item(item) => item.digest.clone(),
            _ => panic!("no item"),
        };
        let mut other = line();
        other["labels"]["team"] = json!("sales");
        assert_eq!(digest(&line()), digest(&other));
        other["state"] = json!("else");
        assert_ne!(digest(&line()), digest(&other));
    }

    #[test]
    fn every_mistake_of_a_line_is_told_with_what_would_be_right() {
        let mut wrong = line();
        wrong["labels"] = json!({"urgent": "maybe", "team": "support", "anger": 3, "tone": "x"});
        let found = messages(&wrong);
        assert_eq!(found.len(), 4, "{found:#?}");
        let all = found.join("\n");
        for wanted in ["line 1: labels.tone", "billing, sales", "neither true nor false", "0 to 2"] {
            assert!(all.contains(wanted), "{wanted}: {all}");
        }
        let mut wrong = line();
        wrong["questions"]["anger"]["criteria"] = json!("calm");
        assert!(messages(&wrong)[0].contains("questions.anger.criteria"), "{:?}", messages(&wrong));
        for (line, wanted) in [
            (json!([1]), "not a JSON object"),
            (json!({"state": "s"}), "questions"),
            (json!({"context": "c", "response": "r", "label": "fine"}), "faithful or hallucination"),
            (json!({"context": "c", "label": "faithful"}), "response"),
            (json!({"verdict_id": "v", "label": "faithful", "hallucination_probability": 7}), "from 0 to 1"),
            (json!({"context": "c", "response": "r", "label": "faithful", "labeled_by": 3}), "labeled_by"),
        ] {
            assert!(messages(&line)[0].contains(wanted), "{line}: {:?}", messages(&line));
        }
        let mut none = line();
        none["labels"] = json!({"urgent": null});
        assert!(messages(&none)[0].contains("no label"));
    }
}
