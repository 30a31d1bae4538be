//! HTTP/1.1 on one connection, with a limit on slow heads, which `axum::serve` does not have.

use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

/// Most bytes of a request's head.
const HEAD_BYTES: usize = 64 << 10;

/// Answers with `router` until the client is gone, or, from `shutdown` on, until the request in flight is answered. `head` is how
/// long a request's head may take, also that of the first one. `listener` is for the log.
pub async fn serve_http1(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    head: Duration,
    shutdown: CancellationToken,
    listener: &'static str,
) {
    // HTTP/1.1 only: finding out whether a silent client means HTTP/2 has no time limit.
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(head).max_buf_size(HEAD_BYTES);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, listener, "a connection ended");
    }
}
