//! The owner of GSAR's runs: takes what agents hand in, has it judged, keeps every step on disk, calls agents back where they
//! asked for it, and sends out the verdict on a run that has ended.

mod commands;
mod disk;
mod keeper;
mod steps;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use keeper::Keeper;

use super::{Assayer, Clock, StartError};
use crate::emit::Sinks;
use crate::gsar::{Agent, Config, Store};
use crate::serve::Runs;

/// Requests that wait for the owner.
const COMMANDS: usize = 64;

/// The running owner.
pub(super) struct Keeping {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Keeping {
    /// Takes up the runs that an earlier process left in `data_dir`.
    pub fn start(
        config: &Config,
        data_dir: &Path,
        assayer: Arc<Assayer>,
        sinks: Arc<Sinks>,
    ) -> Result<(Self, Runs), StartError> {
        let (store, records, problems) = Store::open(data_dir.join("gsar"))?;
        for problem in problems {
            tracing::error!(%problem, "a run of GSAR's loop cannot be read; its file is left where it is");
        }
        let agent = Agent::new(config)?;
        let (runs, commands) = Runs::new(COMMANDS);
        let stop = CancellationToken::new();
        let keeper = Keeper {
            config: config.clone(),
            store,
            agent,
            assayer,
            sinks,
            clock: Clock::start(),
            live: HashMap::new(),
            finished: HashMap::new(),
            keys: HashMap::new(),
            work: JoinSet::new(),
        };
        let task = tokio::spawn(keeper.run(records, commands, stop.clone()));
        Ok((Self { stop, task }, runs))
    }

    /// Stops. What was going on goes on after the next start.
    pub async fn stop(self) {
        self.stop.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the owner of GSAR's runs had panicked");
        }
    }
}
