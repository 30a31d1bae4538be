//! `GET /v1/status`: what the daemon does and did, evaluator by evaluator, and the configuration in force.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use serde_json::json;

use super::reply::json as answer;
use super::server::{Shared, route};
use crate::domain::Json;

/// The pipeline's account of itself, taken when somebody asks. Cheap to clone.
#[derive(Clone)]
pub struct Status(Arc<dyn Fn() -> Json + Send + Sync>);

impl Status {
    /// Taken with `account`, which gives an object.
    pub fn new(account: impl Fn() -> Json + Send + Sync + 'static) -> Self {
        Self(Arc::new(account))
    }
}

pub(super) fn routes() -> Router<Shared> {
    route("/v1/status", get(status))
}

async fn status(State(shared): State<Shared>) -> Response {
    let mut body = json!({
        "status": shared.state.readiness.borrow().as_str(),
        "version": env!("CARGO_PKG_VERSION"),
    });
    let account = shared.state.status.as_ref().map(|Status(account)| account());
    if let (Some(Json::Object(account)), Some(body)) = (account, body.as_object_mut()) {
        body.extend(account);
    }
    answer(StatusCode::OK, body.to_string())
}
