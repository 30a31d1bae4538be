//! The owner's loop, and what it owns.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::super::{Assayer, Clock};
use crate::domain::{Time, Verdict};
use crate::emit::Sinks;
use crate::gsar::{Agent, CallbackError, Config, Record, Reply, Store};
use crate::metrics;
use crate::score::{Entry, Run};
use crate::serve::{RunCommand, RunError, RunRequest};

/// How often it is looked for runs that have expired, and verdicts that did not go out.
const TICK: Duration = Duration::from_secs(5);
/// How long a stopping owner waits for verdicts on their way.
const LAST: Duration = Duration::from_secs(5);

pub(super) type Answer = oneshot::Sender<Result<Run, RunError>>;

/// A run that has not ended, or whose verdict has not gone out.
pub(super) struct Live {
    pub(super) record: Record,
    pub(super) waiting: Vec<Answer>,
    pub(super) is_going_out: bool,
}

/// What came of work that was started.
pub(super) enum Done {
    Judged { id: String, verdict: Box<Verdict> },
    Called { id: String, reply: Result<Reply, CallbackError> },
    JudgeAgain { id: String, entry: Option<Entry> },
    WentOut { id: String, safely: bool },
}

pub(super) struct Keeper {
    pub(super) config: Config,
    pub(super) store: Store,
    pub(super) agent: Agent,
    pub(super) assayer: Arc<Assayer>,
    pub(super) sinks: Arc<Sinks>,
    pub(super) clock: Clock,
    pub(super) live: HashMap<String, Live>,
    /// Finished runs are on disk only; this is when they ended.
    pub(super) finished: HashMap<String, Time>,
    /// Runs by the key of the request that opened them.
    pub(super) keys: HashMap<String, String>,
    pub(super) work: JoinSet<Done>,
}

impl Keeper {
    pub(super) async fn run(
        mut self,
        records: Vec<Record>,
        mut commands: mpsc::Receiver<RunCommand>,
        stop: CancellationToken,
    ) {
        self.take_up(records);
        let mut ticks = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                Some(command) = commands.recv() => self.command(command).await,
                Some(done) = self.work.join_next() => match done {
                    Ok(done) => self.done(done).await,
                    Err(error) => tracing::error!(%error, "work on a run of GSAR's loop was lost; it is taken up after the next start"),
                },
                _ = ticks.tick() => self.tick().await,
            }
            metrics::gsar_open_runs(self.open_runs());
        }
        if tokio::time::timeout(LAST, self.see_out()).await.is_err() {
            tracing::warn!("verdicts on runs did not go out in time; they do after the next start");
        }
    }

    /// Waits for verdicts on their way, so that they do not go out again. Judging and calling back begin anew after a restart.
    pub(super) async fn see_out(&mut self) {
        while self.live.values().any(|live| live.is_going_out) {
            match self.work.join_next().await {
                Some(Ok(Done::WentOut { id, safely })) => self.went_out(&id, safely).await,
                Some(_) => {}
                None => return,
            }
        }
    }

    pub(super) fn take_up(&mut self, records: Vec<Record>) {
        for record in records {
            let id = record.run.id.clone();
            if let Some(key) = &record.key {
                self.keys.insert(key.clone(), id.clone());
            }
            if record.emitted {
                self.finished.insert(id, record.run.changed);
                continue;
            }
            self.live.insert(id.clone(), Live { record, waiting: Vec::new(), is_going_out: false });
            self.go_on(&id);
        }
    }

    pub(super) async fn command(&mut self, command: RunCommand) {
        let RunCommand { request, reply } = command;
        let refused = match request {
            RunRequest::Open { request, key } => self.open(*request, key, reply).await,
            RunRequest::Enter { id, request, key } => self.enter(&id, request, key, reply).await,
            RunRequest::See { id } => self.see(&id, reply).await,
            RunRequest::Cancel { id } => self.cancel(&id, reply).await,
        };
        if let Err((error, reply)) = refused {
            let _ = reply.send(Err(error));
        }
    }
}
