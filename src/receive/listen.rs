//! Serving HTTP/1.1 on connections, with a limit on slow headers, which `axum::serve` does not have.

use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::net::Connection;

/// Most bytes of a request's head.
const HEAD_BYTES: usize = 64 << 10;

/// Serves `router` until `shutdown`, then lets requests in flight end.
pub(super) async fn serve_http1(
    mut incoming: mpsc::Receiver<Connection>,
    router: Router,
    header_timeout: Duration,
    shutdown: CancellationToken,
) {
    let connections = TaskTracker::new();
    while let Some(Some(stream)) = shutdown.run_until_cancelled(incoming.recv()).await {
        let router = router.clone();
        let shutdown = shutdown.clone();
        connections.spawn(async move {
            // HTTP/1.1 only: finding out whether a silent client means HTTP/2 has no time limit.
            let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
            builder
                .http1()
                .timer(TokioTimer::new())
                .header_read_timeout(header_timeout)
                .max_buf_size(HEAD_BYTES);
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
                tracing::debug!("connection ended: {error}");
            }
        });
    }
    drop(incoming);
    connections.close();
    connections.wait().await;
}
