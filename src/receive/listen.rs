//! Accepting connections, and serving HTTP/1.1 on them with a limit on slow headers, which `axum::serve` does not have.

use std::io;
use std::time::Duration;

use axum::Router;
use futures::Stream;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long to pause when the system gives no connection, as when it has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The listener's connections, without end.
pub(super) fn incoming(listener: TcpListener) -> impl Stream<Item = io::Result<TcpStream>> {
    futures::stream::unfold(listener, async |listener| {
        let stream = accept(&listener).await;
        Some((Ok(stream), listener))
    })
}

/// Serves `router` until `shutdown`, then lets requests in flight end.
pub(super) async fn serve_http1(
    listener: TcpListener,
    router: Router,
    header_timeout: Duration,
    shutdown: CancellationToken,
) {
    let connections = TaskTracker::new();
    loop {
        let stream = tokio::select! {
            () = shutdown.cancelled() => break,
            stream = accept(&listener) => stream,
        };
        let router = router.clone();
        let shutdown = shutdown.clone();
        connections.spawn(async move {
            // HTTP/1.1 only: finding out whether a silent client means HTTP/2 has no time limit.
            let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
            builder.http1().timer(TokioTimer::new()).header_read_timeout(header_timeout);
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
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Answers are small and awaited; a socket that refuses the option still works.
                let _ = stream.set_nodelay(true);
                return stream;
            }
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
