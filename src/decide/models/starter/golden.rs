//! The starter model against its golden cases, and as a decider.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;

use super::bert::Row;
use super::decider::Starter;
use super::encode::Texts;
use super::files::EMBEDDED;
use super::matrix::Form;
use super::prepare::{Evidence, Features};
use crate::decide::{Config, Decider, Encoded, Reply, start_with};
use crate::domain::{Inquiry, Json, Kind, Nobody, Question, Subject};

/// A line of `golden.jsonl`.
#[derive(Deserialize)]
struct Case {
    id: usize,
    question: String,
    first: String,
    second: String,
    prepared: String,
    n_units: usize,
    n_selected: usize,
    n_first_tokens: usize,
    input_ids: Vec<u32>,
    logits: [f64; 3],
    features: HashMap<String, f64>,
    probabilities: serde_json::Map<String, Json>,
}

fn cases() -> Vec<Case> {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/models/starter/golden.jsonl"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn starter() -> Starter {
    Starter::embedded(None).unwrap()
}

#[test]
fn text_token_ids_and_features_equal_the_golden_ones() {
    let texts = Texts::load(EMBEDDED).unwrap();
    for case in cases() {
        let prepared = texts.prepare(&case.first, &Evidence::read(&case.second)).unwrap();
        assert_eq!(prepared.text, case.prepared, "case {}", case.id);
        assert_eq!((prepared.units, prepared.selected), (case.n_units, case.n_selected), "case {}", case.id);
        let row = texts.layout(&prepared);
        assert_eq!(row.ids, case.input_ids, "case {}", case.id);
        assert_eq!(row.split, case.n_first_tokens + 2, "case {}", case.id);
        for name in Features::NAMES {
            let (found, wanted) = (prepared.features.by_name(name).unwrap(), case.features[name]);
            assert!((found - wanted).abs() < 1e-9, "case {}: {name} is {found}, not {wanted}", case.id);
        }
    }
}

#[test]
fn probabilities_equal_the_golden_ones_and_a_row_does_not_feel_its_company() {
    let (texts, starter) = (Texts::load(EMBEDDED).unwrap(), starter());
    let cases = cases();
    let prepared: Vec<_> =
        cases.iter().map(|case| texts.prepare(&case.first, &Evidence::read(&case.second)).unwrap()).collect();
    let rows: Vec<Row> = prepared.iter().map(|prepared| texts.layout(prepared)).collect();
    let together = starter.logits(&rows.iter().collect::<Vec<_>>()).unwrap();
    for (((case, prepared), row), logits) in cases.iter().zip(&prepared).zip(&rows).zip(&together) {
        for (logit, wanted) in logits.iter().zip(case.logits) {
            assert!((f64::from(*logit) - wanted).abs() < 1e-4, "case {}: {logit}, not {wanted}", case.id);
        }
        // A sample: unoptimized passes are slow.
        if case.id % 7 == 4 {
            let alone = &starter.logits(&[row]).unwrap()[0];
            for (logit, alone) in logits.iter().zip(alone) {
                assert!((logit - alone).abs() < 1e-5, "case {}: {logit} in company, {alone} alone", case.id);
            }
        }
        let found = match case.question.as_str() {
            "relevance" => vec![texts.calibration.relevance(logits)],
            _ => texts.calibration.standings(logits, &prepared.features).to_vec(),
        };
        assert_eq!(found.len(), case.probabilities.len());
        for (found, (class, wanted)) in found.iter().zip(&case.probabilities) {
            let off = (found - wanted.as_f64().unwrap()).abs();
            assert!(off < 1e-4, "case {}: {class} is {found}, not {wanted}", case.id);
        }
    }
}

#[test]
fn packed_and_stored_weights_give_the_same_logits() {
    let [packed, stored] =
        [Form::Packed, Form::Stored].map(|form| Starter::load(EMBEDDED, None, form).unwrap());
    for case in cases().into_iter().filter(|case| case.input_ids.len() < 20).take(2) {
        let row = Row { ids: case.input_ids, split: case.n_first_tokens + 2 };
        let (found, wanted) = (packed.logits(&[&row]).unwrap(), stored.logits(&[&row]).unwrap());
        assert!(found[0].iter().zip(&wanted[0]).all(|(a, b)| (a - b).abs() < 1e-5), "case {}", case.id);
    }
}

fn grounding(claim: &str, options: &[&str]) -> Question {
    let options = options.iter().map(|name| ((*name).to_owned(), Json::Null)).collect();
    let subject = Subject::Grounding { claim: claim.to_owned() };
    Question { id: "g".to_owned(), kind: Kind::Choice { options }, instructions: Json::Null, subject }
}

fn noul(subject: Subject) -> Question {
    let kind = Kind::Noul { if_true: None, if_false: None };
    Question { id: "n".to_owned(), kind, instructions: Json::Null, subject }
}

fn ask(starter: &mut Starter, state: &str, questions: Vec<Question>) -> Reply {
    let inquiry = Inquiry::new(Arc::new(Json::String(state.to_owned())), questions);
    match starter.encoder().encode(inquiry).unwrap() {
        Encoded::Done(reply) => reply,
        Encoded::Work { work, .. } => starter.decide(&[work]).unwrap().remove(0),
    }
}

fn probabilities(reply: &Reply, question: usize) -> &[f64] {
    &reply.decisions[question].as_ref().unwrap().probabilities
}

const THREE: [&str; 3] = ["grounded", "ungrounded", "contradicted"];
const PARIS: &str = "Paris is the capital of France.";

#[test]
fn options_may_stand_in_any_order_and_complementary_gets_nothing() {
    let mut starter = starter();
    let questions = vec![
        grounding(PARIS, &THREE),
        grounding(PARIS, &["contradicted", "complementary", "grounded", "ungrounded"]),
        noul(Subject::Grounding { claim: PARIS.to_owned() }),
    ];
    let reply = ask(&mut starter, PARIS, questions);
    let [grounded, ungrounded, contradicted] = probabilities(&reply, 0).try_into().unwrap();
    assert!(grounded > 0.5);
    assert_eq!(probabilities(&reply, 1), [contradicted, 0.0, grounded, ungrounded]);
    assert_eq!(probabilities(&reply, 2), [1.0 - grounded, grounded]);
    assert!(!reply.truncated);
}

#[test]
fn what_the_model_cannot_answer_it_says_so() {
    let mut starter = starter();
    let general = noul(Subject::General);
    let score = Question {
        kind: Kind::Score { levels: vec![Json::Null; 2] },
        ..noul(Subject::Grounding { claim: PARIS.to_owned() })
    };
    let questions = vec![
        general.clone(),
        grounding(PARIS, &THREE),
        score,
        grounding(PARIS, &["grounded", "ungrounded"]),
        grounding(PARIS, &["grounded", "ungrounded", "contradicted", "funny"]),
    ];
    let reply = ask(&mut starter, PARIS, questions);
    assert!(reply.decisions[1].is_ok());
    for unsupported in [0, 2, 3, 4] {
        assert_eq!(reply.decisions[unsupported], Err(Nobody::Unsupported));
    }
    let reply = ask(&mut starter, " \n", vec![general, grounding(PARIS, &THREE)]);
    assert_eq!(reply.decisions, [Err(Nobody::Unsupported), Err(Nobody::NoEvidence)]);
}

#[test]
fn a_claim_is_as_grounded_as_its_least_grounded_sentence() {
    let mut starter = starter();
    let both = "Paris is the capital of France. London is the capital of France. Yes.";
    let questions = [both, PARIS, "London is the capital of France."].map(|claim| grounding(claim, &THREE));
    let reply = ask(&mut starter, PARIS, questions.to_vec());
    assert_eq!(probabilities(&reply, 0), probabilities(&reply, 2));
    assert!(probabilities(&reply, 0)[0] < probabilities(&reply, 1)[0]);
}

#[test]
fn evidence_that_does_not_fit_is_told() {
    let sentence = "The order was shipped to the customer on time. ";
    let reply = ask(&mut starter(), &sentence.repeat(100), vec![grounding(PARIS, &THREE)]);
    assert!(reply.truncated);
    assert!(reply.input_tokens <= 256);
}

#[test]
fn structured_evidence_is_read_like_its_json_text() {
    let mut starter = starter();
    let state = serde_json::json!({"columns": ["city", "snow"], "rows": [["Oslo", true], ["Rome", false]]});
    let claim = vec![grounding("Rome had no snow.", &THREE)];
    let as_text = ask(&mut starter, &state.to_string(), claim.clone());
    let inquiry = Inquiry::new(Arc::new(state), claim);
    let Encoded::Work { work, .. } = starter.encoder().encode(inquiry).unwrap() else { panic!() };
    assert_eq!(starter.decide(&[work]).unwrap(), [as_text]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_share_passes_get_what_they_would_get_alone() {
    let mut alone = starter();
    let desk = start_with(starter(), &Config::default()).unwrap();
    let callers: Vec<_> = cases()
        .into_iter()
        .filter(|case| case.n_units > 0 && case.input_ids.len() < 70)
        .map(|case| {
            let question = grounding(&case.first, &THREE);
            let wanted = ask(&mut alone, &case.second, vec![question.clone()]);
            let desk = desk.clone();
            tokio::spawn(async move {
                let inquiry = Inquiry::new(Arc::new(Json::String(case.second)), vec![question]);
                (case.id, wanted, desk.ask(inquiry).await.unwrap())
            })
        })
        .collect();
    for caller in callers {
        let (id, wanted, found) = caller.await.unwrap();
        for (a, b) in probabilities(&wanted, 0).iter().zip(probabilities(&found, 0)) {
            assert!((a - b).abs() < 1e-5, "case {id}: {b} in company, {a} alone");
        }
    }
}
