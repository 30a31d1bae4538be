//! Metrics of the operator's own: any schema, a valid value or a recorded error.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

use assayd::domain::{Json, Measure};
use assayd::judge::{BadReply, JudgeErrorKind, Price, Window, build, build_with};
use serde_json::json;

use super::{Endpoint, completion, fails, says};

fn tone() -> Measure {
    Measure {
        name: Arc::from("tone"),
        state: Arc::new(json!("Agent: darn, your order is lost.")),
        instructions: json!("Is the tone polite, and which forbidden words occur?"),
        prompt: None,
        schema: Arc::new(json!({
            "type": "object", "required": ["tone_compliant", "forbidden_words"], "additionalProperties": false,
            "properties": {
                "tone_compliant": { "type": "boolean" },
                "forbidden_words": { "type": "array", "items": { "type": "string" } },
            },
        })),
    }
}

const RIGHT: &str = r#"{"tone_compliant": false, "forbidden_words": ["darn"]}"#;

fn right() -> Json {
    serde_json::from_str(RIGHT).unwrap()
}

#[tokio::test]
async fn a_metric_is_asked_for_by_its_schema_and_its_valid_value_comes_back_with_its_cost() {
    let endpoint = Endpoint::saying(RIGHT).await;
    let judge = endpoint.judge();
    let measured = judge.measure(&tone()).await.unwrap();
    assert_eq!((measured.value, measured.cached), (right(), false));
    assert_eq!(measured.usage.judge_input_tokens, 1000);
    let sent = endpoint.sent();
    let format = &sent[0]["response_format"]["json_schema"];
    assert_eq!((&format["schema"], &format["strict"]), (&*tone().schema, &json!(true)));
    let user = sent[0]["messages"][1]["content"].as_str().unwrap();
    assert!(user.contains("\nAgent: darn, your order is lost.\nEND MATERIAL-"), "{user}");
    assert!(user.contains("which forbidden words occur?") && !user.contains("tone\""), "{user}");
    assert!(judge.measure(&tone()).await.unwrap().cached);
}

#[tokio::test]
async fn a_value_that_is_no_object_and_a_loose_schema_are_asked_for_in_their_way() {
    let endpoint = Endpoint::saying(r#"{"value": 4}"#).await;
    let schema = Arc::new(json!({ "type": "integer", "minimum": 1, "maximum": 5 }));
    let measured = endpoint.judge().measure(&Measure { schema, ..tone() }).await.unwrap();
    assert_eq!(measured.value, json!(4));
    let format = endpoint.sent()[0]["response_format"]["json_schema"].clone();
    assert_eq!(format["strict"], false, "strict outputs know no minimum");
    assert_eq!(format["schema"]["properties"]["value"]["maximum"], 5);
}

#[tokio::test]
async fn an_invalid_value_is_asked_for_again_with_what_is_wrong() {
    let endpoint = Endpoint::start(|count, _| match count {
        0 => says(r#"{"tone_compliant": "no", "forbidden_words": []}"#),
        _ => says(RIGHT),
    })
    .await;
    assert_eq!(endpoint.judge().measure(&tone()).await.unwrap().value, right());
    let again = endpoint.sent()[1]["messages"][1]["content"].as_str().unwrap().to_owned();
    assert!(again.contains("it is not valid by the schema: /tone_compliant"), "{again}");
}

#[tokio::test]
async fn whatever_is_wrong_is_an_error_and_never_a_value() {
    let cases = [
        says("The tone is fine."),
        says("Score: 5"),
        says(""),
        says("[true]"),
        says(r#"{"tone_compliant": true}"#),
        says(r#"{"tone_compliant": NaN, "forbidden_words": []}"#),
        says(r#"{"tone_compliant": true, "forbidden_words": [], "extra": 1}"#),
        completion(json!({ "content": &RIGHT[..RIGHT.len() - 1] }), "length"),
    ];
    for response in cases {
        let endpoint = Endpoint::start(move |_, _| response.clone()).await;
        let error = endpoint.judge().measure(&tone()).await.unwrap_err();
        assert!(matches!(error.kind, JudgeErrorKind::Invalid { tries: 2, .. }), "{error}");
        assert_eq!(error.usage.judge_input_tokens, 2000, "what failed was paid for");
    }
    let refusal = completion(json!({ "content": null, "refusal": "I can't." }), "stop");
    let endpoint = Endpoint::start(move |_, _| refusal.clone()).await;
    let error = endpoint.judge().measure(&tone()).await.unwrap_err();
    assert!(matches!(error.kind, JudgeErrorKind::Declined { .. }), "{error}");
    let two = format!("{RIGHT} or {}", RIGHT.replace("false", "true"));
    let endpoint = Endpoint::saying(&two).await;
    let error = endpoint.judge().measure(&tone()).await.unwrap_err();
    assert!(matches!(error.kind, JudgeErrorKind::Invalid { reply: BadReply::Torn { .. }, .. }), "{error}");
}

#[tokio::test]
async fn a_schema_that_an_endpoint_refuses_lowers_no_other_ask() {
    let endpoint = Endpoint::start(|_, body| {
        let schema = &body["response_format"]["json_schema"]["schema"];
        match schema.get("properties").is_some_and(|properties| properties.get("tone_compliant").is_some()) {
            true => fails(400, "Invalid schema for response_format 'submit_answers'"),
            false if body.to_string().contains("tone_compliant") => says(RIGHT),
            false => says(super::BOTH),
        }
    })
    .await;
    let judge = endpoint.judge();
    assert_eq!(judge.measure(&tone()).await.unwrap().value, right());
    judge.judge(&super::two()).await.unwrap();
    let sent = endpoint.sent();
    assert!(sent[1].get("tools").is_some(), "the next rung of the ladder");
    assert_eq!(sent[2]["response_format"]["type"], "json_schema", "questions still get the best one");
}

#[tokio::test]
async fn a_spent_budget_is_a_recorded_error_and_nothing_is_sent() {
    let endpoint = Endpoint::saying(RIGHT).await;
    let mut config = endpoint.config();
    config.max_output_tokens = NonZeroU32::new(100).unwrap();
    let price = Price { usd_per_million_input: 0.0, usd_per_million_output: 10_000.0 };
    config.prices.insert("judge-large".into(), price);
    config.usd_per_hour = Some(0.5);
    let error = build(&config).unwrap().unwrap().measure(&tone()).await.unwrap_err();
    assert!(matches!(error.kind, JudgeErrorKind::Budget { window: Window::Hour, .. }), "{error}");
    assert!(endpoint.sent().is_empty());
}

#[tokio::test]
async fn own_templates_are_checked_at_the_start_and_are_part_of_the_digest() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_owned();
    let own = BTreeSet::from([&path]);
    let endpoint = Endpoint::saying(RIGHT).await;
    std::fs::write(file.path(), "{{ fence }} {{ evidence }}").unwrap();
    let error = build_with(&endpoint.config(), &own).err().unwrap().to_string();
    assert!(error.contains("undefined") && error.contains(path.to_str().unwrap()), "{error}");
    std::fs::write(file.path(), "Rate {{ states[0].text }} by {{ schema }} {{ fence }}").unwrap();
    let judge = build_with(&endpoint.config(), &own).unwrap().unwrap();
    assert_ne!(judge.prompt_digest(), endpoint.judge().prompt_digest());
    let prompt = Some(Arc::from(path.to_str().unwrap()));
    judge.measure(&Measure { prompt, instructions: Json::Null, ..tone() }).await.unwrap();
    let user = endpoint.sent()[0]["messages"][1]["content"].as_str().unwrap().to_owned();
    assert!(user.starts_with("Rate Agent: darn") && user.contains("tone_compliant"), "{user}");
    let elsewhere = Measure { prompt: Some(Arc::from("nowhere.jinja")), ..tone() };
    let error = judge.measure(&elsewhere).await.unwrap_err();
    assert!(matches!(error.kind, JudgeErrorKind::Prompt { .. }), "{error}");
}

#[tokio::test]
async fn a_schema_that_is_none_is_an_error_and_nothing_is_sent() {
    let endpoint = Endpoint::saying(RIGHT).await;
    for schema in [json!({ "type": "colour" }), json!({ "$ref": "https://example.com/schema.json" })] {
        let error =
            endpoint.judge().measure(&Measure { schema: Arc::new(schema), ..tone() }).await.unwrap_err();
        assert!(matches!(error.kind, JudgeErrorKind::Schema { .. }), "{error}");
    }
    assert!(endpoint.sent().is_empty());
}
