//! `acknowledge: stored`: what a sender was promised is on disk, and comes back after a kill.

use std::path::Path;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::StartError;
use crate::receive::{Arrival, Door, Held, Raw, Refusal};
use crate::spool::{Config, Entry, Replay, Spool, SpoolError, SpoolId};
use crate::ticket::{Outcome, Promise};

/// Opens the spool under `data_dir` and says what an earlier process left in it.
pub(super) async fn open(data_dir: &Path, config: &Config) -> Result<(Spool, Replay), StartError> {
    let (path, config) = (data_dir.join("spool"), config.clone());
    let opened = tokio::task::spawn_blocking(move || Spool::open(&path, &config));
    let (spool, replay) = opened
        .await
        .map_err(|error| StartError::Thread { name: "spool", source: std::io::Error::other(error) })??;
    let found = replay.recovery();
    if found.damaged_places > 0 {
        tracing::error!(
            places = found.damaged_places,
            bytes = found.damaged_bytes,
            "the spool is damaged: acknowledged deliveries may be lost"
        );
    }
    if found.entries > 0 || found.torn_bytes > 0 {
        tracing::info!(
            deliveries = found.entries,
            torn_bytes = found.torn_bytes,
            "the spool holds deliveries of an earlier run; they are evaluated now"
        );
    }
    Ok((spool, replay))
}

/// A door that lets nothing in that is not in `spool`.
pub(super) fn storing(door: &Door, spool: &Spool) -> Door {
    let spool = spool.clone();
    let store = move |raw: Raw| -> BoxFuture<'static, Result<Promise, Refusal>> {
        let spool = spool.clone();
        async move {
            let kind = raw.kind();
            let id = spool.append(kind, raw.body).await.map_err(refusal)?;
            Ok(promise(spool, id))
        }
        .boxed()
    };
    door.clone().storing(store)
}

/// Delivers what an earlier process left, as fast as there is room. Ends early when the door closes.
pub(super) async fn deliver(spool: Spool, mut replay: Replay, door: Door) {
    while let Some(next) = replay.next().await {
        let (id, entry) = match next {
            Ok(found) => found,
            // Of this entry alone; it is settled, since it cannot be read again.
            Err(error) => {
                tracing::error!(%error, "a stored delivery cannot be read");
                continue;
            }
        };
        let Entry { kind, bytes } = entry;
        let promise = promise(spool.clone(), id);
        let Some(raw) = Raw::new(kind, bytes) else {
            tracing::error!(
                kind,
                "a stored delivery is of a kind that this version does not know; it stays stored"
            );
            promise.ticket().settle(Outcome::Retry);
            continue;
        };
        let arrival = match Arrival::read(&raw, promise) {
            Ok(arrival) => arrival,
            // It was read before it was stored, so this is a change of versions. Its promise is gone: settled.
            Err(error) => {
                tracing::error!(%error, "a stored delivery cannot be read by this version; it is given up");
                continue;
            }
        };
        if let Err(refusal) = door.admit_waiting(arrival, Held::default()).await {
            if refusal == Refusal::Closing {
                return;
            }
            tracing::error!(%refusal, "a stored delivery does not fit; it stays stored");
        }
    }
}

fn promise(spool: Spool, id: SpoolId) -> Promise {
    Promise::new(move |outcome| match outcome {
        Outcome::Done => spool.settled(id),
        Outcome::Retry => {
            tracing::debug!("a stored delivery is not done; it is delivered again at the next start")
        }
    })
}

fn refusal(error: SpoolError) -> Refusal {
    match error {
        SpoolError::Full { .. } => Refusal::Full,
        SpoolError::TooLarge { bytes, max_bytes } => {
            Refusal::TooLarge { bytes: bytes.as_usize(), limit: max_bytes.as_usize() }
        }
        SpoolError::Closed => Refusal::Closing,
        other => {
            tracing::error!(error = %other, "a delivery cannot be stored");
            Refusal::NotStored
        }
    }
}
