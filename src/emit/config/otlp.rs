//! The section `emit.otlp`.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::receiver::{OtlpCompression, OtlpProtocol, Receiver};
use crate::domain::Period;
use crate::net::TlsClient;
use crate::secret::Secret;

/// An OTLP receiver, such as the OpenTelemetry Collector before the tracing backend. Each verdict becomes log records
/// `gen_ai.evaluation.result` that carry the ids of the trace and of the evaluated span: one for grounding, and one for each
/// other question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OtlpConfig {
    /// The receiver's base address: `http://…` or, encrypted, `https://…`. For `http`, `/v1/logs` is added unless it is there.
    pub endpoint: String,
    /// `grpc`, or `http` (protobuf).
    pub protocol: OtlpProtocol,
    /// Headers of every request, such as `authorization`; read again for each request, so that files can be rotated.
    pub headers: BTreeMap<String, Secret>,
    /// `gzip` or `none`.
    pub compression: OtlpCompression,
    /// How long one request may take.
    pub timeout: Period,
    /// Most verdicts in one request.
    pub batch: NonZeroUsize,
    /// How long a verdict may wait for company before it is sent.
    pub linger: Period,
    /// Whether skipped traces get a record too. Every trace without an answer is one.
    pub skipped: bool,
    /// Whether the texts of claims, explanations and reasoning are sent.
    pub texts: bool,
    /// Authorities and a certificate of assayd's own for `https`, beyond the system's authorities.
    pub tls: Option<TlsClient>,
}

impl Default for OtlpConfig {
    fn default() -> Self {
        Self {
            endpoint: "http://localhost:4317".to_owned(),
            protocol: OtlpProtocol::Grpc,
            headers: BTreeMap::new(),
            compression: OtlpCompression::Gzip,
            timeout: Period::seconds(10),
            batch: NonZeroUsize::new(256).expect("256 is not zero"),
            linger: Period::millis(50),
            skipped: false,
            texts: true,
            tls: None,
        }
    }
}

impl OtlpConfig {
    /// Where the receiver is, and how it is spoken to.
    pub(in crate::emit) fn receiver(&self) -> Receiver<'_> {
        Receiver {
            section: "emit.otlp",
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_told() {
        let problems = |yaml: &str| {
            let config: OtlpConfig = serde_saphyr::from_str(yaml).unwrap();
            let mut problems = Vec::new();
            config.check(&mut problems);
            problems
        };
        assert_eq!(problems("{}"), Vec::<String>::new());
        assert_eq!(
            problems("{ endpoint: 'https://c:4317', headers: { authorization: { env: T } }, tls: {} }").len(),
            0
        );
        assert_eq!(problems("endpoint: collector:4317").len(), 1);
        assert_eq!(problems("endpoint: http://me:secret@c:4317").len(), 1);
        assert_eq!(problems("{ headers: { Authorization: { env: T } }, timeout: 0s }").len(), 2);
        assert_eq!(problems("tls: { key: k.pem }").len(), 2);
    }
}
