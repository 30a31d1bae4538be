//! The agent called back: it writes its answer again, or plans again, and hands in what comes of it.

use std::time::Duration;

use reqwest::{Client, Url, redirect};
use serde::{Deserialize, Serialize};

use super::{CallbackError, CallbackSetupError, CallbackTarget, Config};
use crate::domain::Json;
use crate::net::AddressGuard;
use crate::score::{Phase, Run};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Ends the message of a refused address.
const ADVICE: &str = "list the address itself in gsar.callbacks if it is meant";

/// Where an agent is called back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Callbacks {
    /// Called to have the answer written again from the same evidence.
    pub regenerate: String,
    /// Called to have new evidence gathered and the answer written from it.
    pub replan: String,
}

/// What an agent answers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Reply {
    /// The new answer.
    pub synthesis: String,
    /// The new evidence; needed after a decision to replan.
    #[serde(default)]
    pub evidence: Option<Json>,
}

/// The client for callbacks. It follows no redirect and calls only what the configuration lists, so that nobody who may open a
/// run can make the daemon call another place.
#[derive(Debug, Clone)]
pub struct Agent {
    targets: Vec<Target>,
    max_bytes: usize,
}

/// A place that may be called, and the client for it: each may want another certificate.
#[derive(Debug, Clone)]
struct Target {
    place: CallbackTarget,
    client: Client,
}

impl Target {
    fn open(place: &CallbackTarget, config: &Config) -> Result<Self, CallbackSetupError> {
        let builder = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(config.callback_timeout.0)
            .redirect(redirect::Policy::none())
            // A proxy would resolve the name itself, past the guard.
            .no_proxy()
            .dns_resolver(AddressGuard::new(Vec::new(), ADVICE))
            .user_agent(concat!("assayd/", env!("CARGO_PKG_VERSION")));
        let tls = place.tls.clone().unwrap_or_default();
        let builder = tls
            .apply(builder)
            .map_err(|source| CallbackSetupError::Tls { url: place.url.clone(), source })?;
        Ok(Self { place: place.clone(), client: builder.build().map_err(CallbackSetupError::Client)? })
    }
}

impl Agent {
    /// The client that `config` allows.
    pub fn new(config: &Config) -> Result<Self, CallbackSetupError> {
        let targets: Result<Vec<Target>, _> =
            config.callbacks.iter().map(|place| Target::open(place, config)).collect();
        Ok(Self { targets: targets?, max_bytes: config.max_run_bytes.as_usize() })
    }

    /// Whether both places may be called.
    pub fn allows(&self, callbacks: &Callbacks) -> Result<(), CallbackError> {
        self.target(&callbacks.regenerate)?;
        self.target(&callbacks.replan).map(drop)
    }

    /// Asks the agent for the next round of `run`.
    pub async fn call(&self, callbacks: &Callbacks, run: &Run) -> Result<Reply, CallbackError> {
        let place = if run.phase() == Phase::Evidence { &callbacks.replan } else { &callbacks.regenerate };
        let (url, target) = self.target(place)?;
        let shown = shown(&url);
        let mut request = target.client.post(url).json(&question(run));
        if let Some(key) = &target.place.key {
            let key = key.reveal().map_err(|source| CallbackError::Key { url: shown.clone(), source })?;
            request = request.bearer_auth(key.expose());
        }
        let failed = |error: reqwest::Error| {
            let (url, refused) = (shown.clone(), AddressGuard::has_refused(&error));
            let reason = reason(error);
            if refused { CallbackError::Refused { url, reason } } else { CallbackError::Call { url, reason } }
        };
        let mut response = request.send().await.map_err(failed)?;
        if !response.status().is_success() {
            return Err(CallbackError::Status { url: shown, status: response.status().as_u16() });
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > self.max_bytes {
                let reason = format!("it is longer than {} bytes", self.max_bytes);
                return Err(CallbackError::Reply { url: shown, reason });
            }
            body.extend_from_slice(&chunk);
        }
        serde_json::from_slice(&body)
            .map_err(|error| CallbackError::Reply { url: shown, reason: error.to_string() })
    }

    fn target(&self, url: &str) -> Result<(Url, &Target), CallbackError> {
        let parsed = Url::parse(url)
            .ok()
            .filter(|url| url.has_host() && url.username().is_empty() && url.password().is_none());
        let parsed = parsed.ok_or_else(|| CallbackError::Url { url: url.to_owned() })?;
        let target = self.targets.iter().find(|target| is_below(&parsed, &target.place.url));
        target
            .map(|target| (parsed.clone(), target))
            .ok_or_else(|| CallbackError::NotAllowed { url: shown(&parsed) })
    }
}

/// Whether `url` is `target` or below it: a path of `/gsar` allows `/gsar` and `/gsar/x`, and not `/gsar-other`.
fn is_below(url: &Url, target: &str) -> bool {
    let Ok(target) = Url::parse(target) else { return false };
    let same_place = url.scheme() == target.scheme()
        && url.host() == target.host()
        && url.port_or_known_default() == target.port_or_known_default();
    let rest = url.path().strip_prefix(target.path());
    same_place
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || target.path().ends_with('/'))
}

/// A URL without what may be secret in it.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

/// Why a call failed, without the address: its query may hold a secret.
fn reason(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut told = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        told.push_str(": ");
        told.push_str(&inner.to_string());
        cause = inner.source();
    }
    told
}

/// What the agent is told: the decision, and what stands against its answer.
fn question(run: &Run) -> Json {
    let last = run.rounds.last();
    serde_json::json!({
        "run_id": run.id,
        "query": run.query,
        "round": last.map(|round| round.number),
        "decision": last.map(|round| round.decision),
        "score": last.map(|round| round.score),
        "explanation": last.map(|round| &round.explanation),
        "synthesis": last.map(|round| &round.synthesis),
        "evidence": run.evidence(),
        "claims": last.and_then(|round| round.verdict.grounding.as_ref()).map(|found| &found.claims),
        "awaiting": run.phase(),
        "rounds_left": run.rounds_left(),
        "replans_left": run.replans_left(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(targets: &[&str]) -> Agent {
        let callbacks = targets
            .iter()
            .map(|url| CallbackTarget { url: (*url).to_owned(), key: None, tls: None })
            .collect();
        Agent::new(&Config { callbacks, ..Config::default() }).unwrap()
    }

    fn to(url: &str) -> Callbacks {
        Callbacks { regenerate: url.to_owned(), replan: url.to_owned() }
    }

    #[test]
    fn only_places_below_a_listed_one_are_called() {
        let agent = agent(&["https://agents.internal/gsar", "http://127.0.0.1:9000/"]);
        for url in [
            "https://agents.internal/gsar",
            "https://agents.internal/gsar/a?x=1",
            "http://127.0.0.1:9000/any",
        ] {
            assert!(agent.allows(&to(url)).is_ok(), "{url}");
        }
        let refused = [
            "https://agents.internal/gsar-other",
            "https://agents.internal/",
            "https://agents.internal/gsar/../admin",
            "http://agents.internal/gsar",
            "https://agents.internal:8443/gsar",
            "https://agents.internal.evil.example/gsar",
            "https://agents.internal@evil.example/gsar",
            "https://:secret@agents.internal/gsar",
            "https://agents.internal/gsar/%2e%2e/admin",
            "https://agents.internal\\@evil.example/gsar",
            "http://169.254.169.254/latest/meta-data",
            "http://127.0.0.1:9001/",
            "file:///etc/passwd",
            "gsar",
        ];
        for url in refused {
            assert!(agent.allows(&to(url)).is_err(), "{url}");
        }
    }

    #[test]
    fn nothing_is_called_unless_something_is_listed() {
        let refused = agent(&[]).allows(&to("https://agents.internal/gsar?token=abc")).unwrap_err();
        assert_eq!(refused.to_string(), "https://agents.internal/gsar is not below one of gsar.callbacks");
    }
}
