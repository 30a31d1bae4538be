//! Declarations of tools and instructions out of JSON, whatever library or provider shaped them.

use serde_json::{Map, json};

use super::text::{decode_str, is_masked, pick, pick_str};
use crate::domain::{Json, OfferedTool};

/// Nesting of a declaration that is followed.
const DEEPEST: usize = 8;

/// Longest text that is taken for a tool's bare name.
const LONGEST_NAME: usize = 128;

/// Keys under which requests list their tools.
const TOOLS: [&str; 6] =
    ["tools", "function_tools", "output_tools", "functions", "available_tools", "tool_definitions"];

/// Keys under which requests keep their instructions apart from the messages.
const INSTRUCTIONS: [&str; 6] =
    ["system", "system_instruction", "systemInstruction", "system_prompt", "instructions", "system_message"];

/// Parts of a request that hold tools or instructions in its place.
const INNER: [&str; 5] = ["config", "kwargs", "invocation_params", "request", "toolConfig"];

/// All tools that `json` declares, in order: a list, a map by name, or one declaration.
pub(super) fn tools(json: &Json) -> Vec<OfferedTool> {
    let mut out = Vec::new();
    gather(json, 0, &mut out);
    out
}

fn gather(json: &Json, depth: usize, out: &mut Vec<OfferedTool>) {
    if depth > DEEPEST {
        return;
    }
    match json {
        Json::Array(items) => items.iter().for_each(|item| gather(item, depth + 1, out)),
        Json::String(text) => {
            let decoded = decode_str(text);
            let before = out.len();
            match &decoded.json {
                // Semantic Kernel lists names with commas between them.
                Json::String(names) => out.extend(names.split(',').filter_map(|name| bare(name.trim()))),
                inner => gather(inner, depth + 1, out),
            }
            if decoded.cut {
                forget_last(&mut out[before..]);
            }
        }
        Json::Object(map) => {
            let several = pick(map, &["function_declarations", "functionDeclarations"]);
            let wrapped = pick(map, &["function", "toolSpec", "data", "tool", "kwargs"]);
            match (several, wrapped) {
                (Some(list), _) => gather(list, depth + 1, out),
                (None, Some(inner @ Json::Object(_))) => gather(inner, depth + 1, out),
                _ if names(map).is_some() => out.extend(one(map)),
                _ if map.values().all(declares) => {
                    out.extend(map.iter().filter_map(|(name, value)| {
                        let mut named = value.as_object()?.clone();
                        named.insert("name".to_owned(), Json::String(name.clone()));
                        one(&named)
                    }));
                }
                _ => {}
            }
        }
        _ => {}
    }
}

/// The cut fell into the last declaration: what is left of its schema would refuse what the whole allows.
pub(super) fn forget_last(found: &mut [OfferedTool]) {
    if let Some(last) = found.last_mut() {
        last.parameters = None;
    }
}

/// A tool of which no more than the name is told.
fn bare(name: &str) -> Option<OfferedTool> {
    let is_name = !name.is_empty()
        && name.len() <= LONGEST_NAME
        && !name.contains(char::is_whitespace)
        && !is_masked(name);
    is_name.then(|| OfferedTool {
        name: name.to_owned(),
        description: None,
        parameters: None,
        agents: Vec::new(),
        unlisted: false,
    })
}

/// The name; of a provider's own tool, such as a web search, which has none, its type.
fn names(map: &Map<String, Json>) -> Option<&str> {
    pick_str(map, &["name", "tool_name", "toolName"])
        .or_else(|| pick_str(map, &["type"]).filter(|kind| !matches!(*kind, "function" | "object")))
}

fn one(map: &Map<String, Json>) -> Option<OfferedTool> {
    let tool = bare(names(map)?)?;
    Some(OfferedTool {
        description: pick_str(map, &["description", "desc"]).map(str::to_owned),
        parameters: pick(
            map,
            &[
                "parameters",
                "input_schema",
                "inputSchema",
                "parameters_json_schema",
                "parametersJsonSchema",
                "args_schema",
                "json_schema",
                "schema",
                "inputs",
            ],
        )
        .and_then(schema),
        ..tool
    })
}

/// A map from names to declarations holds nothing but objects that say what a tool is.
fn declares(json: &Json) -> bool {
    let keys = ["description", "parameters", "inputSchema", "input_schema"];
    json.as_object().is_some_and(|map| keys.iter().any(|key| map.contains_key(*key)))
}

/// A JSON Schema of arguments without its wrappings; none if it says nothing.
pub(super) fn schema(json: &Json) -> Option<Json> {
    match json {
        Json::String(text) => match decode_str(text) {
            decoded if decoded.cut || decoded.json.is_string() => None,
            decoded => schema(&decoded.json),
        },
        Json::Object(map) => {
            // Bedrock, and Vercel's own schema objects.
            if let (1, Some(inner @ Json::Object(_))) = (map.len(), pick(map, &["json", "jsonSchema"])) {
                return schema(inner);
            }
            if is_schema(map) {
                return Some(json.clone());
            }
            // Properties alone, as smolagents declares them.
            let describes = |value: &Json| {
                value.as_object().is_some_and(|map| map.contains_key("type") || map.contains_key("anyOf"))
            };
            (!map.is_empty() && map.values().all(describes))
                .then(|| json!({ "type": "object", "properties": map }))
        }
        _ => None,
    }
}

fn is_schema(map: &Map<String, Json>) -> bool {
    const KEYS: [&str; 7] =
        ["properties", "$schema", "$ref", "anyOf", "oneOf", "allOf", "additionalProperties"];
    KEYS.iter().any(|key| map.contains_key(*key))
        || map.get("type").is_some_and(|kind| kind == "object" || kind == "OBJECT")
}

/// The tools and the instructions of a request: of the object itself and of the parts that providers and libraries keep them in.
pub(super) fn request(json: &Json) -> (Vec<OfferedTool>, Vec<String>) {
    let (mut found, mut told) = (Vec::new(), Vec::new());
    let Some(map) = json.as_object() else { return (found, told) };
    let inner = INNER.iter().filter_map(|key| map.get(*key)?.as_object());
    for map in std::iter::once(map).chain(inner) {
        for list in TOOLS.iter().filter_map(|key| map.get(*key)) {
            gather(list, 0, &mut found);
        }
        told.extend(INSTRUCTIONS.iter().filter_map(|key| instructions(map.get(*key)?)));
    }
    (found, told)
}

/// A text of instructions: plain, blocks or parts.
pub(super) fn instructions(json: &Json) -> Option<String> {
    let mut texts = Vec::new();
    text(json, 0, &mut texts);
    let joined = texts.join("\n\n");
    let trimmed = joined.trim();
    (!trimmed.is_empty() && !is_masked(trimmed)).then(|| trimmed.to_owned())
}

fn text(json: &Json, depth: usize, out: &mut Vec<String>) {
    if depth > DEEPEST {
        return;
    }
    match json {
        Json::String(plain) if plain.starts_with(['[', '{']) => match decode_str(plain).json {
            Json::String(plain) => out.push(plain),
            inner if holds_text(&inner) => text(&inner, depth + 1, out),
            _ => out.push(plain.clone()),
        },
        Json::String(plain) => out.push(plain.clone()),
        Json::Array(items) => items.iter().for_each(|item| text(item, depth + 1, out)),
        Json::Object(map) => {
            if let Some(inner) = pick(map, &["content", "text", "parts"]) {
                text(inner, depth + 1, out);
            }
        }
        _ => {}
    }
}

/// Whether JSON in a text is blocks of text; else the instructions themselves are written as JSON.
fn holds_text(json: &Json) -> bool {
    let has = |json: &Json| ["content", "text", "parts"].iter().any(|key| json.get(*key).is_some());
    match json {
        Json::Array(items) => items.iter().all(|item| has(item) || item.is_string()),
        other => has(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_tool_is_read_from_every_spelling() {
        let schema = json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]});
        let spellings = [
            json!([{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": schema}}]),
            json!([{"type": "function", "name": "look", "description": "Looks.", "parameters": schema}]),
            json!([{"name": "look", "description": "Looks.", "input_schema": schema}]),
            json!([{"name": "look", "description": "Looks.", "inputSchema": {"json": schema}, "outputSchema": null}]),
            json!([{"toolSpec": {"name": "look", "description": "Looks.", "inputSchema": {"json": schema}}}]),
            json!([{"function_declarations": [{"name": "look", "description": "Looks.", "parameters_json_schema": schema}]}]),
            json!([{"type": "haystack.tools.tool.Tool", "data": {"name": "look", "description": "Looks.", "parameters": schema}}]),
            json!([
                json!({"type": "function", "name": "look", "description": "Looks.", "inputSchema": schema})
                    .to_string()
            ]),
            json!({"look": {"description": "Looks.", "inputSchema": schema}}),
        ];
        for spelling in spellings {
            let found = tools(&spelling);
            assert_eq!(found.len(), 1, "{spelling}");
            assert_eq!(found[0].name, "look", "{spelling}");
            assert_eq!(found[0].description.as_deref(), Some("Looks."), "{spelling}");
            assert_eq!(found[0].parameters.as_ref(), Some(&schema), "{spelling}");
        }
    }

    #[test]
    fn names_alone_and_a_providers_own_tools_are_tools() {
        let found =
            tools(&json!(["look", {"type": "web_search_preview"}, "[REDACTED]", "no name at all", "a-b, c"]));
        let names: Vec<&str> = found.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["look", "web_search_preview", "a-b", "c"]);
    }

    #[test]
    fn bare_properties_become_a_schema_and_arguments_do_not() {
        let properties = json!({"id": {"type": "string", "description": "x"}});
        assert_eq!(schema(&properties).unwrap()["properties"], properties);
        assert_eq!(schema(&json!({"id": "NW-1", "type": "order"})), None);
        assert_eq!(schema(&json!("{\"type\": \"object\", \"prop")), None);
    }

    #[test]
    fn instructions_are_read_from_text_blocks_and_parts() {
        for spelling in [
            json!("Be kind."),
            json!([{"type": "text", "content": "Be kind."}]),
            json!("[{\"text\": \"Be kind.\"}]"),
            json!({"role": "system", "parts": [{"text": "Be kind."}]}),
        ] {
            assert_eq!(instructions(&spelling).as_deref(), Some("Be kind."), "{spelling}");
        }
        assert_eq!(
            instructions(&json!("{\"rules\": [\"Be kind.\"]}")).unwrap(),
            "{\"rules\": [\"Be kind.\"]}"
        );
        assert_eq!(instructions(&json!("[REDACTED]")), None);
    }

    #[test]
    fn requests_give_their_tools_and_their_instructions() {
        let gemini = json!({"model": "m", "contents": [], "config": {"system_instruction": "Be kind.",
            "tools": [{"function_declarations": [{"name": "look"}, {"name": "find"}]}]}});
        let (found, told) = request(&gemini);
        assert_eq!((found.len(), told), (2, vec!["Be kind.".to_owned()]));
        assert_eq!(request(&json!("text")), (Vec::new(), Vec::new()));
    }
}
