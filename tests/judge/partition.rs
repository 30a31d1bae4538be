//! The partition of claims: one call, four lists, and what becomes of wrong ones.

use std::sync::Arc;

use assayd::domain::{DecisionStatus, Inquiry, Json, Kind, Question, Questions, Standing, Subject};
use assayd::judge::{Ask, Flaw, JudgeErrorKind, build};
use serde_json::json;

use super::{Endpoint, choice, labels, says};

fn claim(position: usize, text: &str) -> Question {
    let options = ["grounded", "ungrounded", "contradicted"].map(|name| (name.to_owned(), Json::Null));
    Question {
        id: Questions::claim_id(position),
        kind: Kind::Choice { options: options.to_vec() },
        instructions: json!("How does the state stand to the claim?"),
        subject: Subject::Grounding { claim: text.to_owned() },
    }
}

/// Two claims about one state and a question about another.
fn ask() -> Ask {
    let claims = vec![claim(0, "Order 7 was refunded."), claim(3, "It arrives on Monday.")];
    let state = Arc::new(json!("order 7: refunded\narrival: Tuesday"));
    let other = Inquiry::new(Arc::new(json!("The agent was rude.")), vec![choice("tone", &["yes", "no"])]);
    Ask { inquiries: vec![Inquiry::new(state, claims), other] }
}

fn entry(claim: &str, refs: &[&str]) -> Json {
    json!({ "claim": claim, "reasoning": "It says so.", "evidence_type": "tool_match", "refs": refs })
}

fn partition(grounded: Json, contradicted: Json) -> Json {
    json!({
        "grounded_claims": grounded, "ungrounded_claims": [], "contradicted_claims": contradicted,
        "complementary_claims": [], "gaps": ["the year"], "contradictions": ["Monday, Tuesday"],
        "verification_needed": true, "verification_reason": "a date is promised", "explanation": "One of two.",
        "is_grounded": false, "grounding_score": 0.9, "decision_status": "resolved", "decision_reason": "clear",
    })
}

fn both(partition: &Json) -> String {
    json!({ "answers": { "q1": { "reasoning": "It was.", "answer": "no" } }, "partition": partition })
        .to_string()
}

#[tokio::test]
async fn claims_are_partitioned_in_the_one_call_that_also_answers_the_other_questions() {
    let right =
        partition(json!([entry("c1", &["order 7: refunded"])]), json!([entry("c2", &["arrival: Tuesday"])]));
    let endpoint = Endpoint::saying(&both(&right)).await;
    let judgement = endpoint.judge().partition(&ask()).await.unwrap();
    assert_eq!(labels(&judgement), [("tone", "no"), ("claim:0", "grounded"), ("claim:3", "contradicted")]);
    let said = judgement.partition.unwrap();
    assert_eq!((said.status, said.reported_score), (DecisionStatus::Resolved, Some(0.9)));
    assert_eq!(said.placed[1].refs, ["arrival: Tuesday"]);
    assert_eq!((said.gaps.len(), said.repairs.len()), (1, 0), "{:?}", said.repairs);

    let sent = endpoint.sent();
    assert_eq!(sent.len(), 1, "one call");
    let user = sent[0]["messages"][1]["content"].as_str().unwrap();
    assert!(user.contains("order 7: refunded\narrival: Tuesday") && user.contains("The agent was rude."));
    assert!(user.contains(r#"{"key":"c2","claim":"It arrives on Monday.","material":1}"#), "{user}");
    assert!(!user.contains("claim:3"), "ids stay at home: {user}");
    let schema = &sent[0]["response_format"]["json_schema"]["schema"]["properties"];
    let lists = schema["partition"]["properties"].as_object().unwrap();
    for name in [
        "grounded_claims",
        "ungrounded_claims",
        "contradicted_claims",
        "complementary_claims",
        "gaps",
        "contradictions",
        "verification_needed",
        "verification_reason",
        "explanation",
        "is_grounded",
        "grounding_score",
        "decision_status",
        "decision_reason",
    ] {
        assert!(lists.contains_key(name), "{name}");
    }
    assert_eq!(lists["grounded_claims"]["items"]["properties"]["claim"]["enum"], json!(["c1", "c2"]));
    assert!(schema["answers"]["properties"].get("q1").is_some());
}

#[tokio::test]
async fn missing_repeated_and_invented_claims_are_put_right_without_another_call() {
    let wrong = partition(json!([entry("c1", &[]), entry("c9", &[])]), json!([entry("c1", &["not there"])]));
    let endpoint = Endpoint::saying(&both(&wrong)).await;
    let judgement = endpoint.judge().partition(&ask()).await.unwrap();
    assert_eq!(labels(&judgement), [("tone", "no"), ("claim:0", "contradicted")]);
    assert_eq!(
        (judgement.unanswered[0].id.as_str(), &judgement.unanswered[0].why),
        ("claim:3", &Flaw::Missing)
    );
    let said = judgement.partition.unwrap();
    assert_eq!(said.placed[0].standing, Standing::Contradicted);
    assert_eq!(said.repairs.len(), 4, "{:#?}", said.repairs);
    assert_eq!(endpoint.sent().len(), 1);
}

#[tokio::test]
async fn a_malformed_partition_is_asked_for_again_and_then_the_safe_default() {
    let half = json!({ "answers": { "q1": { "answer": "no" } }, "partition": { "grounding_score": 0.75 } })
        .to_string();
    let endpoint = Endpoint::saying(&half).await;
    let judgement = endpoint.judge().partition(&ask()).await.unwrap();
    assert_eq!(labels(&judgement), [("tone", "no")], "what is right beside it stays");
    let said = judgement.partition.unwrap();
    assert_eq!((said.status, said.placed.len(), said.asked), (DecisionStatus::Abstain, 0, vec![0, 3]));
    assert!(said.reason.unwrap().starts_with("malformed: "));
    let sent = endpoint.sent();
    assert_eq!(sent.len(), 2);
    let again = sent[1]["messages"][1]["content"].as_str().unwrap();
    assert!(again.contains("An earlier reply could not be used: it has no partition"), "{again}");
    assert!(!again.contains("Is tone supported?"), "only what is open is asked again: {again}");

    for text in ["The first claim is right.", "Score: 5", "[]", r#"{"partition": []}"#] {
        let endpoint = Endpoint::saying(text).await;
        let error = endpoint.judge().partition(&ask()).await.unwrap_err();
        assert!(matches!(error.kind, JudgeErrorKind::Invalid { tries: 2, .. }), "{text}: {error}");
    }
}

#[tokio::test]
async fn a_judge_that_abstains_answers_no_claim_and_says_why() {
    let mut abstains = partition(json!([]), json!([]));
    abstains["decision_status"] = json!("abstain");
    abstains["decision_reason"] = json!("the material is garbled");
    let endpoint = Endpoint::saying(&both(&abstains)).await;
    let judgement = endpoint.judge().partition(&ask()).await.unwrap();
    assert_eq!(labels(&judgement), [("tone", "no")]);
    let why = Flaw::Abstained { reason: "the material is garbled".to_owned() };
    assert!(judgement.unanswered.iter().all(|unanswered| unanswered.why == why));
    assert_eq!(endpoint.sent().len(), 1, "an abstention is an answer");
}

#[tokio::test]
async fn an_own_template_answers_claims_as_questions() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "Mine. {{ fence }} {{ states[0].text }} {{ states[0].questions|join }}")
        .unwrap();
    let path = file.path().to_owned();
    let endpoint = Endpoint::start(|_, body| {
        let user = body["messages"][1]["content"].as_str().unwrap();
        says(if user.starts_with("Mine.") {
            r#"{"q1":"grounded","q2":"ungrounded"}"#
        } else {
            r#"{"q1":"no"}"#
        })
    })
    .await;
    let own = std::collections::BTreeSet::from([&path]);
    let judge = assayd::judge::build_with(&endpoint.config(), &own).unwrap().unwrap();
    let mut ask = ask();
    ask.inquiries[0].prompt = Some(Arc::from(path.to_str().unwrap()));
    let judgement = judge.partition(&ask).await.unwrap();
    assert_eq!(labels(&judgement), [("claim:0", "grounded"), ("claim:3", "ungrounded"), ("tone", "no")]);
    assert_eq!((judgement.partition, endpoint.sent().len()), (None, 2));
    assert_eq!(judgement.usage.judge_input_tokens, 2000);

    ask.inquiries[0].prompt = Some(Arc::from("nowhere.jinja"));
    let judgement = build(&endpoint.config()).unwrap().unwrap().judge(&ask).await.unwrap();
    assert_eq!(labels(&judgement), [("tone", "no")], "one call that fails leaves the others");
    assert!(
        matches!(&judgement.unanswered[0].why, Flaw::Failed { error } if error.contains("nowhere.jinja"))
    );
}
