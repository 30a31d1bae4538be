//! Who may use the API: bearer tokens, several at a time, read again when their files change.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use super::Config;
use super::reply::Refusal;
use crate::secret::{Secret, SecretError};

/// How old what is known of a token's file may be.
const FRESH: Duration = Duration::from_secs(1);

/// Lets requests in, or not. Cheap to clone; the default lets everybody in.
#[derive(Clone, Default)]
pub struct Access(Option<Arc<Guard>>);

struct Guard {
    secrets: Vec<Secret>,
    metrics: bool,
    probes: bool,
    /// Written once a second at most, by whoever comes first.
    known: Mutex<Known>,
}

/// Tokens are held as digests: equally long whatever the tokens are, so that comparing tells nothing of their length.
struct Known {
    digests: Vec<[u8; 32]>,
    read: Instant,
    /// Whether the log has said that a file cannot be read.
    told: bool,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("guarded", &self.0.is_some()).finish_non_exhaustive()
    }
}

impl Access {
    /// Reads all tokens; one that is not there is an error now, not a riddle later.
    pub fn open(config: &Config) -> Result<Self, SecretError> {
        if config.tokens.is_empty() {
            return Ok(Self::default());
        }
        let digests = config.tokens.iter().map(digest).collect::<Result<_, _>>()?;
        let known = Known { digests, read: Instant::now(), told: false };
        Ok(Self(Some(Arc::new(Guard {
            secrets: config.tokens.clone(),
            metrics: config.protect_metrics,
            probes: config.protect_probes,
            known: Mutex::new(known),
        }))))
    }

    /// Whether requests need a token.
    pub fn is_guarded(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn admit(&self, path: &str, headers: &HeaderMap, now: Instant) -> Result<(), Unauthorized> {
        let Some(guard) = &self.0 else { return Ok(()) };
        if !guard.protects(path) {
            return Ok(());
        }
        match bearer(headers) {
            None => Err(Unauthorized("this needs a token: send Authorization: Bearer TOKEN")),
            Some(token) if guard.knows(token, now) => Ok(()),
            Some(_) => Err(Unauthorized("the token is not known here")),
        }
    }
}

impl Guard {
    fn protects(&self, path: &str) -> bool {
        match path {
            "/metrics" => self.metrics,
            "/healthz" | "/readyz" | "/health" | "/version" => self.probes,
            _ => path == "/v1" || path.starts_with("/v1/"),
        }
    }

    fn knows(&self, token: &[u8], now: Instant) -> bool {
        let token = Sha256::digest(token);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(known.read) >= FRESH {
            known.refresh(&self.secrets, now);
        }
        // All of them, whichever it is: the time must not tell which one was near.
        let found = known
            .digests
            .iter()
            .fold(Choice::from(0), |found, digest| found | digest.as_slice().ct_eq(token.as_slice()));
        found.into()
    }
}

impl Known {
    /// Reads files again. What cannot be read now stays as it was: a file is away for a moment while it is replaced.
    fn refresh(&mut self, secrets: &[Secret], now: Instant) {
        self.read = now;
        let mut failure = None;
        for (known, secret) in self.digests.iter_mut().zip(secrets) {
            if !matches!(secret, Secret::File(_)) {
                continue;
            }
            match digest(secret) {
                Ok(digest) => *known = digest,
                Err(error) => failure = Some(error),
            }
        }
        if let Some(error) = &failure
            && !self.told
        {
            tracing::warn!(%error, "a token of serve.tokens cannot be read again; the one before it stays");
        }
        self.told = failure.is_some();
    }
}

fn digest(secret: &Secret) -> Result<[u8; 32], SecretError> {
    Ok(Sha256::digest(secret.reveal()?.expose().as_bytes()).into())
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii()).filter(|token| !token.is_empty())
}

/// A 401.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unauthorized(&'static str);

impl IntoResponse for Unauthorized {
    fn into_response(self) -> Response {
        let refusal = Refusal::new(StatusCode::UNAUTHORIZED, "authentication_error", self.0);
        let mut response = refusal.into_response();
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap())])
    }

    fn access(files: &[&tempfile::NamedTempFile], protect: bool) -> Access {
        let tokens = files.iter().map(|file| Secret::File(file.path().to_owned())).collect();
        Access::open(&Config {
            tokens,
            protect_metrics: protect,
            protect_probes: protect,
            ..Config::default()
        })
        .unwrap()
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn without_tokens_everybody_may_and_any_token_is_ignored() {
        let access = Access::open(&Config::default()).unwrap();
        assert!(!access.is_guarded());
        for headers in [HeaderMap::new(), headers("Bearer whatever"), headers("Basic x")] {
            assert_eq!(access.admit("/v1/systemone", &headers, Instant::now()), Ok(()));
        }
    }

    #[test]
    fn each_of_several_tokens_opens_the_api_and_no_other_does() {
        let (first, second) = (file("one\n"), file("two"));
        let access = access(&[&first, &second], false);
        let admits = |path: &str, value: &str| access.admit(path, &headers(value), Instant::now()).is_ok();
        assert!(admits("/v1/systemone", "Bearer one") && admits("/v1/models", "bearer two"));
        for value in ["Bearer on", "Bearer onee", "Bearer ", "Bearer", "one", "Basic one", "Bearer one two"] {
            assert!(!admits("/v1/systemone", value), "{value}");
        }
        let none = HeaderMap::new();
        assert!(access.admit("/v1/check", &none, Instant::now()).is_err());
        for open in ["/metrics", "/healthz", "/readyz", "/health", "/version", "/", "/console/app.js"] {
            assert_eq!(access.admit(open, &none, Instant::now()), Ok(()), "{open}");
        }
    }

    #[test]
    fn probes_and_metrics_can_be_protected_too() {
        let token = file("one");
        let access = access(&[&token], true);
        for path in ["/metrics", "/healthz", "/readyz", "/health", "/version"] {
            assert!(access.admit(path, &HeaderMap::new(), Instant::now()).is_err(), "{path}");
            assert_eq!(access.admit(path, &headers("Bearer one"), Instant::now()), Ok(()), "{path}");
        }
    }

    #[test]
    fn a_token_file_that_changes_is_read_again_and_one_that_is_gone_keeps_its_token() {
        let token = file("old");
        let access = access(&[&token], false);
        let start = Instant::now();
        let admits = |value: &str, at: Instant| access.admit("/v1/systemone", &headers(value), at).is_ok();
        assert!(admits("Bearer old", start));
        std::fs::write(token.path(), "new").unwrap();
        let later = start + FRESH * 2;
        assert!(admits("Bearer new", later) && !admits("Bearer old", later));
        let path = token.path().to_owned();
        drop(token);
        assert!(!path.exists());
        assert!(admits("Bearer new", later + FRESH * 2));
    }

    #[test]
    fn a_token_that_is_not_there_is_an_error_at_start() {
        let tokens = vec![Secret::Env("ASSAYD_NO_SUCH_TOKEN".into())];
        let error = Access::open(&Config { tokens, ..Config::default() }).unwrap_err();
        assert!(error.to_string().contains("ASSAYD_NO_SUCH_TOKEN"));
    }
}
