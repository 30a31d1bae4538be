//! The JSON Schema of a reply, within what strict structured outputs allow: every key required, nothing else, no optional parts.

use serde_json::{Map, json};

use super::sheet::Item;
use crate::domain::Json;

/// Providers refuse schemas with more enumerated values (OpenAI: 1000 over all properties).
const MAX_ENUMERATED: usize = 900;

/// The schema of the reply that answers `items`.
pub(super) fn reply(items: &[&Item]) -> Json {
    let enumerated: usize = items.iter().map(|item| item.labels.len()).sum();
    let answers: Map<String, Json> = items
        .iter()
        .map(|item| {
            let answer = if enumerated <= MAX_ENUMERATED {
                json!({ "type": "string", "enum": item.labels })
            } else {
                json!({ "type": "string" })
            };
            // Reasoning before answer: a model writes in this order, and should think before it picks.
            (item.key.clone(), object([("reasoning", json!({ "type": "string" })), ("answer", answer)]))
        })
        .collect();
    object([("answers", object(answers))])
}

fn object<K: Into<String>>(properties: impl IntoIterator<Item = (K, Json)>) -> Json {
    let properties: Map<String, Json> =
        properties.into_iter().map(|(name, value)| (name.into(), value)).collect();
    let required: Vec<&String> = properties.keys().collect();
    json!({ "type": "object", "required": required, "additionalProperties": false, "properties": properties })
}

#[cfg(test)]
mod tests {
    use super::super::sheet::Sheet;
    use super::super::sheet::tests::{ask, choice};
    use super::*;

    #[test]
    fn the_schema_takes_a_right_reply_and_refuses_wrong_labels_missing_and_extra_keys() {
        let ask = ask("s", vec![choice("a", &["yes", "no"]), choice("b", &["x", "y"])]);
        let sheet = Sheet::new(&ask).unwrap();
        let items: Vec<&Item> = sheet.items.iter().collect();
        let validator = jsonschema::validator_for(&reply(&items)).unwrap();
        let answer = |label: &str| json!({ "reasoning": "because", "answer": label });
        let right = json!({ "answers": { "q1": answer("yes"), "q2": answer("y") } });
        assert!(validator.is_valid(&right));
        for wrong in [
            json!({ "answers": { "q1": answer("maybe"), "q2": answer("y") } }),
            json!({ "answers": { "q1": answer("yes") } }),
            json!({ "answers": { "q1": answer("yes"), "q2": answer("y"), "q3": answer("y") } }),
        ] {
            assert!(!validator.is_valid(&wrong), "{wrong}");
        }
    }

    #[test]
    fn too_many_labels_are_left_to_the_reader_of_the_reply() {
        let options: Vec<String> = (0..255).map(|option| format!("o{option}")).collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let ask = ask("s", ["a", "b", "c", "d"].map(|id| choice(id, &options)).to_vec());
        let sheet = Sheet::new(&ask).unwrap();
        let items: Vec<&Item> = sheet.items.iter().collect();
        assert!(!reply(&items).to_string().contains("enum"));
    }
}
