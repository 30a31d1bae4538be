//! Everything that brings spans to the door, and how it ends: receivers first, then what is replayed, then the door.

use std::io;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::StartError;
use super::stored::Stored;
use crate::metrics;
use crate::receive::{self, Config, Door};
use crate::spool::{Replay, Spool};

/// How often the memory that spans hold is shown.
const HELD_BYTES: Duration = Duration::from_secs(1);

/// The bound listeners of the receivers that are on.
pub(super) struct Listeners {
    pub grpc: Option<TcpListener>,
    pub http: Option<TcpListener>,
}

/// Running receivers.
pub(super) struct Intake {
    door: Door,
    stop: CancellationToken,
    receivers: JoinSet<(&'static str, io::Result<()>)>,
    replaying: Option<JoinHandle<()>>,
    gauge: JoinHandle<()>,
}

impl Intake {
    /// Starts the receivers. With a spool nothing is acknowledged that is not in it, and what an earlier run left in it comes
    /// in beside what is new.
    pub fn start(config: &Config, listeners: Listeners, door: Door, stored: Option<(Spool, Replay)>) -> Self {
        let stop = CancellationToken::new();
        let stored = stored.map(|(spool, replay)| (Stored::new(spool), replay));
        let entry = stored.as_ref().map_or_else(|| door.clone(), |(stored, _)| stored.before(&door));
        let mut receivers = JoinSet::new();
        if let Some(listener) = listeners.grpc {
            let (config, entry, stop) = (config.clone(), entry.clone(), stop.clone());
            receivers
                .spawn(async move { ("grpc", receive::serve_grpc(listener, &config, entry, stop).await) });
        }
        if let Some(listener) = listeners.http {
            let (config, stop) = (config.clone(), stop.clone());
            receivers
                .spawn(async move { ("http", receive::serve_http(listener, &config, entry, stop).await) });
        }
        let replaying = stored.map(|(stored, replay)| tokio::spawn(stored.deliver(replay, door.clone())));
        let gauge = tokio::spawn(show_held_bytes(door.clone()));
        Self { door, stop, receivers, replaying, gauge }
    }

    /// Ends with the first receiver that ends by itself; pends for ever if there are none.
    pub async fn failed(&mut self) -> StartError {
        let (receiver, source) = match self.receivers.join_next().await {
            Some(Ok((receiver, Ok(())))) => (receiver, io::Error::other("it stopped without being asked to")),
            Some(Ok((receiver, Err(source)))) => (receiver, source),
            Some(Err(error)) => ("otlp", io::Error::other(error)),
            None => std::future::pending().await,
        };
        StartError::Receiver { receiver, source }
    }

    /// Takes nothing more, finishes what is in flight within `patience`, and closes the door: the assembly then sees the end.
    pub async fn close(mut self, patience: Duration) {
        self.stop.cancel();
        let finished = async { while self.receivers.join_next().await.is_some() {} };
        if tokio::time::timeout(patience, finished).await.is_err() {
            // A frozen client answers no goodbye. Its connection must not cost the open traces their verdicts.
            tracing::warn!("a sender does not let go of its connection; stopping without it");
        }
        self.door.close();
        if let Some(replaying) = self.replaying {
            // It meets the closed door; what it has not delivered stays stored.
            let _ = replaying.await;
        }
        self.gauge.abort();
        let _ = self.gauge.await;
    }
}

/// Memory that spans hold, each second. Holds a door, so it must end before the assembly can.
async fn show_held_bytes(door: Door) {
    let mut ticks = tokio::time::interval(HELD_BYTES);
    loop {
        ticks.tick().await;
        metrics::receive_held_bytes(door.held_bytes());
    }
}
