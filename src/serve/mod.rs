//! HTTP for people and machines that look at the daemon: probes, metrics, recent verdicts and their stories, feedback, checks
//! of a single answer, and the console at `/`.
//! [`serve`] answers on a listener of the caller's; nothing here waits for the data plane.

mod access;
#[cfg(test)]
mod catalogue;
mod check;
mod config;
mod connections;
mod console;
mod feedback;
mod gsar;
mod hold;
mod hosts;
mod models;
mod probes;
mod query;
mod rates;
mod reply;
mod server;
mod status;
mod stories;
mod systemone;
mod traces;
mod verdicts;
mod words;

pub use access::{Access, AccessError};
pub use check::{CheckError, CheckRequest, Checker};
pub use config::Config;
pub use gsar::{EnterRequest, OpenRequest, RunCommand, RunError, RunRequest, Runs};
pub use probes::Readiness;
pub use server::{State, serve};
pub use status::Status;
pub use systemone::read_inquiry;
pub use traces::Tracer;

#[cfg(test)]
mod tests;
