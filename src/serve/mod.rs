//! HTTP for people and machines that look at the daemon: probes, metrics, recent verdicts, checks of a single answer.
//! [`serve`] answers on a listener of the caller's; nothing here waits for the data plane.

mod check;
mod config;
mod connections;
mod probes;
mod reply;
mod server;
mod verdicts;

pub use check::{CheckError, CheckRequest, Checker};
pub use config::Config;
pub use probes::Readiness;
pub use server::{State, serve};

#[cfg(test)]
mod tests;
