//! Connections: HTTP/1.1, so many at a time, and no patience with clients that send or read nothing.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

use crate::net::{self, Connection};

/// How long a client may refuse to read its answer.
const STALL: Duration = Duration::from_secs(30);
/// How long requests in flight have to end when the daemon stops.
const GRACE: Duration = Duration::from_secs(5);

/// Answers with `router` until `shutdown`; then lets requests in flight end, within reason. `headers` is how long a request's
/// head may take, also that of the first one.
pub(super) async fn run(
    mut incoming: mpsc::Receiver<Connection>,
    router: Router,
    headers: Duration,
    shutdown: CancellationToken,
) {
    let mut connections = JoinSet::new();
    while let Some(Some(stream)) = shutdown.run_until_cancelled(incoming.recv()).await {
        while connections.try_join_next().is_some() {}
        let stream = Impatient { stream, stall: STALL, waiting: None };
        connections.spawn(net::serve_http1(stream, router.clone(), headers, shutdown.clone(), "admin"));
    }
    drop(incoming);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, all_ended).await.is_err() {
        tracing::debug!("closing admin connections that are still busy");
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
    use crate::net::{Limits, accept};
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

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
        let limits = Limits { connections: 2, handshake: Duration::from_secs(10) };
        let shutdown = CancellationToken::new();
        let incoming = accept(listener, None, limits, shutdown.clone());
        let server = tokio::spawn(run(incoming, router, Duration::from_millis(50), shutdown.clone()));

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
        let limits = Limits { connections: 2, handshake: Duration::from_secs(10) };
        let incoming = accept(listener, None, limits, shutdown.clone());
        let router = Router::new().route("/", handler);
        let server = tokio::spawn(run(incoming, router, Duration::from_secs(10), shutdown));
        let text = reqwest::get(format!("http://{address}/")).await.unwrap().text().await.unwrap();
        assert_eq!(text, "late, but here");
        server.await.unwrap();
    }
}
