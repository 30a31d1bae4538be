//! `GET /v1/models` and `GET /health`: who answers `/v1/systemone`.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use serde_json::{Map, json};

use super::reply::{Refusal, json as json_response};
use super::server::{Shared, route};
use super::systemone::{ALIAS, answers};
use crate::decide::{Calibration, Health, ModelInfo};
use crate::domain::Json;

/// Of a model that does not say when it was published.
const UNKNOWN_DATE: &str = "1970-01-01";

pub(super) fn routes() -> Router<Shared> {
    Router::new().merge(route("/v1/models", get(models))).merge(route("/health", get(health)))
}

async fn models(State(shared): State<Shared>) -> Result<Response, Refusal> {
    let info = info(&shared)?;
    let date = release_date(&info.name);
    let names = [(info.name.as_str(), described(info)), (ALIAS, format!("another name for {}", info.name))];
    let models: Vec<Json> = names
        .into_iter()
        .map(|(name, description)| json!({"name": name, "description": description, "release_date": date}))
        .collect();
    Ok(json_response(StatusCode::OK, json!({ "models": models }).to_string()))
}

async fn health(State(shared): State<Shared>) -> Result<Response, Refusal> {
    let info = info(&shared)?;
    let (status, word) = match shared.state.desk.as_ref().map(crate::decide::Desk::health) {
        Some(Health::Ready) => (StatusCode::OK, "ok"),
        Some(Health::Starting) => (StatusCode::SERVICE_UNAVAILABLE, "starting"),
        Some(Health::Unreachable) => (StatusCode::SERVICE_UNAVAILABLE, "unreachable"),
        Some(Health::Failing) => (StatusCode::SERVICE_UNAVAILABLE, "failing"),
        Some(Health::Stopped) | None => (StatusCode::SERVICE_UNAVAILABLE, "stopped"),
    };
    Ok(json_response(status, Json::Object(facts(info, word)).to_string()))
}

fn info(shared: &Shared) -> Result<&ModelInfo, Refusal> {
    let none = || Refusal::busy("this process has no decision model", std::time::Duration::from_secs(60));
    shared.state.desk.as_ref().map(crate::decide::Desk::info).ok_or_else(none)
}

fn facts(info: &ModelInfo, status: &str) -> Map<String, Json> {
    let mut facts = Map::new();
    facts.insert("status".to_owned(), json!(status));
    facts.insert("model".to_owned(), json!(info.name));
    facts.extend(info.facts.clone());
    if let (false, Some(tokens)) = (facts.contains_key("max_length"), info.max_tokens) {
        facts.insert("max_length".to_owned(), json!(tokens));
    }
    let answers = answers(info);
    if !answers.is_null() {
        facts.insert("x_answers".to_owned(), answers);
    }
    facts
}

fn described(info: &ModelInfo) -> String {
    let revision =
        if info.revision.is_empty() { String::new() } else { format!(", revision {}", info.revision) };
    let calibration = match &info.calibration {
        Calibration::Labelled { data } => format!("calibrated on {data}"),
        Calibration::Uncalibrated => "not calibrated by assayd".to_owned(),
    };
    let answers = match info.capabilities.general {
        true => "answers typed questions about a state",
        false => "answers whether a state supports a claim",
    };
    format!("{answers}; served by assayd{revision}; {calibration}")
}

/// Published names end in year and month (`…-v1-2610`).
fn release_date(name: &str) -> String {
    let tail = name.rsplit('-').next().unwrap_or_default();
    match tail.split_at_checked(2) {
        Some((year, month))
            if tail.len() == 4
                && tail.bytes().all(|byte| byte.is_ascii_digit())
                && (1..=12).contains(&month.parse().unwrap_or(0)) =>
        {
            format!("20{year}-{month}-01")
        }
        _ => UNKNOWN_DATE.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_read_from_names_that_have_one() {
        assert_eq!(release_date("strands-decider-2B-qwen3.5-v1-2610"), "2026-10-01");
        for name in ["tiny-lora", "x-2613", "x-12345", "2610x", "é-26"] {
            assert_eq!(release_date(name), UNKNOWN_DATE, "{name}");
        }
    }
}
