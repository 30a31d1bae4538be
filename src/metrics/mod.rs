//! The names of all metrics, in one place: one typed function for each; [`ALL`] says what each one means.
//! [`install`] keeps them for this process; without it, recording costs next to nothing and is forgotten.

mod catalogue;
mod labels;
mod record;
mod recorder;

pub use catalogue::{ALL, Kind, Label as MetricLabel, Metric, Values, strays};
pub use labels::{MAX_AGENTS, MAX_SERVICES, MAX_WORDS, OTHER, UNKNOWN};
pub use record::*;
pub use recorder::{AlreadyInstalled, Handle, describe, install};
