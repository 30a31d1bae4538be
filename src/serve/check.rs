//! `POST /v1/check`: the verdict on one answer, by the same way that a trace's answer takes.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use futures::future::BoxFuture;
use serde::Deserialize;

use super::Readiness;
use super::reply::{JsonBody, Refusal, json};
use super::server::{Shared, route};
use crate::domain::{Json, Verdict};

/// What to check.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckRequest {
    /// The evidence: text, or any JSON.
    pub context: Json,
    /// What was asked.
    #[serde(default)]
    pub query: Option<String>,
    /// The answer whose claims are checked.
    pub response: String,
    /// The service whose answer it is: its thresholds and evaluators are used.
    #[serde(default)]
    pub service: Option<String>,
}

/// Why there is no verdict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// Too much is going on; come back.
    #[error("too many answers are being evaluated; retry later")]
    Busy {
        /// After so long.
        retry_after: Duration,
    },
    /// The evaluation itself failed.
    #[error("the evaluation failed: {0}")]
    Failed(String),
}

type Check = dyn Fn(CheckRequest) -> BoxFuture<'static, Result<Verdict, CheckError>> + Send + Sync;

/// The pipeline's hand that evaluates one answer. Cheap to clone.
#[derive(Clone)]
pub struct Checker(Arc<Check>);

impl Checker {
    /// Evaluates with `check`. If its future is dropped, the client has gone.
    pub fn new(
        check: impl Fn(CheckRequest) -> BoxFuture<'static, Result<Verdict, CheckError>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(check))
    }
}

pub(super) fn routes() -> Router<Shared> {
    route("/v1/check", post(check))
}

async fn check(
    State(shared): State<Shared>,
    JsonBody(request): JsonBody<CheckRequest>,
) -> Result<Response, Refusal> {
    let verdict = evaluate(&shared, request).await?;
    let body = serde_json::to_vec(&verdict).expect("a verdict has text keys only, so it is always JSON");
    Ok(json(StatusCode::OK, body))
}

/// The verdict on one answer, within the limits on time.
pub(super) async fn evaluate(shared: &Shared, request: CheckRequest) -> Result<Verdict, Refusal> {
    let Some(Checker(check)) = &shared.state.checker else {
        return Err(Refusal::busy("this process does not evaluate answers", Duration::from_secs(60)));
    };
    let readiness = *shared.state.readiness.borrow();
    if readiness != Readiness::Ready {
        return Err(Refusal::busy(format!("assayd is {}", readiness.as_str()), Duration::from_secs(1)));
    }
    let evaluation = tokio::time::timeout(shared.timeout, check(request)).await;
    let evaluated = evaluation.map_err(|_| {
        let seconds = shared.timeout.as_secs_f64();
        Refusal::new(StatusCode::GATEWAY_TIMEOUT, "timeout", format!("no verdict within {seconds} seconds"))
    })?;
    evaluated.map_err(refusal)
}

fn refusal(error: CheckError) -> Refusal {
    let message = error.to_string();
    match error {
        CheckError::Busy { retry_after } => Refusal::busy(message, retry_after),
        CheckError::Failed(_) => {
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "evaluation_failed", message)
        }
    }
}
