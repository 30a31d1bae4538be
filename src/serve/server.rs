//! The listener's routes put together, with what holds for all of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::hold::Budget;
use super::hosts::Hosts;
use super::reply::Refusal;
use super::{
    Access, Checker, Config, Readiness, Runs, Status, Tracer, check, connections, console, feedback, gsar,
    models, probes, rates, status, stories, systemone, traces, verdicts,
};
use crate::decide::Desk;
use crate::emit::Recent;
use crate::feedback::Feedback;
use crate::metrics;
use crate::net::{self, Limits};

/// How long a request's head may take to arrive.
const HEADERS: Duration = Duration::from_secs(10);
/// A name for each answer, for its client's questions to us; the official clients show it with errors.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-typesafe-request-id");

/// What the routes speak of.
#[derive(Clone)]
pub struct State {
    /// The process's metrics.
    pub metrics: metrics::Handle,
    /// Whether spans are admitted.
    pub readiness: watch::Receiver<Readiness>,
    /// Recent verdicts.
    pub recent: Recent,
    /// Evaluates one answer; without it `/v1/check` says that it is not available.
    pub checker: Option<Checker>,
    /// What the daemon does and did; without it `/v1/status` says only whether it is ready.
    pub status: Option<Status>,
    /// Knows which traces are open; without it only verdicts tell of traces.
    pub tracer: Option<Tracer>,
    /// What people say of verdicts; without it nothing is taken.
    pub feedback: Option<Feedback>,
    /// The decision model; without it `/v1/systemone` says that it is not available.
    pub desk: Option<Desk>,
    /// Who may ask.
    pub access: Access,
    /// The way to GSAR's runs; without it `/v1/gsar/runs` says that none are kept.
    pub runs: Option<Runs>,
}

/// What all handlers share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) state: State,
    /// How long a body may take to arrive, and then the answer to be made.
    pub(super) timeout: Duration,
    /// Places for readers of the live feed.
    pub(super) feed_places: Arc<Semaphore>,
    /// Places for requests to the decision model.
    pub(super) decision_places: Arc<Semaphore>,
    /// Whether a request may name any model.
    pub(super) any_model: bool,
    /// Largest body, also when it is decompressed. What all bodies take together is in each request's `Hold`.
    pub(super) max_body: usize,
    pub(super) shutdown: CancellationToken,
}

/// Answers on `listener` until `shutdown`; then ends live feeds and waits shortly for requests in flight.
pub async fn serve(listener: TcpListener, config: &Config, state: State, shutdown: CancellationToken) {
    let access = state.access.clone();
    let tls = state.access.tls();
    let shared = Shared {
        state,
        timeout: config.timeout.0,
        feed_places: Arc::new(Semaphore::new(config.max_feed_readers.get())),
        decision_places: Arc::new(Semaphore::new(config.decision_places())),
        any_model: config.any_model,
        max_body: config.max_body_bytes.as_usize(),
        shutdown: shutdown.clone(),
    };
    let router = Router::new()
        .merge(probes::routes())
        .merge(verdicts::routes())
        .merge(stories::routes())
        .merge(traces::routes())
        .merge(rates::routes())
        .merge(feedback::routes())
        .merge(check::routes())
        .merge(if config.console { console::routes() } else { Router::new() })
        .merge(models::routes())
        .merge(systemone::routes())
        .merge(gsar::routes())
        .merge(status::routes())
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .with_state(shared);
    let router = limited(router, access, config);
    let limits = Limits { connections: config.max_connections.get(), handshake: HEADERS };
    let incoming = net::accept(listener, tls, limits, shutdown.clone());
    connections::run(incoming, router, HEADERS, shutdown).await;
}

/// One route, counted under its pattern. Every file of routes uses this and not axum's own.
pub(super) fn route(pattern: &'static str, methods: MethodRouter<Shared>) -> Router<Shared> {
    let count = from_fn(move |request: Request, next: Next| async move {
        let response = next.run(request).await;
        metrics::serve_request(pattern, response.status().as_u16());
        response
    });
    Router::new().route(pattern, methods.layer(count))
}

fn limited(router: Router, access: Access, config: &Config) -> Router {
    let hosts = Hosts::of(config);
    let admit = from_fn(move |request: Request, next: Next| {
        let (access, hosts) = (access.clone(), hosts.clone());
        async move {
            if let Err(refusal) = hosts.admit(request.headers()) {
                metrics::serve_request("misdirected", refusal.status.as_u16());
                return refusal.into_response();
            }
            match access.admit(request.uri().path(), request.headers(), Instant::now()) {
                Ok(()) => next.run(request).await,
                Err(unauthorized) => {
                    metrics::serve_request("unauthorized", StatusCode::UNAUTHORIZED.as_u16());
                    unauthorized.into_response()
                }
            }
        }
    });
    let budget = Budget::new(config.max_held_bytes.as_usize());
    let hold = from_fn(move |request: Request, next: Next| budget.clone().before(request, next));
    router.layer(hold).layer(admit).layer(from_fn(harden))
}

/// Verdicts hold text from outside: a browser must never take an answer for a page or a script.
async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(id) = HeaderValue::try_from(format!("req_{}", Uuid::now_v7().simple())) {
        headers.insert(REQUEST_ID, id);
    }
    response
}

async fn not_found(request: Request) -> Refusal {
    metrics::serve_request("unmatched", StatusCode::NOT_FOUND.as_u16());
    // Shortened: the path is the client's, and may be long.
    let path: String = request.uri().path().chars().take(100).collect();
    Refusal::new(StatusCode::NOT_FOUND, "not_found", format!("there is nothing at {path}"))
}

async fn wrong_method(request: Request) -> Refusal {
    let method = request.method().clone();
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        format!("this path does not take {method}; the header allow says what it takes"),
    )
}
