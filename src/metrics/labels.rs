//! Label values that come from senders, kept few and short: a trace must not be able to fill the monitoring system.

use std::collections::{HashMap, HashSet};
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
/// Most variants (model, version of the service, version of the prompt) of one service that are told apart.
pub const MAX_VARIANTS_EACH: usize = 50;
/// Most variants of all services together that are told apart.
pub const MAX_VARIANTS: usize = 1_000;
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

/// What tells two releases of one agent apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Variant<'a> {
    /// The model that answered.
    pub model: Option<&'a str>,
    /// `service.version`.
    pub service_version: Option<&'a str>,
    /// The version of the prompt.
    pub prompt_version: Option<&'a str>,
}

/// The first variants of each service, within a limit for all together: a sender that writes a new version into every trace
/// takes no other service's room.
struct Variants {
    each: usize,
    all: Known,
    of_service: RwLock<HashMap<String, HashSet<[String; 3]>>>,
}

impl Variants {
    fn new(each: usize, most: usize) -> Self {
        Self { each, all: Known::new(most), of_service: RwLock::new(HashMap::new()) }
    }

    /// Whether `variant` is one of the first. `service` is a label already, so that there are few.
    fn admits(&self, service: &str, variant: &[String; 3]) -> bool {
        let held = self.of_service.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let known = held.get(service);
        if known.is_some_and(|variants| variants.contains(variant)) {
            return true;
        }
        if known.is_some_and(|variants| variants.len() >= self.each) {
            return false;
        }
        drop(held);
        let mut held = self.of_service.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let variants = held.entry(service.to_owned()).or_default();
        if variants.contains(variant) {
            return true;
        }
        let is_admitted =
            variants.len() < self.each && self.all.admits(&format!("{service}\n{}", variant.join("\n")));
        is_admitted && variants.insert(variant.clone())
    }
}

/// The names that are told apart.
struct Names {
    services: Known,
    variants: Variants,
    agents: Known,
    words: Known,
}

impl Names {
    fn new() -> Self {
        Self {
            services: Known::new(MAX_SERVICES),
            variants: Variants::new(MAX_VARIANTS_EACH, MAX_VARIANTS),
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

    fn service_and_variant(&self, service: Option<&str>, variant: Variant<'_>) -> (String, [String; 3]) {
        let service = limited(service, &self.services, "");
        let values = [variant.model, variant.service_version, variant.prompt_version].map(short);
        let is_told_apart = service != OTHER && self.variants.admits(&service, &values);
        (service, if is_told_apart { values } else { [OTHER; 3].map(str::to_owned) })
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

/// The labels of a service and of a variant of it: model, version of the service, version of the prompt.
pub(super) fn service_and_variant(service: Option<&str>, variant: Variant<'_>) -> (String, [String; 3]) {
    NAMES.service_and_variant(service, variant)
}

/// The value of an open label whose values come from configuration or code, `scope` being the label.
pub(super) fn word(scope: &str, value: &str) -> String {
    limited(Some(value), &NAMES.words, scope)
}

/// A value as it may stand in a label.
fn short(value: Option<&str>) -> String {
    let trimmed = value.unwrap_or_default().trim();
    if trimmed.is_empty() {
        return UNKNOWN.to_owned();
    }
    trimmed.chars().take(MAX_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn limited(value: Option<&str>, known: &Known, scope: &str) -> String {
    let short = short(value);
    if short == UNKNOWN {
        return short;
    }
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
    fn a_version_in_every_trace_takes_no_other_services_room() {
        let names = Names::new();
        let of = |service: &str, version: String| {
            let variant = Variant { model: Some("m"), service_version: Some(&version), prompt_version: None };
            names.service_and_variant(Some(service), variant).1
        };
        for number in 0..2 * MAX_VARIANTS {
            of("noisy", format!("build-{number}"));
        }
        assert_eq!(of("noisy", "build-new".into()), [OTHER; 3]);
        assert_eq!(of("noisy", "build-0".into()), ["m", "build-0", UNKNOWN]);
        assert_eq!(of("quiet", "1.0".into()), ["m", "1.0", UNKNOWN]);
        let mut told_apart = HashSet::new();
        for number in 0..2 * MAX_VARIANTS {
            let variant = of(&format!("service-{}", number % 100), format!("build-{number}"));
            told_apart.insert(variant);
        }
        assert!(told_apart.len() <= MAX_VARIANTS + 1, "{}", told_apart.len());
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
