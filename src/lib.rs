//! assayd assays agent traces: OpenTelemetry spans stream in, and for every agent answer a verdict streams out that says
//! which of its claims the evidence supports.
//!
//! The rooms, top floor first; a room imports only from floors below it (held by `tests/floors.rs`):
//!
//! - 7 [`cli`]: arguments and exit codes
//! - 6 [`evaluate`]: evaluation for programs that call it, by the name of any backend
//! - 5 [`pipeline`], 4 [`config`], 3 [`serve`]: what the daemon is made of
//! - 2 [`net`], [`receive`], [`spool`], [`decide`], [`judge`], [`emit`], [`feedback`], [`gsar`], [`relay`]: sockets, files, models
//! - 1 [`otlp`], [`assemble`], [`convert`], [`ask`], [`score`], [`redact`], [`transcript`], [`measure`], [`kafka`], [`metrics`], [`logging`]: pure
//! - 0 [`domain`], [`ticket`], [`error`], [`find`], [`secret`]: words, and what can be seen in a text without any of them

#![warn(missing_docs)]

pub mod ask;
pub mod assemble;
pub mod cli;
pub mod config;
pub mod convert;
pub mod decide;
mod disk;
pub mod domain;
pub mod emit;
pub mod error;
pub mod evaluate;
pub mod feedback;
pub mod find;
#[doc(hidden)]
pub mod fuzzing;
pub mod gsar;
pub mod judge;
pub mod kafka;
pub mod logging;
pub mod measure;
pub mod metrics;
pub mod net;
pub mod otlp;
pub mod pipeline;
pub mod receive;
pub mod redact;
pub mod relay;
pub mod score;
pub mod secret;
pub mod serve;
pub mod spool;
pub mod ticket;
pub mod transcript;
