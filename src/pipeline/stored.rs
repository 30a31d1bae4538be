//! `acknowledge: stored`: what a sender was promised is on disk. It comes back after a kill, and after a verdict that could not
//! be written.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Notify;

use super::StartError;
use crate::receive::{Arrival, Door, Held, Raw, Refusal};
use crate::spool::{Config, Entry, Replay, Spool, SpoolError, SpoolId};
use crate::ticket::{Outcome, Promise};

/// How long a delivery waits before it is evaluated again; twice as long each time, at most [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A spool, and which of its deliveries have to be evaluated again.
#[derive(Clone)]
pub(super) struct Stored {
    spool: Spool,
    again: Arc<Again>,
}

/// Bounded by the deliveries that the spool holds.
#[derive(Default)]
struct Again {
    ids: Mutex<Vec<(SpoolId, Vec<u128>)>>,
    wake: Notify,
}

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

impl Stored {
    /// With nothing to evaluate again yet.
    pub fn new(spool: Spool) -> Self {
        Self { spool, again: Arc::default() }
    }

    /// A door that lets nothing in that is not in the spool.
    pub fn before(&self, door: &Door) -> Door {
        let stored = self.clone();
        let store = move |raw: Raw| -> BoxFuture<'static, Result<Promise, Refusal>> {
            let stored = stored.clone();
            async move {
                let kind = raw.kind();
                let id = stored.spool.append(kind, raw.body).await.map_err(refusal)?;
                Ok(stored.promise(id, Vec::new()))
            }
            .boxed()
        };
        door.clone().storing(store)
    }

    /// Delivers what an earlier process left, as fast as there is room; then, until the door closes, what has to be evaluated
    /// again.
    pub async fn deliver(self, mut replay: Replay, door: Door) {
        while let Some(next) = replay.next().await {
            match next {
                Ok((id, entry)) => {
                    let done = replay.shares(&id);
                    if self.deliver_one(id, entry, done, &door).await == Err(Refusal::Closing) {
                        return;
                    }
                }
                // Of this entry alone; it is settled, since it cannot be read again.
                Err(error) => tracing::error!(%error, "a stored delivery cannot be read"),
            }
        }
        let closing = door.closing();
        closing.run_until_cancelled(self.deliver_again(&door)).await;
    }

    async fn deliver_again(&self, door: &Door) {
        let mut wait = FIRST_WAIT;
        loop {
            let quiet = tokio::time::timeout(2 * wait, self.again.wake.notified()).await.is_err();
            if quiet {
                wait = FIRST_WAIT;
                continue;
            }
            // What fails together is tried together.
            tokio::time::sleep(wait).await;
            let ids = std::mem::take(&mut *self.again.ids.lock().unwrap_or_else(PoisonError::into_inner));
            tracing::info!(deliveries = ids.len(), "evaluating stored deliveries again");
            for (id, done) in ids {
                let spool = self.spool.clone();
                match tokio::task::spawn_blocking(move || (spool.read(&id), id)).await {
                    Ok((Ok(entry), id)) => {
                        if self.deliver_one(id, entry, done, door).await == Err(Refusal::Closing) {
                            return;
                        }
                    }
                    // It stays stored; the next start reports what is damaged.
                    Ok((Err(error), _)) => tracing::error!(%error, "a stored delivery cannot be read"),
                    Err(error) => tracing::error!(%error, "reading a stored delivery was stopped"),
                }
            }
            wait = (2 * wait).min(LONGEST_WAIT);
        }
    }

    /// Delivers what is not `done`, by share.
    async fn deliver_one(
        &self,
        id: SpoolId,
        entry: Entry,
        done: Vec<u128>,
        door: &Door,
    ) -> Result<(), Refusal> {
        let Entry { kind, bytes } = entry;
        let Some(raw) = Raw::new(kind, bytes) else {
            tracing::error!(
                kind,
                "a stored delivery is of a kind that this version does not know; it stays stored"
            );
            return Ok(());
        };
        let arrival = match Arrival::read(&raw, self.promise(id, done.clone())) {
            Ok(mut arrival) => {
                arrival.without(&done);
                arrival
            }
            // It was read before it was stored, so this is a change of versions. Its promise is gone: settled.
            Err(error) => {
                tracing::error!(%error, "a stored delivery cannot be read by this version; it is given up");
                return Ok(());
            }
        };
        let admitted = door.admit_waiting(arrival, Held::default()).await;
        if let Err(refusal @ Refusal::TooLarge { .. }) = &admitted {
            tracing::error!(%refusal, "a stored delivery does not fit; it stays stored");
        }
        admitted
    }

    /// The promise for a delivery of which these shares are done already.
    fn promise(&self, id: SpoolId, done: Vec<u128>) -> Promise {
        let Self { spool, again } = self.clone();
        let done = Arc::new(Mutex::new(done));
        let (settle, shares) = (spool.share_settler(&id), Arc::clone(&done));
        let share = move |share| {
            shares.lock().unwrap_or_else(PoisonError::into_inner).push(share);
            settle(share);
        };
        Promise::with_shares(share, move |outcome| match outcome {
            Outcome::Done => spool.settled(id),
            Outcome::Retry => {
                let done = std::mem::take(&mut *done.lock().unwrap_or_else(PoisonError::into_inner));
                again.ids.lock().unwrap_or_else(PoisonError::into_inner).push((id, done));
                again.wake.notify_one();
            }
        })
    }
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

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::receive::sample::logs;
    use crate::receive::{self, Acknowledge, Delivery, Stake};

    /// A door before the spool in a folder, and what comes in by it.
    struct House {
        spool: Spool,
        entry: Door,
        door: Door,
        deliveries: mpsc::Receiver<Delivery>,
        delivering: JoinHandle<()>,
    }

    impl House {
        async fn open(folder: &Path) -> Self {
            let (spool, replay) = open(folder, &Config::default()).await.unwrap();
            let config = receive::Config { acknowledge: Acknowledge::Stored, ..receive::Config::default() };
            let (door, deliveries) = receive::open(&config);
            let stored = Stored::new(spool.clone());
            let entry = stored.before(&door);
            let delivering = tokio::spawn(stored.deliver(replay, door.clone()));
            Self { spool, entry, door, deliveries, delivering }
        }

        /// What was delivered and not taken is left.
        async fn close(self) -> mpsc::Receiver<Delivery> {
            self.door.close();
            self.delivering.await.unwrap();
            self.spool.close().await;
            self.deliveries
        }
    }

    #[tokio::test]
    async fn a_trace_that_is_done_comes_again_neither_with_a_retry_of_its_neighbour_nor_with_a_replay() {
        let folder = tempfile::tempdir().unwrap();
        let mut house = House::open(folder.path()).await;
        house.entry.admit(logs(&[1, 2]).0, Held::default()).await.unwrap();

        let (_, first, mut stakes) = house.deliveries.recv().await.unwrap().into_parts();
        let [one, two] = [0, 1].map(|at: usize| stakes.cut_for(first[at].trace_id, 0));
        drop(stakes);
        Stake::settle_all([one], Outcome::Done);
        drop(two);
        let (_, again, mut stakes) = house.deliveries.recv().await.unwrap().into_parts();
        assert_eq!(again.iter().map(|log| log.trace_id).collect::<Vec<_>>(), [first[1].trace_id]);
        let two = stakes.cut_for(again[0].trace_id, 0);
        drop(stakes);

        // The process ends before the other is done.
        house.close().await;
        drop(two);
        let mut house = House::open(folder.path()).await;
        let (_, replayed, _) = house.deliveries.recv().await.unwrap().into_parts();
        assert_eq!(replayed.iter().map(|log| log.trace_id).collect::<Vec<_>>(), [first[1].trace_id]);
        house.close().await;
    }

    #[tokio::test]
    async fn a_delivery_that_is_not_done_comes_again_until_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let mut house = House::open(folder.path()).await;
        house.entry.admit(logs(&[1]).0, Held::default()).await.unwrap();

        for outcome in [Outcome::Retry, Outcome::Retry, Outcome::Done] {
            let (_, records, mut stakes) = house.deliveries.recv().await.unwrap().into_parts();
            assert_eq!(records.len(), 1);
            let stake = stakes.cut(0);
            drop(stakes);
            stake.settle(outcome);
        }
        let mut deliveries = house.close().await;
        assert!(deliveries.recv().await.is_none(), "what is done does not come again");
        let (_spool, replay) = open(folder.path(), &Config::default()).await.unwrap();
        assert_eq!(replay.recovery().entries, 0);
    }
}
