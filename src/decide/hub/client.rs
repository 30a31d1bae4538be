//! The few calls of the Hub's HTTP interface that a download needs.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, ETAG, HeaderMap, LOCATION, RANGE};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response, StatusCode};
use serde::Deserialize;

use super::error::HubError;
use super::{HubId, HubSettings};

/// How often a call is tried.
const TRIES: u32 = 5;

/// How often the Hub may point elsewhere within itself (renamed models).
const HOPS: usize = 5;

/// A connection to the Hub.
pub struct HubClient {
    settings: HubSettings,
    /// Follows redirects to where large files are.
    following: Client,
    /// Shows redirects: their headers tell a file's size and hash.
    staying: Client,
}

/// A revision of a model.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Revision {
    /// The commit.
    pub sha: String,
    /// Its files.
    pub siblings: Vec<Sibling>,
}

/// A file of a revision.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Sibling {
    /// Path within the model.
    pub rfilename: String,
}

/// What the Hub says of a file before it is downloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFacts {
    /// Identifies the content; the SHA-256 of large files.
    pub tag: String,
    /// In bytes, if it is told.
    pub size: Option<u64>,
}

impl FileFacts {
    /// The content's SHA-256, if the tag is one.
    pub fn sha256(&self) -> Option<&str> {
        (self.tag.len() == 64).then_some(self.tag.as_str())
    }
}

impl HubClient {
    /// A client for these settings.
    pub fn new(settings: &HubSettings) -> Result<Self, HubError> {
        let build = |policy| {
            Client::builder()
                .redirect(policy)
                .connect_timeout(Duration::from_secs(20))
                .read_timeout(Duration::from_secs(60))
                .user_agent(concat!("assayd/", env!("CARGO_PKG_VERSION")))
                .build()
                .map_err(|source| HubError::Transport { what: "its client".to_owned(), source })
        };
        Ok(Self {
            settings: settings.clone(),
            following: build(Policy::limited(10))?,
            staying: build(Policy::none())?,
        })
    }

    /// What a revision holds.
    pub async fn revision(&self, id: &HubId) -> Result<Revision, HubError> {
        let revision = id.revision().replace('/', "%2F");
        let url = format!("{}/api/models/{}/revision/{revision}", self.settings.endpoint, id.repository);
        let what = id.to_string();
        let mut pause = self.settings.pause;
        for last in (0..TRIES).map(|attempt| attempt + 1 == TRIES) {
            let result = async {
                let response = self.send(&self.following, Method::GET, &url, None, &what).await?;
                response.bytes().await.map_err(|source| HubError::Transport { what: what.clone(), source })
            };
            match result.await {
                Ok(body) => {
                    return serde_json::from_slice(&body)
                        .map_err(|error| HubError::Answer { what, why: error.to_string() });
                }
                Err(error) => self.wait_or_fail(error, last, &mut pause).await?,
            }
        }
        Err(HubError::Status { what, status: 0 })
    }

    /// Size and tag of a file.
    pub async fn facts(&self, repository: &str, commit: &str, file: &str) -> Result<FileFacts, HubError> {
        let mut url = self.file_url(repository, commit, file);
        let what = format!("{repository}/{file}");
        let mut pause = self.settings.pause;
        let mut hops = 0;
        let mut tries = 0;
        loop {
            tries += 1;
            match self.send(&self.staying, Method::HEAD, &url, None, &what).await {
                Ok(response) => {
                    let headers = response.headers();
                    // A relative place is the Hub's own: a renamed model. Elsewhere are only the bytes.
                    let inner = text(headers, LOCATION.as_str()).filter(|place| place.starts_with('/'));
                    if let Some(place) = inner.filter(|_| response.status().is_redirection() && hops < HOPS) {
                        url = format!("{}{place}", self.settings.endpoint);
                        hops += 1;
                        continue;
                    }
                    return facts(headers)
                        .ok_or_else(|| HubError::Answer { what, why: "it has no ETag".to_owned() });
                }
                Err(error) => self.wait_or_fail(error, tries >= TRIES, &mut pause).await?,
            }
        }
    }

    /// The bytes of a file from `from` on. The answer's status says whether the server heeded that.
    pub async fn bytes(
        &self,
        repository: &str,
        commit: &str,
        file: &str,
        from: u64,
    ) -> Result<Response, HubError> {
        let url = self.file_url(repository, commit, file);
        let what = format!("{repository}/{file}");
        self.send(&self.following, Method::GET, &url, (from > 0).then_some(from), &what).await
    }

    /// Waits before another try, or gives the error if there is none.
    pub async fn wait_or_fail(
        &self,
        error: HubError,
        last: bool,
        pause: &mut Duration,
    ) -> Result<(), HubError> {
        if last || error.fault() != crate::error::Fault::Transient {
            return Err(error);
        }
        tracing::warn!(%error, "trying again");
        tokio::time::sleep(*pause).await;
        *pause *= 2;
        Ok(())
    }

    /// How long to wait before the first new try.
    pub fn first_pause(&self) -> Duration {
        self.settings.pause
    }

    fn file_url(&self, repository: &str, commit: &str, file: &str) -> String {
        format!("{}/{repository}/resolve/{commit}/{file}", self.settings.endpoint)
    }

    async fn send(
        &self,
        client: &Client,
        method: Method,
        url: &str,
        from: Option<u64>,
        what: &str,
    ) -> Result<Response, HubError> {
        let mut request = client.request(method, url);
        if let Some(token) = &self.settings.token {
            // reqwest drops this header when it follows a redirect to another host.
            request = request.header(AUTHORIZATION, format!("Bearer {}", token.expose()));
        }
        if let Some(from) = from {
            request = request.header(RANGE, format!("bytes={from}-"));
        }
        let sent = request.send().await;
        let response = sent
            .map_err(|source| HubError::Transport { what: what.to_owned(), source: source.without_url() })?;
        let status = response.status();
        match status {
            _ if status.is_success() || status.is_redirection() => Ok(response),
            // Asked for bytes beyond the end: the caller has them all.
            StatusCode::RANGE_NOT_SATISFIABLE => Ok(response),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => {
                Err(HubError::NotFound { what: what.to_owned(), status: status.as_u16() })
            }
            _ => Err(HubError::Status { what: what.to_owned(), status: status.as_u16() }),
        }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn facts(headers: &HeaderMap) -> Option<FileFacts> {
    let tag = text(headers, "x-linked-etag").or_else(|| text(headers, ETAG.as_str()))?;
    let tag = tag.trim_start_matches("W/").trim_matches('"');
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let good = !tag.is_empty() && !tag.starts_with('.') && tag.chars().all(plain);
    let size = text(headers, "x-linked-size").or_else(|| text(headers, CONTENT_LENGTH.as_str()));
    good.then(|| FileFacts { tag: tag.to_owned(), size: size.and_then(|size| size.parse().ok()) })
}
