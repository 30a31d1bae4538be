//! Answers become a partition, a GSAR score and a verdict. Pure.

mod config;
mod explain;
mod gsar;
mod label;
mod plan;
mod run;
mod tasks;
mod verdict;

pub use config::{Config, LabelThresholds, Weights};
pub use explain::explanation;
pub use gsar::{partition, score, tier};
pub use label::{Stand, hallucination_probability, label};
pub use plan::Plan;
pub use run::{Entry, Phase, Round, RoundRefused, Run, RunLimits};
pub use verdict::{Origin, failed, of_run, skipped, verdict};
