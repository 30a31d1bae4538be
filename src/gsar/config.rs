//! The section `gsar`.

use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::{ByteSize, Period};
use crate::net::TlsClient;
use crate::score::RunLimits;
use crate::secret::Secret;

/// GSAR's loop as a service: an agent's answer is judged, regenerated and replanned until it can go out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// How long a run goes on at most; a request may ask for less.
    pub limits: RunLimits,
    /// Runs that may be open at a time; further ones are asked to come back.
    pub max_runs: NonZeroUsize,
    /// Bytes of answers and evidence that one run may hold.
    pub max_run_bytes: ByteSize,
    /// An open run that its agent leaves alone for so long ends as expired.
    pub idle: Period,
    /// How long a finished run can be read.
    pub keep: Period,
    /// Where the daemon may call an agent back. Only URLs below one of these are called; none are if the list is empty. Redirects
    /// are not followed, no proxy is used, and a name that leads to a link-local or metadata address is not called.
    pub callbacks: Vec<CallbackTarget>,
    /// How long an agent may take to answer a callback.
    pub callback_timeout: Period,
}

/// A place that may be called back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallbackTarget {
    /// Scheme, host, port and the beginning of the path, such as `https://agents.internal/gsar/`.
    pub url: String,
    /// Sent as a bearer token with every call below this URL.
    #[serde(default)]
    pub key: Option<Secret>,
    /// Authorities and a certificate of assayd's own for `https`, beyond the system's authorities.
    #[serde(default)]
    pub tls: Option<TlsClient>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limits: RunLimits::default(),
            max_runs: NonZeroUsize::new(1000).expect("1000 is not zero"),
            max_run_bytes: ByteSize::mib(16),
            idle: Period::seconds(3600),
            keep: Period::seconds(24 * 3600),
            callbacks: Vec::new(),
            callback_timeout: Period::seconds(120),
        }
    }
}

impl Config {
    /// Adds what is wrong with this section.
    pub fn check(&self, problems: &mut Vec<String>) {
        if self.limits.max_rounds == 0 {
            problems.push("gsar.limits.max_rounds (0) must be above 0".to_owned());
        }
        if self.limits.max_cost_usd.is_some_and(|most| !most.is_finite() || most < 0.0) {
            problems.push("gsar.limits.max_cost_usd must be a number from 0".to_owned());
        }
        for (position, target) in self.callbacks.iter().enumerate() {
            if let Some(tls) = &target.tls {
                tls.check(&format!("gsar.callbacks[{position}].tls"), problems);
            }
            let is_http = reqwest::Url::parse(&target.url)
                .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
            if !is_http {
                problems.push(format!("gsar.callbacks: {} is not an http or https URL", target.url));
            }
        }
    }
}
