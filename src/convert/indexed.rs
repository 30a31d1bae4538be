//! Attributes that spread one structure over many keys, such as `gen_ai.prompt.0.content`, put together again.

use serde_json::Map;

use super::text::to_json;
use crate::domain::{Attributes, Json};

/// Levels of a key that are followed.
const DEEPEST: usize = 10;

/// Everything below `prefix` (which ends in a dot) as one value: levels whose keys are all numbers are lists.
pub(super) fn gather(attributes: &Attributes, prefix: &str) -> Option<Json> {
    let mut root = Map::new();
    for (key, value) in attributes.iter() {
        let Some(path) = key.strip_prefix(prefix) else { continue };
        put(&mut root, path, to_json(value, 0));
    }
    if root.is_empty() { None } else { Some(lists(Json::Object(root))) }
}

fn put(root: &mut Map<String, Json>, path: &str, value: Json) {
    let mut level = root;
    let mut rest = path;
    for _ in 0..DEEPEST {
        let Some((head, tail)) = rest.split_once('.') else { break };
        let slot = level.entry(head.to_owned()).or_insert_with(|| Json::Object(Map::new()));
        // A sender that sets both `a` and `a.b`: the deeper one says more.
        if !slot.is_object() {
            *slot = Json::Object(Map::new());
        }
        let Json::Object(next) = slot else { return };
        level = next;
        rest = tail;
    }
    if !matches!(level.get(rest), Some(Json::Object(_))) {
        level.insert(rest.to_owned(), value);
    }
}

fn lists(json: Json) -> Json {
    let Json::Object(map) = json else { return json };
    let all_numbers =
        !map.is_empty() && map.keys().all(|key| key.len() < 9 && key.bytes().all(|b| b.is_ascii_digit()));
    if !all_numbers {
        return Json::Object(map.into_iter().map(|(key, value)| (key, lists(value))).collect());
    }
    let mut items: Vec<(u32, Json)> =
        map.into_iter().map(|(key, value)| (key.parse().unwrap_or(u32::MAX), lists(value))).collect();
    items.sort_by_key(|(index, _)| *index);
    Json::Array(items.into_iter().map(|(_, value)| value).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_become_lists_in_numeric_order() {
        let mut attributes = Attributes::new();
        for (key, value) in [("p.10.a", "last"), ("p.2.a", "first"), ("p.2.b.0.c", "deep"), ("q.0", "other")]
        {
            attributes.push(key, value);
        }
        let wanted = json!([{"a": "first", "b": [{"c": "deep"}]}, {"a": "last"}]);
        assert_eq!(gather(&attributes, "p."), Some(wanted));
        assert_eq!(gather(&attributes, "r."), None);
    }

    #[test]
    fn contradicting_and_endless_keys_do_no_harm() {
        let mut attributes = Attributes::new();
        attributes.push("p.a", "flat");
        attributes.push("p.a.b", "deep");
        attributes.push("p.a", "flat again");
        attributes.push(format!("p.{}", "x.".repeat(5000)), "far");
        attributes.push("p.", "nothing");
        assert_eq!(gather(&attributes, "p.").unwrap()["a"], json!({"b": "deep"}));
    }
}
