//! GSAR's loop over one answer: judge, and let the agent write again or plan again, until the answer can go out or the patience
//! is over. A state machine without clock and IO: who judges, stores and asks the agent is another's business.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::explain::explanation;
use crate::domain::{
    Ended, Json, Outcome, RoundSummary, Tier, Time, TraceId, Trajectory, Turn, Usage, Verdict,
};

/// How long a run goes on at most.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunLimits {
    /// Replans, abstentions included, that are granted (GSAR's K_max). One more decision to replan ends the run.
    pub max_replans: u32,
    /// Judged rounds of any kind, the first included.
    pub max_rounds: u32,
    /// What the judge may cost over the whole run, in US dollars; a run that has spent more ends after the round.
    pub max_cost_usd: Option<f64>,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self { max_replans: 2, max_rounds: 6, max_cost_usd: None }
    }
}

/// What the agent hands in for one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The answer as the agent would send it.
    pub synthesis: String,
    /// The evidence that it was written from; none means that of the round before.
    pub evidence: Option<Json>,
    /// The client's word for this request: the same one again is not a second round.
    pub key: Option<String>,
}

/// A judged round, whole, for audit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// From 1.
    pub number: u32,
    /// How the agent came to it.
    pub turn: Turn,
    /// The answer that was judged.
    pub synthesis: String,
    /// The evidence, where it differs from that of the round before.
    pub evidence: Option<Json>,
    /// The client's word for the request.
    pub key: Option<String>,
    /// GSAR's decision.
    pub decision: Tier,
    /// GSAR's S.
    pub score: f64,
    /// What stands against the answer, in words.
    pub explanation: String,
    /// All that was found.
    pub verdict: Verdict,
    /// When it was judged.
    pub at: Time,
}

/// What a run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// For the verdict on the round that was handed in last.
    Judging,
    /// For a new synthesis from the same evidence; one with new evidence counts as a replan.
    Synthesis,
    /// For a new synthesis with new evidence.
    Evidence,
    /// For nothing.
    Done,
}

impl Phase {
    /// The word that interfaces use.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Judging => "judging",
            Phase::Synthesis => "synthesis",
            Phase::Evidence => "evidence",
            Phase::Done => "done",
        }
    }
}

/// Why a round is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RoundRefused {
    /// The round before is still being judged.
    #[error("the round before is still being judged; ask again when it has its decision")]
    Judging,
    /// The run has ended.
    #[error("the run has ended; open a new one")]
    Done,
    /// The decision was to replan, which takes new evidence.
    #[error("the decision was to replan: hand in the new evidence with the new synthesis")]
    NeedsEvidence,
    /// New evidence is a replan, and all are used up.
    #[error("all replans are used up: hand in a synthesis from the evidence that the run has")]
    NoReplanLeft,
}

/// One run of the loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// What was asked of the agent.
    pub query: Option<String>,
    /// The trace that the answer belongs to, if the agent said.
    pub trace_id: Option<TraceId>,
    /// The service that opened it, if it said.
    pub service: Option<String>,
    /// How long it goes on at most.
    pub limits: RunLimits,
    /// The judged rounds.
    pub rounds: Vec<Round>,
    /// What rounds cost that could not be judged.
    #[serde(default)]
    pub unjudged: Usage,
    /// Replans that were spent.
    pub replans: u32,
    /// The round that is being judged.
    pub pending: Option<(Turn, Entry)>,
    /// How it ended.
    pub ended: Option<Ended>,
    /// When it was opened.
    pub opened: Time,
    /// When it last changed.
    pub changed: Time,
}

impl Run {
    /// A run whose first round is to be judged. `first.evidence` must be there.
    pub fn open(id: String, limits: RunLimits, first: Entry, now: Time) -> Self {
        Self {
            id,
            query: None,
            trace_id: None,
            service: None,
            limits,
            rounds: Vec::new(),
            unjudged: Usage::default(),
            replans: 0,
            pending: Some((Turn::Opened, first)),
            ended: None,
            opened: now,
            changed: now,
        }
    }

    /// What it waits for.
    pub fn phase(&self) -> Phase {
        if self.ended.is_some() {
            return Phase::Done;
        }
        match (&self.pending, self.rounds.last().map(|round| round.decision)) {
            (Some(_), _) | (None, None) => Phase::Judging,
            (None, Some(Tier::Regenerate | Tier::Proceed)) => Phase::Synthesis,
            (None, Some(Tier::Replan | Tier::Abstain)) => Phase::Evidence,
        }
    }

    /// The number of the round that a client's word belongs to, judged or being judged.
    pub fn known(&self, key: &str) -> Option<u32> {
        let judged = self.rounds.iter().find(|round| round.key.as_deref() == Some(key));
        let pending = self.pending.as_ref().is_some_and(|(_, entry)| entry.key.as_deref() == Some(key));
        judged.map(|round| round.number).or_else(|| pending.then(|| self.next_number()))
    }

    /// Takes the agent's next try.
    pub fn enter(&mut self, entry: Entry, now: Time) -> Result<(), RoundRefused> {
        let turn = match self.phase() {
            Phase::Judging => return Err(RoundRefused::Judging),
            Phase::Done => return Err(RoundRefused::Done),
            Phase::Evidence if entry.evidence.is_none() => return Err(RoundRefused::NeedsEvidence),
            Phase::Synthesis if entry.evidence.is_none() => Turn::Regenerated,
            Phase::Synthesis | Phase::Evidence => Turn::Replanned,
        };
        if turn == Turn::Replanned {
            // A decision to replan that nothing is left for has ended the run already: this is one that the agent adds.
            if self.replans >= self.limits.max_replans {
                return Err(RoundRefused::NoReplanLeft);
            }
            self.replans += 1;
        }
        self.pending = Some((turn, entry));
        self.changed = now;
        Ok(())
    }

    /// The evidence that the pending round, or else the last one, rests on.
    pub fn evidence(&self) -> Option<&Json> {
        let pending = self.pending.as_ref().and_then(|(_, entry)| entry.evidence.as_ref());
        pending.or_else(|| self.rounds.iter().rev().find_map(|round| round.evidence.as_ref()))
    }

    /// Takes the verdict on the pending round. A verdict that is no judgement (the model failed) takes the round back: but for
    /// money nothing is spent, and the agent may hand it in again. `false` then, and if nothing was pending.
    pub fn judged(&mut self, verdict: Verdict, now: Time) -> bool {
        let Some((turn, entry)) = self.pending.take() else { return false };
        if verdict.outcome == Outcome::Failed {
            self.unjudged += verdict.usage;
            if self.has_spent() {
                self.end(Ended::BudgetSpent, now);
                return false;
            }
            if turn == Turn::Replanned {
                self.replans -= 1;
            }
            if turn == Turn::Opened {
                // The first round has no state to go back to: it stays to be judged.
                self.pending = Some((turn, entry));
            }
            return false;
        }
        self.changed = now;
        // Without claims the partition is empty: GSAR's S is 0.5 and the decision to abstain.
        let (score, decision) =
            verdict.grounding.as_ref().map_or((0.5, Tier::Abstain), |found| (found.score, found.tier));
        self.rounds.push(Round {
            number: self.next_number(),
            turn,
            synthesis: entry.synthesis,
            evidence: entry.evidence,
            key: entry.key,
            decision,
            score,
            explanation: explanation(&verdict),
            verdict,
            at: now,
        });
        self.ended = self.is_over(decision);
        true
    }

    /// Ends the run from outside, if it has not ended: `true` if this did it.
    pub fn end(&mut self, why: Ended, now: Time) -> bool {
        if self.ended.is_some() {
            return false;
        }
        self.ended = Some(why);
        self.pending = None;
        self.changed = now;
        true
    }

    /// Whether the answer goes out although it did not come to `proceed`.
    pub fn is_degraded(&self) -> bool {
        self.ended.is_some_and(|ended| ended != Ended::Proceeded)
    }

    /// Rounds that may still be judged.
    pub fn rounds_left(&self) -> u32 {
        let used = self.next_number() - 1 + u32::from(self.pending.is_some());
        self.limits.max_rounds.saturating_sub(used)
    }

    /// Replans that may still be made.
    pub fn replans_left(&self) -> u32 {
        self.limits.max_replans.saturating_sub(self.replans)
    }

    /// What the judge has cost so far, in US dollars.
    pub fn cost_usd(&self) -> f64 {
        self.usage().judge_cost_usd
    }

    /// What all rounds took so far, those that could not be judged included.
    pub fn usage(&self) -> Usage {
        let mut sum = self.unjudged;
        self.rounds.iter().for_each(|round| sum += round.verdict.usage);
        sum
    }

    /// The run in short, for the verdict that goes out; none before it has ended.
    pub fn trajectory(&self) -> Option<Trajectory> {
        let ended = self.ended?;
        let rounds = self.rounds.iter().map(|round| RoundSummary {
            number: round.number,
            turn: round.turn,
            decision: round.decision,
            score: round.score,
            counts: round.verdict.grounding.as_ref().map(|found| found.counts).unwrap_or_default(),
            synthesis: round.synthesis.clone(),
            explanation: round.explanation.clone(),
            verdict_id: round.verdict.verdict_id.clone(),
            at: round.at,
        });
        Some(Trajectory {
            run_id: self.id.clone(),
            ended,
            degraded: self.is_degraded(),
            replans: self.replans,
            rounds: rounds.collect(),
        })
    }

    fn is_over(&self, decision: Tier) -> Option<Ended> {
        let is_last = self.rounds.len() >= self.limits.max_rounds as usize;
        match decision {
            Tier::Proceed => Some(Ended::Proceeded),
            Tier::Replan | Tier::Abstain if self.replans_left() == 0 => Some(Ended::ReplansSpent),
            _ if is_last => Some(Ended::RoundsSpent),
            _ if self.has_spent() => Some(Ended::BudgetSpent),
            _ => None,
        }
    }

    fn has_spent(&self) -> bool {
        self.limits.max_cost_usd.is_some_and(|most| self.cost_usd() >= most)
    }

    fn next_number(&self) -> u32 {
        u32::try_from(self.rounds.len()).unwrap_or(u32::MAX - 1) + 1
    }
}

#[cfg(test)]
mod tests;
