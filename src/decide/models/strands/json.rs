//! JSON as the reference (Python) reads and writes it: every digit of an integer, shortest floats, `NaN` and `Infinity`.
//! A `serde_json` value cannot hold all of that, and a prompt that differs by one digit is a different prompt.

mod reader;

use std::fmt::Write;

use self::reader::read;
use crate::domain::Json;

/// A JSON value that keeps its numbers' text. Objects keep the first position and the last value of a repeated key.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, written as Python writes it.
    Number(String),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Node>),
    /// An object.
    Object(Vec<(String, Node)>),
}

/// Why a text is not JSON: Python's message and the character where it applies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at character {position}")]
pub struct JsonError {
    /// As Python's decoder words it.
    pub message: &'static str,
    /// In Unicode scalar values from the start.
    pub position: usize,
}

impl Node {
    /// Reads one JSON text. `NaN`, `Infinity` and `-Infinity` are numbers here.
    pub fn read(text: &str) -> Result<Node, JsonError> {
        read(text)
    }

    /// The member `key` of an object.
    pub fn member(&self, key: &str) -> Option<&Node> {
        match self {
            Node::Object(members) => members.iter().find(|(name, _)| name == key).map(|(_, node)| node),
            _ => None,
        }
    }

    /// The value for a [`crate::domain::Question`]. A container with a number that `serde_json` cannot hold exactly becomes its
    /// rendered text, which reads the same in a prompt.
    pub fn into_json(self) -> Json {
        match self.exact() {
            Some(json) => json,
            None => Json::String(self.render()),
        }
    }

    fn exact(&self) -> Option<Json> {
        Some(match self {
            Node::Null => Json::Null,
            Node::Bool(truth) => Json::Bool(*truth),
            Node::String(text) => Json::String(text.clone()),
            Node::Array(items) => Json::Array(items.iter().map(Node::exact).collect::<Option<_>>()?),
            Node::Object(members) => Json::Object(
                members
                    .iter()
                    .map(|(key, node)| Some((key.clone(), node.exact()?)))
                    .collect::<Option<_>>()?,
            ),
            Node::Number(text) => {
                let number = if let Ok(number) = text.parse::<i64>() {
                    number.into()
                } else if let Ok(number) = text.parse::<u64>() {
                    number.into()
                } else {
                    serde_json::Number::from_f64(text.parse().ok()?)?
                };
                (number_text(&number) == *text).then_some(Json::Number(number))?
            }
        })
    }

    /// Python's `json.dumps(value, indent=2, ensure_ascii=False)`.
    pub fn render(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, 0);
        out
    }

    fn write(&self, out: &mut String, depth: usize) {
        match self {
            Node::Null => out.push_str("null"),
            Node::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
            Node::Number(text) => out.push_str(text),
            Node::String(text) => write_string(out, text),
            Node::Array(items) => {
                write_items(out, depth, ['[', ']'], items, |out, node, depth| node.write(out, depth));
            }
            Node::Object(members) => {
                write_items(out, depth, ['{', '}'], members, |out, (key, node), depth| {
                    write_string(out, key);
                    out.push_str(": ");
                    node.write(out, depth);
                })
            }
        }
    }
}

/// Python's `json.dumps(value, indent=2, ensure_ascii=False)` of a `serde_json` value.
pub fn render(value: &Json) -> String {
    let mut out = String::new();
    write_json(&mut out, value, 0);
    out
}

fn write_json(out: &mut String, value: &Json, depth: usize) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Json::Number(number) => out.push_str(&number_text(number)),
        Json::String(text) => write_string(out, text),
        Json::Array(items) => write_items(out, depth, ['[', ']'], items, write_json),
        Json::Object(members) => write_items(out, depth, ['{', '}'], members, |out, (key, value), depth| {
            write_string(out, key);
            out.push_str(": ");
            write_json(out, value, depth);
        }),
    }
}

fn write_items<T>(
    out: &mut String,
    depth: usize,
    brackets: [char; 2],
    items: impl IntoIterator<Item = T>,
    write_item: impl Fn(&mut String, T, usize),
) {
    out.push(brackets[0]);
    let mut empty = true;
    for item in items {
        if !empty {
            out.push(',');
        }
        empty = false;
        new_line(out, depth + 1);
        write_item(out, item, depth + 1);
    }
    if !empty {
        new_line(out, depth);
    }
    out.push(brackets[1]);
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    for _ in 0..depth {
        out.push_str("  ");
    }
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            control if control < ' ' => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

fn number_text(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => float_repr(float),
        _ => number.to_string(),
    }
}

/// Python's `repr` of a float: the shortest digits that read back equal; exponents below −4 or from 16 on in `e` notation.
pub fn float_repr(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let positional = number.to_string();
        return if positional.contains('.') { positional } else { positional + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn floats_are_written_as_python_writes_them() {
        for (number, text) in [
            (1e-5, "1e-05"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (7.0, "7.0"),
            (-0.0, "-0.0"),
            (1e5, "100000.0"),
            (0.0001, "0.0001"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (1234567890123456.0, "1234567890123456.0"),
            (0.75, "0.75"),
        ] {
            assert_eq!(float_repr(number), text);
        }
    }

    #[test]
    fn numbers_keep_their_digits_and_python_s_form() {
        let text =
            r#"[123456789012345678901234567890, -0, 1E5, 1e-5, NaN, -Infinity, 0.10, 18446744073709551615]"#;
        let node = Node::read(text).unwrap();
        let expected = "[\n  123456789012345678901234567890,\n  0,\n  100000.0,\n  1e-05,\n  NaN,\n  -Infinity,\n  0.1,\n  \
                        18446744073709551615\n]";
        assert_eq!(node.render(), expected);
        assert_eq!(node.into_json(), Json::String(expected.to_owned()));
    }

    #[test]
    fn containers_are_indented_and_strings_escaped_little() {
        let node = Node::read(r#"{"a": [], "b": {}, "c": [{"d": "\u0001\u007fé\n"}], "a": [1]}"#).unwrap();
        let expected = "{\n  \"a\": [\n    1\n  ],\n  \"b\": {},\n  \"c\": [\n    {\n      \"d\": \"\\u0001\u{7f}é\\n\"\n    }\n  ]\n}";
        assert_eq!(node.render(), expected);
        assert_eq!(render(&node.into_json()), expected);
    }

    #[test]
    fn what_is_wrong_is_said_as_python_says_it() {
        for (text, message, position) in [
            (r#"{"state": "s", "questions": {"#, "Expecting property name enclosed in double quotes", 29),
            ("", "Expecting value", 0),
            ("[1 2]", "Expecting ',' delimiter", 3),
            (r#"{"a" 1}"#, "Expecting ':' delimiter", 5),
            ("\"é", "Unterminated string starting at", 0),
            ("é", "Expecting value", 0),
            ("1 é", "Extra data", 2),
            (r#""\x""#, "Invalid \\escape", 1),
            (r#""a \ud800 b""#, "Lone surrogate at", 3),
        ] {
            assert_eq!(Node::read(text), Err(JsonError { message, position }), "{text}");
        }
    }

    #[test]
    fn nesting_has_a_limit() {
        assert!(Node::read(&"[".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in "[\\[\\]{}\",:0-9eE.+\\-\\\\unNaItrue é\u{1}]{0,40}") {
            let _ = Node::read(&text);
        }

        #[test]
        fn rendered_text_reads_back_equal(numbers in proptest::collection::vec(any::<f64>(), 0..5), text in ".{0,12}") {
            let node = Node::Object(vec![
                (text.clone(), Node::Array(numbers.iter().map(|n| Node::Number(float_repr(*n))).collect())),
                (format!("{text}!"), Node::String(text)),
            ]);
            prop_assert_eq!(Node::read(&node.render()).unwrap(), node);
        }
    }
}
