//! What a request shows to be let in: nothing, a key in a header, or an AWS signature.

use std::sync::{Mutex, PoisonError};

use reqwest::Request;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};

use super::BuildError;
use super::attempt::Failure;
use super::aws::Signer;
use crate::secret::{Revealed, Secret};

/// How requests are let in.
pub(super) enum Auth {
    /// They are let in as they are.
    Open,
    /// By a key.
    Key(Key),
    /// By a signature.
    Aws(Signer),
}

/// What a request was let in by, or not.
#[derive(Clone)]
pub(super) enum Shown {
    /// Nothing.
    Nothing,
    /// This key.
    Key(Revealed),
    /// The credentials with this id.
    Aws(String),
}

impl Auth {
    /// A key, or nothing if there is none. `header` is the header that carries the bare key; absent: `authorization: Bearer KEY`.
    pub fn key(
        provider: &'static str,
        secret: Option<&Secret>,
        header: Option<&str>,
    ) -> Result<Self, BuildError> {
        let unfit = |setting| BuildError::Header { provider, setting };
        let header = match header {
            Some(name) => {
                let name =
                    HeaderName::try_from(name.to_ascii_lowercase()).map_err(|_| unfit("key_header"))?;
                Some(name).filter(|name| *name != AUTHORIZATION)
            }
            None => None,
        };
        let Some(secret) = secret else { return Ok(Self::Open) };
        let text = secret.reveal().map_err(|source| BuildError::Key { provider, source })?;
        let first = Value::of(text, header.is_none()).ok_or_else(|| unfit("key"))?;
        Ok(Self::Key(Key { secret: secret.clone(), header, known: Mutex::new(first) }))
    }

    /// Adds what the request needs, and says what that was.
    pub async fn admit(&self, request: &mut Request) -> Result<Shown, Failure> {
        match self {
            Self::Open => Ok(Shown::Nothing),
            Self::Key(key) => {
                let value = key.known();
                let name = key.header.clone().unwrap_or(AUTHORIZATION);
                request.headers_mut().insert(name, value.header);
                Ok(Shown::Key(value.text))
            }
            Self::Aws(signer) => signer.sign(request).await.map(Shown::Aws),
        }
    }

    /// After a refusal of what was `shown`: whether there is something else to show. A key's file may have been rotated,
    /// temporary credentials may have expired.
    pub fn has_another(&self, shown: &Shown) -> bool {
        match (self, shown) {
            (Self::Key(key), Shown::Key(refused)) => key.has_another(refused),
            (Self::Aws(signer), Shown::Aws(refused)) => signer.has_another(refused),
            _ => false,
        }
    }
}

impl Shown {
    /// A text of the endpoint without the key: some send it back.
    pub fn hide(&self, text: &str) -> String {
        match self {
            Self::Key(key) => text.replace(key.expose(), "[secret]"),
            Self::Nothing | Self::Aws(_) => text.to_owned(),
        }
    }
}

/// A key that is read again when it is refused.
pub(super) struct Key {
    secret: Secret,
    header: Option<HeaderName>,
    known: Mutex<Value>,
}

#[derive(Clone)]
struct Value {
    text: Revealed,
    header: HeaderValue,
}

impl Value {
    fn of(text: Revealed, bearer: bool) -> Option<Self> {
        let value = if bearer { format!("Bearer {}", text.expose()) } else { text.expose().to_owned() };
        let mut header = HeaderValue::try_from(value).ok()?;
        header.set_sensitive(true);
        Some(Self { text, header })
    }
}

impl Key {
    fn known(&self) -> Value {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn has_another(&self, refused: &Revealed) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.text != *refused {
            return true;
        }
        let fresh = match self.secret.reveal() {
            Ok(text) => Value::of(text, self.header.is_none()).filter(|fresh| fresh.text != *refused),
            Err(error) => {
                tracing::warn!(%error, "the judge refuses its key, and the key cannot be read again");
                None
            }
        };
        let Some(fresh) = fresh else { return false };
        *known = fresh;
        true
    }
}
