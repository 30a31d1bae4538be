//! The thread that owns the client, and the desk before it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use serde_json::{Map, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;

use super::client::{Client, remote};
use super::failure::Failure;
use super::probe::reach;
use super::{Api, RemoteConfig};
use crate::decide::{Backend, Calibration, Config, DecideError, Desk, Health, LoadError, ModelInfo, Reply};
use crate::domain::Inquiry;
use crate::error::Fault;
use crate::metrics;

/// How long to wait before a server that was out of reach is tried again; it doubles up to the second.
const AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// Starts the thread. The server is looked for from there; until it is found the desk is not ready.
pub fn start(api: Api, remote: &RemoteConfig, config: &Config) -> Result<Desk, LoadError> {
    let client = Client::new(api, remote)?;
    let info = info(api, &client);
    let (health_in, health) = watch::channel(Health::Starting);
    let thread_error = |source: std::io::Error| LoadError::Thread { source: source.into() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(thread_error)?;
    // The semaphore is the bound: it also counts what is being answered. The channel never fills.
    let (queue, entries) = mpsc::channel(config.queue.get());
    let places = Arc::new(Semaphore::new(config.queue.get().min(Semaphore::MAX_PERMITS)));
    let worker = Worker { client: Arc::new(client), health: Arc::new(HealthLight(health_in)) };
    std::thread::Builder::new()
        .name("decide-remote".to_owned())
        .spawn(move || runtime.block_on(worker.run(entries)))
        .map_err(thread_error)?;
    Ok(Desk::new(info, health, Arc::new(Remote { places, queue })))
}

fn info(api: Api, client: &Client) -> ModelInfo {
    let mut facts = Map::new();
    facts.insert("backend".to_owned(), json!(api.word()));
    facts.insert("address".to_owned(), json!(client.place()));
    ModelInfo {
        name: client.model().to_owned(),
        revision: String::new(),
        calibration: Calibration::Uncalibrated,
        capabilities: client.limits().capabilities(),
        max_tokens: client.limits().window(),
        facts,
    }
}

/// The callers' side.
struct Remote {
    places: Arc<Semaphore>,
    queue: mpsc::Sender<Entry>,
}

struct Entry {
    inquiry: Inquiry,
    reply: oneshot::Sender<Result<Reply, DecideError>>,
    place: OwnedSemaphorePermit,
}

impl Backend for Remote {
    fn ask(&self, inquiry: Inquiry) -> BoxFuture<'_, Result<Reply, DecideError>> {
        async move {
            let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| DecideError::Closed)?;
            let (reply, replied) = oneshot::channel();
            let entry = Entry { inquiry, reply, place };
            self.queue.send(entry).await.map_err(|_| DecideError::Closed)?;
            replied.await.map_err(|_| DecideError::Closed)?
        }
        .boxed()
    }
}

/// Health as it is seen from outside; `Stopped` whichever way the worker ends.
struct HealthLight(watch::Sender<Health>);

impl HealthLight {
    fn set(&self, health: Health) {
        self.0.send_if_modified(|now| std::mem::replace(now, health) != health);
    }
}

impl Drop for HealthLight {
    fn drop(&mut self) {
        self.set(Health::Stopped);
    }
}

struct Worker {
    client: Arc<Client>,
    health: Arc<HealthLight>,
}

impl Worker {
    /// Answers until every desk is gone. Until the server is found, callers wait as they do for a model that warms up.
    async fn run(self, mut entries: mpsc::Receiver<Entry>) {
        let Some((early, fatal)) = self.find(&mut entries).await else { return };
        let mut tasks = JoinSet::new();
        let mut early = early.into_iter();
        loop {
            let next = match early.next() {
                Some(entry) => Some(entry),
                None => entries.recv().await,
            };
            let Some(entry) = next else { break };
            while tasks.try_join_next().is_some() {}
            match &fatal {
                Some(failure) => {
                    // A caller that went away misses nothing.
                    let _ = entry.reply.send(Err(remote(failure.clone())));
                }
                None => {
                    tasks.spawn(answer(Arc::clone(&self.client), Arc::clone(&self.health), entry));
                }
            }
        }
        tasks.shutdown().await;
    }

    /// Who came before the server was found, and what speaks against using it. None if every desk is gone.
    async fn find(&self, entries: &mut mpsc::Receiver<Entry>) -> Option<(Vec<Entry>, Option<Failure>)> {
        let mut early = Vec::new();
        let search = self.search();
        tokio::pin!(search);
        loop {
            tokio::select! {
                fatal = &mut search => return Some((early, fatal)),
                entry = entries.recv() => early.push(entry?),
            }
        }
    }

    /// Looks for the server until it is there, or something is wrong that only a person can change.
    async fn search(&self) -> Option<Failure> {
        let [mut pause, longest] = AGAIN;
        loop {
            match reach(&self.client).await {
                Ok(()) => {
                    self.health.set(Health::Ready);
                    return None;
                }
                Err(failure) if failure.fault() == Fault::Transient => {
                    let again_seconds = pause.as_secs();
                    tracing::warn!(%failure, again_seconds, "the remote decision model is not ready");
                    self.health.set(Health::Unreachable);
                }
                Err(failure) => {
                    tracing::error!(%failure, "the remote decision model cannot be used");
                    self.health.set(Health::Failing);
                    return Some(failure);
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }
}

/// Answers one inquiry, unless its caller goes away meanwhile.
async fn answer(client: Arc<Client>, health: Arc<HealthLight>, entry: Entry) {
    let Entry { inquiry, mut reply, place: _place } = entry;
    let answered = tokio::select! {
        answered = client.ask(&inquiry) => answered,
        () = reply.closed() => return,
    };
    match &answered {
        Ok(_) => health.set(Health::Ready),
        Err(error) => {
            metrics::decide_failure(error.fault());
            if error.fault() != Fault::Poison {
                health.set(Health::Failing);
            }
        }
    }
    // A caller that went away at the last moment misses nothing.
    let _ = reply.send(answered);
}
