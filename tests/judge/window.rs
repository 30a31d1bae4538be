//! Asks that are too long for the judge: the claim and its nearest evidence first, and what was cut is said.

use std::num::NonZeroU32;
use std::sync::Arc;

use assayd::domain::{Inquiry, Json, Measure, Subject};
use assayd::judge::{Ask, JudgeErrorKind, build};
use serde_json::json;

use super::{BOTH, Endpoint, choice, fails, says};

const FACT: &str = "The penalty is 0.5% for each week of delay.";

fn long() -> String {
    let filler = "Nothing of note happened on the line.\n".repeat(400);
    format!("{filler}{FACT}\n{filler}")
}

fn ask() -> Ask {
    let about = |id: &str, claim: &str| {
        let mut question = choice(id, &["yes", "no"]);
        question.subject = Subject::Grounding { claim: claim.to_owned() };
        question
    };
    let questions =
        vec![about("first", "The penalty is 0.5% a week."), about("second", "The line was busy.")];
    Ask { inquiries: vec![Inquiry::new(Arc::new(json!(long())), questions)] }
}

fn user(body: &Json) -> &str {
    body["messages"][1]["content"].as_str().unwrap()
}

#[tokio::test]
async fn evidence_is_cut_to_what_is_nearest_to_the_claims_and_the_judgement_says_so() {
    let endpoint = Endpoint::saying(BOTH).await;
    let mut config = endpoint.config();
    config.max_input_tokens = NonZeroU32::new(2500);
    let judge = build(&config).unwrap().unwrap();
    let judgement = judge.judge(&ask()).await.unwrap();
    assert_eq!(judgement.answers.len(), 2);
    assert!(judgement.truncated[0].starts_with("evidence for the judge: "), "{:?}", judgement.truncated);
    let sent = endpoint.sent();
    assert!(user(&sent[0]).contains(FACT), "the nearest evidence is there");
    assert!(sent[0].to_string().len() < 2500 * 3 + 500);
    assert!(judge.judge(&ask()).await.unwrap().truncated == judgement.truncated, "also from the cache");
}

#[tokio::test]
async fn an_endpoint_that_says_too_long_is_asked_again_with_less_and_its_window_is_remembered() {
    let endpoint = Endpoint::start(|_, body| match user(body).len() {
        9000.. => {
            fails(400, "This model's maximum context length is 8192 tokens; you requested 20000 tokens.")
        }
        _ => says(BOTH),
    })
    .await;
    let judge = endpoint.judge();
    let judgement = judge.judge(&ask()).await.unwrap();
    assert_eq!((judgement.answers.len(), judgement.truncated.len()), (2, 1));
    let first = endpoint.sent().len();
    assert!(user(endpoint.sent().last().unwrap()).contains(FACT));
    let mut other = ask();
    other.inquiries[0].state = Arc::new(json!(format!("{} And more.", long())));
    judge.judge(&other).await.unwrap();
    assert_eq!(endpoint.sent().len(), first + 1, "the window is known now");
}

#[tokio::test]
async fn what_cannot_be_cut_is_not_sent() {
    let endpoint = Endpoint::saying(BOTH).await;
    let mut config = endpoint.config();
    config.max_input_tokens = NonZeroU32::new(300);
    let error = build(&config).unwrap().unwrap().judge(&ask()).await.unwrap_err();
    assert!(
        matches!(&error.kind, JudgeErrorKind::TooLong { message, .. } if message.contains("max_input_tokens"))
    );
    assert!(endpoint.sent().is_empty());
}

#[tokio::test]
async fn a_metrics_state_is_cut_too() {
    let endpoint = Endpoint::saying(r#"{"value": true}"#).await;
    let mut config = endpoint.config();
    config.max_input_tokens = NonZeroU32::new(1500);
    let measure = Measure {
        name: Arc::from("penalty"),
        state: Arc::new(json!(long())),
        instructions: json!("Is there a penalty of 0.5% a week?"),
        prompt: None,
        schema: Arc::new(json!({ "type": "boolean" })),
    };
    let measured = build(&config).unwrap().unwrap().measure(&measure).await.unwrap();
    assert_eq!((measured.value, measured.truncated.len()), (json!(true), 1));
    assert!(user(&endpoint.sent()[0]).contains(FACT));
}
