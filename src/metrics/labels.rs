//! Label values that come from senders, kept few and short: a trace must not be able to fill the monitoring system.

use std::collections::HashSet;
use std::sync::{LazyLock, RwLock};

/// What stands for a value that is missing.
pub const UNKNOWN: &str = "unknown";
/// What stands for every value past the limit.
pub const OTHER: &str = "other";
/// Longest value, in characters.
pub const MAX_CHARS: usize = 64;
/// Most services that are told apart.
pub const MAX_SERVICES: usize = 200;
/// Most pairs of service and agent that are told apart.
pub const MAX_AGENTS: usize = 1_000;
/// Most values of all other open labels together that are told apart.
pub const MAX_WORDS: usize = 300;

/// The first so many distinct values; all later ones are one. A lock, since every room records metrics from its own thread;
/// it is only written while new names turn up.
struct Known {
    most: usize,
    values: RwLock<HashSet<String>>,
}

impl Known {
    fn new(most: usize) -> Self {
        Self { most, values: RwLock::new(HashSet::new()) }
    }

    /// Whether `value` is one of the first.
    fn admits(&self, value: &str) -> bool {
        let held = self.values.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        if held.contains(value) {
            return true;
        }
        if held.len() >= self.most {
            return false;
        }
        drop(held);
        let mut values = self.values.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        values.len() < self.most && values.insert(value.to_owned()) || values.contains(value)
    }
}

/// The names that are told apart.
struct Names {
    services: Known,
    agents: Known,
    words: Known,
}

impl Names {
    fn new() -> Self {
        Self {
            services: Known::new(MAX_SERVICES),
            agents: Known::new(MAX_AGENTS),
            words: Known::new(MAX_WORDS),
        }
    }

    fn service_and_agent(&self, service: Option<&str>, agent: Option<&str>) -> (String, String) {
        let service = limited(service, &self.services, "");
        if service == OTHER {
            return (service, OTHER.to_owned());
        }
        let agent = limited(agent, &self.agents, &service);
        (service, agent)
    }
}

static NAMES: LazyLock<Names> = LazyLock::new(Names::new);

/// A service's label.
pub(super) fn service(name: Option<&str>) -> String {
    limited(name, &NAMES.services, "")
}

/// The labels of a service and of an agent in it. An agent of a service that is not told apart is not told apart either.
pub(super) fn service_and_agent(service: Option<&str>, agent: Option<&str>) -> (String, String) {
    NAMES.service_and_agent(service, agent)
}

/// The value of an open label whose values come from configuration or code, `scope` being the label.
pub(super) fn word(scope: &str, value: &str) -> String {
    limited(Some(value), &NAMES.words, scope)
}

fn limited(value: Option<&str>, known: &Known, scope: &str) -> String {
    let trimmed = value.unwrap_or_default().trim();
    if trimmed.is_empty() {
        return UNKNOWN.to_owned();
    }
    let short: String =
        trimmed.chars().take(MAX_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let key = if scope.is_empty() { short.clone() } else { format!("{scope}\n{short}") };
    if known.admits(&key) { short } else { OTHER.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_past_the_limit_are_other_and_the_first_ones_stay() {
        let known = Known::new(3);
        let labels: Vec<String> =
            ["a", "b", "a", "c", "d", "a", "e"].iter().map(|name| limited(Some(name), &known, "")).collect();
        assert_eq!(labels, ["a", "b", "a", "c", OTHER, "a", OTHER]);
    }

    #[test]
    fn long_empty_and_odd_values_become_short_and_plain() {
        let known = Known::new(10);
        assert_eq!(limited(Some(&"é".repeat(5_000)), &known, "").chars().count(), MAX_CHARS);
        assert_eq!(limited(Some("  "), &known, ""), UNKNOWN);
        assert_eq!(limited(None, &known, ""), UNKNOWN);
        assert_eq!(limited(Some("a\nb"), &known, ""), "a b");
    }

    #[test]
    fn a_flood_of_services_and_agents_stays_within_the_limits() {
        let names = Names::new();
        let mut services = HashSet::new();
        let mut pairs = HashSet::new();
        for number in 0..3_000 {
            let name = format!("flood-{}", number % 1_500);
            let agent = format!("agent-{number}");
            let (service, agent) = names.service_and_agent(Some(&name), Some(&agent));
            services.insert(service.clone());
            pairs.insert((service, agent));
        }
        assert!(services.len() <= MAX_SERVICES + 1, "{}", services.len());
        assert!(pairs.len() <= MAX_AGENTS + MAX_SERVICES + 1, "{}", pairs.len());
    }
}
