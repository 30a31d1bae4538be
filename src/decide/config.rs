//! The section `decide` of the configuration.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::kernels::Precision;
use super::remote::{Api, RemoteConfig};
use crate::domain::{ByteSize, Period};

/// The decision model and its inference thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Which model: `embedded` (the starter model in the binary), a Hugging Face Hub id (`owner/name`), a folder, or one behind
    /// HTTP: `{ systemone: { url, model, key, … } }` or `{ decisions: { … } }`, in short `systemone:URL#MODEL`. See
    /// docs/systemone.md.
    pub model: ModelName,
    /// Answers that are less sure than this (0 to 1) go to the judge, if there is one.
    pub min_confidence: f64,
    /// A file that `assayd calibrate` wrote for this model: its temperatures make the probabilities, and its thresholds and weights
    /// take the place of `min_confidence`, `score.label` and `score.weights`. None if not given.
    pub calibration: Option<PathBuf>,
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
            calibration: None,
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
        match &self.model {
            ModelName::Systemone(remote) => remote.check(Api::Systemone, problems),
            ModelName::Decisions(remote) => remote.check(Api::Decisions, problems),
            ModelName::Embedded | ModelName::Checkpoint(_) => {}
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
    /// A server that speaks `POST /v1/systemone`.
    Systemone(Box<RemoteConfig>),
    /// A server that speaks OpenAI's `POST /v1/decisions`.
    Decisions(Box<RemoteConfig>),
}

impl ModelName {
    /// Whether it is asked over the network, so that what it reads leaves the house.
    pub fn is_remote(&self) -> bool {
        matches!(self, ModelName::Systemone(_) | ModelName::Decisions(_))
    }

    /// The model that a text names.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        let text = text.strip_prefix("strands:").unwrap_or(text);
        let remote = |api: Api| {
            let rest = text.strip_prefix(api.word())?;
            let rest = if rest.is_empty() { rest } else { rest.strip_prefix(':')? };
            Some(Box::new(RemoteConfig::parse(rest)))
        };
        if let Some(served) = remote(Api::Systemone) {
            return ModelName::Systemone(served);
        }
        if let Some(served) = remote(Api::Decisions) {
            return ModelName::Decisions(served);
        }
        match text {
            "embedded" => ModelName::Embedded,
            other => ModelName::Checkpoint(other.to_owned()),
        }
    }
}

impl ModelName {
    /// Whether `other` names the server that this is, by its short form: the same address, and no other model.
    pub fn is_at(&self, other: &ModelName) -> bool {
        let (mine, theirs) = match (self, other) {
            (ModelName::Systemone(mine), ModelName::Systemone(theirs))
            | (ModelName::Decisions(mine), ModelName::Decisions(theirs)) => (mine, theirs),
            _ => return self == other,
        };
        mine.url == theirs.url && (theirs.model.is_none() || mine.model == theirs.model)
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelName::Embedded => f.write_str("embedded"),
            ModelName::Checkpoint(name) => f.write_str(name),
            ModelName::Systemone(remote) => write!(f, "systemone:{}", remote.short()),
            ModelName::Decisions(remote) => write!(f, "decisions:{}", remote.short()),
        }
    }
}

impl Serialize for ModelName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (api, remote) = match self {
            ModelName::Systemone(remote) => (Api::Systemone, remote),
            ModelName::Decisions(remote) => (Api::Decisions, remote),
            ModelName::Embedded | ModelName::Checkpoint(_) => return serializer.collect_str(self),
        };
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(api.word(), remote)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for ModelName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameVisitor)
    }
}

struct NameVisitor;

const WANTED: &str = "`embedded`, a Hub id such as owner/name, a folder, systemone:URL, decisions:URL, or a map with \
                      systemone or decisions";

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
        let name = match map.next_key::<String>()? {
            Some(kind) if kind == Api::Systemone.word() => ModelName::Systemone(map.next_value()?),
            Some(kind) if kind == Api::Decisions.word() => ModelName::Decisions(map.next_value()?),
            Some(kind) => return Err(A::Error::unknown_variant(&kind, REMOTE_KINDS)),
            None => return Err(A::Error::custom(format!("the model's map is empty; expected {WANTED}"))),
        };
        match map.next_key::<String>()? {
            Some(second) => Err(A::Error::custom(format!("one model only: {second} is the second one"))),
            None => Ok(name),
        }
    }
}

/// Kinds of remote deciders that a map may name.
const REMOTE_KINDS: &[&str] = &["systemone", "decisions"];

impl schemars::JsonSchema for ModelName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ModelName".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let remote = generator.subschema_for::<RemoteConfig>();
        let map = |api: Api| {
            schemars::json_schema!({
                "type": "object",
                "properties": { api.word(): remote },
                "required": [api.word()],
                "additionalProperties": false,
            })
        };
        let (systemone, decisions) = (map(Api::Systemone), map(Api::Decisions));
        schemars::json_schema!({
            "oneOf": [{ "type": "string", "minLength": 1 }, systemone, decisions],
            "description": WANTED,
        })
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
    fn a_remote_model_is_a_map_or_its_short_form() {
        let text = "model: { systemone: { url: 'http://h:1', model: m, key: { env: K }, concurrency: 3 } }";
        let config: Config = serde_saphyr::from_str(text).unwrap();
        let ModelName::Systemone(remote) = &config.model else { panic!("{:?}", config.model) };
        assert_eq!((remote.model.as_deref(), remote.concurrency.get()), (Some("m"), 3));
        assert_eq!(config.model.to_string(), "systemone:http://h:1#m");
        let written = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<Config>(&written).unwrap(), config);
        for (text, shown) in [
            ("systemone:http://h:1#m", "systemone:http://h:1#m"),
            ("decisions:https://h", "decisions:https://h"),
            ("decisions", "decisions:"),
        ] {
            assert_eq!(ModelName::parse(text).to_string(), shown);
            assert!(!matches!(ModelName::parse(text), ModelName::Checkpoint(_)));
        }
        assert_eq!(ModelName::parse("systemone-like"), ModelName::Checkpoint("systemone-like".into()));
    }

    #[test]
    fn mistakes_say_what_is_accepted() {
        for (text, wanted) in [
            ("model: ''", "empty"),
            ("model: 7", "a Hub id"),
            ("model: { carrier_pigeon: {} }", "systemone"),
            ("model: { systemone: { urll: x } }", "check_model"),
            ("model: { systemone: {}, decisions: {} }", "one model only"),
            ("model: {}", "empty"),
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
