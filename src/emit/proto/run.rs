//! The rounds of GSAR's loop, there and back.

use super::inward::{tier, unknown};
use super::{Counts, ProtoError, Round, Tier, Trajectory};
use crate::domain;
use crate::domain::{Ended, Time, Turn};

const TURNS: [Turn; 3] = [Turn::Opened, Turn::Regenerated, Turn::Replanned];

impl From<&domain::Trajectory> for Trajectory {
    fn from(run: &domain::Trajectory) -> Self {
        Self {
            run_id: run.run_id.clone(),
            ended: run.ended.as_str().to_owned(),
            degraded: run.degraded,
            replans: run.replans,
            rounds: run.rounds.iter().map(Round::from).collect(),
        }
    }
}

impl From<&domain::RoundSummary> for Round {
    fn from(round: &domain::RoundSummary) -> Self {
        Self {
            number: round.number,
            turn: round.turn.as_str().to_owned(),
            decision: Tier::from(round.decision).into(),
            score: round.score,
            counts: Some(Counts {
                grounded: round.counts.grounded,
                ungrounded: round.counts.ungrounded,
                contradicted: round.counts.contradicted,
                complementary: round.counts.complementary,
            }),
            synthesis: round.synthesis.clone(),
            explanation: round.explanation.clone(),
            verdict_id: round.verdict_id.clone(),
            at: round.at.0,
        }
    }
}

impl TryFrom<Trajectory> for domain::Trajectory {
    type Error = ProtoError;

    fn try_from(run: Trajectory) -> Result<Self, ProtoError> {
        let ended = Ended::ALL.into_iter().find(|ended| ended.as_str() == run.ended);
        Ok(Self {
            run_id: run.run_id,
            ended: ended.ok_or(ProtoError::Value { field: "run.ended", found: run.ended })?,
            degraded: run.degraded,
            replans: run.replans,
            rounds: run.rounds.into_iter().map(domain::RoundSummary::try_from).collect::<Result<_, _>>()?,
        })
    }
}

impl TryFrom<Round> for domain::RoundSummary {
    type Error = ProtoError;

    fn try_from(round: Round) -> Result<Self, ProtoError> {
        let decision =
            tier(round.decision()).ok_or_else(|| unknown("run.rounds.decision", round.decision))?;
        let turn = TURNS.into_iter().find(|turn| turn.as_str() == round.turn);
        let counts = round.counts.unwrap_or_default();
        Ok(Self {
            number: round.number,
            turn: turn.ok_or(ProtoError::Value { field: "run.rounds.turn", found: round.turn })?,
            decision,
            score: round.score,
            counts: domain::Counts {
                grounded: counts.grounded,
                ungrounded: counts.ungrounded,
                contradicted: counts.contradicted,
                complementary: counts.complementary,
            },
            synthesis: round.synthesis,
            explanation: round.explanation,
            verdict_id: round.verdict_id,
            at: Time(round.at),
        })
    }
}
