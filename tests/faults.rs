//! What was acknowledged gets its verdict, whatever happens to the daemon and to what it depends on. Real processes, real
//! signals, real sockets; `docs/guarantees.md` says which promise each of them holds to account.
//!
//! The long runs: `cargo test --release --test faults -- --ignored --nocapture` (fifty kills and freezes, minutes of flood).

#![expect(clippy::print_stdout, reason = "the long runs show how far they are, and skipped tests say so")]

#[path = "faults/budget.rs"]
mod budget;
#[path = "faults/clock.rs"]
mod clock;
#[path = "faults/daemon.rs"]
mod daemon;
#[path = "faults/decider.rs"]
mod decider;
#[path = "faults/disk.rs"]
mod disk;
#[path = "faults/flood.rs"]
mod flood;
#[path = "faults/judge.rs"]
mod judge;
#[path = "faults/kafka.rs"]
mod kafka;
#[path = "faults/kills.rs"]
mod kills;
#[path = "faults/memory.rs"]
mod memory;
#[path = "common/running.rs"]
mod running;
#[path = "faults/sinks.rs"]
mod sinks;
#[path = "faults/traffic.rs"]
mod traffic;
