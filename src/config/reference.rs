//! The configuration's own documentation, from code: its JSON schema, one key explained, and the annotated YAML.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::Config;

/// The JSON schema of the configuration, for editors.
pub fn schema() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|settings| {
        // One self-contained tree: easier to read, and `explain` can walk it.
        settings.inline_subschemas = true;
    });
    settings.into_generator().into_root_schema_for::<Config>().to_value()
}

/// What a key such as `assemble.idle` means, its type and its default; `Err` holds the keys that exist there.
pub fn explain(key: &str) -> Result<String, Vec<String>> {
    let root = schema();
    let mut schema = &root;
    let mut default = serde_json::to_value(Config::default()).unwrap_or_default();
    for segment in key.split('.').filter(|segment| !segment.is_empty()) {
        let properties = properties(schema);
        // In a map with names of the operator's own, every name is a key.
        let Some(inner) =
            properties.and_then(|properties| properties.get(segment)).or_else(|| of_each(schema))
        else {
            let names = properties.map(|properties| properties.keys().cloned().collect());
            return Err(names.unwrap_or_default());
        };
        schema = inner;
        default = match default.get(segment) {
            Some(value) if !value.is_null() => value.clone(),
            _ => schema.get("default").cloned().unwrap_or_default(),
        };
    }
    let mut text = format!("{}\n", if key.is_empty() { "the whole configuration" } else { key });
    if let Some(description) = description(schema) {
        let _ = writeln!(text, "\n{description}");
    }
    match properties(schema).or_else(|| properties(of_each(schema)?)) {
        Some(properties) => {
            let of = if of_each(schema).is_some() { "keys under each name" } else { "keys" };
            let _ = writeln!(text, "\n{of}:");
            for (name, inner) in properties {
                let first = description(inner).unwrap_or_default();
                let _ = writeln!(text, "  {name:<22} {}", first.lines().next().unwrap_or_default());
            }
        }
        None => {
            if let Some(kind) = kind(schema) {
                let _ = writeln!(text, "\ntype: {kind}");
            }
            let _ = writeln!(text, "default: {}", scalar(&default));
        }
    }
    Ok(text)
}

/// Every key with its default and one line of why, as YAML. Sections and keys that are off by default are commented out.
pub fn annotated() -> String {
    let mut text = String::from(
        "# assayd: every key, its default, and why one would change it.\n\
         # Made from the code by `assayd config default`; a test keeps it so. No file at all means exactly this.\n\
         # Secrets are named, never written: `{ env: NAME }` or `{ file: PATH }`.\n",
    );
    let defaults = serde_json::to_value(Config::default()).unwrap_or_default();
    if let Some(properties) = properties(&schema()) {
        render(properties, &defaults, 0, false, &mut text);
    }
    text
}

fn render(properties: &Map<String, Value>, defaults: &Value, depth: usize, off: bool, text: &mut String) {
    let indent = "  ".repeat(depth);
    for (key, schema) in properties {
        let known = defaults.get(key).filter(|value| !is_unset(value));
        let value = known.or_else(|| schema.get("default")).cloned().unwrap_or_default();
        let is_off = off || known.is_none();
        let mark = if is_off { "# " } else { "" };
        if depth == 0 {
            text.push('\n');
        }
        for line in wrapped(&description(schema).unwrap_or_default(), 110 - indent.len()) {
            let _ = writeln!(text, "{indent}# {line}");
        }
        match inner_properties(schema) {
            Some(inner) if !inner.is_empty() => {
                let _ = writeln!(text, "{mark}{indent}{key}:");
                render(inner, &value, depth + 1, is_off, text);
            }
            _ => {
                let shown = match (value.is_null(), schema.get("examples").and_then(|e| e.get(0))) {
                    (true, Some(example)) => scalar(example),
                    (true, None) => placeholder(schema),
                    (false, _) => scalar(&value),
                };
                let _ = writeln!(text, "{mark}{indent}{key}: {shown}");
            }
        }
    }
}

/// Nothing is set: null, or a section with nothing set in it. Commented out, it reads the same.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => !map.is_empty() && map.values().all(is_unset),
        _ => false,
    }
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    inner_properties(schema).filter(|properties| !properties.is_empty())
}

/// What each value of a map with free names looks like.
fn of_each(schema: &Value) -> Option<&Value> {
    schema.get("additionalProperties").filter(|inner| inner.is_object())
}

/// The properties of an object schema, or of the object that an optional value would be.
fn inner_properties(schema: &Value) -> Option<&Map<String, Value>> {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        return Some(properties);
    }
    let choices = schema.get("anyOf")?.as_array()?;
    choices.iter().find_map(|choice| choice.get("properties").and_then(Value::as_object))
}

fn description(schema: &Value) -> Option<String> {
    schema.get("description").and_then(Value::as_str).map(str::to_owned)
}

fn kind(schema: &Value) -> Option<String> {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return Some(values.iter().map(scalar).collect::<Vec<_>>().join(" | "));
    }
    if let Some(choices) = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array) {
        let kinds: Vec<String> = choices.iter().filter_map(kind_or_const).collect();
        return (!kinds.is_empty()).then(|| kinds.join(" | "));
    }
    match schema.get("type")? {
        Value::String(one) => Some(one.clone()),
        Value::Array(many) => Some(many.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | ")),
        _ => None,
    }
}

fn kind_or_const(schema: &Value) -> Option<String> {
    schema.get("const").map(scalar).or_else(|| kind(schema))
}

fn placeholder(schema: &Value) -> String {
    kind(schema).map_or_else(|| "null".to_owned(), |kind| format!("<{}>", kind.replace(" | null", "")))
}

/// A value in YAML's flow style, which is JSON but for plain strings.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        Value::Object(map) if !map.is_empty() => {
            let pairs: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}: {}", scalar(value))).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(scalar).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

fn is_plain(text: &str) -> bool {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || "_-./:".contains(letter);
    let reserved = ["true", "false", "null", "yes", "no", "on", "off"].contains(&text);
    !text.is_empty()
        && text.chars().all(is_word)
        && !text.starts_with(['-', ':'])
        && !text.ends_with(':')
        && !reserved
        && text.parse::<f64>().is_err()
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.split("\n\n") {
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            if !line.is_empty() && line.len() + 1 + word.len() > width {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        if !line.is_empty() {
            lines.push(line);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// To write the files anew: `ASSAYD_WRITE=1 cargo test --lib config::`.
    fn hold(path: &str, text: &str) {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        if std::env::var_os("ASSAYD_WRITE").is_some() {
            std::fs::write(&file, text).unwrap();
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            kept == text,
            "{path} is not what the code says; write it anew with ASSAYD_WRITE=1 cargo test --lib config::"
        );
    }

    #[test]
    fn the_files_in_config_are_what_the_code_says() {
        hold("config/assayd.yaml", &annotated());
        hold("config/schema.json", &format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap()));
    }

    #[test]
    fn the_annotated_file_is_the_default_configuration() {
        assert_eq!(super::super::parse(&annotated(), "annotated").unwrap(), Config::default());
    }

    #[test]
    fn every_key_is_described() {
        fn walk(path: &str, schema: &Value, missing: &mut Vec<String>) {
            for (key, inner) in inner_properties(schema).into_iter().flatten() {
                let key = format!("{path}.{key}");
                if description(inner).is_none() {
                    missing.push(key.clone());
                }
                walk(&key, inner, missing);
            }
            if let Some(inner) = of_each(schema) {
                walk(&format!("{path}.*"), inner, missing);
            }
        }
        let mut missing = Vec::new();
        walk("", &schema(), &mut missing);
        assert!(missing.is_empty(), "no description: {missing:?}");
    }

    #[test]
    fn a_key_is_explained_and_a_wrong_one_answered_with_the_right_ones() {
        let text = explain("assemble.idle").unwrap();
        assert!(text.contains("default: 30s"), "{text}");
        assert!(explain("assemble.idel").unwrap_err().contains(&"idle".to_owned()));
        assert!(explain("flow").unwrap().contains("concurrency"));
        assert!(explain("evaluate.evaluators").unwrap().contains("min_confidence"));
        assert!(explain("evaluate.evaluators.tone.match.service").unwrap().contains("service.name"));
    }
}
