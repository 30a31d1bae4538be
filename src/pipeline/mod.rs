//! The flow, from span to verdict, and the daemon that runs it.
//! [`Assayer`] evaluates; [`App`] binds the listeners, feeds it, and stops in order.

mod admin;
mod allowance;
mod app;
mod asking;
mod assay;
mod assayer;
mod assembly;
mod cascade;
mod clock;
mod discreet;
mod gateway;
mod intake;
mod measures;
mod panic;
mod runs;
mod self_check;
mod sessions;
mod start;
mod status;
mod stored;
mod tally;

pub use allowance::Allowances;
pub use app::{Addresses, App, Ended};
pub use asking::Asking;
pub use assayer::Assayer;
pub use cascade::Cascade;
pub use clock::Clock;
pub use discreet::{discreet, discreet_desk};
pub use gateway::Gateway;
pub use start::StartError;
