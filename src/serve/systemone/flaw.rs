//! What is wrong with a request, in the shape that clients of `/v1/systemone` know: FastAPI's.

use serde::Serialize;
use serde_json::json;

use crate::decide::Node;
use crate::domain::Json;

/// A value that costs more than this is not shown again.
const SHOWN: usize = 4 << 10;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Flaw {
    /// A word for machines.
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    /// Where: `body`, then keys and positions.
    pub(super) loc: Vec<Json>,
    /// What, for people.
    pub(super) msg: String,
    /// What was found there, unless it is large.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) input: Option<Json>,
    /// The numbers and words of `msg`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ctx: Option<Json>,
}

impl Flaw {
    pub(super) fn new(kind: &'static str, place: &Place, msg: impl Into<String>, found: &Node) -> Self {
        Self { kind, loc: place.0.clone(), msg: msg.into(), input: shown(found), ctx: None }
    }

    /// The same with what `msg` speaks of.
    pub(super) fn with(self, ctx: Json) -> Self {
        Self { ctx: Some(ctx), ..self }
    }

    /// A rule that a value of the right type breaks.
    pub(super) fn value(place: &Place, rule: &str, found: &Node) -> Self {
        Self::new("value_error", place, format!("Value error, {rule}"), found).with(json!({ "error": {} }))
    }

    /// A key that must be there; `within` is the object that lacks it.
    pub(super) fn missing(place: &Place, within: &Node) -> Self {
        Self::new("missing", place, "Field required", within)
    }

    /// A body that is no object.
    pub(super) fn no_object(found: Node) -> Self {
        Self::no_question(&Place::body(), &found)
    }

    /// A question that is no object.
    pub(super) fn no_question(place: &Place, found: &Node) -> Self {
        let msg = "Input should be a valid dictionary or object to extract fields from";
        Self::new("model_attributes_type", place, msg, found)
    }

    /// A body that is no JSON.
    pub(super) fn no_json(position: usize, error: &str) -> Self {
        let place = Place::body().at(position);
        let empty = Node::Object(Vec::new());
        Self::new("json_invalid", &place, "JSON decode error", &empty).with(json!({ "error": error }))
    }

    /// A value that is none of the types in which the contract takes text: one flaw for each.
    pub(super) fn no_text(place: &Place, found: &Node) -> [Self; 3] {
        [("string", "str"), ("dict", "dict[str,any]"), ("list", "list[any]")].map(|(kind, name)| {
            let place = place.at(name);
            match kind {
                "string" => Self::new("string_type", &place, "Input should be a valid string", found),
                "dict" => Self::no_map(&place, found),
                _ => Self::no_list(&place, found),
            }
        })
    }

    pub(super) fn no_string(place: &Place, found: &Node) -> Self {
        Self::new("string_type", place, "Input should be a valid string", found)
    }

    pub(super) fn no_map(place: &Place, found: &Node) -> Self {
        Self::new("dict_type", place, "Input should be a valid dictionary", found)
    }

    pub(super) fn no_list(place: &Place, found: &Node) -> Self {
        Self::new("list_type", place, "Input should be a valid list", found)
    }
}

/// A place in the body.
#[derive(Debug, Clone)]
pub(super) struct Place(Vec<Json>);

impl Place {
    pub(super) fn body() -> Self {
        Self(vec![json!("body")])
    }

    /// A key or a position below this place.
    pub(super) fn at(&self, step: impl Into<Json>) -> Self {
        let mut steps = self.0.clone();
        steps.push(step.into());
        Self(steps)
    }
}

fn shown(node: &Node) -> Option<Json> {
    let mut budget = SHOWN;
    fits(node, &mut budget).then(|| node.clone().into_json())
}

/// Whether the value's text is within the budget, roughly. Stops counting as soon as it is not.
fn fits(node: &Node, budget: &mut usize) -> bool {
    let own = match node {
        Node::String(text) | Node::Number(text) => text.len() + 2,
        _ => 4,
    };
    let Some(left) = budget.checked_sub(own) else { return false };
    *budget = left;
    match node {
        Node::Array(items) => items.iter().all(|item| fits(item, budget)),
        Node::Object(members) => members.iter().all(|(key, value)| {
            budget.checked_sub(key.len()).is_some_and(|left| {
                *budget = left;
                fits(value, budget)
            })
        }),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_shown_unless_it_is_large() {
        let flaw = |text: String| Flaw::no_map(&Place::body(), &Node::String(text));
        assert_eq!(flaw("a".repeat(100)).input, Some(json!("a".repeat(100))));
        assert_eq!(flaw("a".repeat(SHOWN)).input, None);
        let many = Node::Array(vec![Node::Null; SHOWN]);
        assert_eq!(Flaw::no_map(&Place::body(), &many).input, None);
        let text = serde_json::to_string(&Flaw::no_map(&Place::body().at("x").at(3), &Node::Null)).unwrap();
        assert_eq!(
            text,
            r#"{"type":"dict_type","loc":["body","x",3],"msg":"Input should be a valid dictionary","input":null}"#
        );
    }
}
