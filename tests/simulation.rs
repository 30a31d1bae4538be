//! Deterministic simulation: the real assembler, tickets and Kafka ledger under simulated clocks, disks, brokers and crashes. Every
//! history follows from its seed, so that one that fails can be played again.
//!
//! - `cargo test --test simulation`: the seeds that once failed, and some more.
//! - `ASSAYD_SEEDS=100000 cargo test --release --test simulation`: a sweep over so many.
//! - `ASSAYD_SEED=42 cargo test --test simulation stored -- --nocapture`: one history.
//!
//! What it does not prove: that files, sockets and librdkafka do what is simulated here. `tests/faults.rs` and `tests/kafka.rs` run
//! the real ones.

#![expect(clippy::print_stdout, reason = "a failing seed has to be known")]

#[path = "simulation/cast.rs"]
mod cast;
#[path = "simulation/dice.rs"]
mod dice;
#[path = "simulation/kafka.rs"]
mod kafka;
#[path = "simulation/stored.rs"]
mod stored;
