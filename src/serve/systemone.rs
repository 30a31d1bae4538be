//! `POST /v1/systemone`: typed questions about a state, answered by the decision model.

mod body;
mod flaw;
mod reply;
mod request;
mod rounds;

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;

use super::Readiness;
use super::hold::Hold;
use super::reply::{Refusal, beyond_text, json, read_body};
use super::server::{Shared, route};
use crate::decide::{DecideError, Desk};
use crate::error::Fault;
use flaw::Flaw;
pub(super) use reply::answers;
use request::Asked;

/// The name under which clients of the hosted service ask for its newest model. Here it means the one that there is.
pub(super) const ALIAS: &str = "jev-latest";
/// Bodies above this are read where they may block a thread.
const LARGE: usize = 32 << 10;
/// When to come back if all places are taken.
const BUSY: Duration = Duration::from_secs(1);
/// When to come back if the model failed, or took too long.
const FAILED: Duration = Duration::from_secs(5);
/// Says that the state or a question was cut to fit the model's window. A header, since the body is the contract's.
const TRUNCATED: HeaderName = HeaderName::from_static("x-assayd-truncated");
/// How long the answer took.
const TIMING: HeaderName = HeaderName::from_static("server-timing");

pub(super) fn routes() -> Router<Shared> {
    route("/v1/systemone", post(answer))
}

/// Reads a request that did not come over HTTP, such as a line of a file: a state and its questions, or all that is wrong,
/// one text each.
pub fn read_inquiry(text: &str) -> Result<crate::domain::Inquiry, Vec<String>> {
    let told = |flaw: &Flaw| {
        let steps =
            flaw.loc.iter().skip(1).map(|step| step.as_str().map_or_else(|| step.to_string(), str::to_owned));
        // The contract's own word for a form says nothing to a reader of the file.
        let place: Vec<String> = steps.filter(|step| !step.ends_with("Question")).collect();
        if place.is_empty() { flaw.msg.clone() } else { format!("{}: {}", place.join("."), flaw.msg) }
    };
    let read = request::read(&HeaderMap::new(), text.as_bytes()).map(|asked| asked.inquiry);
    read.map_err(|problem| match problem {
        Problem::Invalid(flaws) => flaws.iter().map(told).collect(),
        Problem::Refused(text) => vec![text],
        Problem::House(refusal) => vec![refusal.message],
    })
}

/// Why a request is not answered.
#[derive(Debug, PartialEq)]
enum Problem {
    /// It is not what the contract asks for.
    Invalid(Vec<Flaw>),
    /// The model cannot be asked this, in its words.
    Refused(String),
    /// All else.
    House(Refusal),
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Problem::House(refusal)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let detail = match self {
            Problem::House(refusal) => return refusal.into_response(),
            Problem::Invalid(flaws) => serde_json::json!({ "detail": flaws }),
            Problem::Refused(text) => serde_json::json!({ "detail": text }),
        };
        json(StatusCode::UNPROCESSABLE_ENTITY, detail.to_string())
    }
}

async fn answer(State(shared): State<Shared>, request: Request) -> Result<Response, Problem> {
    let started = Instant::now();
    let headers = request.headers().clone();
    let (bytes, hold) = read_body(request, &shared).await?;
    let desk = ready_desk(&shared)?;
    let Ok(_place) = shared.decision_places.try_acquire() else {
        let message = "too many requests are being answered; retry later";
        let refusal = Refusal::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", message);
        return Err(Refusal { retry_after: Some(BUSY), ..refusal }.into());
    };
    let asked = asked(headers, bytes, shared.max_body, hold).await?;
    if !shared.any_model {
        known(desk, asked.model.as_deref())?;
    }
    let questions = asked.inquiry.questions.clone();
    let answering = async {
        match asked.model {
            Some(_) => rounds::ask(desk, asked.inquiry).await,
            // Without a model it is the Strands server's dialect, which refuses what does not fit.
            None => desk.ask(asked.inquiry).await,
        }
    };
    let reply = tokio::time::timeout(shared.timeout, answering).await.map_err(|_| {
        let seconds = shared.timeout.as_secs_f64();
        Refusal::busy(format!("no answer within {seconds} seconds; retry later"), FAILED)
    })?;
    let reply = reply.map_err(|error| failed(&error))?;
    let body = reply::body(desk.info(), &questions, &reply)?;
    let mut response = json(StatusCode::OK, body);
    let milliseconds = started.elapsed().as_secs_f64() * 1000.0;
    if let Ok(timing) = HeaderValue::try_from(format!("decide;dur={milliseconds:.2}")) {
        response.headers_mut().insert(TIMING, timing);
    }
    if reply.truncated {
        response.headers_mut().insert(TRUNCATED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

fn ready_desk(shared: &Shared) -> Result<&Desk, Refusal> {
    let Some(desk) = &shared.state.desk else {
        return Err(Refusal::busy("this process has no decision model", Duration::from_secs(60)));
    };
    match *shared.state.readiness.borrow() {
        Readiness::Ready => Ok(desk),
        readiness => Err(Refusal::busy(format!("assayd is {}", readiness.as_str()), BUSY)),
    }
}

/// Whether the model that a request names is the one that there is.
fn known(desk: &Desk, model: Option<&str>) -> Result<(), Refusal> {
    let name = &desk.info().name;
    match model {
        Some(model) if model != name && model != ALIAS => {
            let model: String = model.chars().take(100).collect();
            let message = format!("there is no model {model:?} here; there are {name} and {ALIAS}");
            Err(Refusal::new(StatusCode::NOT_FOUND, "not_found", message))
        }
        _ => Ok(()),
    }
}

/// Decompresses and reads a body; a large one not on this thread, which also answers probes.
async fn asked(headers: HeaderMap, bytes: Bytes, limit: usize, hold: Hold) -> Result<Asked, Problem> {
    let is_large = bytes.len() > LARGE;
    let read = move || {
        let bytes = body::plain(&headers, bytes, limit, |more| hold.add(more))?;
        hold.add(beyond_text(&bytes))?;
        request::read(&headers, &bytes)
    };
    if !is_large {
        return read();
    }
    tokio::task::spawn_blocking(read).await.unwrap_or_else(|_| {
        let message = "the body could not be read";
        Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message).into())
    })
}

/// A failure of the model is never the request's fault: a 5xx, with the time to come back if that may help.
fn failed(error: &DecideError) -> Problem {
    let message = error.to_string();
    let refusal = match (error, error.fault()) {
        (DecideError::Encode { .. }, _) => return Problem::Refused(message),
        (_, Fault::Transient) => Refusal::busy(message, FAILED),
        (DecideError::Remote { .. }, _) => Refusal::new(StatusCode::BAD_GATEWAY, "bad_gateway", message),
        _ => Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "model_failed", message),
    };
    refusal.into()
}
