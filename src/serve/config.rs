//! The section `serve`.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::{ByteSize, Period};
use crate::net::TlsServer;
use crate::secret::Secret;

/// The HTTP listener for probes, metrics, verdicts, checks and the decision model. Without `tokens` it has no login: keep it
/// then on an address that only its users reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Address and port. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Names, beside addresses and `localhost`, that clients may call this listener by (the header `Host`), such as that of a
    /// proxy before it. With none, a listener on loopback answers to no other name, so that a page of another site cannot lead
    /// a browser here, and a listener elsewhere to every name.
    pub hosts: Vec<String>,
    /// Largest body of a request.
    pub max_body_bytes: ByteSize,
    /// Memory for the bodies of all requests together, with what they become when they are read, until they are answered.
    /// Beyond it, requests get 503 with `Retry-After`; one that could never fit gets 413.
    pub max_held_bytes: ByteSize,
    /// How long a request's body may take to arrive, and then its answer to be made. Headers have 10 seconds, and an answer
    /// that its client does not read has 30.
    pub timeout: Period,
    /// TLS on this listener. Not set: in the clear.
    pub tls: Option<TlsServer>,
    /// Most connections at a time; further ones wait.
    pub max_connections: NonZeroUsize,
    /// Most readers of the live feed at a time; further ones are asked to come back.
    pub max_feed_readers: NonZeroUsize,
    /// The page at `/` that shows verdicts, their stories and evidence. `false` also means that no stories are held in memory.
    pub console: bool,
    /// Most requests to `/v1/systemone` that are answered at a time, always fewer than `max_connections`; further ones get 429
    /// with `Retry-After`.
    pub max_decisions: NonZeroUsize,
    /// Whether a request to `/v1/systemone` may name any model and is answered by the one that there is. If not, names other than
    /// that model's and `jev-latest` get 404.
    pub any_model: bool,
    /// Who may use the API (all below `/v1/`): requests carry one of these as `Authorization: Bearer TOKEN`. Several let tokens
    /// be changed without a break; a file that changes is read again. With none, everybody may, and whatever token is sent is
    /// ignored.
    pub tokens: Vec<Secret>,
    /// Whether `/metrics` needs a token too.
    pub protect_metrics: bool,
    /// Whether `/healthz`, `/readyz`, `/health` and `/version` need a token too.
    pub protect_probes: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8321)),
            hosts: Vec::new(),
            max_body_bytes: ByteSize::mib(16),
            max_held_bytes: ByteSize::mib(128),
            timeout: Period::seconds(60),
            tls: None,
            max_connections: NonZeroUsize::new(256).expect("256 is not zero"),
            max_feed_readers: NonZeroUsize::new(32).expect("32 is not zero"),
            console: true,
            max_decisions: NonZeroUsize::new(200).expect("200 is not zero"),
            any_model: true,
            tokens: Vec::new(),
            protect_metrics: false,
            protect_probes: false,
        }
    }
}

impl Config {
    /// Adds what is wrong with this section.
    pub fn check(&self, problems: &mut Vec<String>) {
        if self.max_body_bytes == ByteSize(0) {
            problems.push("serve.max_body_bytes (0B) must be above 0".to_owned());
        }
        // A text takes its length twice: as it came, and as it is read.
        if self.max_held_bytes.0 < self.max_body_bytes.0.saturating_mul(2) {
            problems.push(format!(
                "serve.max_held_bytes ({}) must be at least twice serve.max_body_bytes ({})",
                self.max_held_bytes, self.max_body_bytes
            ));
        }
        if self.timeout.0.is_zero() {
            problems.push("serve.timeout (0s) must be above 0".to_owned());
        }
        if self.max_feed_readers >= self.max_connections {
            problems.push(format!(
                "serve.max_feed_readers ({}) must be below serve.max_connections ({}), or readers of the feed shut out probes",
                self.max_feed_readers, self.max_connections
            ));
        }
        let protected = [("protect_metrics", self.protect_metrics), ("protect_probes", self.protect_probes)];
        for (name, _) in protected.iter().filter(|(_, on)| *on && self.tokens.is_empty()) {
            problems.push(format!("serve.{name} needs a token in serve.tokens"));
        }
    }

    /// Requests that the decision model answers at a time. One connection stays free for probes.
    pub(super) fn decision_places(&self) -> usize {
        self.max_decisions.get().min(self.max_connections.get().saturating_sub(1)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feed_readers_must_leave_room_for_probes() {
        let mut problems = Vec::new();
        Config::default().check(&mut problems);
        assert_eq!(problems, Vec::<String>::new());
        let config: Config = serde_saphyr::from_str("{ max_connections: 8, max_feed_readers: 8 }").unwrap();
        config.check(&mut problems);
        assert!(problems[0].starts_with("serve.max_feed_readers (8) must be below"), "{problems:?}");
    }

    #[test]
    fn what_is_to_be_protected_needs_a_token() {
        let mut problems = Vec::new();
        let config: Config = serde_saphyr::from_str("{ protect_metrics: true }").unwrap();
        config.check(&mut problems);
        assert_eq!(problems, ["serve.protect_metrics needs a token in serve.tokens"]);
        let text = "{ protect_probes: true, tokens: [{ env: A }, { file: /run/token }] }";
        problems.clear();
        serde_saphyr::from_str::<Config>(text).unwrap().check(&mut problems);
        assert_eq!(problems, Vec::<String>::new());
    }
}
