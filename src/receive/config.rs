use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Kafka;
use crate::domain::{ByteSize, Period};
use crate::net::TlsServer;
use crate::secret::Secret;

/// Where spans come in, and how many at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// OTLP over gRPC; `null` turns it off.
    pub grpc: Option<Grpc>,
    /// OTLP over HTTP, protobuf and JSON; `null` turns it off.
    pub http: Option<Http>,
    /// Kafka topics. Not set means none.
    pub kafka: Option<Kafka>,
    /// When a sender is told that its spans are safe.
    pub acknowledge: Acknowledge,
    /// Memory for spans, from their arrival until their trace's verdict is written; beyond it senders are told to come back.
    pub max_bytes: ByteSize,
    /// The largest request, after decompression.
    pub max_message: ByteSize,
    /// How long a request may wait for memory before its sender is told to come back.
    pub wait: Period,
    /// When a sender that was refused for lack of memory should come back.
    pub retry_after: Period,
    /// How long a sender may take to send its request; an HTTP connection that is silent for so long is closed.
    pub request_timeout: Period,
    /// TLS on both OTLP listeners. Not set: in the clear.
    pub tls: Option<TlsServer>,
    /// Tokens of which senders must show one as `authorization: Bearer TOKEN`; a token's file is read again when it changes.
    /// None: no token is asked for.
    pub tokens: Vec<Secret>,
    /// Most connections at a time to each OTLP listener; further ones wait.
    pub max_connections: NonZeroUsize,
}

/// OTLP over gRPC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Grpc {
    /// Address and port; port 0 takes a free one.
    pub listen: SocketAddr,
}

/// OTLP over HTTP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// Address and port; port 0 takes a free one.
    pub listen: SocketAddr,
}

/// When a sender is told that its spans are safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Acknowledge {
    /// When they are in memory. Fast; a kill loses what has no verdict yet.
    Admitted,
    /// When they are on disk. A restart evaluates what has no verdict yet.
    Stored,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            grpc: Some(Grpc::default()),
            http: Some(Http::default()),
            kafka: None,
            acknowledge: Acknowledge::Stored,
            max_bytes: ByteSize::mib(256),
            max_message: ByteSize::mib(64),
            wait: Period::millis(250),
            retry_after: Period::seconds(1),
            request_timeout: Period::seconds(60),
            tls: None,
            tokens: Vec::new(),
            max_connections: NonZeroUsize::new(1024).expect("1024 is not zero"),
        }
    }
}

impl Default for Grpc {
    fn default() -> Self {
        Self { listen: (Ipv4Addr::LOCALHOST, 4317).into() }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self { listen: (Ipv4Addr::LOCALHOST, 4318).into() }
    }
}

impl Config {
    /// Adds what contradicts itself.
    pub fn check(&self, problems: &mut Vec<String>) {
        if self.max_message > self.max_bytes {
            problems.push(format!(
                "receive.max_message ({}) must not be larger than receive.max_bytes ({})",
                self.max_message, self.max_bytes
            ));
        }
        if let Some(kafka) = &self.kafka {
            kafka.check(problems);
        }
        // A gRPC frame's length has 32 bits.
        if self.max_message.0 > u64::from(u32::MAX) {
            problems.push(format!("receive.max_message ({}) must be below 4GiB", self.max_message));
        }
        if let (Some(grpc), Some(http)) = (&self.grpc, &self.http)
            && grpc.listen == http.listen
            && grpc.listen.port() != 0
        {
            problems.push(format!("receive.grpc and receive.http cannot both listen on {}", grpc.listen));
        }
    }
}
