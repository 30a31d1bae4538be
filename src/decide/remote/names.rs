//! Names of models, as servers tell them. Pure.

use super::super::models::strands::Node;

/// Names that a list of models holds: TypeSafe's (`models[].name`), OpenAI's (`data[].id`) or Ollama's (`models[].model`).
pub fn listed(body: &Node) -> Vec<String> {
    let mut names = Vec::new();
    for list in ["models", "data"] {
        let Some(Node::Array(models)) = body.member(list) else { continue };
        for model in models {
            let told = ["name", "id", "model"].into_iter().find_map(|key| text(model.member(key)));
            if let Some(name) = told.filter(|name| !names.contains(name)) {
                names.push(name);
            }
        }
    }
    names
}

/// The name that `GET /health` tells.
pub fn of_health(body: &Node) -> Option<String> {
    text(body.member("model"))
}

/// Whether two names mean one model: `StrandsAgents/Some-Model` is `some-model`, and `nimble` is `nimble:latest`.
pub fn are_same(one: &str, other: &str) -> bool {
    plain(one) == plain(other)
}

fn plain(name: &str) -> String {
    let name = name.trim().to_lowercase();
    let name = name.strip_suffix(":latest").unwrap_or(&name);
    name.rsplit('/').next().unwrap_or(name).to_owned()
}

fn text(node: Option<&Node>) -> Option<String> {
    match node {
        Some(Node::String(text)) if !text.is_empty() => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_all_kinds_are_read() {
        for (body, names) in [
            (
                r#"{"models": [{"name": "a", "description": "", "release_date": ""}, {"name": "jev-latest"}]}"#,
                vec!["a", "jev-latest"],
            ),
            (r#"{"object": "list", "data": [{"id": "a"}, {"id": "b"}]}"#, vec!["a", "b"]),
            (r#"{"models": [{"model": "a"}], "data": [{"id": "a"}]}"#, vec!["a"]),
            (r#"{"models": 3}"#, vec![]),
            ("[]", vec![]),
        ] {
            assert_eq!(listed(&Node::read(body).unwrap()), names, "{body}");
        }
    }

    #[test]
    fn a_model_is_known_under_its_long_and_its_short_name() {
        assert!(are_same("StrandsAgents/Decider-2B", "decider-2b") && are_same("nimble:latest", "nimble"));
        assert!(!are_same("nimble:4b", "nimble") && !are_same("a/b", "a"));
    }
}
