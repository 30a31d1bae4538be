//! What clients want of runs.

use sha2::{Digest, Sha256};

use super::disk::respond;
use super::keeper::{Answer, Keeper, Live};
use crate::domain::{Ended, Json};
use crate::gsar::Record;
use crate::score::{Entry, Phase, RoundRefused, Run, RunLimits};
use crate::serve::{EnterRequest, OpenRequest, RunError};

impl Keeper {
    pub(super) async fn open(
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

    pub(super) fn acceptable(&self, request: &OpenRequest) -> Result<(), RunError> {
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

    pub(super) fn fits(&self, bytes: usize) -> Result<(), RunError> {
        let limit = self.config.max_run_bytes;
        if bytes > limit.as_usize() { Err(RunError::TooLarge { limit: limit.0 }) } else { Ok(()) }
    }

    /// The same request to open a run once more: the same run.
    pub(super) async fn repeat(
        &mut self,
        id: &str,
        digest: &str,
        reply: Answer,
    ) -> Result<(), (RunError, Answer)> {
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

    pub(super) async fn enter(
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
                Ok(Some(_)) => Err((RoundRefused::Done.into(), reply)),
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

    pub(super) async fn see(&mut self, id: &str, reply: Answer) -> Result<(), (RunError, Answer)> {
        if let Some(live) = self.live.get(id) {
            let _ = reply.send(Ok(live.record.run.clone()));
            return Ok(());
        }
        let loaded = self.load(id).await;
        respond(id, loaded, reply)
    }

    pub(super) async fn cancel(&mut self, id: &str, reply: Answer) -> Result<(), (RunError, Answer)> {
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
}

/// Bytes of answers and evidence.
pub(super) fn held_bytes(run: &Run) -> usize {
    let json = |evidence: &Option<Json>| evidence.as_ref().map_or(0, |json| json.to_string().len());
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
