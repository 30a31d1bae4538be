//! Answers become a partition, a GSAR score and a verdict. Pure.

mod config;
mod explain;
mod gsar;
mod known;
mod label;
mod placement;
mod plan;
mod run;
mod services;
mod session;
mod tasks;
mod verdict;
mod views;

pub use config::{Config, LabelThresholds, Weights};
pub use explain::explanation;
pub use gsar::{partition, score, tier};
pub use label::{Stand, hallucination_probability, label};
pub use placement::{Listed, place};
pub use plan::Plan;
pub use run::{Entry, Phase, Round, RoundRefused, Run, RunLimits};
pub use services::ServiceConfig;
pub use session::of_session;
pub use verdict::{Origin, failed, of_run, skipped, verdict};
