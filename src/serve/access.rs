//! Who may use the API: bearer tokens, several at a time, read again when their files change.

use std::time::Instant;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::Config;
use super::reply::Refusal;
use crate::net::{Acceptor, TlsError, Tokens};
use crate::secret::SecretError;

/// Lets requests in, or not. Cheap to clone; the default lets everybody in.
#[derive(Debug, Clone, Default)]
pub struct Access {
    tls: Option<Acceptor>,
    guard: Option<Guard>,
}

/// Why the admin listener cannot be guarded as configured.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// TLS cannot be spoken.
    #[error("serve.tls: {0}")]
    Tls(#[from] TlsError),
    /// A token cannot be read.
    #[error("serve.tokens: {0}")]
    Token(#[from] SecretError),
}

#[derive(Debug, Clone)]
struct Guard {
    tokens: Tokens,
    metrics: bool,
    probes: bool,
}

impl Access {
    /// Reads certificates and tokens; one that is not there is an error now, not a riddle later.
    pub fn open(config: &Config) -> Result<Self, AccessError> {
        let tls = config.tls.as_ref().map(|tls| Acceptor::open(tls, &["http/1.1"])).transpose()?;
        let (metrics, probes) = (config.protect_metrics, config.protect_probes);
        let guard = Tokens::open(&config.tokens)?.map(|tokens| Guard { tokens, metrics, probes });
        Ok(Self { tls, guard })
    }

    pub(super) fn tls(&self) -> Option<Acceptor> {
        self.tls.clone()
    }

    pub(super) fn admit(&self, path: &str, headers: &HeaderMap, now: Instant) -> Result<(), Unauthorized> {
        let Some(guard) = &self.guard else { return Ok(()) };
        if !guard.protects(path) {
            return Ok(());
        }
        let token = headers.get(header::AUTHORIZATION).and_then(|value| Tokens::bearer(value.as_bytes()));
        match token {
            None => Err(Unauthorized("this needs a token: send Authorization: Bearer TOKEN")),
            Some(token) if guard.tokens.knows(token, now) => Ok(()),
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
    use std::time::Duration;

    use super::*;
    use crate::secret::Secret;

    /// Older than what is known of a token's file.
    const LATER: Duration = Duration::from_secs(2);

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
        let later = start + LATER;
        assert!(admits("Bearer new", later) && !admits("Bearer old", later));
        let path = token.path().to_owned();
        drop(token);
        assert!(!path.exists());
        assert!(admits("Bearer new", later + LATER));
    }

    #[test]
    fn a_token_that_is_not_there_is_an_error_at_start() {
        let tokens = vec![Secret::Env("ASSAYD_NO_SUCH_TOKEN".into())];
        let error = Access::open(&Config { tokens, ..Config::default() }).unwrap_err();
        assert!(error.to_string().contains("ASSAYD_NO_SUCH_TOKEN"));
    }
}
