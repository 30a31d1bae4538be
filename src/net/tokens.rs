//! Bearer tokens: several at a time, compared in constant time, read again when their files change.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::secret::{Secret, SecretError};

/// How old what is known of a token's file may be.
const FRESH: Duration = Duration::from_secs(1);

/// Tokens that open something. Cheap to clone.
#[derive(Clone)]
pub struct Tokens(Arc<Guard>);

struct Guard {
    secrets: Vec<Secret>,
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

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("tokens", &self.0.secrets.len()).finish_non_exhaustive()
    }
}

impl Tokens {
    /// Reads all tokens; one that is not there is an error now, not a riddle later. `None` if there are none to know.
    pub fn open(secrets: &[Secret]) -> Result<Option<Self>, SecretError> {
        if secrets.is_empty() {
            return Ok(None);
        }
        let digests = secrets.iter().map(digest).collect::<Result<_, _>>()?;
        let known = Known { digests, read: Instant::now(), told: false };
        Ok(Some(Self(Arc::new(Guard { secrets: secrets.to_vec(), known: Mutex::new(known) }))))
    }

    /// The token of an `Authorization: Bearer TOKEN` header's value, if it is one.
    pub fn bearer(value: &[u8]) -> Option<&[u8]> {
        let (scheme, token) = value.split_at_checked("Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii()).filter(|token| !token.is_empty())
    }

    /// Whether this is one of the tokens.
    pub fn knows(&self, token: &[u8], now: Instant) -> bool {
        let token = Sha256::digest(token);
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(known.read) >= FRESH {
            known.refresh(&self.0.secrets, now);
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
            tracing::warn!(%error, "a token cannot be read again; the one before it stays");
        }
        self.told = failure.is_some();
    }
}

fn digest(secret: &Secret) -> Result<[u8; 32], SecretError> {
    Ok(Sha256::digest(secret.reveal()?.expose().as_bytes()).into())
}
