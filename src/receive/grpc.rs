//! OTLP over gRPC: the services for traces and logs.
//!
//! The methods are routed by hand and not by generated code, for three reasons: what cannot be read is the sender's fault
//! (`INVALID_ARGUMENT`, where generated code says `INTERNAL`), memory is held for a request while it still arrives, and its
//! bytes stay at hand.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use futures::StreamExt;
use http_body::{Frame, SizeHint};
use tokio::net::TcpListener;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Status};

use crate::metrics;
use crate::net;
use crate::otlp::{Encoding, Signal};

use super::body::Compression;
use super::door::{Door, Held};
use super::guard::Guard;
use super::intake::{Content, Intake, Refused};
use super::{Config, reply};

const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const LOGS: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";

/// A peer that is silent for so long, with requests or without, is asked for a sign of life, and let go without one.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Serves OTLP over gRPC until `shutdown`; then accepts nothing more, finishes what is in flight and returns.
pub async fn serve(
    listener: TcpListener,
    config: &Config,
    door: Door,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let guard = Guard::open(config, &["h2"]).map_err(io::Error::other)?;
    let connections = net::accept(listener, guard.tls.clone(), guard.limits, shutdown.clone());
    let export = Export {
        intake: Intake::new("grpc", config.max_message.as_usize(), door),
        retry_after: config.retry_after.0,
        timeout: config.request_timeout.0,
        guard,
    };
    tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .serve_with_incoming_shutdown(
            export,
            ReceiverStream::new(connections).map(Ok::<_, io::Error>),
            shutdown.cancelled(),
        )
        .await
        .map_err(io::Error::other)
}

#[derive(Debug, Clone)]
struct Export {
    intake: Intake,
    retry_after: Duration,
    timeout: Duration,
    guard: Guard,
}

impl Service<http::Request<Body>> for Export {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let signal = match request.uri().path() {
            TRACES => Signal::Traces,
            LOGS => Signal::Logs,
            _ => {
                return Box::pin(async {
                    Ok(Status::unimplemented("assayd takes traces and logs").into_http())
                });
            }
        };
        if let Err(refused) = self.guard.admit(request.headers()) {
            self.intake.refused(&refused);
            let response = reply::status(&refused, self.retry_after).into_http();
            return Box::pin(async { Ok(response) });
        }
        let export = self.clone();
        Box::pin(async move { Ok(export.answer(signal, request).await) })
    }
}

impl Export {
    async fn answer(&self, signal: Signal, request: http::Request<Body>) -> http::Response<Body> {
        let reservation = Reservation { intake: self.intake.clone(), held: Arc::default() };
        let reached = Arc::new(AtomicBool::new(false));
        let call = Call {
            export: self.clone(),
            signal,
            reservation: reservation.clone(),
            reached: Arc::clone(&reached),
        };
        let metered = request.map(|body| Metered { body, reservation, retry_after: self.retry_after });
        let mut grpc = Grpc::new(Frames)
            .max_decoding_message_size(self.intake.max_message())
            .accept_compressed(CompressionEncoding::Gzip)
            .accept_compressed(CompressionEncoding::Zstd)
            .send_compressed(CompressionEncoding::Gzip)
            .send_compressed(CompressionEncoding::Zstd);
        let answering = async {
            let response = grpc.unary(call, metered).await;
            if reached.load(Ordering::Relaxed) { response } else { self.corrected(response) }
        };
        match tokio::time::timeout(self.timeout, answering).await {
            Ok(response) => response,
            Err(_) => {
                let slow = Refused::Slow { limit: self.timeout };
                self.intake.refused(&slow);
                reply::status(&slow, self.retry_after).into_http()
            }
        }
    }

    /// Says what tonic found wrong with a request in the codes on which OTLP senders act rightly: `INTERNAL` would be our fault,
    /// and `OUT_OF_RANGE`, tonic's word for "too large", is retried for ever.
    fn corrected(&self, mut response: http::Response<Body>) -> http::Response<Body> {
        let Some(found) = response.headers().get(Status::GRPC_STATUS) else { return response };
        let (code, reason) = match Code::from_bytes(found.as_bytes()) {
            Code::OutOfRange | Code::ResourceExhausted => (Code::ResourceExhausted, "too_large"),
            Code::Internal => (Code::InvalidArgument, "malformed"),
            Code::Unimplemented => (Code::Unimplemented, "encoding"),
            // A sender that went away, or memory that ran out, which is counted where it is found.
            _ => return response,
        };
        metrics::receive_refused("grpc", reason);
        response.headers_mut().insert(Status::GRPC_STATUS, i32::from(code).into());
        response
    }
}

/// One request.
struct Call {
    export: Export,
    signal: Signal,
    reservation: Reservation,
    /// Whether the request could be read at all: from then on refusals are ours.
    reached: Arc<AtomicBool>,
}

impl UnaryService<Bytes> for Call {
    type Response = Bytes;
    type Future = BoxFuture<tonic::Response<Bytes>, Status>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        self.reached.store(true, Ordering::Relaxed);
        let export = self.export.clone();
        let signal = self.signal;
        let body = request.into_inner();
        let mut held = self.reservation.take();
        // tonic has unpacked it, and only the packed bytes are held so far.
        let unpacked = body.len().saturating_sub(held.bytes());
        let grown = export.intake.door().grow(&mut held, unpacked).map_err(Refused::Door);
        let content =
            Content { signal, encoding: Encoding::Protobuf, compression: Compression::None, body, held };
        Box::pin(async move {
            if let Err(refused) = grown {
                export.intake.refused(&refused);
                return Err(reply::status(&refused, export.retry_after));
            }
            match export.intake.take(content).await {
                Ok(accepted) => {
                    Ok(tonic::Response::new(reply::accepted(signal, Encoding::Protobuf, &accepted)))
                }
                Err(refused) => {
                    export.intake.refused(&refused);
                    Err(reply::status(&refused, export.retry_after))
                }
            }
        })
    }
}

/// The memory that is held for a request while it arrives.
#[derive(Debug, Clone)]
struct Reservation {
    intake: Intake,
    held: Arc<Mutex<Held>>,
}

impl Reservation {
    fn grow(&self, more: usize) -> Result<(), Refused> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let grown = self.intake.door().grow(&mut held, more).map_err(Refused::Door);
        grown.inspect_err(|refused| self.intake.refused(refused))
    }

    fn take(&self) -> Held {
        std::mem::take(&mut self.held.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A request's body; every frame holds memory before the next one is asked for.
struct Metered {
    body: Body,
    reservation: Reservation,
    retry_after: Duration,
}

impl http_body::Body for Metered {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
            && let Err(refused) = self.reservation.grow(data.len())
        {
            return Poll::Ready(Some(Err(reply::status(&refused, self.retry_after))));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Messages as bytes: requests are decoded by `otlp`, responses encoded by `reply`.
#[derive(Debug, Clone, Copy)]
struct Frames;

impl Codec for Frames {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Frames;
    type Decoder = Frames;

    fn encoder(&mut self) -> Frames {
        Frames
    }

    fn decoder(&mut self) -> Frames {
        Frames
    }
}

impl Encoder for Frames {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for Frames {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
