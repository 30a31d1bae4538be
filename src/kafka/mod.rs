//! What all Kafka clients of the house have in common: brokers, encryption, login, and how they become librdkafka's properties.
//! Nothing connects here.

mod config;
mod connection;
mod producer;

pub use config::{Compression, Mechanism, SaslConfig, TlsConfig};
pub use connection::{Connection, check_topic};
pub use producer::Producer;
