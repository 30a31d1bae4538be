//! Which names this listener answers to. A page of another site can lead its visitor's browser here under a name of its own
//! (DNS rebinding) and would then read the answers as if they were its own; an address or a name of ours it cannot take.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode, header};

use super::Config;
use super::reply::Refusal;

/// The names. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Hosts {
    names: Arc<[String]>,
    /// Whether other names are refused.
    is_strict: bool,
}

impl Hosts {
    /// Strict on a loopback address, where nobody else's name belongs, and wherever names are listed.
    pub(super) fn of(config: &Config) -> Self {
        let names = config.hosts.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { names, is_strict: config.listen.ip().is_loopback() || !config.hosts.is_empty() }
    }

    pub(super) fn admit(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(host) = headers.get(header::HOST) else { return Ok(()) };
        let name = name_of(host.to_str().unwrap_or("?")).to_ascii_lowercase();
        if !self.is_strict || is_everybodys(&name) || self.names.contains(&name) {
            return Ok(());
        }
        let short: String = name.chars().take(100).collect();
        Err(Refusal::new(
            StatusCode::MISDIRECTED_REQUEST,
            "misdirected_request",
            format!(
                "this assayd does not answer to the name {short:?}; names that it should answer to belong in serve.hosts"
            ),
        ))
    }
}

/// The name without the port.
fn name_of(host: &str) -> &str {
    let end = match host.strip_prefix('[') {
        Some(rest) => rest.find(']').map(|at| at + 2),
        None => host.find(':'),
    };
    host.get(..end.unwrap_or(host.len())).unwrap_or(host)
}

/// An address, or what always means the own machine.
fn is_everybodys(name: &str) -> bool {
    let address = name.trim_start_matches('[').trim_end_matches(']');
    address.parse::<IpAddr>().is_ok() || name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(config: &Config, host: &str) -> bool {
        let headers = HeaderMap::from_iter([(header::HOST, host.parse().unwrap())]);
        Hosts::of(config).admit(&headers).is_ok()
    }

    #[test]
    fn on_loopback_other_names_are_refused_unless_they_are_listed() {
        let config = Config::default();
        for host in
            ["127.0.0.1:8321", "localhost", "LOCALHOST:8321", "[::1]:8321", "10.1.2.3", "a.localhost:1"]
        {
            assert!(admits(&config, host), "{host}");
        }
        for host in ["evil.example:8321", "localhost.evil.example", "127.0.0.1.evil.example", ""] {
            assert!(!admits(&config, host), "{host}");
        }
        let listed = Config { hosts: vec!["Assayd.internal".into()], ..Config::default() };
        assert!(admits(&listed, "assayd.INTERNAL:443") && !admits(&listed, "evil.example"));
        assert!(Hosts::of(&config).admit(&HeaderMap::new()).is_ok());
    }

    #[test]
    fn elsewhere_every_name_is_answered_to_unless_some_are_listed() {
        let open = Config { listen: "0.0.0.0:8321".parse().unwrap(), ..Config::default() };
        assert!(admits(&open, "assayd.monitoring.svc:8321"));
        let listed = Config { hosts: vec!["assayd.internal".into()], ..open };
        assert!(admits(&listed, "assayd.internal") && !admits(&listed, "evil.example"));
    }
}
