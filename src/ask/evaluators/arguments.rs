//! Whether a call's arguments keep to the JSON Schema that its tool was declared with: what breaks it is certain.

use std::collections::HashSet;

use jsonschema::Validator;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::{Map, json};

use super::offered::{declared, shortened};
use crate::domain::{Json, Ruling, Step, Story};

/// Nesting of a schema that is followed, references included; what lies deeper is not checked.
const DEEPEST: usize = 24;

/// Parts of a schema that are read; of a larger one nothing is checked.
const LARGEST: usize = 5_000;

/// Violations that a reason names.
const NAMED: usize = 3;

/// Arguments that frameworks add on their own and that no declaration shows to the model.
const ADDED: [&str; 12] = [
    "tool_context",
    "tool_call_id",
    "context",
    "ctx",
    "state",
    "runtime",
    "config",
    "self",
    "run_manager",
    "callbacks",
    "kwargs",
    "security_context",
];

/// `incomplete` if all that is wrong is that required arguments are missing, `invalid` if anything else is; none if the call
/// keeps to a declaration of its tool, or if nothing is certain.
pub(super) fn ruling(story: &Story, call: &Step) -> Option<Ruling> {
    let arguments = call.arguments.as_ref().filter(|arguments| arguments.is_object())?;
    let schemas: Vec<&Json> =
        declared(story, call).into_iter().map(|tool| tool.parameters.as_ref()).collect::<Option<_>>()?;
    let mut first = None;
    for schema in schemas {
        let found = violations(schema, arguments)?;
        if found.is_empty() {
            return None;
        }
        first.get_or_insert(found);
    }
    let found = first?;
    let is_missing = found.iter().all(|(missing, _)| *missing);
    let mut named: Vec<String> = found.iter().take(NAMED).map(|(_, words)| words.clone()).collect();
    if found.len() > NAMED {
        named.push(format!("{} more", found.len() - NAMED));
    }
    Some(Ruling {
        label: if is_missing { "incomplete" } else { "invalid" }.to_owned(),
        reasoning: Some(format!("against the declared schema: {}", named.join("; "))),
    })
}

/// What breaks the schema, each with whether it is only that something is missing; none if the schema cannot be used.
fn violations(schema: &Json, arguments: &Json) -> Option<Vec<(bool, String)>> {
    let plain = Plain::new(schema).whole()?;
    let validator: Validator = jsonschema::options().offline().build(&plain).ok()?;
    let given = without_blanks(arguments, &plain);
    let found = validator.iter_errors(&given);
    Some(found.filter_map(|error| words(error.kind(), &error.instance_path().to_string())).collect())
}

/// An optional argument that is null was not given; what frameworks add is not the model's.
fn without_blanks(arguments: &Json, schema: &Json) -> Json {
    let Json::Object(map) = arguments else { return arguments.clone() };
    let required: HashSet<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    let properties = schema["properties"].as_object();
    let is_declared = |name: &str| properties.is_some_and(|properties| properties.contains_key(name));
    let is_given = |name: &str, value: &Json| {
        let is_blank = value.is_null() && !required.contains(name);
        let is_added = !is_declared(name) && (name.starts_with('_') || ADDED.contains(&name));
        !is_blank && !is_added
    };
    Json::Object(
        map.iter()
            .filter(|(name, value)| is_given(name, value))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    )
}

/// A violation without the values: those are the trace's, and for nobody.
fn words(kind: &ValidationErrorKind, path: &str) -> Option<(bool, String)> {
    let place = if path.is_empty() { "the arguments".to_owned() } else { shortened(path) };
    let said = match kind {
        ValidationErrorKind::Required { property } => {
            let name = shortened(property.as_str().unwrap_or_default());
            let within = if path.is_empty() { String::new() } else { format!(" in {place}") };
            return Some((true, format!("{name} is required and missing{within}")));
        }
        ValidationErrorKind::Type { kind: TypeKind::Single(wanted) } => format!("{place} is no {wanted}"),
        ValidationErrorKind::Type { .. } => format!("{place} has none of the declared types"),
        ValidationErrorKind::Enum { .. } | ValidationErrorKind::Constant { .. } => {
            format!("{place} is none of the declared values")
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let names: Vec<String> = unexpected.iter().take(NAMED).map(|name| shortened(name)).collect();
            let within = if path.is_empty() { String::new() } else { format!(" in {place}") };
            format!("{} is not declared{within}", names.join(", "))
        }
        other => format!("{place} breaks {}", other.keyword()),
    };
    Some((false, said))
}

/// A sender's schema reduced to what is safe to check with: no patterns (they can take for ever), no references (they can go
/// round or elsewhere), no formats. It allows all that the declared one allows, and perhaps more: what it refuses is refused.
struct Plain<'a> {
    root: &'a Json,
    parts: usize,
}

impl<'a> Plain<'a> {
    fn new(root: &'a Json) -> Self {
        Self { root, parts: 0 }
    }

    fn whole(mut self) -> Option<Json> {
        let plain = self.of(self.root, 0);
        (self.parts <= LARGEST).then_some(plain)
    }

    fn of(&mut self, schema: &'a Json, depth: usize) -> Json {
        self.parts += 1;
        let Json::Object(map) = schema else {
            return Json::Bool(schema.as_bool().unwrap_or(true));
        };
        if depth > DEEPEST || self.parts > LARGEST {
            return Json::Bool(true);
        }
        if let Some(target) = map.get("$ref") {
            let found = target.as_str().and_then(|target| self.root.pointer(target.strip_prefix('#')?));
            return found.map_or(Json::Bool(true), |found| self.of(found, depth + 1));
        }
        let mut plain = Map::new();
        if let Some(kind) = kind(map) {
            plain.insert("type".to_owned(), kind);
        }
        for key in ["enum", "const"] {
            if let Some(value) = map.get(key).filter(|value| key == "const" || value.is_array()) {
                plain.insert(key.to_owned(), self.nullable(map, key, value));
            }
        }
        for key in ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"] {
            if let Some(number @ Json::Number(_)) = map.get(key) {
                plain.insert(key.to_owned(), number.clone());
            }
        }
        for key in ["minLength", "maxLength", "minItems", "maxItems"] {
            if let Some(number) = map.get(key).and_then(number) {
                plain.insert(key.to_owned(), json!(number));
            }
        }
        if let Some(Json::Array(names)) = map.get("required") {
            let mut seen = HashSet::new();
            let names: Vec<&Json> =
                names.iter().filter(|name| name.is_string() && seen.insert(*name)).collect();
            plain.insert("required".to_owned(), json!(names));
        }
        if let Some(Json::Object(properties)) = map.get("properties") {
            let inner = properties.iter().map(|(name, inner)| (name.clone(), self.of(inner, depth + 1)));
            plain.insert("properties".to_owned(), Json::Object(inner.collect()));
        }
        // Patterns of names are not read, and beside them nothing is certainly undeclared.
        let knows_names =
            !["patternProperties", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "$dynamicRef"]
                .iter()
                .any(|key| map.contains_key(*key));
        if let Some(rest @ (Json::Bool(_) | Json::Object(_))) =
            map.get("additionalProperties").filter(|_| knows_names)
        {
            let inner = self.of(rest, depth + 1);
            plain.insert("additionalProperties".to_owned(), inner);
        }
        if let Some(items @ (Json::Bool(_) | Json::Object(_))) =
            map.get("items").filter(|_| !map.contains_key("prefixItems"))
        {
            let inner = self.of(items, depth + 1);
            plain.insert("items".to_owned(), inner);
        }
        if let Some(Json::Array(all)) =
            map.get("allOf").filter(|all| all.as_array().is_some_and(|all| !all.is_empty()))
        {
            let inner: Vec<Json> = all.iter().map(|inner| self.of(inner, depth + 1)).collect();
            plain.insert("allOf".to_owned(), Json::Array(inner));
        }
        // Of a schema that was widened more than one branch may fit.
        let choices =
            ["anyOf", "oneOf"].iter().find_map(|key| map.get(*key)?.as_array().filter(|all| !all.is_empty()));
        if let Some(choices) = choices {
            let inner: Vec<Json> = choices.iter().map(|inner| self.of(inner, depth + 1)).collect();
            plain.insert("anyOf".to_owned(), Json::Array(inner));
        }
        Json::Object(plain)
    }

    fn nullable(&self, map: &Map<String, Json>, key: &str, value: &Json) -> Json {
        match value {
            Json::Array(values) if key == "enum" && is_nullable(map) => {
                Json::Array(values.iter().cloned().chain([Json::Null]).collect())
            }
            other => other.clone(),
        }
    }
}

/// The types, in JSON Schema's spelling; none if any is not one of its own, as of some SDKs.
fn kind(map: &Map<String, Json>) -> Option<Json> {
    let one = |word: &Json| {
        let word = word.as_str()?.to_ascii_lowercase();
        let known = ["string", "number", "integer", "boolean", "array", "object", "null"];
        known.into_iter().find(|known| *known == word)
    };
    let mut all: Vec<&str> = match map.get("type")? {
        Json::Array(words) => words.iter().map(one).collect::<Option<_>>()?,
        word => vec![one(word)?],
    };
    if is_nullable(map) {
        all.push("null");
    }
    all.sort_unstable();
    all.dedup();
    match all.as_slice() {
        [] => None,
        [one] => Some(json!(one)),
        several => Some(json!(several)),
    }
}

/// OpenAPI's word, which Gemini uses.
fn is_nullable(map: &Map<String, Json>) -> bool {
    map.get("nullable") == Some(&Json::Bool(true))
}

/// Gemini writes limits as texts.
fn number(value: &Json) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ask::tests::story;
    use crate::domain::{OfferedTool, StepKind};

    fn ruled(schema: Json, arguments: Json) -> Option<(String, String)> {
        let mut story =
            story(&[(StepKind::Request, "go"), (StepKind::ToolCall, ""), (StepKind::Answer, "done")]);
        story.tools = vec![OfferedTool {
            name: "refund".to_owned(),
            description: None,
            parameters: Some(schema),
            agents: Vec::new(),
            unlisted: false,
        }];
        story.steps[1].tool = Some("refund".to_owned());
        story.steps[1].arguments = Some(arguments);
        let ruling = ruling(&story, &story.steps[1])?;
        Some((ruling.label, ruling.reasoning.unwrap()))
    }

    fn refund() -> Json {
        json!({"type": "object", "additionalProperties": false, "required": ["order", "amount"], "properties": {
            "order": {"type": "string", "pattern": "^NW-[0-9]+$"}, "amount": {"type": "number", "minimum": 0},
            "reason": {"type": "string", "enum": ["late", "broken"]}, "note": {"anyOf": [{"type": "string"}, {"type": "null"}]}}})
    }

    #[test]
    fn what_keeps_to_the_declaration_is_left_to_a_model() {
        for arguments in [
            json!({"order": "NW-1", "amount": 5}),
            json!({"order": "NW-1", "amount": 5.5, "reason": "late", "note": null}),
            json!({"order": "NW-1", "amount": 5, "reason": null}),
            json!({"order": "NW-1", "amount": 5, "tool_context": {"user": 1}}),
            json!({"order": "does not match the pattern, which is not read", "amount": 5}),
        ] {
            assert_eq!(ruled(refund(), arguments.clone()), None, "{arguments}");
        }
        assert_eq!(ruled(refund(), json!("NW-1")), None);
    }

    #[test]
    fn what_breaks_it_is_certain_and_says_where_without_the_value() {
        let said = |arguments| ruled(refund(), arguments).unwrap();
        assert_eq!(
            said(json!({"order": "NW-1"})),
            (
                "incomplete".to_owned(),
                "against the declared schema: amount is required and missing".to_owned()
            )
        );
        let (label, why) = said(json!({"order": "NW-1", "amount": "secret"}));
        assert_eq!(
            (label.as_str(), why.as_str()),
            ("invalid", "against the declared schema: /amount is no number")
        );
        let (label, why) = said(json!({"order": "NW-1", "amount": 1, "reason": "fun"}));
        assert_eq!(label, "invalid");
        assert!(why.ends_with("/reason is none of the declared values"), "{why}");
        assert!(said(json!({"order": "NW-1", "amount": -1})).1.ends_with("/amount breaks minimum"));
        assert!(
            said(json!({"order": "NW-1", "amount": 1, "colour": 2})).1.ends_with("colour is not declared")
        );
    }

    #[test]
    fn other_dialects_of_schema_are_read() {
        let gemini = json!({"type": "OBJECT", "required": ["id"], "properties": {"id": {"type": "STRING", "nullable": true, "maxLength": "4"}}});
        assert_eq!(ruled(gemini.clone(), json!({"id": null})), None);
        assert_eq!(ruled(gemini.clone(), json!({"id": "12345"})).unwrap().0, "invalid");
        assert_eq!(ruled(gemini, json!({"id": 7})).unwrap().0, "invalid");
        let pydantic = json!({"type": "object", "$defs": {"Id": {"type": "integer"}}, "properties": {"id": {"$ref": "#/$defs/Id"}}});
        assert_eq!(ruled(pydantic.clone(), json!({"id": 7})), None);
        assert_eq!(ruled(pydantic, json!({"id": "seven"})).unwrap().0, "invalid");
        let python = json!({"type": "object", "properties": {"id": {"type": "str"}}});
        assert_eq!(ruled(python, json!({"id": 7})), None);
    }

    #[test]
    fn hostile_schemas_do_no_harm() {
        let round = json!({"$ref": "#"});
        assert_eq!(ruled(round, json!({"a": 1})), None);
        let wide = json!({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"});
        assert_eq!(ruled(wide, json!({"a": 1})), None);
        let elsewhere = json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}});
        assert_eq!(ruled(elsewhere, json!({"a": 1})), None);
        let slow = json!({"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}});
        assert_eq!(ruled(slow, json!({"a": format!("{}!", "a".repeat(5_000))})), None);
        let wrong =
            json!({"type": 5, "required": "a", "properties": [], "enum": 3, "items": "x", "anyOf": []});
        assert_eq!(ruled(wrong, json!({"a": 1})), None);
    }

    fn any_schema() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            prop_oneof![Just("string"), Just("integer"), Just("number"), Just("boolean"), Just("null")]
                .prop_map(|kind| json!({"type": kind})),
            Just(json!({"enum": ["a", 1, null]})),
            Just(json!({"type": "string", "minLength": 1})),
        ];
        leaf.prop_recursive(3, 16, 3, |inner| {
            let fields = prop::collection::btree_map("[ab]", inner.clone(), 0..3);
            prop_oneof![
                (fields, any::<bool>()).prop_map(|(fields, closed)| {
                    let names: Vec<&String> = fields.keys().collect();
                    json!({"type": "object", "properties": fields, "required": names, "additionalProperties": !closed})
                }),
                inner.clone().prop_map(|inner| json!({"type": "array", "items": inner})),
                prop::collection::vec(inner, 1..3).prop_map(|all| json!({"oneOf": all})),
            ]
        })
    }

    fn any_value() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::Bool),
            (-3i64..3).prop_map(|number| json!(number)),
            "[ab]{0,2}".prop_map(Json::String),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Json::Array),
                prop::collection::btree_map("[abc]", inner, 0..3).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_the_declared_schema_allows_is_never_refused(schema in any_schema(), value in any_value()) {
            let schema = json!({"type": "object", "properties": {"x": schema}});
            let arguments = json!({"x": value});
            if jsonschema::is_valid(&schema, &arguments) {
                prop_assert_eq!(ruled(schema, arguments), None);
            }
        }
    }
}
