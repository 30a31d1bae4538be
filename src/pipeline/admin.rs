//! The HTTP listener on a thread of its own: probes and metrics are answered while the rest is busy.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{Assayer, StartError};
use crate::serve::{self, CheckError, CheckRequest, Checker};

/// How often collected samples are folded into histograms.
const UPKEEP: Duration = Duration::from_secs(5);

/// When to try again if too many checks run.
const BUSY: Duration = Duration::from_secs(1);

/// The running thread.
pub(super) struct Admin {
    stop: CancellationToken,
    thread: std::thread::JoinHandle<()>,
}

impl Admin {
    pub fn start(
        listener: std::net::TcpListener,
        config: &serve::Config,
        state: serve::State,
    ) -> Result<Self, StartError> {
        let thread_error = |source| StartError::Thread { name: "admin", source };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(thread_error)?;
        let stop = CancellationToken::new();
        let metrics = state.metrics.clone();
        let (config, token) = (config.clone(), stop.clone());
        let run = move || {
            runtime.block_on(async move {
                let listener = match TcpListener::from_std(listener) {
                    Ok(listener) => listener,
                    Err(error) => return tracing::error!(%error, "the admin listener cannot be used"),
                };
                let upkeep = tokio::spawn(async move {
                    let mut ticks = tokio::time::interval(UPKEEP);
                    loop {
                        ticks.tick().await;
                        metrics.run_upkeep();
                    }
                });
                serve::serve(listener, &config, state, token).await;
                upkeep.abort();
            });
        };
        let thread = std::thread::Builder::new().name("admin".to_owned()).spawn(run).map_err(thread_error)?;
        Ok(Self { stop, thread })
    }

    /// Stops and waits for the thread.
    pub fn stop(self) {
        self.stop.cancel();
        if self.thread.join().is_err() {
            tracing::error!("the admin thread had panicked");
        }
    }
}

/// Checks are work like any other: they run where traces are evaluated, not on the thread that answers probes.
pub(super) fn checker(assayer: &Arc<Assayer>, concurrency: usize) -> Checker {
    let handle = Handle::current();
    let assayer = Arc::clone(assayer);
    let places = Arc::new(Semaphore::new(concurrency));
    Checker::new(move |request: CheckRequest| {
        let (handle, assayer) = (handle.clone(), Arc::clone(&assayer));
        let place = Arc::clone(&places).try_acquire_owned();
        Box::pin(async move {
            let place = place.map_err(|_| CheckError::Busy { retry_after: BUSY })?;
            let check = handle.spawn(async move {
                let _place = place;
                assayer.check(&request).await
            });
            check.await.map_err(|error| CheckError::Failed(error.to_string()))
        })
    })
}
