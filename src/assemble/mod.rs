//! Spans become traces: a pure state machine that says when a trace is complete.
//!
//! It keys on arrival, never on the times that spans carry, and has no clock: `now` is an argument and may jump backwards.
//! A trace closes when its root has arrived, no parent is missing and `root_grace` has passed; else when nothing came for
//! `idle`; at the latest after `max_age`; at once on the attribute [`END_MARKER`]; early when the store is full; and at
//! shutdown.
//!
//! A closed trace is kept for a while. A late span then reopens it: the *whole* trace is closed again, as `revision + 1`. If
//! its spans are no longer kept, the late ones make the next revision alone, and the trace says so in `truncated`. Spans that
//! are known already (a double export, a redelivery) change nothing: if the trace's outcome is recorded they are dropped,
//! otherwise the trace closes again with the *same* revision, so that a redelivery after a failure is evaluated.

mod assembler;
mod config;
mod live;
mod recent;
mod sessions;

pub use assembler::{Assembler, ClosedTrace, Pushed, Sight};
pub use config::{Config, Late, Patience};
pub use sessions::{SessionConfig, Sessions};

/// A span or log record with this attribute set to true closes its trace at once: the application says that it is complete.
pub const END_MARKER: &str = "assayd.trace.end";

#[cfg(test)]
mod tests;
