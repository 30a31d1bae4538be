//! What `emit.otlp` and `emit.traces` have in common: an OTLP receiver.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::HeaderName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::net::TlsClient;
use crate::secret::Secret;

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

/// Where an OTLP receiver is, and how it is spoken to.
#[derive(Debug, Clone, Copy)]
pub(in crate::emit) struct Receiver<'a> {
    /// Where this stands in the configuration.
    pub section: &'static str,
    pub endpoint: &'a str,
    pub protocol: OtlpProtocol,
    pub headers: &'a BTreeMap<String, Secret>,
    pub compression: OtlpCompression,
    pub timeout: Duration,
    pub tls: Option<&'a TlsClient>,
}

impl Receiver<'_> {
    pub(super) fn check(&self, problems: &mut Vec<String>) {
        let section = self.section;
        check_url(&format!("{section}.endpoint"), self.endpoint, problems);
        check_headers(&format!("{section}.headers"), self.headers, problems);
        if self.timeout.is_zero() {
            problems.push(format!("{section}.timeout (0s) must be longer than nothing"));
        }
        if let Some(tls) = self.tls {
            tls.check(&format!("{section}.tls"), problems);
            if self.endpoint.starts_with("http://") {
                problems.push(format!("{section}.tls is set, but {section}.endpoint begins with http://"));
            }
        }
    }
}

pub(super) fn check_url(place: &str, url: &str, problems: &mut Vec<String>) {
    let parsed = Url::parse(url).ok();
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
        let sound = HeaderName::try_from(name.as_str()).is_ok() && *name == name.to_lowercase();
        if !sound {
            problems.push(format!("{place} ({name:?}) is not the name of a header in lower case"));
        }
    }
}
