//! Settings that every section with brokers in it shares.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::secret::Secret;

/// How Kafka batches are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Small and fast.
    Zstd,
    /// Fastest.
    Lz4,
    /// For old consumers.
    Snappy,
    /// For very old consumers.
    Gzip,
    /// Not at all.
    None,
}

impl Compression {
    /// librdkafka's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Compression::Zstd => "zstd",
            Compression::Lz4 => "lz4",
            Compression::Snappy => "snappy",
            Compression::Gzip => "gzip",
            Compression::None => "none",
        }
    }
}

/// Encryption between assayd and the brokers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// Certificates of the authorities to trust, as a PEM file. Not set means those of the system.
    pub ca: Option<PathBuf>,
    /// assayd's own certificate, as a PEM file, for brokers that ask for one.
    pub certificate: Option<PathBuf>,
    /// The key of that certificate, as a PEM file.
    pub key: Option<PathBuf>,
    /// The password of that key.
    pub key_password: Option<Secret>,
}

/// Login to the brokers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SaslConfig {
    /// `plain`, `scram-sha-256` or `scram-sha-512`.
    pub mechanism: Mechanism,
    /// The user.
    pub username: String,
    /// The password: `{ env: NAME }` or `{ file: PATH }`.
    pub password: Secret,
}

/// How to log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// Sends the password; use it with `tls` only.
    Plain,
    /// SCRAM with SHA-256.
    #[serde(rename = "scram-sha-256")]
    ScramSha256,
    /// SCRAM with SHA-512.
    #[serde(rename = "scram-sha-512")]
    ScramSha512,
}

impl Mechanism {
    /// Kafka's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
            Mechanism::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}
