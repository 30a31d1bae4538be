//! The names of all metrics, in one place: one typed function for each; [`all`] says what each one means.
//! [`install`] keeps them for this process; without it, recording costs next to nothing and is forgotten.

mod catalogue;
mod labels;
mod metric;
mod recorder;
mod reference;
mod strays;

pub use catalogue::*;
pub use labels::{
    MAX_AGENTS, MAX_SERVICES, MAX_VARIANTS, MAX_VARIANTS_EACH, MAX_WORDS, OTHER, UNKNOWN, Variant,
};
pub use metric::{Kind, Label as MetricLabel, Metric, Values};
pub use recorder::{AlreadyInstalled, Handle, describe, install};
pub use reference::reference;
pub use strays::strays;
