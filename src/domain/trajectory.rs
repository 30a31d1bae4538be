//! How an answer came about in GSAR's loop: the rounds of a run, in short.

use serde::{Deserialize, Serialize};

use super::{Counts, Tier, Time};

/// How the agent came to a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Turn {
    /// The first answer.
    Opened,
    /// Written again from the same evidence.
    Regenerated,
    /// Written from new evidence.
    Replanned,
}

impl Turn {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Turn::Opened => "opened",
            Turn::Regenerated => "regenerated",
            Turn::Replanned => "replanned",
        }
    }
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The answer can go out.
    Proceeded,
    /// One more replan was needed than is granted.
    ReplansSpent,
    /// So many rounds were judged as are granted.
    RoundsSpent,
    /// The judge has cost so much as is granted.
    BudgetSpent,
    /// The agent did not come back in time.
    Expired,
    /// The agent gave it up.
    Cancelled,
    /// The agent could not be called back.
    CallbackFailed,
}

impl Ended {
    /// All of them.
    pub const ALL: [Ended; 7] = [
        Ended::Proceeded,
        Ended::ReplansSpent,
        Ended::RoundsSpent,
        Ended::BudgetSpent,
        Ended::Expired,
        Ended::Cancelled,
        Ended::CallbackFailed,
    ];

    /// The word that metrics use.
    pub fn as_str(self) -> &'static str {
        match self {
            Ended::Proceeded => "proceeded",
            Ended::ReplansSpent => "replans_spent",
            Ended::RoundsSpent => "rounds_spent",
            Ended::BudgetSpent => "budget_spent",
            Ended::Expired => "expired",
            Ended::Cancelled => "cancelled",
            Ended::CallbackFailed => "callback_failed",
        }
    }
}

/// A round in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundSummary {
    /// From 1.
    pub number: u32,
    /// How the agent came to it.
    pub turn: Turn,
    /// GSAR's decision.
    pub decision: Tier,
    /// GSAR's S.
    pub score: f64,
    /// How many claims stand where.
    pub counts: Counts,
    /// The answer that was judged.
    pub synthesis: String,
    /// What stands against it, in words.
    pub explanation: String,
    /// The round's own verdict.
    pub verdict_id: String,
    /// When it was judged.
    pub at: Time,
}

/// The rounds of a run of GSAR's loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trajectory {
    /// The run.
    pub run_id: String,
    /// Why it ended.
    pub ended: Ended,
    /// Whether the answer goes out although it did not come to `proceed`.
    pub degraded: bool,
    /// Replans that were spent.
    pub replans: u32,
    /// Its rounds.
    pub rounds: Vec<RoundSummary>,
}
