//! OTLP over HTTP: `/v1/traces` and `/v1/logs`, protobuf and JSON.

use std::io;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::post;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::otlp::{Encoding, Signal};

use super::body::Compression;
use super::door::{Door, Held, Refusal};
use super::guard::Guard;
use super::intake::{Accepted, Content, Intake, Refused};
use super::{Config, reply};
use crate::net;

/// How much of a refused body is still read, in units of the largest message.
const DRAINED_MESSAGES: usize = 4;

/// Serves OTLP over HTTP until `shutdown`; then accepts nothing more, finishes what is in flight and returns.
pub async fn serve(
    listener: TcpListener,
    config: &Config,
    door: Door,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let guard = Guard::open(config, &["http/1.1"]).map_err(io::Error::other)?;
    let receiver = Receiver {
        intake: Intake::new("http", config.max_message.as_usize(), door),
        retry_after: config.retry_after.0,
        timeout: config.request_timeout.0,
        guard: guard.clone(),
    };
    let router = Router::new()
        .route("/v1/traces", post(traces))
        .route("/v1/logs", post(logs))
        .fallback(elsewhere)
        .with_state(receiver);
    let head = config.request_timeout.0;
    let mut incoming = net::accept(listener, guard.tls, guard.limits, shutdown.clone());
    let connections = TaskTracker::new();
    while let Some(Some(stream)) = shutdown.run_until_cancelled(incoming.recv()).await {
        connections.spawn(net::serve_http1(stream, router.clone(), head, shutdown.clone(), "receive.http"));
    }
    drop(incoming);
    connections.close();
    connections.wait().await;
    Ok(())
}

/// Exporters that send metrics too, or whose address is a path too long, should read why they fail.
async fn elsewhere(request: Request) -> (StatusCode, String) {
    let path = request.uri().path();
    (
        StatusCode::NOT_FOUND,
        format!("there is nothing at {path}: spans go to /v1/traces, log records to /v1/logs\n"),
    )
}

#[derive(Debug, Clone)]
struct Receiver {
    intake: Intake,
    retry_after: Duration,
    timeout: Duration,
    guard: Guard,
}

async fn traces(State(receiver): State<Receiver>, request: Request) -> Response {
    receiver.handle(Signal::Traces, request).await
}

async fn logs(State(receiver): State<Receiver>, request: Request) -> Response {
    receiver.handle(Signal::Logs, request).await
}

impl Receiver {
    async fn handle(&self, signal: Signal, request: Request) -> Response {
        let encoding = encoding_of(&request);
        // Who sends what we do not know reads JSON more easily than protobuf.
        let reply_encoding = *encoding.as_ref().unwrap_or(&Encoding::Json);
        let result = match encoding.and_then(|encoding| {
            self.guard.admit(request.headers())?;
            Ok(encoding)
        }) {
            Ok(encoding) => self.take(signal, encoding, request).await,
            Err(refused) => Err(refused),
        };
        match result {
            Ok(accepted) => {
                let body = reply::accepted(signal, reply_encoding, &accepted);
                respond(StatusCode::OK, reply_encoding, body)
            }
            Err(refused) => {
                self.intake.refused(&refused);
                self.refuse(reply_encoding, &refused)
            }
        }
    }

    async fn take(&self, signal: Signal, encoding: Encoding, request: Request) -> Result<Accepted, Refused> {
        let header = request.headers().get(header::CONTENT_ENCODING);
        let compression = Compression::from_header(header.map(HeaderValue::as_bytes))?;
        let mut held = Held::default();
        let reading = self.read(request.into_body(), &mut held);
        let body = tokio::time::timeout(self.timeout, reading)
            .await
            .unwrap_or(Err(Refused::Slow { limit: self.timeout }))?;
        self.intake.take(Content { signal, encoding, compression, body, held }).await
    }

    /// The body, with memory held for each piece before the next one is read.
    ///
    /// After a refusal the rest is read and thrown away, up to a limit: a sender that is cut off while it writes sees a broken
    /// connection, not our answer.
    async fn read(&self, body: Body, held: &mut Held) -> Result<Bytes, Refused> {
        let mut pieces = body.into_data_stream();
        let mut whole = BytesMut::new();
        let mut refused = None;
        let mut received = 0;
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| Refused::Broken(error.to_string()))?;
            received += piece.len();
            if refused.is_some() && received > DRAINED_MESSAGES * self.intake.max_message() {
                break;
            }
            if refused.is_none()
                && let Err(reason) = self.hold(&piece, received, held)
            {
                refused = Some(reason);
                whole = BytesMut::new();
                *held = Held::default();
            }
            if refused.is_none() {
                whole.extend_from_slice(&piece);
            }
        }
        match refused {
            Some(refused) => Err(refused),
            None => Ok(whole.freeze()),
        }
    }

    fn hold(&self, piece: &Bytes, received: usize, held: &mut Held) -> Result<(), Refused> {
        let limit = self.intake.max_message();
        if received > limit {
            return Err(Refused::Oversized { limit });
        }
        Ok(self.intake.door().grow(held, piece.len())?)
    }

    fn refuse(&self, encoding: Encoding, refused: &Refused) -> Response {
        let status = match refused {
            Refused::Door(Refusal::Full) => StatusCode::TOO_MANY_REQUESTS,
            Refused::Door(Refusal::NotStored | Refusal::Closing) => StatusCode::SERVICE_UNAVAILABLE,
            Refused::Door(Refusal::TooLarge { .. }) | Refused::Oversized { .. } => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            Refused::Malformed(_) | Refused::Garbled { .. } | Refused::Broken(_) => StatusCode::BAD_REQUEST,
            Refused::Slow { .. } => StatusCode::REQUEST_TIMEOUT,
            Refused::Unauthenticated => StatusCode::UNAUTHORIZED,
            Refused::ContentType { .. } | Refused::ContentEncoding { .. } => {
                StatusCode::UNSUPPORTED_MEDIA_TYPE
            }
        };
        let mut response = respond(status, encoding, reply::refused(encoding, refused, self.retry_after));
        if let Some(delay) = reply::retry_after(refused, self.retry_after) {
            let whole_seconds = delay.as_secs_f64().ceil().max(1.0) as u64;
            response.headers_mut().insert(header::RETRY_AFTER, whole_seconds.into());
        }
        response
    }
}

fn encoding_of(request: &Request) -> Result<Encoding, Refused> {
    let header = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let media_type = header.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    match &media_type.to_ascii_lowercase()[..] {
        b"application/x-protobuf" | b"application/protobuf" => Ok(Encoding::Protobuf),
        b"application/json" => Ok(Encoding::Json),
        _ => Err(Refused::ContentType { found: String::from_utf8_lossy(media_type).into_owned() }),
    }
}

fn respond(status: StatusCode, encoding: Encoding, body: Bytes) -> Response {
    let media_type = match encoding {
        Encoding::Protobuf => "application/x-protobuf",
        Encoding::Json => "application/json",
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}
