//! Answers as JSON, also all refusals: `{"detail": {"error_type": …, "message": …}}`.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use serde::de::DeserializeOwned;

use super::hold::Hold;
use super::server::Shared;
use crate::otlp::{self, Encoding, Signal};

/// A request that is not answered as it wished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) error_type: &'static str,
    pub(super) message: String,
    pub(super) retry_after: Option<Duration>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, error_type: &'static str, message: impl Into<String>) -> Self {
        Self { status, error_type, message: message.into(), retry_after: None }
    }

    /// The daemon cannot now; come back.
    pub(super) fn busy(message: impl Into<String>, retry_after: Duration) -> Self {
        let refusal = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
        Self { retry_after: Some(retry_after), ..refusal }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = serde_json::json!({
            "detail": { "error_type": self.error_type, "message": self.message }
        });
        let mut response = json(self.status, body.to_string());
        if let Some(wait) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, wait.as_secs().max(1).into());
        }
        response
    }
}

/// A body that is JSON already.
pub(super) fn json(status: StatusCode, body: impl Into<axum::body::Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A body of JSON, within the limits on size and time.
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Shared> for JsonBody<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Refusal> {
        refuse_other_sites(request.headers())?;
        expect_json(request.headers())?;
        let (body, hold) = read_body(request, shared).await?;
        hold.add(beyond_text(&body))?;
        // Two steps, so that what is no JSON at all (400) and what is the wrong JSON (422) are told apart.
        let value: serde_json::Value = serde_json::from_slice(&body).map_err(|error| {
            Refusal::new(StatusCode::BAD_REQUEST, "invalid_json", format!("the body is not JSON: {error}"))
        })?;
        serde_json::from_value(value).map(JsonBody).map_err(|error| {
            Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", error.to_string())
        })
    }
}

/// A body takes its length twice: as it came, and as the texts that are read from it.
pub(super) const TEXT: usize = 2;

/// What JSON takes in memory beyond that: a list of very short things is much larger than it looks.
pub(super) fn beyond_text(body: &[u8]) -> usize {
    // Any JSON; the signal says nothing.
    otlp::swell(Signal::Traces, Encoding::Json, body) - body.len()
}

/// A body's bytes, within the limits on size, time and memory, and the hold on memory for them and for what is read from them.
pub(super) async fn read_body(request: Request, shared: &Shared) -> Result<(Bytes, Hold), Refusal> {
    refuse_other_sites(request.headers())?;
    let Some(hold) = request.extensions().get::<Hold>().cloned() else {
        let message = "the memory for bodies is not set up";
        return Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message));
    };
    let reading =
        tokio::time::timeout(shared.timeout, collected(request.into_body(), shared.max_body, &hold)).await;
    let read = reading.map_err(|_| {
        let seconds = shared.timeout.as_secs_f64();
        Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            "timeout",
            format!("the body did not arrive within {seconds} seconds"),
        )
    })?;
    read.map(|bytes| (bytes, hold))
}

async fn collected(body: Body, limit: usize, hold: &Hold) -> Result<Bytes, Refusal> {
    let too_large = || {
        let message = format!("the body is larger than {limit} bytes (serve.max_body_bytes)");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    };
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if declared > limit {
        return Err(too_large());
    }
    // At once, where the length is known: of many that come together some have room, and not each for its half.
    let (mut whole, mut seen, mut held) = (Vec::new(), 0, declared);
    let mut refused = hold.add(TEXT * declared).err();
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| {
            let message = format!("the body broke off: {error}");
            Refusal::new(StatusCode::BAD_REQUEST, "invalid_request", message)
        })?;
        seen += piece.len();
        if seen > limit {
            return Err(too_large());
        }
        // For the rest of a body that has no room: a client that still writes does not hear an answer.
        if refused.is_some() {
            continue;
        }
        let more = seen.saturating_sub(held);
        held += more;
        match hold.add(TEXT * more) {
            Ok(()) => whole.extend_from_slice(&piece),
            Err(refusal) => {
                whole = Vec::new();
                refused = Some(refusal);
            }
        }
    }
    match refused {
        Some(refusal) => Err(refusal),
        None => Ok(whole.into()),
    }
}

/// A web page of another site must not make its visitor's browser spend money here; browsers say where a request is from.
fn refuse_other_sites(headers: &HeaderMap) -> Result<(), Refusal> {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    match site {
        Some(b"cross-site" | b"same-site") => Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            "requests from pages of other sites are refused",
        )),
        _ => Ok(()),
    }
}

fn expect_json(headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(found) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let media_type = found.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let is_json = media_type.eq_ignore_ascii_case("application/json")
        || media_type.len() > 5 && media_type.to_ascii_lowercase().ends_with("+json");
    if is_json {
        return Ok(());
    }
    Err(Refusal::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        format!("the content type is {media_type:?}; send application/json"),
    ))
}
