//! The callers' side: a cheap handle that makes an inquiry ready, waits for a place in the queue, and brings the reply.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Instant;

use futures::future::{BoxFuture, FutureExt};
use tokio::sync::{Semaphore, oneshot, watch};

use super::calibrated::{self, Calibrated};
use super::worker::{Entry, Worker, panic_text};
use super::{Config, DecideError, Decider, Encoded, Encoder, LoadError, ModelInfo, Reply};
use crate::domain::Inquiry;
use crate::measure::Fitted;

/// Whether a decision model answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Loaded, not yet warm.
    Starting,
    /// A remote model that was not reached yet; it is tried again and again.
    Unreachable,
    /// It answers.
    Ready,
    /// Its last forward pass failed; it is probed until it works again.
    Failing,
    /// It has ended and will not answer again.
    Stopped,
}

/// What answers behind a desk: the inference thread's queue, or the client of a remote model.
pub trait Backend: Send + Sync {
    /// One reply, with a decision for each question.
    fn ask(&self, inquiry: Inquiry) -> BoxFuture<'_, Result<Reply, DecideError>>;
}

/// Where inquiries are handed in. Clones lead to the same model; when the last one is gone, the model is.
#[derive(Clone)]
pub struct Desk {
    info: Arc<ModelInfo>,
    health: watch::Receiver<Health>,
    backend: Arc<dyn Backend>,
    fitted: Option<Arc<Fitted>>,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk")
            .field("model", &self.info.name)
            .field("health", &self.health())
            .finish_non_exhaustive()
    }
}

impl Desk {
    /// A desk before any kind of answerer.
    pub fn new(info: ModelInfo, health: watch::Receiver<Health>, backend: Arc<dyn Backend>) -> Self {
        Self { info: Arc::new(info), health, backend, fitted: None }
    }

    /// The same model with its probabilities by `fitted`.
    pub fn calibrated(self, fitted: Fitted) -> Self {
        let fitted = Arc::new(fitted);
        let info = calibrated::info(&self.info, &fitted);
        let health = self.health.clone();
        let backend = Calibrated { desk: self, fitted: Arc::clone(&fitted) };
        Self { info: Arc::new(info), health, backend: Arc::new(backend), fitted: Some(fitted) }
    }

    /// The same model with another answerer, made of this one, before it.
    pub fn behind(self, answerer: impl FnOnce(Desk) -> Arc<dyn Backend>) -> Self {
        let (info, health, fitted) = (Arc::clone(&self.info), self.health.clone(), self.fitted.clone());
        Self { info, health, backend: answerer(self), fitted }
    }

    /// What the probabilities are calibrated by.
    pub fn fitted(&self) -> Option<&Fitted> {
        self.fitted.as_deref()
    }

    /// Starts the inference thread, which from now on owns `decider`, and warms the model up there.
    pub fn local<D: Decider>(decider: D, config: &Config) -> Result<Self, LoadError> {
        let info = decider.info();
        let encoder = decider.encoder();
        let (health_in, health) = watch::channel(Health::Starting);
        // The semaphore is the bound: it also counts what is being encoded and what is in the model. The channel never fills.
        let (queue, entries) = sync_channel(config.queue.get());
        let worker = Worker::new(decider, entries, health_in, config);
        std::thread::Builder::new()
            .name("decide".to_owned())
            .spawn(move || worker.run())
            .map_err(|source| LoadError::Thread { source: source.into() })?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let local = Local {
            encoder,
            places: Arc::new(Semaphore::new(config.queue.get().min(Semaphore::MAX_PERMITS))),
            encoding: Semaphore::new(cores),
            queue,
        };
        Ok(Self::new(info, health, Arc::new(local)))
    }

    /// Asks the model. Waits while the queue is full; dropping the future takes the inquiry back.
    pub async fn ask(&self, inquiry: Inquiry) -> Result<Reply, DecideError> {
        let wanted = inquiry.questions.len();
        let reply = self.backend.ask(inquiry).await?;
        let found = reply.decisions.len();
        if found != wanted {
            return Err(DecideError::Miscounted { wanted, found });
        }
        Ok(reply)
    }

    /// Who answers here.
    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// Whether it answers now.
    pub fn health(&self) -> Health {
        *self.health.borrow()
    }

    /// Waits until the model answers, also while a remote one cannot be reached; false if it failed or stopped instead.
    pub async fn reached(&self) -> bool {
        let mut health = self.health.clone();
        let waits = |health: &Health| matches!(health, Health::Starting | Health::Unreachable);
        match health.wait_for(|health| !waits(health)).await {
            Ok(health) => *health == Health::Ready,
            Err(_) => false,
        }
    }

    /// Waits until the model is warm; false if it failed, stopped or could not be reached instead.
    pub async fn ready(&self) -> bool {
        let mut health = self.health.clone();
        match health.wait_for(|health| *health != Health::Starting).await {
            Ok(health) => *health == Health::Ready,
            Err(_) => false,
        }
    }
}

/// The queue before the inference thread.
struct Local<W> {
    encoder: Arc<dyn Encoder<W>>,
    places: Arc<Semaphore>,
    encoding: Semaphore,
    queue: SyncSender<Entry<W>>,
}

impl<W: Send + 'static> Backend for Local<W> {
    fn ask(&self, inquiry: Inquiry) -> BoxFuture<'_, Result<Reply, DecideError>> {
        async move {
            let since = Instant::now();
            let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| DecideError::Closed)?;
            let (work, size) = match self.encode(inquiry).await? {
                Encoded::Done(reply) => return Ok(reply),
                Encoded::Work { work, size } => (work, size),
            };
            let (reply, replied) = oneshot::channel();
            let entry = Entry { work, size, reply, since, place };
            self.queue.try_send(entry).map_err(|_| DecideError::Closed)?;
            replied.await.map_err(|_| DecideError::Closed)?
        }
        .boxed()
    }
}

impl<W: Send + 'static> Local<W> {
    async fn encode(&self, inquiry: Inquiry) -> Result<Encoded<W>, DecideError> {
        if self.encoder.is_quick(&inquiry) {
            return guarded(&*self.encoder, inquiry);
        }
        let _core = self.encoding.acquire().await.map_err(|_| DecideError::Closed)?;
        let encoder = Arc::clone(&self.encoder);
        match tokio::task::spawn_blocking(move || guarded(&*encoder, inquiry)).await {
            Ok(encoded) => encoded,
            Err(_) => Err(DecideError::Closed),
        }
    }
}

fn guarded<W>(encoder: &dyn Encoder<W>, inquiry: Inquiry) -> Result<Encoded<W>, DecideError> {
    catch_unwind(AssertUnwindSafe(|| encoder.encode(inquiry)))
        .unwrap_or_else(|panic| Err(DecideError::Panicked { message: panic_text(&*panic) }))
}

#[cfg(test)]
mod tests;
