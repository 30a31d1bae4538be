//! A decision model behind HTTP that finds everything grounded, at no cost for the process that asks.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

/// Serves `POST /v1/systemone` on a free port of loopback, as long as the runtime lives.
pub async fn serve() -> std::io::Result<SocketAddr> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let app = Router::new()
        .route("/v1/systemone", post(|Json(asked): Json<Value>| async move { Json(answer(&asked)) }));
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

fn answer(asked: &Value) -> Value {
    let questions = asked["questions"].as_object().expect("questions by name");
    let answers: BTreeMap<&String, Value> =
        questions.iter().map(|(name, asked)| (name, one(asked))).collect();
    json!({ "model": "scripted", "answers": answers, "usage": { "input_tokens": 1, "output_tokens": 1 } })
}

fn one(asked: &Value) -> Value {
    let kind = asked["type"].as_str().expect("a type");
    let labels: Vec<String> = match &asked["criteria"] {
        _ if kind == "noul" => return json!({ "type": "noul", "noul": 0.01 }),
        Value::Object(options) => options.keys().cloned().collect(),
        Value::Array(levels) => (0..levels.len()).map(|level| level.to_string()).collect(),
        other => panic!("criteria of a {kind}: {other}"),
    };
    let best = labels.iter().position(|label| label == "grounded").unwrap_or(0);
    let rest = 0.02 / (labels.len() - 1) as f64;
    let probabilities: BTreeMap<&String, f64> =
        labels.iter().enumerate().map(|(at, label)| (label, if at == best { 0.98 } else { rest })).collect();
    json!({ "type": kind, kind: labels[best], "probabilities": probabilities, "confidence": 0.9 })
}
