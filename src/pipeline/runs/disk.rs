//! Runs on disk, without blocking the owner's thread.

use super::keeper::{Answer, Keeper};
use crate::gsar::{Record, StoreError};
use crate::serve::RunError;

impl Keeper {
    pub(super) async fn keep(&mut self, id: &str) {
        let Some(live) = self.live.get(id) else { return };
        let record = live.record.clone();
        if let Err(error) = self.save(&record).await {
            tracing::error!(run = id, %error, "a run of GSAR's loop could not be kept; a restart would take it up as it was before");
        }
    }

    pub(super) async fn save(&self, record: &Record) -> Result<(), StoreError> {
        let (store, record) = (self.store.clone(), record.clone());
        blocking(move || store.save(&record)).await
    }

    pub(super) async fn load(&self, id: &str) -> Result<Option<Record>, StoreError> {
        let (store, id) = (self.store.clone(), id.to_owned());
        blocking(move || store.load(&id)).await
    }

    pub(super) async fn remove(&self, id: &str) {
        let (store, wanted) = (self.store.clone(), id.to_owned());
        if let Err(error) = blocking(move || store.remove(&wanted)).await {
            tracing::warn!(run = id, %error, "an old run could not be removed");
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| {
        let source = std::io::Error::other(error);
        Err(StoreError::Disk { action: "reach", path: "gsar".into(), source })
    })
}

pub(super) fn respond(
    id: &str,
    loaded: Result<Option<Record>, StoreError>,
    reply: Answer,
) -> Result<(), (RunError, Answer)> {
    match loaded {
        Ok(Some(record)) => {
            let _ = reply.send(Ok(record.run));
            Ok(())
        }
        Ok(None) => Err((RunError::Unknown { id: id.chars().take(64).collect() }, reply)),
        Err(error) => Err((RunError::Storage(error.to_string()), reply)),
    }
}
