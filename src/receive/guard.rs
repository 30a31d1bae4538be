//! Who may send: TLS and tokens of the OTLP listeners.

use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};

use super::Config;
use super::intake::Refused;
use crate::net::{Acceptor, Limits, TlsError, Tokens};
use crate::secret::SecretError;

/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Why the OTLP listeners cannot be guarded as configured.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// TLS cannot be spoken.
    #[error("receive.tls: {0}")]
    Tls(#[from] TlsError),
    /// A token cannot be read.
    #[error("receive.tokens: {0}")]
    Token(#[from] SecretError),
}

/// Lets connections and requests in, or not. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Guard {
    pub(super) tls: Option<Acceptor>,
    pub(super) limits: Limits,
    tokens: Option<Tokens>,
}

impl Guard {
    /// Reads certificates and tokens. `protocols` are offered by ALPN.
    pub fn open(config: &Config, protocols: &[&str]) -> Result<Self, GuardError> {
        let tls = config.tls.as_ref().map(|tls| Acceptor::open(tls, protocols)).transpose()?;
        let limits = Limits { connections: config.max_connections.get(), handshake: HANDSHAKE };
        Ok(Self { tls, limits, tokens: Tokens::open(&config.tokens)? })
    }

    /// Whether a request with these headers is let in.
    pub(super) fn admit(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let Some(tokens) = &self.tokens else { return Ok(()) };
        let token = headers.get(header::AUTHORIZATION).and_then(|value| Tokens::bearer(value.as_bytes()));
        if token.is_some_and(|token| tokens.knows(token, Instant::now())) {
            return Ok(());
        }
        Err(Refused::Unauthenticated)
    }
}
