//! The section `decide` of the configuration.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::kernels::Precision;
use crate::domain::{ByteSize, Period};

/// The decision model and its inference thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Which model: `embedded` (the starter model in the binary), a Hugging Face Hub id (`owner/name`) or a folder.
    pub model: ModelName,
    /// Answers that are less sure than this (0 to 1) go to the judge, if there is one.
    pub min_confidence: f64,
    /// The most inquiries that wait for the model or are in it. When full, callers wait: the pressure runs back to the door.
    pub queue: NonZeroUsize,
    /// The most tokens, padding included, in one forward pass. An inquiry that is larger runs alone.
    pub batch_tokens: NonZeroUsize,
    /// Threads that one forward pass may use; not given: one for each core.
    pub threads: Option<NonZeroUsize>,
    /// How long the first inquiry of a batch waits for company. 0s is right for a CPU: work piles up while a batch runs.
    pub linger: Period,
    /// The base model's folder, for a checkpoint that is an adapter; not given: where the checkpoint says.
    pub base: Option<PathBuf>,
    /// Memory for the states of recently read evidence, so that later questions about it cost only their own tokens.
    pub prefix_cache: ByteSize,
    /// Whether a checkpoint refuses evidence and questions that are longer than its window instead of cutting them.
    pub strict_window: bool,
    /// What a checkpoint's products are computed in on the CPU: `f32` gives the reference's numbers, `bf16` halves time and
    /// memory for differences in the third decimal, `int8` goes further in both.
    pub precision: Precision,
    /// Where a checkpoint runs. `cuda` and `metal` need a build with that feature.
    pub device: RunsOn,
}

/// Where a checkpoint runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunsOn {
    /// The processor.
    #[default]
    Cpu,
    /// The first NVIDIA GPU.
    Cuda,
    /// The first Apple GPU.
    Metal,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model: ModelName::Embedded,
            min_confidence: 0.9,
            queue: NonZeroUsize::new(256).expect("256 is not zero"),
            batch_tokens: NonZeroUsize::new(4096).expect("4096 is not zero"),
            threads: None,
            linger: Period::seconds(0),
            base: None,
            prefix_cache: ByteSize::mib(1024),
            strict_window: false,
            precision: Precision::F32,
            device: RunsOn::Cpu,
        }
    }
}

impl Config {
    /// Adds what is wrong across fields or outside its range.
    pub fn check(&self, problems: &mut Vec<String>) {
        if !(0.0..=1.0).contains(&self.min_confidence) {
            problems.push(format!("decide.min_confidence ({}) must be from 0 to 1", self.min_confidence));
        }
    }
}

/// Which decision model, as it is written in configuration: a text, or a map with the kind of a remote model as its one key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ModelName {
    /// `embedded`: the starter model that is part of the binary.
    #[default]
    Embedded,
    /// A Hub id or a folder.
    Checkpoint(String),
}

impl ModelName {
    /// The model that a text names.
    pub fn parse(text: &str) -> Self {
        match text.trim() {
            "embedded" => ModelName::Embedded,
            other => ModelName::Checkpoint(other.to_owned()),
        }
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelName::Embedded => f.write_str("embedded"),
            ModelName::Checkpoint(name) => f.write_str(name),
        }
    }
}

impl Serialize for ModelName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ModelName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameVisitor)
    }
}

struct NameVisitor;

const WANTED: &str = "`embedded`, a Hub id such as owner/name, or a folder";

impl<'de> Visitor<'de> for NameVisitor {
    type Value = ModelName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(WANTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ModelName, E> {
        if text.trim().is_empty() {
            return Err(E::custom(format!("the model's name is empty; expected {WANTED}")));
        }
        Ok(ModelName::parse(text))
    }

    // A map is externally tagged by hand: serde's own form would lose the plain text, and `untagged` the messages.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ModelName, A::Error> {
        match map.next_key::<String>()? {
            Some(kind) => Err(A::Error::unknown_variant(&kind, REMOTE_KINDS)),
            None => Err(A::Error::custom(format!("the model's map is empty; expected {WANTED}"))),
        }
    }
}

/// Kinds of remote deciders that a map may name.
const REMOTE_KINDS: &[&str] = &[];

impl schemars::JsonSchema for ModelName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ModelName".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "minLength": 1, "description": WANTED })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_section_is_the_default() {
        assert_eq!(serde_saphyr::from_str::<Config>("{}").unwrap(), Config::default());
    }

    #[test]
    fn a_model_is_a_text_and_survives_being_written() {
        for text in ["embedded", "owner/name", "./models/mine"] {
            let config: Config = serde_saphyr::from_str(&format!("model: {text}")).unwrap();
            assert_eq!(config.model.to_string(), text);
            let written = serde_json::to_string(&config).unwrap();
            assert_eq!(serde_json::from_str::<Config>(&written).unwrap(), config);
        }
    }

    #[test]
    fn mistakes_say_what_is_accepted() {
        for (text, wanted) in [
            ("model: ''", "empty"),
            ("model: 7", "a Hub id"),
            ("model: { carrier_pigeon: {} }", "carrier_pigeon"),
            ("queue: 0", "nonzero"),
            ("linger: soon", "duration"),
            ("modell: embedded", "min_confidence"),
        ] {
            let message = serde_saphyr::from_str::<Config>(text).unwrap_err().to_string();
            assert!(message.contains(wanted), "{text}: {message}");
        }
    }

    #[test]
    fn a_confidence_outside_its_range_is_reported() {
        let mut problems = Vec::new();
        Config { min_confidence: 90.0, ..Config::default() }.check(&mut problems);
        assert_eq!(problems, ["decide.min_confidence (90) must be from 0 to 1"]);
        Config { min_confidence: f64::NAN, ..Config::default() }.check(&mut problems);
        assert_eq!(problems.len(), 2);
    }
}
