//! `/healthz`, `/readyz`, `/version` and `/metrics`.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::reply::json;
use super::server::{Shared, route};
use crate::metrics;

/// Whether the daemon admits spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// Not yet.
    Starting,
    /// It does.
    Ready,
    /// No longer.
    Stopping,
}

impl Readiness {
    /// The word that `/readyz` says.
    pub fn as_str(self) -> &'static str {
        match self {
            Readiness::Starting => "starting",
            Readiness::Ready => "ready",
            Readiness::Stopping => "stopping",
        }
    }
}

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .merge(route("/healthz", get(healthz)))
        .merge(route("/readyz", get(readyz)))
        .merge(route("/version", get(version)))
        .merge(route("/metrics", get(metrics_text)))
}

/// The process answers; nothing else is asked of it.
async fn healthz() -> Response {
    json(StatusCode::OK, r#"{"status":"alive"}"#)
}

async fn readyz(State(shared): State<Shared>) -> Response {
    let readiness = *shared.state.readiness.borrow();
    let status = match readiness {
        Readiness::Ready => StatusCode::OK,
        Readiness::Starting | Readiness::Stopping => StatusCode::SERVICE_UNAVAILABLE,
    };
    json(status, format!(r#"{{"status":"{}"}}"#, readiness.as_str()))
}

async fn version() -> Response {
    let body = serde_json::json!({
        "name": env!("CARGO_PKG_NAME"),
        "version": env!("CARGO_PKG_VERSION"),
        "features": metrics::features(),
    });
    json(StatusCode::OK, body.to_string())
}

async fn metrics_text(State(shared): State<Shared>) -> Response {
    if let Some(bytes) = resident_bytes() {
        metrics::process_resident(bytes);
    }
    let content_type = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (content_type, shared.state.metrics.render()).into_response()
}

/// Memory in RAM, where the system tells it (Linux).
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}
