//! Answers become a partition, a GSAR score and a verdict. Pure.

mod config;
mod gsar;
mod label;
mod plan;
mod verdict;

pub use config::{Config, LabelThresholds, Weights};
pub use gsar::{partition, score, tier};
pub use label::{Stand, hallucination_probability, label};
pub use plan::Plan;
pub use verdict::{Origin, failed, skipped, verdict};
