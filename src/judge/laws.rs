//! Laws of reading a judge's reply that hold for any bytes; `crate::fuzzing` calls them. A broken one panics.

use std::sync::Arc;

use super::anthropic::Anthropic;
use super::attempt::{Completion, Said};
use super::bedrock::Bedrock;
use super::dialect::Dialect;
use super::metric::Form;
use super::openai::OpenAi;
use super::sheet::{Item, Sheet};
use super::told::Told;
use super::{partition, reply};
use crate::domain::{DecisionStatus, Inquiry, Json, Kind, Question, Questions, Subject};

/// The claims that a partition is asked of, by their positions.
const CLAIMS: [usize; 3] = [0, 2, 3];

/// Whatever an endpoint sends, each provider's reader takes it for a reply or names a failure; and what is read from the reply, or
/// from the bytes as if they were one, keeps to what was asked.
pub fn hold(bytes: &[u8]) {
    let dialects: [&dyn Dialect; 3] = [&OpenAi, &Anthropic, &Bedrock];
    for dialect in dialects {
        match dialect.completion(bytes) {
            Ok(Completion { said: Said::Text { text, cut }, .. }) => read(&text, cut),
            Ok(Completion { said: Said::Declined { .. }, .. }) => {}
            Err(failure) => {
                assert!(!failure.into_error(1).to_string().is_empty(), "a failure says what it is")
            }
        }
        for status in [400, 429, 500] {
            let failure = dialect.failure(status, &Told::parse(bytes), None);
            assert!(!failure.into_error(1).to_string().is_empty(), "an error says what it is");
        }
    }
    let text = String::from_utf8_lossy(bytes);
    for cut in [false, true] {
        read(&text, cut);
    }
}

fn read(text: &str, cut: bool) {
    answers(text, cut);
    parts(text, cut);
    value(text, cut);
}

/// A pick is a label of its question, each question has one answer or a flaw, and without one valid answer there is an error.
fn answers(text: &str, cut: bool) {
    let inquiry = Inquiry::new(Arc::new(Json::String("The order was refunded.".to_owned())), questions());
    let sheet = Sheet::new([&inquiry], false).expect("the ids differ");
    let items: Vec<&Item<'_>> = sheet.items.iter().collect();
    let Ok(reading) = reply::read(text, cut, &items) else { return };
    assert_eq!(reading.len(), items.len(), "one for each question");
    assert!(reading.iter().any(Result::is_ok), "a reading without an answer is an error");
    for (item, read) in items.iter().zip(&reading) {
        if let Ok(pick) = read {
            assert!(item.labels.contains(&pick.label), "{:?} was not offered", pick.label);
        }
    }
    assert_eq!(reply::read(text, cut, &items).as_ref(), Ok(&reading), "the same text reads the same");
}

/// A claim is in one part at most, a part holds claims that were asked only, and one that is in none is reported.
fn parts(text: &str, cut: bool) {
    let state = Arc::new(Json::String("order 7: refunded\narrival: Tuesday".to_owned()));
    let inquiry = Inquiry::new(state, CLAIMS.map(claim).to_vec());
    let sheet = Sheet::new([&inquiry], true).expect("the ids differ");
    let Ok(read) = partition::read(text, cut, &sheet) else { return };
    assert!(!cut, "what is cut off is no partition");
    assert_eq!(read.asked, CLAIMS);
    let placed: Vec<usize> = read.placed.iter().map(|placed| placed.claim).collect();
    assert!(placed.is_sorted_by(|left, right| left < right), "{placed:?}: a claim is in one part");
    assert!(placed.iter().all(|claim| CLAIMS.contains(claim)), "{placed:?}: only what was asked");
    assert!(!placed.is_empty() || read.status == DecisionStatus::Abstain, "resolved, and nothing is placed");
    assert!(read.reported_score.is_none_or(|score| (0.0..=1.0).contains(&score)));
    let missing = CLAIMS.iter().filter(|claim| !placed.contains(claim)).count();
    assert!(missing <= read.repairs.len(), "a claim in no list is reported");
}

/// A metric's value is valid by its schema.
fn value(text: &str, cut: bool) {
    let schema = serde_json::json!({
        "type": "object", "required": ["tone", "level"], "additionalProperties": false,
        "properties": {
            "tone": { "enum": ["kind", "rude"] },
            "level": { "type": "integer", "minimum": 1, "maximum": 5 },
        },
    });
    let form = Form::new(&schema).expect("the schema is one");
    let Ok(value) = form.read(text, cut) else { return };
    let tone = value.get("tone").and_then(Json::as_str);
    assert!(matches!(tone, Some("kind" | "rude")), "{value}");
    let level = value.get("level").and_then(Json::as_f64);
    assert!(level.is_some_and(|level| (1.0..=5.0).contains(&level)), "{value}");
    assert_eq!(value.as_object().map(serde_json::Map::len), Some(2), "{value}");
}

fn questions() -> Vec<Question> {
    let options = ["grounded", "ungrounded", "yes"].map(|name| (name.to_owned(), Json::Null)).to_vec();
    let kinds = [
        Kind::Choice { options },
        Kind::Noul { if_true: None, if_false: None },
        Kind::Score { levels: vec![Json::Null; 5] },
    ];
    let questions = kinds.into_iter().enumerate().map(|(number, kind)| Question {
        id: format!("question {number}"),
        kind,
        instructions: Json::Null,
        subject: Subject::General,
    });
    questions.collect()
}

fn claim(position: usize) -> Question {
    let options = ["grounded", "ungrounded", "contradicted"].map(|name| (name.to_owned(), Json::Null));
    Question {
        id: Questions::claim_id(position),
        kind: Kind::Choice { options: options.to_vec() },
        instructions: Json::Null,
        subject: Subject::Grounding { claim: format!("Claim number {position} is refunded.") },
    }
}
