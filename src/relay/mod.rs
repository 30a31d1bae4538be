//! The gateway's way out: spans and log records to a Kafka topic, one record per trace and request, keyed by trace id.
//! [`Relay::forward`] returns when the brokers have them all.

mod config;
mod context;
mod pieces;
mod producer;

pub use config::Config;
pub use producer::{Forwarded, Relay, RelayError};
