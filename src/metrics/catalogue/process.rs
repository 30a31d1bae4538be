//! The process itself.

use super::{gauge, open};
use crate::domain::Time;
use crate::metrics::metric::Metric;

pub(super) const METRICS: &[Metric] = &[BUILD, START, RESIDENT, READY];

/// The features that this build has beyond the default ones.
pub fn features() -> Vec<&'static str> {
    let known = [
        ("kafka-tls", cfg!(feature = "kafka-tls")),
        ("bedrock", cfg!(feature = "bedrock")),
        ("cuda", cfg!(feature = "cuda")),
        ("metal", cfg!(feature = "metal")),
    ];
    known.into_iter().filter(|(_, built)| *built).map(|(name, _)| name).collect()
}

const BUILD: Metric = gauge(
    "assayd_build_info",
    "info",
    &[open("version", "assayd's version"), open("features", "the features it was built with")],
    "Always 1; the labels say what runs.",
);

const START: Metric = gauge(
    "assayd_process_start_time_seconds",
    "seconds",
    &[],
    "When the process started, since the Unix epoch.",
);

/// What runs, and since when.
pub fn process_started(at: Time) {
    let features = features().join(",");
    BUILD.set(1.0, [env!("CARGO_PKG_VERSION").into(), features.into()]);
    START.set(at.0 as f64 / 1e9, []);
}

const RESIDENT: Metric =
    gauge("assayd_process_resident_bytes", "bytes", &[], "Memory of the process that is in RAM.");

/// Memory of this process in RAM.
pub fn process_resident(bytes: u64) {
    RESIDENT.set(bytes as f64, []);
}

const READY: Metric =
    gauge("assayd_process_ready", "state", &[], "1 while spans are admitted, 0 while starting or stopping.");

/// Whether spans are admitted.
pub fn process_ready(ready: bool) {
    READY.set(f64::from(u8::from(ready)), []);
}
