//! The owner of GSAR's runs: takes what agents hand in, has it judged, keeps every step on disk, calls agents back where they
//! asked for it, and sends out the verdict on a run that has ended.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::panic::caught;
use super::{Assayer, Clock, StartError};
use crate::domain::{Ended, Verdict};
use crate::emit::Sinks;
use crate::gsar::{Agent, CallbackError, Config, Record, Reply, Store, StoreError};
use crate::metrics;
use crate::score::{Entry, Phase, Run, RunLimits};
use crate::serve::{CheckRequest, EnterRequest, OpenRequest, RunCommand, RunError, RunRequest, Runs};

/// Requests that wait for the owner.
const COMMANDS: usize = 64;
/// How often it is looked for runs that have expired, and verdicts that did not go out.
const TICK: Duration = Duration::from_secs(5);
/// How long a stopping owner waits for verdicts on their way.
const LAST: Duration = Duration::from_secs(5);
/// When a driven run's round that could not be judged is tried again.
const AGAIN: Duration = Duration::from_secs(5);

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
        let agent = Agent::new(config).map_err(StartError::Agent)?;
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

type Answer = oneshot::Sender<Result<Run, RunError>>;

/// A run that has not ended, or whose verdict has not gone out.
struct Live {
    record: Record,
    waiting: Vec<Answer>,
    is_going_out: bool,
}

/// What came of work that was started.
enum Done {
    Judged { id: String, verdict: Box<Verdict> },
    Called { id: String, reply: Result<Reply, CallbackError> },
    JudgeAgain { id: String, entry: Option<Entry> },
    WentOut { id: String, safely: bool },
}

struct Keeper {
    config: Config,
    store: Store,
    agent: Agent,
    assayer: Arc<Assayer>,
    sinks: Arc<Sinks>,
    clock: Clock,
    live: HashMap<String, Live>,
    /// Finished runs are on disk only; this is when they ended.
    finished: HashMap<String, crate::domain::Time>,
    /// Runs by the key of the request that opened them.
    keys: HashMap<String, String>,
    work: JoinSet<Done>,
}

impl Keeper {
    async fn run(
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
    async fn see_out(&mut self) {
        while self.live.values().any(|live| live.is_going_out) {
            match self.work.join_next().await {
                Some(Ok(Done::WentOut { id, safely })) => self.went_out(&id, safely).await,
                Some(_) => {}
                None => return,
            }
        }
    }

    fn take_up(&mut self, records: Vec<Record>) {
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

    async fn command(&mut self, command: RunCommand) {
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

    async fn open(
        &mut self,
        request: OpenRequest,
        key: Option<String>,
        reply: Answer,
    ) -> Result<(), (RunError, Answer)> {
        let digest = digest(&request);
        if let Some(id) = key.as_ref().and_then(|key| self.keys.get(key)).cloned() {
            return self.repeat(&id, &digest, reply).await;
        }
        if let Err(error) = self.acceptable(&request) {
            return Err((error, reply));
        }
        let first =
            Entry { synthesis: request.synthesis, evidence: Some(request.evidence), key: key.clone() };
        let granted = self.config.limits;
        let limits = RunLimits {
            max_replans: request.max_replans.unwrap_or(u32::MAX).min(granted.max_replans),
            max_rounds: request.max_rounds.unwrap_or(u32::MAX).min(granted.max_rounds).max(1),
            max_cost_usd: match (request.max_cost_usd, granted.max_cost_usd) {
                (Some(asked), Some(most)) => Some(asked.min(most)),
                (asked, most) => asked.or(most),
            },
        };
        let id = uuid::Uuid::now_v7().to_string();
        let mut run = Run::open(id.clone(), limits, first, self.clock.now());
        run.query = request.query;
        run.trace_id = request.trace_id;
        run.service = request.service;
        let is_driven = request.callbacks.is_some();
        let record =
            Record { run, key: key.clone(), request: digest, callbacks: request.callbacks, emitted: false };
        if let Err(error) = self.save(&record).await {
            return Err((RunError::Storage(error.to_string()), reply));
        }
        if let Some(key) = key {
            self.keys.insert(key, id.clone());
        }
        let mut waiting = Vec::new();
        if is_driven {
            // Its agent is called back; nobody has to wait.
            let _ = reply.send(Ok(record.run.clone()));
        } else {
            waiting.push(reply);
        }
        self.live.insert(id.clone(), Live { record, waiting, is_going_out: false });
        self.go_on(&id);
        Ok(())
    }

    fn acceptable(&self, request: &OpenRequest) -> Result<(), RunError> {
        if request.synthesis.trim().is_empty() {
            return Err(RunError::Invalid("synthesis is empty".to_owned()));
        }
        if request.max_cost_usd.is_some_and(|most| !most.is_finite() || most < 0.0) {
            return Err(RunError::Invalid("max_cost_usd must be a number from 0".to_owned()));
        }
        if let Some(callbacks) = &request.callbacks {
            self.agent.allows(callbacks).map_err(|error| RunError::Invalid(error.to_string()))?;
        }
        let open = self.open_runs();
        if open >= self.config.max_runs.get() {
            return Err(RunError::Full { open });
        }
        self.fits(request.synthesis.len() + request.evidence.to_string().len())
    }

    fn fits(&self, bytes: usize) -> Result<(), RunError> {
        let limit = self.config.max_run_bytes;
        if bytes > limit.as_usize() { Err(RunError::TooLarge { limit: limit.0 }) } else { Ok(()) }
    }

    /// The same request to open a run once more: the same run.
    async fn repeat(&mut self, id: &str, digest: &str, reply: Answer) -> Result<(), (RunError, Answer)> {
        match self.live.get_mut(id) {
            Some(live) if live.record.request != digest => Err((RunError::KeyReused, reply)),
            Some(live) if live.record.run.phase() == Phase::Judging && live.record.callbacks.is_none() => {
                live.waiting.push(reply);
                Ok(())
            }
            Some(live) => {
                let _ = reply.send(Ok(live.record.run.clone()));
                Ok(())
            }
            None => match self.load(id).await {
                Ok(Some(record)) if record.request != digest => Err((RunError::KeyReused, reply)),
                loaded => respond(id, loaded, reply),
            },
        }
    }

    async fn enter(
        &mut self,
        id: &str,
        request: EnterRequest,
        key: Option<String>,
        reply: Answer,
    ) -> Result<(), (RunError, Answer)> {
        let now = self.clock.now();
        let Some(live) = self.live.get_mut(id) else {
            return match self.load(id).await {
                Ok(Some(record)) if key.as_deref().is_some_and(|key| record.run.known(key).is_some()) => {
                    respond(id, Ok(Some(record)), reply)
                }
                Ok(Some(_)) => Err((crate::score::RoundRefused::Done.into(), reply)),
                other => respond(id, other, reply),
            };
        };
        let run = &live.record.run;
        if let Some(number) = key.as_deref().and_then(|key| run.known(key)) {
            let same = match (run.rounds.get(number as usize - 1), &run.pending) {
                (Some(round), _) => {
                    round.synthesis == request.synthesis && round.evidence == request.evidence
                }
                (None, Some((_, entry))) => {
                    entry.synthesis == request.synthesis && entry.evidence == request.evidence
                }
                (None, None) => false,
            };
            if !same {
                return Err((RunError::KeyReused, reply));
            }
            if run.phase() == Phase::Judging {
                live.waiting.push(reply);
            } else {
                let _ = reply.send(Ok(run.clone()));
            }
            return Ok(());
        }
        if live.record.callbacks.is_some() {
            let error = RunError::Invalid("the daemon drives this run by its callbacks".to_owned());
            return Err((error, reply));
        }
        if request.synthesis.trim().is_empty() {
            return Err((RunError::Invalid("synthesis is empty".to_owned()), reply));
        }
        let mut next = live.record.clone();
        let entry = Entry { synthesis: request.synthesis, evidence: request.evidence, key };
        if let Err(error) = next.run.enter(entry, now) {
            return Err((error.into(), reply));
        }
        if let Err(error) = self.fits(held_bytes(&next.run)) {
            return Err((error, reply));
        }
        if let Err(error) = self.save(&next).await {
            return Err((RunError::Storage(error.to_string()), reply));
        }
        if let Some(live) = self.live.get_mut(id) {
            live.record = next;
            live.waiting.push(reply);
        }
        self.go_on(id);
        Ok(())
    }

    async fn see(&mut self, id: &str, reply: Answer) -> Result<(), (RunError, Answer)> {
        if let Some(live) = self.live.get(id) {
            let _ = reply.send(Ok(live.record.run.clone()));
            return Ok(());
        }
        let loaded = self.load(id).await;
        respond(id, loaded, reply)
    }

    async fn cancel(&mut self, id: &str, reply: Answer) -> Result<(), (RunError, Answer)> {
        if !self.live.contains_key(id) {
            let loaded = self.load(id).await;
            return respond(id, loaded, reply);
        }
        self.end(id, Ended::Cancelled).await;
        if let Some(live) = self.live.get_mut(id) {
            live.waiting.push(reply);
        }
        self.tell(id);
        Ok(())
    }

    async fn done(&mut self, done: Done) {
        match done {
            Done::Judged { id, verdict } => self.judged(&id, *verdict).await,
            Done::Called { id, reply } => self.called(&id, reply).await,
            Done::JudgeAgain { id, entry } => {
                let now = self.clock.now();
                let Some(live) = self.live.get_mut(&id) else { return };
                if let Some(entry) = entry {
                    // Refused only if the run has ended meanwhile.
                    let _ = live.record.run.enter(entry, now);
                }
                self.go_on(&id);
            }
            Done::WentOut { id, safely } => self.went_out(&id, safely).await,
        }
    }

    async fn judged(&mut self, id: &str, verdict: Verdict) {
        let now = self.clock.now();
        let reason = verdict.reason.clone().unwrap_or_else(|| "no verdict".to_owned());
        let Some(live) = self.live.get_mut(id) else { return };
        let entry = live.record.run.pending.as_ref().map(|(_, entry)| entry.clone());
        if live.record.run.judged(verdict, now) {
            if let Some(round) = live.record.run.rounds.last() {
                metrics::gsar_round(round.decision);
            }
            self.keep(id).await;
            self.tell(id);
            self.go_on(id);
            return;
        }
        if live.record.run.ended.is_some() {
            return;
        }
        tracing::warn!(run = id, reason, "a round of GSAR's loop could not be judged");
        if live.record.callbacks.is_some() {
            let is_first = live.record.run.rounds.is_empty();
            let again = Done::JudgeAgain { id: id.to_owned(), entry: entry.filter(|_| !is_first) };
            self.work.spawn(async move {
                tokio::time::sleep(AGAIN).await;
                again
            });
            return;
        }
        for waiting in std::mem::take(&mut live.waiting) {
            let _ = waiting.send(Err(RunError::NotJudged { reason: reason.clone() }));
        }
        if live.record.run.rounds.is_empty() {
            // It was never opened: its client opens it again.
            if let Some(live) = self.live.remove(id) {
                live.record.key.map(|key| self.keys.remove(&key));
            }
            self.remove(id).await;
        } else {
            self.keep(id).await;
        }
    }

    async fn called(&mut self, id: &str, reply: Result<Reply, CallbackError>) {
        let now = self.clock.now();
        let Some(live) = self.live.get_mut(id) else { return };
        let entered = match reply {
            Ok(reply) => {
                let entry = Entry { synthesis: reply.synthesis, evidence: reply.evidence, key: None };
                live.record.run.enter(entry, now).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        let held = held_bytes(&live.record.run);
        let entered = entered.and_then(|()| self.fits(held).map_err(|error| error.to_string()));
        match entered {
            Ok(()) => {
                self.keep(id).await;
                self.go_on(id);
            }
            Err(error) => {
                tracing::warn!(run = id, error, "the agent of a run could not be called back");
                self.end(id, Ended::CallbackFailed).await;
            }
        }
    }

    async fn went_out(&mut self, id: &str, safely: bool) {
        let Some(live) = self.live.get_mut(id) else { return };
        live.is_going_out = false;
        if !safely {
            return;
        }
        live.record.emitted = true;
        self.keep(id).await;
        if let Some(live) = self.live.remove(id) {
            self.finished.insert(id.to_owned(), live.record.run.changed);
        }
    }

    async fn tick(&mut self) {
        let now = self.clock.now();
        let idle = self.config.idle.0;
        let is_idle = |live: &Live| {
            matches!(live.record.run.phase(), Phase::Synthesis | Phase::Evidence)
                && now.since(live.record.run.changed) >= idle
        };
        let expired: Vec<String> =
            self.live.iter().filter(|(_, live)| is_idle(live)).map(|(id, _)| id.clone()).collect();
        for id in expired {
            self.end(&id, Ended::Expired).await;
        }
        let stuck = |live: &Live| live.record.run.ended.is_some() && !live.is_going_out;
        let unsent: Vec<String> =
            self.live.iter().filter(|(_, live)| stuck(live)).map(|(id, _)| id.clone()).collect();
        for id in unsent {
            self.go_on(&id);
        }
        let keep = self.config.keep.0;
        let old: Vec<String> = self
            .finished
            .iter()
            .filter(|(_, ended)| now.since(**ended) >= keep)
            .map(|(id, _)| id.clone())
            .collect();
        for id in old {
            self.finished.remove(&id);
            self.keys.retain(|_, run| *run != id);
            self.remove(&id).await;
        }
    }

    async fn end(&mut self, id: &str, why: Ended) {
        let now = self.clock.now();
        let Some(live) = self.live.get_mut(id) else { return };
        if live.record.run.end(why, now) {
            self.keep(id).await;
            self.tell(id);
            self.go_on(id);
        }
    }

    /// Starts what a run waits for, if that is the daemon's to do.
    fn go_on(&mut self, id: &str) {
        let Some(live) = self.live.get_mut(id) else { return };
        let run = &live.record.run;
        let id = id.to_owned();
        match (run.phase(), live.record.callbacks.clone()) {
            (Phase::Judging, _) => {
                let Some((_, entry)) = &run.pending else { return };
                let request = CheckRequest {
                    context: run.evidence().cloned().unwrap_or_default(),
                    query: run.query.clone(),
                    response: entry.synthesis.clone(),
                };
                let assayer = Arc::clone(&self.assayer);
                self.work.spawn(async move {
                    let verdict = Box::new(assayer.check(&request).await);
                    Done::Judged { id, verdict }
                });
            }
            (Phase::Synthesis | Phase::Evidence, Some(callbacks)) => {
                let (agent, run) = (self.agent.clone(), run.clone());
                self.work.spawn(async move {
                    let call = || agent.call(&callbacks, &run);
                    let reply = call
                        .retry(ExponentialBuilder::default().with_max_times(3))
                        .when(CallbackError::is_transient)
                        .await;
                    Done::Called { id, reply }
                });
            }
            (Phase::Synthesis | Phase::Evidence, None) => {}
            (Phase::Done, _) if live.is_going_out => {}
            (Phase::Done, _) => {
                live.is_going_out = true;
                if let Some(ended) = run.ended {
                    metrics::gsar_run(ended);
                }
                let verdict = self.assayer.run_verdict(run);
                let sinks = Arc::clone(&self.sinks);
                self.work.spawn(async move {
                    let written = caught(sinks.write(&verdict)).await;
                    let safely = matches!(written, Ok(Ok(())));
                    if !safely {
                        tracing::error!(run = id, "the verdict on a run was not written; it is tried again");
                    }
                    Done::WentOut { id, safely }
                });
            }
        }
    }

    /// Answers everyone who waits for the run.
    fn tell(&mut self, id: &str) {
        let Some(live) = self.live.get_mut(id) else { return };
        for waiting in std::mem::take(&mut live.waiting) {
            let _ = waiting.send(Ok(live.record.run.clone()));
        }
    }

    fn open_runs(&self) -> usize {
        self.live.values().filter(|live| live.record.run.ended.is_none()).count()
    }

    async fn keep(&mut self, id: &str) {
        let Some(live) = self.live.get(id) else { return };
        let record = live.record.clone();
        if let Err(error) = self.save(&record).await {
            tracing::error!(run = id, %error, "a run of GSAR's loop could not be kept; a restart would take it up as it was before");
        }
    }

    async fn save(&self, record: &Record) -> Result<(), StoreError> {
        let (store, record) = (self.store.clone(), record.clone());
        blocking(move || store.save(&record)).await
    }

    async fn load(&self, id: &str) -> Result<Option<Record>, StoreError> {
        let (store, id) = (self.store.clone(), id.to_owned());
        blocking(move || store.load(&id)).await
    }

    async fn remove(&self, id: &str) {
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

fn respond(
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

/// Bytes of answers and evidence.
fn held_bytes(run: &Run) -> usize {
    let json =
        |evidence: &Option<crate::domain::Json>| evidence.as_ref().map_or(0, |json| json.to_string().len());
    let rounds: usize = run.rounds.iter().map(|round| round.synthesis.len() + json(&round.evidence)).sum();
    let pending = run.pending.as_ref().map_or(0, |(_, entry)| entry.synthesis.len() + json(&entry.evidence));
    rounds + pending
}

fn digest(request: &OpenRequest) -> String {
    let told = serde_json::json!({
        "synthesis": request.synthesis,
        "evidence": request.evidence,
        "query": request.query,
        "trace_id": request.trace_id,
        "service": request.service,
        "limits": [request.max_replans, request.max_rounds],
        "max_cost_usd": request.max_cost_usd,
        "callbacks": request.callbacks,
    });
    let hash = Sha256::digest(told.to_string().as_bytes());
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
