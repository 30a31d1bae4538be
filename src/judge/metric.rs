//! A metric of the operator's own: the schema that is asked for, and the value in a judge's text. Pure, and safe on any text.

use jsonschema::Validator;
use serde_json::Map;

use super::reply::{pieces, shorten, without_thoughts};
use super::schema::{is_strict, object};
use super::{BadReply, JudgeErrorKind};
use crate::domain::Json;

/// The name under which a value stands that is no object: providers take only objects.
const VALUE: &str = "value";
/// Bytes of an error or a value that are shown.
const MAX_SHOWN: usize = 200;

/// What a metric's value must look like.
pub(super) struct Form {
    /// The schema of the reply: the metric's own, or one that holds it under `value`.
    pub reply: Json,
    /// Whether it keeps to what strict structured outputs allow.
    pub strict: bool,
    wrapped: bool,
    validator: Validator,
}

impl Form {
    /// Of a metric's schema. References to other documents are not followed.
    pub fn new(schema: &Json) -> Result<Self, JudgeErrorKind> {
        let validator = jsonschema::validator_for(schema)
            .map_err(|error| JudgeErrorKind::Schema { message: shorten(&error.to_string(), MAX_SHOWN) })?;
        let wrapped = schema.get("type").is_none_or(|kind| kind != "object");
        let reply = if wrapped { wrap(schema) } else { schema.clone() };
        Ok(Self { strict: is_strict(&reply), reply, wrapped, validator })
    }

    /// The one valid value in `text`; `cut` says that the endpoint stopped it at the token limit.
    pub fn read(&self, text: &str, cut: bool) -> Result<Json, BadReply> {
        let text = without_thoughts(text).trim();
        if text.is_empty() {
            return Err(if cut { BadReply::Truncated } else { BadReply::Empty });
        }
        let (mut pieces, ends_early) = pieces(text);
        if ends_early {
            // The last piece was closed by us: it is not what the judge was about to say.
            pieces.pop();
        }
        // A bare text, number or truth value is no piece.
        if pieces.is_empty() && self.wrapped && !cut {
            pieces.extend(serde_json::from_str::<Json>(text));
        }
        let mut wrong = None;
        let mut found: Option<Json> = None;
        for piece in &pieces {
            let candidate =
                self.candidates(piece).find(|candidate| match self.validator.validate(candidate) {
                    Ok(()) => true,
                    Err(error) => {
                        let place = error.instance_path().to_string();
                        let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
                        wrong.get_or_insert_with(|| shorten(&format!("{place}{error}"), MAX_SHOWN));
                        false
                    }
                });
            match (&found, candidate) {
                (Some(first), Some(second)) if first != second => {
                    let shown = |value: &Json| shorten(&value.to_string(), MAX_SHOWN);
                    return Err(BadReply::Torn { first: shown(first), second: shown(second) });
                }
                (None, Some(candidate)) => found = Some(candidate.clone()),
                _ => {}
            }
        }
        match (found, wrong) {
            (Some(value), _) => Ok(value),
            _ if cut || ends_early => Err(BadReply::Truncated),
            (None, Some(message)) => Err(BadReply::NotValid { message }),
            (None, None) => Err(BadReply::NotJson { excerpt: shorten(text, MAX_SHOWN) }),
        }
    }

    /// What a piece may mean: for a wrapped value what is under its name, before the piece itself.
    fn candidates<'a>(&self, piece: &'a Json) -> impl Iterator<Item = &'a Json> + use<'a> {
        let inner =
            piece.get(VALUE).filter(|_| self.wrapped || piece.as_object().is_some_and(|map| map.len() == 1));
        inner.into_iter().chain([piece])
    }
}

/// The schema under `value`. Definitions move up with it, so that references to them still hold.
fn wrap(schema: &Json) -> Json {
    let mut inner = schema.clone();
    let mut moved = Map::new();
    if let Some(map) = inner.as_object_mut() {
        for name in ["$schema", "$defs", "definitions"] {
            moved.extend(map.remove(name).map(|value| (name.to_owned(), value)));
        }
    }
    let mut outer = object([(VALUE, inner)]);
    if let Some(map) = outer.as_object_mut() {
        map.extend(moved);
    }
    outer
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn tone() -> Form {
        let schema = json!({
            "type": "object", "required": ["tone_compliant", "forbidden_words"], "additionalProperties": false,
            "properties": {
                "tone_compliant": { "type": "boolean" },
                "forbidden_words": { "type": "array", "items": { "type": "string" } },
            },
        });
        Form::new(&schema).unwrap()
    }

    const RIGHT: &str = r#"{"tone_compliant": false, "forbidden_words": ["darn"]}"#;

    #[test]
    fn a_valid_value_is_found_in_the_shapes_that_models_give_it() {
        let right: Json = serde_json::from_str(RIGHT).unwrap();
        for text in [
            RIGHT.to_owned(),
            format!("Sure:\n```json\n{RIGHT}\n```"),
            format!(r#"{{"value": {RIGHT}}}"#),
            format!("<think>{{\"tone_compliant\": true, \"forbidden_words\": []}}</think>{RIGHT}"),
            format!("{RIGHT}\n{RIGHT}"),
        ] {
            assert_eq!(tone().read(&text, false), Ok(right.clone()), "{text}");
        }
    }

    #[test]
    fn what_is_not_valid_says_what_is_wrong_and_where() {
        let no = |text: &str| tone().read(text, false).unwrap_err();
        assert_eq!(no(" "), BadReply::Empty);
        assert!(matches!(no("The tone is fine."), BadReply::NotJson { .. }));
        assert!(matches!(no("Score: 5"), BadReply::NotJson { .. }));
        assert!(matches!(
            no(r#"{"tone_compliant": NaN, "forbidden_words": []}"#),
            BadReply::NotJson { .. } | BadReply::NotValid { .. }
        ));
        assert!(no(r#"{"tone_compliant": true}"#).to_string().contains("forbidden_words"));
        assert!(
            no(r#"{"tone_compliant": "yes", "forbidden_words": []}"#).to_string().contains("/tone_compliant")
        );
        assert!(no(r#"{"tone_compliant": true, "forbidden_words": [], "x": 1}"#).to_string().contains("x"));
        assert!(matches!(no(r#"[{"tone_compliant": true}]"#), BadReply::NotValid { .. }));
        let other = r#"{"tone_compliant": true, "forbidden_words": []}"#;
        assert!(matches!(no(&format!("{RIGHT} or {other}")), BadReply::Torn { .. }));
        for at in 1..RIGHT.len() {
            assert_eq!(tone().read(&RIGHT[..at], true), Err(BadReply::Truncated), "{at}");
        }
    }

    #[test]
    fn values_that_are_no_objects_stand_under_a_name_and_their_definitions_still_hold() {
        let levels = json!({ "$ref": "#/$defs/level", "$defs": { "level": { "type": "integer", "minimum": 1, "maximum": 5 } } });
        let form = Form::new(&levels).unwrap();
        let validator = jsonschema::validator_for(&form.reply).unwrap();
        assert!(validator.is_valid(&json!({ "value": 5 })) && !validator.is_valid(&json!({ "value": 6 })));
        assert_eq!(form.read(r#"{"value": 4}"#, false), Ok(json!(4)));
        assert_eq!(form.read("4", false), Ok(json!(4)));
        assert!(form.read("6", false).is_err() && form.read("four", false).is_err());
        assert!(!form.strict);
        let words = Form::new(&json!({ "type": "array", "items": { "type": "string" } })).unwrap();
        assert!(words.strict);
        assert_eq!(words.read(r#"["a"]"#, false), Ok(json!(["a"])));
    }

    #[test]
    fn a_schema_that_is_none_or_lies_elsewhere_is_refused() {
        assert!(Form::new(&json!({ "type": "colour" })).is_err());
        let elsewhere = Form::new(&json!({ "$ref": "https://example.com/schema.json" }));
        assert!(matches!(elsewhere.err(), Some(JudgeErrorKind::Schema { .. })));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn whatever_comes_only_valid_values_go_out(
            text in r#"(?s)([\[\]{}:,"0 ]|tone_compliant|forbidden_words|true|"value"|é|.){0,60}"#, cut: bool,
        ) {
            let form = tone();
            if let Ok(value) = form.read(&text, cut) {
                prop_assert!(form.validator.is_valid(&value));
            }
        }
    }
}
