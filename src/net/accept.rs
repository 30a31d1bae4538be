//! Accepting connections: so many at a time, and no patience with clients that do not finish the handshake.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::stream::{Connection, Wire};
use super::tls::Acceptor;

/// How long to pause when the system gives no connection, as when it has no file descriptor left.
const PAUSE: Duration = Duration::from_millis(100);
/// Connections that are ready and not yet served.
const READY: usize = 16;

/// What clients of one listener may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at a time, those in their handshake included; further ones wait in the system's queue.
    pub connections: usize,
    /// How long a TLS handshake may take.
    pub handshake: Duration,
}

/// The connections of `listener`, until `shutdown` or until the receiver is dropped. A handshake holds up nobody else's.
pub fn accept(
    listener: TcpListener,
    tls: Option<Acceptor>,
    limits: Limits,
    shutdown: CancellationToken,
) -> mpsc::Receiver<Connection> {
    let (ready, connections) = mpsc::channel(READY);
    tokio::spawn(async move {
        let places = Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS)));
        let mut handshakes = JoinSet::new();
        let over = async {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = ready.closed() => {}
            }
        };
        tokio::pin!(over);
        loop {
            let next = async {
                let place = Arc::clone(&places).acquire_owned().await.ok()?;
                Some((place, next(&listener).await))
            };
            let (place, stream) = tokio::select! {
                () = &mut over => break,
                next = next => match next {
                    Some(next) => next,
                    None => break,
                },
            };
            while handshakes.try_join_next().is_some() {}
            let (tls, ready) = (tls.clone(), ready.clone());
            handshakes.spawn(async move {
                if let Some(wire) = shaken(stream, tls, limits.handshake).await {
                    // Only a receiver that is gone takes none.
                    let _ = ready.send(Connection { wire, _place: place }).await;
                }
            });
        }
    });
    connections
}

async fn shaken(stream: TcpStream, tls: Option<Acceptor>, patience: Duration) -> Option<Wire> {
    let Some(tls) = tls else { return Some(Wire::Plain(stream)) };
    match tokio::time::timeout(patience, tls.accept(stream)).await {
        Ok(Ok(stream)) => Some(Wire::Tls(Box::new(stream))),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a TLS handshake failed");
            None
        }
        Err(_) => {
            tracing::debug!("a TLS handshake took too long");
            None
        }
    }
}

async fn next(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Answers are small and awaited; a socket that refuses the option still works.
                let _ = stream.set_nodelay(true);
                return stream;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
