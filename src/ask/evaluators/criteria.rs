//! Criteria as people write them: a map of labels or a list of levels.

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::domain::Json;

const WANTED: &str = "a map of labels to descriptions, or a list of levels from lowest to highest";

/// What an evaluator's labels mean. Which form is right depends on its type; see [`super::EvaluateConfig::check`].
#[derive(Debug, Clone, PartialEq)]
pub enum Criteria {
    /// Labels and descriptions, in order: the options of a choice, or `true` and `false` of a noul.
    Labels(Vec<(String, Json)>),
    /// Descriptions of a score's levels, lowest first.
    Levels(Vec<Json>),
}

impl Serialize for Criteria {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Criteria::Labels(labels) => {
                let mut map = serializer.serialize_map(Some(labels.len()))?;
                for (label, description) in labels {
                    map.serialize_entry(label, description)?;
                }
                map.end()
            }
            Criteria::Levels(levels) => {
                let mut list = serializer.serialize_seq(Some(levels.len()))?;
                for level in levels {
                    list.serialize_element(level)?;
                }
                list.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Criteria {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CriteriaVisitor)
    }
}

struct CriteriaVisitor;

impl<'de> Visitor<'de> for CriteriaVisitor {
    type Value = Criteria;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(WANTED)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Criteria, A::Error> {
        let mut labels: Vec<(String, Json)> = Vec::new();
        while let Some(Label(label)) = map.next_key()? {
            if labels.iter().any(|(known, _)| *known == label) {
                return Err(A::Error::custom(format!("the label {label:?} is there twice")));
            }
            labels.push((label, map.next_value()?));
        }
        Ok(Criteria::Labels(labels))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Criteria, A::Error> {
        let mut levels = Vec::new();
        while let Some(level) = seq.next_element()? {
            levels.push(level);
        }
        Ok(Criteria::Levels(levels))
    }
}

/// A label, as it is written: YAML could read `true`, `no` and `1` as other things than text.
struct Label(String);

impl<'de> Deserialize<'de> for Label {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LabelVisitor;

        impl Visitor<'_> for LabelVisitor {
            type Value = Label;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a label")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Label, E> {
                Ok(Label(text.to_owned()))
            }

            fn visit_bool<E: Error>(self, truth: bool) -> Result<Label, E> {
                Ok(Label(truth.to_string()))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Label, E> {
                Ok(Label(number.to_string()))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Label, E> {
                Ok(Label(number.to_string()))
            }
        }

        // Not `any`: that would make `yes` and `no` the truth values of old YAML.
        deserializer.deserialize_string(LabelVisitor)
    }
}

impl schemars::JsonSchema for Criteria {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Criteria".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["object", "array"], "description": WANTED })
    }
}
