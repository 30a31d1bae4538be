//! Connections: HTTP/1.1, so many at a time, and no patience with clients that send or read nothing.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

/// How long a client may refuse to read its answer.
const STALL: Duration = Duration::from_secs(30);
/// How long requests in flight have to end when the daemon stops.
const GRACE: Duration = Duration::from_secs(5);
/// How long to pause when the system gives no connection, as when it has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Most bytes of a request's head.
const HEAD_BYTES: usize = 64 << 10;

/// What clients may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Connections at a time.
    pub(super) connections: usize,
    /// Until the head of a request is there, also of the first one.
    pub(super) headers: Duration,
}

/// Answers with `router` until `shutdown`; then lets requests in flight end, within reason.
pub(super) async fn run(listener: TcpListener, router: Router, limits: Limits, shutdown: CancellationToken) {
    let places = Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS)));
    let mut connections = JoinSet::new();
    while let Some(place) = shutdown.run_until_cancelled(Arc::clone(&places).acquire_owned()).await {
        let Some(stream) = shutdown.run_until_cancelled(accept(&listener)).await else { break };
        while connections.try_join_next().is_some() {}
        let connection = serve_one(stream, router.clone(), limits.headers, shutdown.clone());
        connections.spawn(async move {
            connection.await;
            drop(place);
        });
    }
    drop(listener);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, all_ended).await.is_err() {
        tracing::debug!("closing admin connections that are still busy");
    }
}

async fn serve_one(stream: TcpStream, router: Router, headers: Duration, shutdown: CancellationToken) {
    // HTTP/1.1 only: finding out whether a silent client means HTTP/2 has no time limit.
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(headers).max_buf_size(HEAD_BYTES);
    let stream = TokioIo::new(Impatient { stream, stall: STALL, waiting: None });
    let connection = builder.serve_connection(stream, TowerToHyperService::new(router));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an admin connection ended");
    }
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // A socket that refuses the option still works.
                stream.set_nodelay(true).ok();
                return stream;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept an admin connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A stream that fails when the other side takes nothing for `stall`. Reading has its limits elsewhere: a reader of the live
/// feed sends nothing for hours and is welcome.
struct Impatient<S> {
    stream: S,
    stall: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Impatient<S> {
    fn judge<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.waiting = None;
            return polled;
        }
        let stall = self.stall;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(stall)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.judge(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_client_that_reads_nothing_is_left() {
        let (ours, _theirs) = tokio::io::duplex(16);
        let mut stream = Impatient { stream: ours, stall: Duration::from_millis(5), waiting: None };
        let error = stream.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn silent_and_slow_clients_lose_their_place_to_others() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(async || "here"));
        let limits = Limits { connections: 2, headers: Duration::from_millis(50) };
        let shutdown = CancellationToken::new();
        let server = tokio::spawn(run(listener, router, limits, shutdown.clone()));

        let mut silent = TcpStream::connect(address).await.unwrap();
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n").await.unwrap();
        let mut third = TcpStream::connect(address).await.unwrap();
        third.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        third.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let mut rest = Vec::new();
        assert_eq!(silent.read_to_end(&mut rest).await.unwrap_or(0), 0);
        slow.read_to_end(&mut rest).await.ok();
        assert!(!rest.starts_with(b"HTTP/1.1 200"));

        shutdown.cancel();
        server.await.unwrap();
    }

    #[tokio::test]
    async fn a_request_in_flight_is_answered_before_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let stopping = shutdown.clone();
        let handler = get(move || {
            stopping.cancel();
            async {
                tokio::task::yield_now().await;
                "late, but here"
            }
        });
        let limits = Limits { connections: 2, headers: Duration::from_secs(10) };
        let server = tokio::spawn(run(listener, Router::new().route("/", handler), limits, shutdown));
        let text = reqwest::get(format!("http://{address}/")).await.unwrap().text().await.unwrap();
        assert_eq!(text, "late, but here");
        server.await.unwrap();
    }
}
