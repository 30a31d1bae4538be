//! Scoring of single services, where it differs from the usual one.

use std::collections::BTreeMap;

use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Config;

/// What differs for the services of one pattern; absent: as for all.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceConfig {
    /// In place of `score.proceed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proceed: Option<f64>,
    /// In place of `score.regenerate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regenerate: Option<f64>,
    /// In place of `score.contradiction_penalty`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contradiction_penalty: Option<f64>,
    /// In place of `score.min_answered`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_answered: Option<f64>,
    /// In place of `score.label.hallucination`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hallucination: Option<f64>,
    /// In place of `score.label.faithful`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faithful: Option<f64>,
    /// In place of single ones of `score.weights`, by kind of evidence.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<crate::domain::EvidenceType, f64>,
}

impl ServiceConfig {
    /// The scoring of these services.
    pub(super) fn over(&self, usual: &Config) -> Config {
        let mut config = usual.clone();
        config.services = BTreeMap::new();
        let set = |to: &mut f64, from: Option<f64>| *to = from.unwrap_or(*to);
        set(&mut config.proceed, self.proceed);
        set(&mut config.regenerate, self.regenerate);
        set(&mut config.contradiction_penalty, self.contradiction_penalty);
        set(&mut config.min_answered, self.min_answered);
        set(&mut config.label.hallucination, self.hallucination);
        set(&mut config.label.faithful, self.faithful);
        for (kind, weight) in &self.weights {
            config.weights.set(kind.as_str(), *weight);
        }
        config
    }
}

/// The scoring of each service: compiled patterns, the most telling first.
#[derive(Debug, Clone)]
pub(super) struct Services(Vec<(GlobMatcher, Config)>);

impl PartialEq for Services {
    fn eq(&self, other: &Self) -> bool {
        let alike = |(left, right): (&(GlobMatcher, Config), &(GlobMatcher, Config))| {
            left.0.glob() == right.0.glob() && left.1 == right.1
        };
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(alike)
    }
}

impl Services {
    /// Of a configuration. Patterns that are none are reported by its check and match nothing.
    pub fn new(config: &Config) -> Self {
        let mut patterns: Vec<&String> = config.services.keys().collect();
        // Without wildcards first, then by how much is written out; the alphabet breaks ties.
        patterns.sort_by_key(|pattern| {
            let wild = pattern.chars().filter(|letter| "*?[]{}".contains(*letter)).count();
            (wild > 0, std::cmp::Reverse(pattern.chars().count() - wild))
        });
        let compiled = patterns
            .into_iter()
            .filter_map(|pattern| Some((matcher(pattern).ok()?, config.services[pattern].over(config))));
        Self(compiled.collect())
    }

    /// The scoring of this service, if it has its own.
    pub fn of(&self, service: Option<&str>) -> Option<&Config> {
        let service = service?;
        self.0.iter().find(|(matcher, _)| matcher.is_match(service)).map(|(_, config)| config)
    }
}

/// Compiles a pattern: `*` and `?` as in a shell, also over slashes.
pub(super) fn matcher(pattern: &str) -> Result<GlobMatcher, globset::Error> {
    GlobBuilder::new(pattern).literal_separator(false).build().map(|glob| glob.compile_matcher())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::EvidenceType;

    fn services(yaml: &str) -> Services {
        Services::new(&serde_saphyr::from_str(yaml).unwrap())
    }

    #[test]
    fn the_most_telling_pattern_decides_and_what_it_does_not_name_stays() {
        let services = services(
            "proceed: 0.9\nservices:\n  '*': { regenerate: 0.5 }\n  'shop-*': { proceed: 0.7, weights: { inference: 0.3 } }\n  shop-eu: { proceed: 0.95 }",
        );
        let of = |service| services.of(Some(service)).unwrap();
        assert_eq!((of("shop-us").proceed, of("shop-us").regenerate), (0.7, 0.65));
        assert_eq!(of("shop-us").weights.of(EvidenceType::Inference), 0.3);
        assert_eq!(of("shop-us").weights.of(EvidenceType::Domain), 0.6);
        assert_eq!(of("shop-eu").proceed, 0.95);
        assert_eq!((of("team/bank").proceed, of("team/bank").regenerate), (0.9, 0.5));
        assert!(services.of(None).is_none());
    }
}
