//! TLS on a listener, with files that may be rotated; and on a client.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::{TlsClient, TlsServer};

/// How often it is looked whether the files have changed.
const FRESH: Duration = Duration::from_secs(5);

/// Why TLS cannot be spoken.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file holds no PEM of the kind.
    #[error("{path} holds no {wanted} in PEM form: {reason}")]
    Pem {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        wanted: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// Certificate, key and authorities do not go together.
    #[error("{path} cannot be used: {reason}")]
    Unusable {
        /// The certificate or the authorities.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// Shakes hands as a server. Cheap to clone.
#[derive(Clone)]
pub struct Acceptor(Arc<Shared>);

struct Shared {
    files: TlsServer,
    protocols: Vec<Vec<u8>>,
    /// Written every few seconds at most, by the connection that comes first.
    current: Mutex<Current>,
}

struct Current {
    config: Arc<ServerConfig>,
    changed: Vec<Option<SystemTime>>,
    looked: Instant,
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acceptor").field("files", &self.0.files).finish_non_exhaustive()
    }
}

impl Acceptor {
    /// Reads the files. `protocols` are offered by ALPN, such as `h2`.
    pub fn open(files: &TlsServer, protocols: &[&str]) -> Result<Self, TlsError> {
        let protocols: Vec<Vec<u8>> = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let current = Current {
            changed: files.changed(),
            config: Arc::new(server(files, &protocols)?),
            looked: Instant::now(),
        };
        let shared = Shared { files: files.clone(), protocols, current: Mutex::new(current) };
        Ok(Self(Arc::new(shared)))
    }

    /// Shakes hands on a connection.
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        TlsAcceptor::from(self.current(Instant::now())).accept(stream).await
    }

    fn current(&self, now: Instant) -> Arc<ServerConfig> {
        let shared = &self.0;
        let mut current = shared.current.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(current.looked) >= FRESH {
            current.looked = now;
            let changed = shared.files.changed();
            if changed != current.changed {
                match server(&shared.files, &shared.protocols) {
                    Ok(config) => {
                        tracing::info!(certificate = %shared.files.certificate.display(), "a certificate was read again");
                        current.config = Arc::new(config);
                        current.changed = changed;
                    }
                    // Half of a rotation may be written: the one before goes on, and it is looked again.
                    Err(error) => {
                        tracing::warn!(%error, "a changed certificate cannot be used; the one before it stays")
                    }
                }
            }
        }
        Arc::clone(&current.config)
    }
}

impl TlsServer {
    fn changed(&self) -> Vec<Option<SystemTime>> {
        let files = [Some(&self.certificate), Some(&self.key), self.client_ca.as_ref()];
        let changed = |path: &PathBuf| std::fs::metadata(path).and_then(|found| found.modified()).ok();
        files.into_iter().flatten().map(changed).collect()
    }
}

impl TlsClient {
    /// Gives an HTTP client these authorities and this identity.
    pub fn apply(&self, mut builder: reqwest::ClientBuilder) -> Result<reqwest::ClientBuilder, TlsError> {
        if let Some(path) = &self.ca {
            let found = reqwest::Certificate::from_pem_bundle(&read(path)?);
            let found = found.map_err(|error| pem(path, "certificate", error))?;
            builder = builder.tls_certs_merge(found);
        }
        if let (Some(certificate), Some(key)) = (&self.certificate, &self.key) {
            let mut both = read(key)?;
            both.push(b'\n');
            both.extend(read(certificate)?);
            let identity = reqwest::Identity::from_pem(&both)
                .map_err(|error| pem(certificate, "certificate and key", error))?;
            builder = builder.identity(identity);
        }
        Ok(builder)
    }
}

fn server(files: &TlsServer, protocols: &[Vec<u8>]) -> Result<ServerConfig, TlsError> {
    let provider = provider();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&files.certificate, error))?;
    let builder = match &files.client_ca {
        Some(path) => {
            let mut authorities = RootCertStore::empty();
            for certificate in certificates(path)? {
                authorities.add(certificate).map_err(|error| unusable(path, error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider)
                .build()
                .map_err(|error| unusable(path, error))?;
            builder.with_client_cert_verifier(verifier)
        }
        None => builder.with_no_client_auth(),
    };
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?)
        .map_err(|error| pem(&files.key, "private key", error))?;
    let mut config = builder
        .with_single_cert(certificates(&files.certificate)?, key)
        .map_err(|error| unusable(&files.certificate, error))?;
    config.alpn_protocols = protocols.to_vec();
    Ok(config)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| pem(path, "certificate", error))?;
    if found.is_empty() {
        return Err(pem(path, "certificate", "there is none in it"));
    }
    Ok(found)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::File { path: path.to_owned(), source })
}

fn pem(path: &Path, wanted: &'static str, reason: impl std::fmt::Display) -> TlsError {
    TlsError::Pem { path: path.to_owned(), wanted, reason: reason.to_string() }
}

fn unusable(path: &Path, reason: impl std::fmt::Display) -> TlsError {
    TlsError::Unusable { path: path.to_owned(), reason: reason.to_string() }
}
