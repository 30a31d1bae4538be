//! The spool: a local log of deliveries that were acknowledged and are not yet done. What is in it survives a kill.
//! `docs/spool.md` says why it is a log of our own and what it promises.

mod config;
mod disk;
mod error;
mod format;
mod keeper;
mod ledger;
mod log;
mod recover;
mod writer;

pub use config::Config;
pub use error::{DiskAction, SpoolError};
pub use log::{Entry, Replay, Spool, SpoolId};
pub use recover::Recovery;
