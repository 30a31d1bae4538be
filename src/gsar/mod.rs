//! What GSAR's loop needs from outside: runs kept on disk, so that they survive a restart, and the agent's callbacks.
//! The loop itself is [`score::Run`](crate::score::Run).

mod callback;
mod config;
mod error;
mod store;

pub use callback::{Agent, Callbacks, Reply};
pub use config::{CallbackTarget, Config};
pub use error::{CallbackError, CallbackSetupError, StoreError};
pub use store::{Record, Store};
