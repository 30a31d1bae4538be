//! The section `emit.otlp`.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// How records travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OtlpProtocol {
    /// OTLP over gRPC.
    Grpc,
    /// OTLP over HTTP, in protobuf.
    Http,
}

/// How requests are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OtlpCompression {
    /// Every receiver takes it.
    Gzip,
    /// Not at all.
    None,
}

impl OtlpConfig {
    pub(super) fn check(&self, problems: &mut Vec<String>) {
        check_url("emit.otlp.endpoint", &self.endpoint, problems);
        check_headers("emit.otlp.headers", &self.headers, problems);
        if self.timeout.0.is_zero() {
            problems.push("emit.otlp.timeout (0s) must be longer than nothing".to_owned());
        }
        if let Some(tls) = &self.tls {
            tls.check("emit.otlp.tls", problems);
            if self.endpoint.starts_with("http://") {
                problems.push("emit.otlp.tls is set, but emit.otlp.endpoint begins with http://".to_owned());
            }
        }
    }
}

pub(super) fn check_url(place: &str, url: &str, problems: &mut Vec<String>) {
    let parsed = reqwest::Url::parse(url).ok();
    let sound = parsed.as_ref().is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if !sound {
        problems.push(format!("{place} ({url:?}) is not an address that begins with http:// or https://"));
    }
    if parsed.is_some_and(|url| !url.username().is_empty() || url.password().is_some()) {
        problems.push(format!("{place} must not hold a password: secrets belong in headers"));
    }
}

pub(super) fn check_headers(place: &str, headers: &BTreeMap<String, Secret>, problems: &mut Vec<String>) {
    for name in headers.keys() {
        // HTTP/2, and so gRPC, has lower-case names only.
        let sound =
            reqwest::header::HeaderName::try_from(name.as_str()).is_ok() && *name == name.to_lowercase();
        if !sound {
            problems.push(format!("{place} ({name:?}) is not the name of a header in lower case"));
        }
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
