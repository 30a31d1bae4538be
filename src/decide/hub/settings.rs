//! The Hub's environment: `HF_HOME`, `HF_HUB_CACHE`, `HF_TOKEN`, `HF_TOKEN_PATH`, `HF_HUB_OFFLINE`, `HF_ENDPOINT`.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::secret::{Revealed, Secret};

/// A model on the Hub: `owner/name`, or `owner/name@revision`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubId {
    /// `owner/name`
    pub repository: String,
    /// Branch, tag or commit; none: the default branch.
    pub revision: Option<String>,
}

impl HubId {
    /// The id that a text is, if it is one. Nothing that could lead out of the cache's folder passes.
    pub fn parse(text: &str) -> Option<Self> {
        let (repository, revision) = match text.split_once('@') {
            Some((repository, revision)) => (repository, Some(revision)),
            None => (text, None),
        };
        let (owner, name) = repository.split_once('/')?;
        let is_word = |word: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !word.is_empty() && !word.starts_with('.') && word.chars().all(plain)
        };
        let good = is_word(owner)
            && is_word(name)
            && revision.is_none_or(|revision| revision.split('/').all(is_word));
        good.then(|| Self { repository: repository.to_owned(), revision: revision.map(str::to_owned) })
    }

    /// The revision to ask for.
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or("main")
    }
}

impl fmt::Display for HubId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.revision {
            Some(revision) => write!(f, "{}@{revision}", self.repository),
            None => f.write_str(&self.repository),
        }
    }
}

/// Where the Hub and its cache are.
#[derive(Debug, Clone)]
pub struct HubSettings {
    /// The Hub's address.
    pub endpoint: String,
    /// The cache's folder.
    pub cache: PathBuf,
    /// Whether the network must not be used.
    pub offline: bool,
    /// The user's token.
    pub token: Option<Revealed>,
    /// First pause before another try; it doubles each time.
    pub pause: Duration,
}

impl HubSettings {
    /// From the environment's variables.
    pub fn from_env() -> Self {
        Self::read(|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()))
    }

    /// From variables that `variable` looks up.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let path = |name: &str| variable(name).map(PathBuf::from);
        let home = path("HF_HOME")
            .or_else(|| path("XDG_CACHE_HOME").map(|cache| cache.join("huggingface")))
            .or_else(|| path("HOME").map(|home| home.join(".cache/huggingface")))
            .unwrap_or_else(|| PathBuf::from("huggingface"));
        let cache = path("HF_HUB_CACHE").unwrap_or_else(|| home.join("hub"));
        let offline = variable("HF_HUB_OFFLINE").is_some_and(|value| {
            matches!(value.trim().to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on")
        });
        let token_file = path("HF_TOKEN_PATH").unwrap_or_else(|| home.join("token"));
        let token = match variable("HF_TOKEN") {
            Some(_) => Secret::Env("HF_TOKEN".to_owned()).reveal().ok(),
            // Not having a token is the normal case.
            None => Secret::File(token_file).reveal().ok(),
        };
        let endpoint = variable("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_owned());
        Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            cache,
            offline,
            token,
            pause: Duration::from_secs(1),
        }
    }
}
