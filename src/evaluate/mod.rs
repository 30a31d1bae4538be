//! Evaluation for those who call it: one backend's name for every model, on the command line and in a program.

mod backend;
mod open;

pub use backend::{Backend, BackendError, Endpoint};
pub use open::{OpenError, configure, open};
