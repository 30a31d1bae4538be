//! What the reference answered and refused, and what its server gets wrong.

use futures::future::join_all;
use reqwest::{Response, StatusCode};
use serde_json::{Map, Value, json};

use super::{House, checkpoint, fixtures, state_of_its_own};

const CHECKPOINTS: [&str; 3] = ["tiny-lora", "tiny-legacy", "tiny-merged"];

fn golden(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(fixtures().join("golden").join(file)).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Text of a member of one line of JSON, as it stands there: a request may hold numbers and keys that a value cannot.
fn member<'a>(line: &'a str, key: &str) -> &'a str {
    let members: std::collections::HashMap<&str, &serde_json::value::RawValue> =
        serde_json::from_str(line).unwrap();
    members[key].get()
}

/// TypeSafe's definition, from what an answer shows.
fn confidence(answer: &Value) -> Option<f64> {
    let p: Vec<f64> = answer["probabilities"].as_object()?.values().map(|p| p.as_f64().unwrap()).collect();
    let n = p.len() as f64;
    let mode =
        p.iter().enumerate().fold(0, |best, (index, share)| if *share > p[best] { index } else { best });
    let away = |from: f64| (0..p.len()).map(move |index| (index as f64 - from).abs());
    let found = match answer["type"].as_str()? {
        "choice" => (p[mode] - 1.0 / n) / (1.0 - 1.0 / n),
        _ => {
            let spread: f64 = away(mode as f64).zip(&p).map(|(distance, p)| distance * p).sum();
            1.0 - spread / (away((n - 1.0) / 2.0).sum::<f64>() / n)
        }
    };
    Some(found.clamp(0.0, 1.0))
}

/// Equal but for numbers within rounding and confidence, which the reference defines otherwise; key order counts.
#[track_caller]
pub fn assert_like(ours: &Value, theirs: &Value, place: &str) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>(), "{place}");
            for (key, value) in a.iter().filter(|(key, _)| *key != "confidence") {
                assert_like(value, &b[key], &format!("{place}.{key}"));
            }
        }
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            assert!((a - b).abs() <= 2.1e-4, "{place}: {a} {b}");
        }
        _ => assert_eq!(ours, theirs, "{place}"),
    }
}

#[tokio::test]
async fn recorded_requests_are_answered_as_the_reference_answered_them() {
    for name in CHECKPOINTS {
        let house = House::open(checkpoint(name)).await;
        // One model answers all; what the others add is the engine's, whose own tests ask them everything.
        let step = if name == "tiny-lora" { 1 } else { 5 };
        for line in golden(&format!("{name}.jsonl")).into_iter().step_by(step) {
            let id = member(&line, "id");
            let response = house.raw("application/json", member(&line, "request").to_owned()).await;
            let (status, text) = (response.status(), response.text().await.unwrap());
            assert_eq!(status, StatusCode::OK, "{name} {id}: {text}");
            let ours: Value = serde_json::from_str(&text).unwrap();
            assert_like(&ours, &serde_json::from_str(member(&line, "response")).unwrap(), id);
            for answer in ours["answers"].as_object().unwrap().values() {
                let told = answer.get("confidence").map(|told| told.as_f64().unwrap());
                let (told, meant) = (told.unwrap_or(-1.0), confidence(answer).unwrap_or(-1.0));
                assert!((told - meant).abs() < 2e-3, "{id}: confidence {told}, by the definition {meant}");
            }
        }
        house.close().await;
    }
}

#[tokio::test]
async fn recorded_refusals_are_refused_alike() {
    for name in CHECKPOINTS {
        let house = House::open(checkpoint(name)).await;
        for line in golden(&format!("{name}.refused.jsonl")) {
            let id: String = serde_json::from_str(member(&line, "id")).unwrap();
            let status: u16 = member(&line, "status").parse().unwrap();
            let theirs: Value = serde_json::from_str(member(&line, "body")).unwrap();
            let response = match id.split_once(' ') {
                Some((method, path)) => {
                    let method = method.parse().unwrap();
                    house.client.request(method, house.url(path)).send().await.unwrap()
                }
                None => recorded(&house, &line).await,
            };
            // The reference fails on a lone surrogate; a bad request is never a 5xx here.
            let wanted = if id == "lone_surrogate" { 422 } else { status };
            assert_eq!(response.status().as_u16(), wanted, "{name} {id}");
            assert_eq!(response.headers()["content-type"], "application/json", "{id}");
            let ours: Value = response.json().await.unwrap();
            assert_refused_alike(&ours, &theirs, wanted, &id);
        }
        house.close().await;
    }
}

async fn recorded(house: &House, line: &str) -> Response {
    let members: Value = serde_json::from_str(line).unwrap();
    let content_type = members["content_type"].as_str().unwrap();
    if members["id"] == "choice_256_options" {
        let options: Map<String, Value> = (0..256).map(|index| (format!("o{index}"), Value::Null)).collect();
        let question = json!({"type": "choice", "instructions": "Pick", "criteria": options});
        return house.ask(&json!({"state": "s", "questions": {"q": question}})).await;
    }
    let raw = members["request_raw"].as_str().map(str::to_owned);
    house.raw(content_type, raw.unwrap_or_else(|| member(line, "request").to_owned())).await
}

/// Engine refusals in the same words; of the reference's list of flaws, one for each form that a question might have had,
/// those that speak of the form that was meant, word for word.
#[track_caller]
fn assert_refused_alike(ours: &Value, theirs: &Value, status: u16, id: &str) {
    if status == 200 {
        return assert_like(ours, theirs, id);
    }
    match &theirs["detail"] {
        Value::String(text) if status == 422 => assert_eq!(ours["detail"], *text, "{id}"),
        Value::Array(all) => {
            let flaws = ours["detail"].as_array().unwrap();
            assert!(!flaws.is_empty(), "{id}");
            for flaw in flaws {
                assert!(all.contains(flaw), "{id}: {flaw}\nis not in {}", theirs["detail"]);
            }
        }
        _ => assert!(ours.get("detail").is_some(), "{id}: {ours}"),
    }
}

/// The reference's server mixes answers of concurrent callers up.
#[tokio::test]
async fn sixty_four_callers_at_once_get_the_answers_that_they_get_alone() {
    let house = House::open(checkpoint("tiny-lora")).await;
    let requests: Vec<Value> = (0..64).map(state_of_its_own).collect();
    let together = join_all(requests.iter().map(|request| house.answered(request))).await;
    let fresh = House::open(checkpoint("tiny-lora")).await;
    for (index, (request, ours)) in requests.iter().zip(&together).enumerate() {
        let alone = fresh.answered(request).await;
        assert_like(ours, &alone, &format!("caller {index}"));
        let asked: Vec<&String> = request["questions"].as_object().unwrap().keys().collect();
        assert_eq!(ours["answers"].as_object().unwrap().keys().collect::<Vec<_>>(), asked);
    }
    // Answers differ from caller to caller, or mixing them up would not show.
    let nouls: std::collections::HashSet<String> =
        together.iter().map(|body| body["answers"]["urgent"]["noul"].to_string()).collect();
    assert!(nouls.len() > 32, "{}", nouls.len());
    house.close().await;
    fresh.close().await;
}

/// The reference's server takes strings only, and its confidence is another number.
#[tokio::test]
async fn structured_levels_are_taken_and_confidence_is_the_one_definition() {
    let house = House::open(checkpoint("tiny-lora")).await;
    let body = json!({"model": "jev-latest", "state": {"ticket": 1}, "questions": {"anger": {"type": "score",
        "instructions": {"scale": "frustration"},
        "criteria": [{"label": "Calm"}, ["a", "list"], {"label": "Very angry", "signals": ["threats"]}]}}});
    let answer = house.answered(&body).await["answers"]["anger"].clone();
    assert_eq!(answer["legend"]["0"], "{\n  \"label\": \"Calm\"\n}");
    let (told, meant) = (answer["confidence"].as_f64().unwrap(), confidence(&answer).unwrap());
    assert!((told - meant).abs() < 1e-3, "{answer}");
    house.close().await;
}

#[tokio::test]
async fn health_says_what_the_reference_s_said_and_models_lists_who_answers() {
    for name in CHECKPOINTS {
        let house = House::open(checkpoint(name)).await;
        let mut ours: Map<String, Value> =
            house.client.get(house.url("/health")).send().await.unwrap().json().await.unwrap();
        let text = golden(&format!("{name}.health.json")).concat();
        let mut theirs: Map<String, Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
        // The reference was started beside its checkpoints.
        assert!(ours["checkpoint"].as_str().unwrap().ends_with(theirs["checkpoint"].as_str().unwrap()));
        ours.remove("checkpoint");
        theirs.remove("checkpoint");
        assert_eq!(ours, theirs);
        let models: Value =
            house.client.get(house.url("/v1/models")).send().await.unwrap().json().await.unwrap();
        let names: Vec<&str> = models["models"]
            .as_array()
            .unwrap()
            .iter()
            .map(|model| model["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, [name, "jev-latest"]);
        house.close().await;
    }
}
