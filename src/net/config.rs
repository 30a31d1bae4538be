//! TLS settings of listeners and clients.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// TLS on a listener. The files are read again when they change, so that certificates can be rotated without a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsServer {
    /// The certificate with its chain, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// Clients must show a certificate that one of these authorities (PEM) signed (mTLS). Not set: clients need none.
    #[serde(default)]
    pub client_ca: Option<PathBuf>,
}

/// TLS towards a server, beyond the system's authorities.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TlsClient {
    /// Authorities to trust beside the system's, PEM.
    pub ca: Option<PathBuf>,
    /// The client's own certificate with its chain, PEM (mTLS).
    pub certificate: Option<PathBuf>,
    /// Its private key, PEM.
    pub key: Option<PathBuf>,
}

impl TlsClient {
    /// Adds what contradicts itself; `section` is where this stands in the configuration.
    pub fn check(&self, section: &str, problems: &mut Vec<String>) {
        if self.certificate.is_some() != self.key.is_some() {
            problems.push(format!("{section}: certificate and key belong together"));
        }
    }
}
