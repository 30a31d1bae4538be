//! The room as a whole: from a story to its questions.

use proptest::prelude::*;

use super::{Config, questions};
use crate::domain::{EvidenceType, Json, Kind, Nobody, Questions, Step, StepKind, Story, Subject};

/// A story of these steps; its request and answer are the last of their kind.
pub(super) fn story(steps: &[(StepKind, &str)]) -> Story {
    let last = |kind| steps.iter().rfind(|(found, _)| *found == kind).map(|(_, text)| (*text).to_owned());
    Story {
        request: last(StepKind::Request),
        steps: steps
            .iter()
            .enumerate()
            .map(|(index, (kind, text))| Step {
                index,
                text: Some((*text).to_owned()),
                span_id: format!("{:016x}", index + 1).parse().ok(),
                ..Step::new(*kind)
            })
            .collect(),
        answer: last(StepKind::Answer),
        ..Story::default()
    }
}

fn ask(observations: &[&str], request: &str, answer: &str) -> Questions {
    let mut steps = vec![(StepKind::Request, request)];
    steps.extend(observations.iter().map(|text| (StepKind::Observation, *text)));
    steps.push((StepKind::Answer, answer));
    questions(&story(&steps), &Config::default())
}

fn texts(asked: &Questions) -> Vec<&str> {
    asked.claims.iter().map(|claim| claim.text.as_str()).collect()
}

/// Claims as they are put to a model, by claim.
fn put(asked: &Questions) -> Vec<String> {
    let mut all: Vec<(usize, String)> = asked
        .inquiries
        .iter()
        .flat_map(|inquiry| &inquiry.questions)
        .map(|question| {
            let Subject::Grounding { claim } = &question.subject else { panic!("{question:?}") };
            (question.id["claim:".len()..].parse().unwrap(), claim.clone())
        })
        .collect();
    all.sort();
    all.into_iter().map(|(_, claim)| claim).collect()
}

#[test]
fn every_statement_is_a_claim_and_talk_is_none() {
    let answer = "Hi Jane! Your order NW-48213 was delivered on 6 November 2026. It cost EUR 129.90. \
                  Does that help? Let me know if you need anything else!";
    let asked = ask(&["{}"], "Where is it?", answer);
    assert_eq!(
        texts(&asked),
        ["Your order NW-48213 was delivered on 6 November 2026.", "It cost EUR 129.90."]
    );
    for claim in &asked.claims {
        let text: String =
            answer.chars().skip(claim.range[0]).take(claim.range[1] - claim.range[0]).collect();
        assert_eq!(text, claim.text);
    }
}

#[test]
fn lists_and_tables_bring_what_their_fragments_mean() {
    let answer = "# Stock\n\nOn hand in our warehouses:\n- Rotterdam: 42\n- Lyon: **none**\n\n\
                  | City | Restock |\n|---|---|\n| Lyon | 9 December |\n| Gdansk | |\n\n\
                  See [the policy](https://a.example/p) for the 2 exceptions.";
    let asked = ask(&["text"], "How many?", answer);
    assert_eq!(
        texts(&asked),
        [
            "Rotterdam: 42",
            "Lyon: **none**",
            "| Lyon | 9 December |",
            "| Gdansk | |",
            "See [the policy](https://a.example/p) for the 2 exceptions."
        ]
    );
    assert_eq!(
        put(&asked),
        [
            "On hand in our warehouses: Rotterdam: 42",
            "On hand in our warehouses: Lyon: none",
            "City: Lyon; Restock: 9 December",
            "City: Gdansk",
            "See the policy for the 2 exceptions.",
        ]
    );
}

#[test]
fn inner_items_know_the_item_that_leads_to_them() {
    let asked = ask(&["text"], "?", "Fees:\n- Shipping:\n  - EU: 5\n  - US: 9\n- Returns: 4");
    assert_eq!(put(&asked), ["Fees: Shipping: EU: 5", "Fees: Shipping: US: 9", "Fees: Returns: 4"]);
}

#[test]
fn code_is_no_claim_but_an_answer_of_data_is() {
    let asked = ask(&["text"], "?", "Run this:\n```sh\nrm -rf build\n```\nIt frees 2 GB.");
    assert_eq!(texts(&asked), ["It frees 2 GB."]);
    let answer = "```json\n{\"status\": \"delivered\", \"lines\": [{\"sku\": \"A\", \"qty\": 2}], \"note\": null}\n```";
    let asked = ask(&["text"], "?", answer);
    assert_eq!(texts(&asked), ["\"status\": \"delivered\"", "\"sku\": \"A\"", "\"qty\": 2"]);
    assert_eq!(put(&asked), ["status: delivered", "lines sku: A", "lines qty: 2"]);
}

#[test]
fn an_answer_of_a_word_is_read_with_its_question() {
    assert_eq!(put(&ask(&["text"], "Hi. Is it open?", "Yes.")), ["Is it open? Yes."]);
    assert_eq!(
        put(&ask(&["text"], "What is the capital of France?", "Paris.")),
        ["What is the capital of France? Paris."]
    );
    assert_eq!(ask(&["text"], "Hello", "Hello! How can I help?"), Questions::default());
}

#[test]
fn questions_are_choices_over_one_state() {
    let asked = ask(&["{\"a\": 1}", "text"], "?", "A is 1. B is 2.");
    assert_eq!(asked.inquiries.len(), 1);
    let inquiry = &asked.inquiries[0];
    assert_eq!(*inquiry.state, Json::String("{\"a\": 1}\ntext".to_owned()));
    let ids: Vec<&str> = inquiry.questions.iter().map(|question| question.id.as_str()).collect();
    assert_eq!(ids, ["claim:0", "claim:1"]);
    let Kind::Choice { options } = &inquiry.questions[0].kind else { panic!() };
    let names: Vec<&str> = options.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["grounded", "ungrounded", "contradicted"]);
    assert!(inquiry.questions[0].instructions.as_str().unwrap().ends_with("Claim: A is 1."));
}

#[test]
fn what_the_user_said_is_held_against_claims_that_repeat_it_only() {
    let request = "I bought running shoes for my sister in Oslo last Friday. Can I return them?";
    let answer = "You bought running shoes for your sister in Oslo. They can be returned within 30 days.";
    let asked = ask(&["Footwear can be returned within 30 days."], request, answer);
    assert_eq!(asked.inquiries.len(), 2);
    assert_eq!(
        *asked.inquiries[0].state,
        Json::String("Footwear can be returned within 30 days.".to_owned())
    );
    let with_signal = asked.inquiries[1].state.as_str().unwrap();
    assert!(
        with_signal.ends_with("The user says: I bought running shoes for my sister in Oslo last Friday."),
        "{with_signal}"
    );
    assert_eq!(asked.inquiries[1].questions[0].id, "claim:0");
    assert_eq!(asked.claims[0].evidence_type, EvidenceType::SignalMatch);
    assert_eq!(asked.claims[0].evidence[0].step, 0);
}

#[test]
fn a_user_who_is_wrong_does_not_ground_a_claim() {
    let request = "Your colleague said that footwear can be returned within 90 days. I rely on that.";
    let asked = ask(
        &["Footwear can be returned within 30 days."],
        request,
        "Footwear can be returned within 90 days.",
    );
    assert_eq!(asked.inquiries.len(), 1);
    assert!(!asked.inquiries[0].state.as_str().unwrap().contains("90"));
    assert_eq!(asked.claims[0].evidence[0].step, 1);
}

#[test]
fn without_any_evidence_nobody_is_asked() {
    let answer = "As of today your order NW-48213 is refundable for EUR 129.90 until 6 December 2026.";
    let asked = ask(&[], "I bought shoes (order NW-48213) and they don't fit.", answer);
    assert_eq!(asked.claims.len(), 1);
    assert!(asked.inquiries.is_empty());
    assert_eq!(asked.unasked, [("claim:0".to_owned(), Nobody::NoEvidence)]);
}

#[test]
fn a_text_that_the_user_hands_over_is_evidence_for_all_claims() {
    let text = "The library opened in 1954 and holds 40,000 books. It was closed for a renewal of its roof from May to \
                October 2019. Since then it has opened on Sundays too, which the town had wanted for many years. Sum this up.";
    let asked = ask(&[], text, "The library opened in 1954. Whales are mammals of the sea.");
    assert_eq!(asked.inquiries.len(), 1);
    assert_eq!(asked.inquiries[0].questions.len(), 2);
    assert!(asked.unasked.is_empty());
}

#[test]
fn of_too_many_claims_those_with_figures_stay_and_the_cut_is_said() {
    let mut answer = "Nice words here without any. ".repeat(60);
    answer.push_str("The last one costs EUR 7.");
    let asked = ask(&["text"], "?", &answer);
    assert_eq!(asked.claims.len(), 50);
    assert_eq!(texts(&asked).last(), Some(&"The last one costs EUR 7."));
    assert_eq!(asked.truncated, ["claims: 50 of 61, those with figures and names first"]);
}

fn any_answer() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "\\PC{0,20}",
        "[a-z]{1,8}( [A-Za-z0-9]{1,6}){0,5}[.!?:;。؟…]? ?",
        Just("\n- ".to_owned()),
        Just("\n1. ".to_owned()),
        Just("\n\n".to_owned()),
        Just("\n|a|b|\n|-|-|\n|".to_owned()),
        Just("```\n".to_owned()),
        Just("\n# ".to_owned()),
        Just("**".to_owned()),
        Just("(".to_owned()),
        Just("\"".to_owned()),
        Just("[x](y".to_owned()),
        Just("{\"a\": [1, \"b\"]}".to_owned()),
        Just("\u{200f}\u{301}🇮🇱".to_owned()),
        Just("e.g. ".to_owned()),
    ];
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn claims_lie_in_order_within_any_answer_and_their_text_is_that_of_their_range(
        answer in any_answer(), observation in any_answer(), request in any_answer(),
    ) {
        let asked = ask(&[&observation], &request, &answer);
        let chars: Vec<char> = answer.chars().collect();
        let mut last = 0;
        for claim in &asked.claims {
            prop_assert!(last <= claim.range[0] && claim.range[0] < claim.range[1] && claim.range[1] <= chars.len());
            prop_assert_eq!(chars[claim.range[0]..claim.range[1]].iter().collect::<String>(), claim.text.clone());
            last = claim.range[1];
        }
    }

    #[test]
    fn references_lie_within_their_steps(answer in any_answer(), observation in any_answer()) {
        let text = format!("{observation} {answer}");
        let told = story(&[(StepKind::Observation, &text), (StepKind::Answer, &answer)]);
        let asked = questions(&told, &Config::default());
        for reference in asked.claims.iter().flat_map(|claim| &claim.evidence) {
            let length = told.steps[reference.step].text.as_ref().unwrap().chars().count();
            prop_assert!(reference.range[0] < reference.range[1] && reference.range[1] <= length);
            prop_assert_eq!(reference.span_id, told.steps[reference.step].span_id);
        }
    }

    #[test]
    fn every_claim_is_asked_or_unasked_exactly_once(answer in any_answer(), observation in any_answer()) {
        let asked = ask(&[&observation], "", &answer);
        let mut ids: Vec<&str> =
            asked.inquiries.iter().flat_map(|inquiry| &inquiry.questions).map(|question| question.id.as_str()).collect();
        ids.extend(asked.unasked.iter().map(|(id, _)| id.as_str()));
        ids.sort_unstable();
        let mut wanted: Vec<String> = (0..asked.claims.len()).map(Questions::claim_id).collect();
        wanted.sort_unstable();
        prop_assert_eq!(ids, wanted);
    }
}

#[test]
fn what_follows_by_arithmetic_is_put_below_the_evidence_and_said_to_be_computed() {
    let stock = [
        r#"{"warehouse": "Rotterdam", "on_hand": 42}"#,
        r#"{"warehouse": "Lyon", "on_hand": 0}"#,
        r#"{"warehouse": "Gdansk", "on_hand": 7}"#,
    ];
    let asked = ask(&stock, "Where are they?", "Rotterdam has 42 units and Gdansk has 7, together 49.");
    let line = "on hand: sum of 42 (Rotterdam) and 7 (Gdansk): 49.";
    assert!(asked.claims[0].derived.contains(&line.to_owned()), "{:?}", asked.claims[0]);
    let state = asked.inquiries[0].state.as_str().unwrap();
    let (said, computed) = state.split_once("\nComputed from the above:\n").unwrap();
    assert_eq!(said.lines().collect::<Vec<_>>(), stock);
    assert!(computed.lines().any(|told| told == line), "{computed}");
    // Every reference is to what a tool has said, its figures among it.
    let referred: Vec<String> = asked.claims[0]
        .evidence
        .iter()
        .map(|found| {
            stock[found.step - 1].chars().skip(found.range[0]).take(found.range[1] - found.range[0]).collect()
        })
        .collect();
    assert!(referred.contains(&r#""on_hand": 42"#.to_owned()), "{referred:?}");
    let nothing = ask(&stock, "Where are they?", "Rotterdam has units.");
    assert!(!nothing.inquiries[0].state.as_str().unwrap().contains("Computed"));
}
