//! The section `emit.traces`.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::receiver::{OtlpCompression, OtlpProtocol, Receiver};
use crate::domain::Period;
use crate::net::TlsClient;
use crate::secret::Secret;

/// Spans of assayd's own work, for an OTLP receiver: where the time of an evaluation went, stage by stage. They hold names, times
/// and numbers, and nothing of what agents said. They are marked as assayd's own, and no assayd evaluates them, also when a
/// collector brings them back. They are never waited for: what the receiver does not take in time is dropped and counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TracesConfig {
    /// The receiver's base address: `http://…` or, encrypted, `https://…`. For `http`, `/v1/traces` is added unless it is there.
    pub endpoint: String,
    /// `grpc`, or `http` (protobuf).
    pub protocol: OtlpProtocol,
    /// Headers of every request, such as `authorization`; read again for each request, so that files can be rotated.
    pub headers: BTreeMap<String, Secret>,
    /// `gzip` or `none`.
    pub compression: OtlpCompression,
    /// How long one request may take.
    pub timeout: Period,
    /// The share of evaluations, and of deliveries taken in, that is traced: 0 to 1.
    pub sample: f64,
    /// Most spans in one request.
    pub batch: NonZeroUsize,
    /// How long a span may wait for company before it is sent.
    pub linger: Period,
    /// Spans that may wait; further ones are dropped and counted.
    pub queue: NonZeroUsize,
    /// Authorities and a certificate of assayd's own for `https`, beyond the system's authorities.
    pub tls: Option<TlsClient>,
}

impl Default for TracesConfig {
    fn default() -> Self {
        Self {
            endpoint: "http://localhost:4317".to_owned(),
            protocol: OtlpProtocol::Grpc,
            headers: BTreeMap::new(),
            compression: OtlpCompression::Gzip,
            timeout: Period::seconds(10),
            sample: 0.1,
            batch: NonZeroUsize::new(512).expect("512 is not zero"),
            linger: Period::seconds(1),
            queue: NonZeroUsize::new(4096).expect("4096 is not zero"),
            tls: None,
        }
    }
}

impl TracesConfig {
    /// Where the receiver is, and how it is spoken to.
    pub(in crate::emit) fn receiver(&self) -> Receiver<'_> {
        Receiver {
            section: "emit.traces",
            endpoint: &self.endpoint,
            protocol: self.protocol,
            headers: &self.headers,
            compression: self.compression,
            timeout: self.timeout.0,
            tls: self.tls.as_ref(),
        }
    }

    pub(super) fn check(&self, problems: &mut Vec<String>) {
        self.receiver().check(problems);
        if !(0.0..=1.0).contains(&self.sample) {
            problems.push(format!("emit.traces.sample ({}) must be from 0 to 1", self.sample));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_told() {
        let problems = |yaml: &str| {
            let config: TracesConfig = serde_saphyr::from_str(yaml).unwrap();
            let mut problems = Vec::new();
            config.check(&mut problems);
            problems
        };
        assert_eq!(problems("{}"), Vec::<String>::new());
        assert_eq!(problems("{ sample: 1.5, timeout: 0s }").len(), 2);
        assert_eq!(problems("{ sample: .nan, endpoint: 'collector:4317' }").len(), 2);
        assert_eq!(problems("tls: { key: k.pem }").len(), 2);
    }
}
