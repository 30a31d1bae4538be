//! Decision models behind HTTP: `/v1/systemone` servers and OpenAI's Decisions API.
//! One thread owns the client; callers hold a [`Desk`](super::Desk) like any other.

mod answer;
mod api;
mod client;
mod config;
mod decisions;
mod failure;
mod laws;
mod limits;
mod names;
mod probe;
mod start;
mod systemone;
#[cfg(test)]
mod tests;

pub use api::{Answers, Api};
pub use config::{RemoteConfig, RemoteKind};
#[doc(hidden)]
pub use laws::hold as hold_laws;
pub use start::start;
