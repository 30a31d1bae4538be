//! What becomes of a run: judged, called back, expired, sent out.

use std::sync::Arc;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};

use super::super::panic::caught;
use super::commands::held_bytes;
use super::keeper::{Done, Keeper, Live};
use crate::domain::{Ended, Verdict};
use crate::gsar::{CallbackError, Reply};
use crate::metrics;
use crate::score::{Entry, Phase};
use crate::serve::{CheckRequest, RunError};

/// When a driven run's round that could not be judged is tried again.
const AGAIN: Duration = Duration::from_secs(5);

impl Keeper {
    pub(super) async fn done(&mut self, done: Done) {
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

    pub(super) async fn judged(&mut self, id: &str, verdict: Verdict) {
        let now = self.clock.now();
        let reason = verdict.reason.clone().unwrap_or_else(|| "no verdict".to_owned());
        let Some(live) = self.live.get_mut(id) else { return };
        if live.record.run.ended.is_some() {
            return;
        }
        let entry = live.record.run.pending.as_ref().map(|(_, entry)| entry.clone());
        let is_judged = live.record.run.judged(verdict, now);
        if let Some(round) = live.record.run.rounds.last().filter(|_| is_judged) {
            metrics::gsar_round(round.decision);
        }
        // What could not be judged may have used up the money.
        if is_judged || live.record.run.ended.is_some() {
            self.keep(id).await;
            self.tell(id);
            self.go_on(id);
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

    pub(super) async fn called(&mut self, id: &str, reply: Result<Reply, CallbackError>) {
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

    pub(super) async fn went_out(&mut self, id: &str, safely: bool) {
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

    pub(super) async fn tick(&mut self) {
        let now = self.clock.now();
        let idle = self.config.idle.0;
        let is_idle = |live: &Live| {
            // A driven run whose round cannot be judged is tried again and again, and not for ever.
            let waits = live.record.run.phase() != Phase::Judging || live.record.callbacks.is_some();
            live.record.run.ended.is_none() && waits && now.since(live.record.run.changed) >= idle
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

    pub(super) async fn end(&mut self, id: &str, why: Ended) {
        let now = self.clock.now();
        let Some(live) = self.live.get_mut(id) else { return };
        if live.record.run.end(why, now) {
            self.keep(id).await;
            self.tell(id);
            self.go_on(id);
        }
    }

    /// Starts what a run waits for, if that is the daemon's to do.
    pub(super) fn go_on(&mut self, id: &str) {
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
                    service: run.service.clone(),
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
    pub(super) fn tell(&mut self, id: &str) {
        let Some(live) = self.live.get_mut(id) else { return };
        for waiting in std::mem::take(&mut live.waiting) {
            let _ = waiting.send(Ok(live.record.run.clone()));
        }
    }

    pub(super) fn open_runs(&self) -> usize {
        self.live.values().filter(|live| live.record.run.ended.is_none()).count()
    }
}
