//! The JSON Schema of a reply, within what strict structured outputs allow: every key required, nothing else, no optional parts.

use serde_json::{Map, json};

use super::sheet::{ClaimItem, Item};
use crate::domain::{EvidenceType, Json, Standing};

/// Providers refuse schemas with more enumerated values (OpenAI: 1000 over all properties).
const MAX_ENUMERATED: usize = 900;

/// The schema of the reply that answers `items` and, if there are any, partitions `claims`.
pub(super) fn reply(items: &[&Item], claims: &[ClaimItem]) -> Json {
    let mut parts = Vec::new();
    if !items.is_empty() || claims.is_empty() {
        parts.push(("answers", answers(items)));
    }
    if !claims.is_empty() {
        parts.push(("partition", partition(claims)));
    }
    object(parts)
}

fn answers(items: &[&Item]) -> Json {
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
    object(answers)
}

/// GSAR's partition: four lists, what is missing, and what the judge makes of it.
fn partition(claims: &[ClaimItem]) -> Json {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "array", "items": text });
    let lists = Standing::ALL.len();
    let key = if claims.len() * lists <= MAX_ENUMERATED / 2 {
        let keys: Vec<&str> = claims.iter().map(|claim| claim.key.as_str()).collect();
        json!({ "type": "string", "enum": keys })
    } else {
        text.clone()
    };
    let kinds = EvidenceType::ALL.map(EvidenceType::as_str);
    let entry = object([
        ("claim", key),
        ("reasoning", text.clone()),
        ("evidence_type", json!({ "type": "string", "enum": kinds })),
        ("refs", texts.clone()),
    ]);
    let listed = Standing::ALL.map(|standing| (list(standing), json!({ "type": "array", "items": entry })));
    let rest = [
        ("gaps", texts.clone()),
        ("contradictions", texts),
        ("verification_needed", json!({ "type": "boolean" })),
        ("verification_reason", text.clone()),
        ("explanation", text.clone()),
        ("is_grounded", json!({ "type": "boolean" })),
        ("grounding_score", json!({ "type": "number" })),
        ("decision_status", json!({ "type": "string", "enum": ["resolved", "abstain"] })),
        ("decision_reason", text),
    ];
    object(listed.into_iter().chain(rest))
}

/// The name of a standing's list.
pub(super) fn list(standing: Standing) -> &'static str {
    match standing {
        Standing::Grounded => "grounded_claims",
        Standing::Ungrounded => "ungrounded_claims",
        Standing::Contradicted => "contradicted_claims",
        Standing::Complementary => "complementary_claims",
    }
}

/// Whether a schema keeps to what strict structured outputs allow: every object closed, and all its properties required.
pub(super) fn is_strict(schema: &Json) -> bool {
    let Json::Object(map) = schema else { return false };
    let known =
        ["type", "properties", "required", "additionalProperties", "items", "enum", "description", "title"];
    if map.keys().any(|key| !known.contains(&key.as_str())) {
        return false;
    }
    match map.get("type").and_then(Json::as_str) {
        Some("object") => {
            let Some(properties) = map.get("properties").and_then(Json::as_object) else { return false };
            let required = map.get("required").and_then(Json::as_array);
            let is_required = |name: &String| {
                required.is_some_and(|names| names.iter().any(|known| known == name.as_str()))
            };
            map.get("additionalProperties") == Some(&Json::Bool(false))
                && properties.keys().all(is_required)
                && properties.values().all(is_strict)
        }
        Some("array") => map.get("items").is_some_and(is_strict),
        Some(_) => true,
        None => false,
    }
}

pub(super) fn object<K: Into<String>>(properties: impl IntoIterator<Item = (K, Json)>) -> Json {
    let properties: Map<String, Json> =
        properties.into_iter().map(|(name, value)| (name.into(), value)).collect();
    let required: Vec<&String> = properties.keys().collect();
    json!({ "type": "object", "required": required, "additionalProperties": false, "properties": properties })
}

#[cfg(test)]
mod tests {
    use super::super::sheet::Sheet;
    use super::super::sheet::tests::{about, ask, choice};
    use super::*;

    #[test]
    fn the_schema_takes_a_right_reply_and_refuses_wrong_labels_missing_and_extra_keys() {
        let ask = ask("s", vec![choice("a", &["yes", "no"]), choice("b", &["x", "y"])]);
        let sheet = Sheet::new(&ask.inquiries, false).unwrap();
        let items: Vec<&Item> = sheet.items.iter().collect();
        let validator = jsonschema::validator_for(&reply(&items, &[])).unwrap();
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
        let sheet = Sheet::new(&ask.inquiries, false).unwrap();
        let items: Vec<&Item> = sheet.items.iter().collect();
        assert!(!reply(&items, &[]).to_string().contains("enum"));
    }

    #[test]
    fn the_schema_of_a_partition_is_strict_and_names_the_claims() {
        let ask = ask("s", vec![choice("a", &["yes", "no"]), about(0, "It rains."), about(1, "It snows.")]);
        let sheet = Sheet::new(&ask.inquiries, true).unwrap();
        let items: Vec<&Item> = sheet.items.iter().collect();
        let both = reply(&items, &sheet.claims);
        assert!(is_strict(&both));
        let entry = &both["properties"]["partition"]["properties"]["grounded_claims"]["items"];
        assert_eq!(entry["properties"]["claim"]["enum"], json!(["c1", "c2"]));
        assert!(reply(&[], &sheet.claims)["properties"].get("answers").is_none());
    }

    #[test]
    fn what_strict_outputs_do_not_allow_is_seen() {
        let strict = object([("a", json!({ "type": "array", "items": { "type": "string" } }))]);
        assert!(is_strict(&strict));
        for loose in [
            json!({ "type": "object", "properties": { "a": { "type": "string" } } }),
            json!({ "type": "object", "properties": { "a": {} }, "required": ["a"], "additionalProperties": false }),
            json!({ "type": "string", "minLength": 3 }),
            json!({ "type": "array" }),
            json!(true),
        ] {
            assert!(!is_strict(&loose), "{loose}");
        }
    }
}
