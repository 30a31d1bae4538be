//! Values inside strings: JSON, Python's `repr`, and either of them cut off in the middle.
//!
//! Sound JSON goes through serde_json. What it refuses is read by a forgiving parser that also knows single quotes,
//! `True`/`False`/`None`, tuples, `Name(field=value)`, `<Enum.NAME: 'value'>`, and treats the end of the text as the end of
//! everything that is open.

use serde_json::Map;

use crate::domain::Json;

/// Nesting beyond this is not followed, so no input can exhaust the stack.
const DEEPEST: usize = 96;

/// Under this key stands the class of a Python object that was read from its `repr`.
pub(super) const CLASS: &str = "__class__";

/// A value read from text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parsed {
    /// The value.
    pub(super) json: Json,
    /// Whether the text ended before the value did.
    pub(super) cut: bool,
}

/// Reads text that looks like a structured value or a quoted string; `None` for ordinary prose.
pub(super) fn parse(text: &str) -> Option<Parsed> {
    let trimmed = text.trim();
    let first = *trimmed.as_bytes().first()?;
    match first {
        b'{' | b'[' | b'"' => {
            if let Ok(json) = serde_json::from_str(trimmed) {
                return Some(Parsed { json, cut: false });
            }
            forgiving(trimmed)
        }
        b'\'' | b'(' => forgiving(trimmed).filter(|parsed| !parsed.cut),
        b'A'..=b'Z' if looks_like_object(trimmed) => forgiving(trimmed),
        _ => None,
    }
}

/// Whether the text begins like `Name(field=`, `Name(` + value, as Python prints objects.
fn looks_like_object(text: &str) -> bool {
    let Some(open) = text.find('(') else { return false };
    let name = &text[..open];
    let inside = text[open + 1..].trim_start();
    let named = name.len() < 80 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.');
    let field_len = inside.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
    named && field_len > 0 && inside.as_bytes().get(field_len) == Some(&b'=')
}

fn forgiving(text: &str) -> Option<Parsed> {
    let mut reader = Reader { text, at: 0, cut: false };
    let json = reader.value(0)?;
    reader.space();
    // Text after the value means that the text is not a value but prose that begins like one.
    if reader.at < text.len() && !reader.cut {
        return None;
    }
    Some(Parsed { json, cut: reader.cut })
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    cut: bool,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// A value; `None` where no value begins, or the nesting is too deep.
    fn value(&mut self, depth: usize) -> Option<Json> {
        if depth > DEEPEST {
            return None;
        }
        self.space();
        match self.peek()? {
            b'{' => self.object(depth),
            b'[' => self.list(b']', depth),
            b'(' => self.list(b')', depth),
            b'"' | b'\'' => self.string().map(Json::String),
            b'<' => self.angled(),
            b'-' | b'+' | b'0'..=b'9' => self.number(),
            _ => self.word(depth),
        }
    }

    fn object(&mut self, depth: usize) -> Option<Json> {
        self.at += 1;
        let mut map = Map::new();
        loop {
            self.space();
            match self.peek() {
                None => {
                    self.cut = true;
                    return Some(Json::Object(map));
                }
                Some(b'}') => {
                    self.at += 1;
                    return Some(Json::Object(map));
                }
                Some(b',') => self.at += 1,
                Some(_) => {
                    let key = match self.value(depth + 1)? {
                        Json::String(key) => key,
                        other => other.to_string(),
                    };
                    self.space();
                    match self.peek() {
                        Some(b':') => self.at += 1,
                        None => {
                            self.cut = true;
                            return Some(Json::Object(map));
                        }
                        // A Python set: its members have no values.
                        Some(b',' | b'}') => {
                            map.insert(key, Json::Null);
                            continue;
                        }
                        Some(_) => return None,
                    }
                    self.space();
                    if self.peek().is_none() {
                        self.cut = true;
                        return Some(Json::Object(map));
                    }
                    let value = self.value(depth + 1)?;
                    map.insert(key, value);
                    if self.cut {
                        return Some(Json::Object(map));
                    }
                }
            }
        }
    }

    fn list(&mut self, end: u8, depth: usize) -> Option<Json> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.space();
            match self.peek() {
                None => {
                    self.cut = true;
                    return Some(Json::Array(items));
                }
                Some(b) if b == end => {
                    self.at += 1;
                    return Some(Json::Array(items));
                }
                Some(b',') => self.at += 1,
                Some(_) => {
                    items.push(self.value(depth + 1)?);
                    if self.cut {
                        return Some(Json::Array(items));
                    }
                }
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        let quote = self.peek()?;
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(stop) = rest.bytes().position(|b| b == quote || b == b'\\') else {
                out.push_str(rest);
                self.at = self.text.len();
                self.cut = true;
                return Some(out);
            };
            out.push_str(&rest[..stop]);
            self.at += stop + 1;
            if rest.as_bytes()[stop] == quote {
                return Some(out);
            }
            self.escape(&mut out);
        }
    }

    /// What stands after a backslash. At the end of the text it is dropped: the cut fell into it.
    fn escape(&mut self, out: &mut String) {
        let Some(letter) = self.text[self.at..].chars().next() else {
            self.cut = true;
            return;
        };
        self.at += letter.len_utf8();
        match letter {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            '\n' => {}
            'x' => self.code(2, out),
            'U' => self.code(8, out),
            'u' => self.code(4, out),
            other => out.push(other),
        }
    }

    fn code(&mut self, digits: usize, out: &mut String) {
        let Some(first) = self.hex(digits) else { return };
        let is_high = (0xD800..0xDC00).contains(&first);
        if is_high && self.text[self.at..].starts_with("\\u") {
            self.at += 2;
            if let Some(second) = self.hex(4)
                && (0xDC00..0xE000).contains(&second)
            {
                let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                return;
            }
        }
        out.push(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
    }

    fn hex(&mut self, digits: usize) -> Option<u32> {
        let Some(text) = self.text.get(self.at..self.at + digits) else {
            self.at = self.text.len();
            self.cut = true;
            return None;
        };
        let code = u32::from_str_radix(text, 16).ok()?;
        self.at += digits;
        Some(code)
    }

    fn number(&mut self) -> Option<Json> {
        let rest = &self.text[self.at..];
        let len = rest
            .bytes()
            .take_while(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E' | b'_'))
            .count();
        let number = &rest[..len];
        self.at += len;
        serde_json::from_str(number).ok().or_else(|| Some(Json::String(number.to_owned())))
    }

    /// `<ChatRole.USER: 'user'>` is `"user"`; any other `<…>` is its text.
    fn angled(&mut self) -> Option<Json> {
        let rest = &self.text[self.at..];
        let close = angled_end(rest);
        let inside = match close {
            Some(end) => &rest[1..end],
            None => {
                self.cut = true;
                &rest[1..]
            }
        };
        self.at += close.map_or(rest.len(), |end| end + 1);
        let value = inside.split_once(": ").map_or(inside, |(_, value)| value);
        let unquoted = value.strip_prefix('\'').and_then(|v| v.strip_suffix('\'')).unwrap_or(value);
        Some(Json::String(unquoted.to_owned()))
    }

    /// A bare word: a literal of JSON or Python, or a constructor with its fields.
    fn word(&mut self, depth: usize) -> Option<Json> {
        let rest = &self.text[self.at..];
        let len = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.')).count();
        if len == 0 {
            return None;
        }
        let word = &rest[..len];
        let after = rest.as_bytes().get(len).copied();
        // b'…', u'…', r'…', f'…'
        if len <= 2 && matches!(after, Some(b'\'' | b'"')) {
            self.at += len;
            return self.string().map(Json::String);
        }
        self.at += len;
        if after == Some(b'(') {
            return self.fields(word, depth);
        }
        Some(match word {
            "null" | "None" | "nan" | "NaN" | "undefined" => Json::Null,
            "true" | "True" => Json::Bool(true),
            "false" | "False" => Json::Bool(false),
            _ if after.is_none() => {
                self.cut = true;
                Json::Null
            }
            _ => Json::String(word.to_owned()),
        })
    }

    fn fields(&mut self, class: &str, depth: usize) -> Option<Json> {
        self.at += 1;
        let mut map = Map::new();
        map.insert(CLASS.to_owned(), Json::String(class.to_owned()));
        let mut position = 0;
        loop {
            self.space();
            match self.peek() {
                None => {
                    self.cut = true;
                    return Some(Json::Object(map));
                }
                Some(b')') => {
                    self.at += 1;
                    return Some(Json::Object(map));
                }
                Some(b',') => self.at += 1,
                Some(_) => {
                    let rest = &self.text[self.at..];
                    let len = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
                    let key = if len > 0 && rest.as_bytes().get(len) == Some(&b'=') {
                        self.at += len + 1;
                        rest[..len].to_owned()
                    } else {
                        position += 1;
                        format!("_{}", position - 1)
                    };
                    if self.peek().is_none() {
                        self.cut = true;
                        return Some(Json::Object(map));
                    }
                    let value = self.value(depth + 1)?;
                    map.insert(key, value);
                    if self.cut {
                        return Some(Json::Object(map));
                    }
                }
            }
        }
    }
}

/// Where `<…>` ends, minding nested brackets.
fn angled_end(text: &str) -> Option<usize> {
    let mut open = 0usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' => open += 1,
            b'>' => {
                open -= 1;
                if open == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Json {
        parse(text).unwrap().json
    }

    #[test]
    fn python_literals_become_json() {
        assert_eq!(
            read(r#"{'a': 'it\'s', "b": "x", 'c': [1, 2.5, None, True], 'd': ('t',), 'e': 'caf\xe9'}"#),
            json!({"a": "it's", "b": "x", "c": [1, 2.5, null, true], "d": ["t"], "e": "café"})
        );
    }

    #[test]
    fn python_objects_become_maps_with_their_class() {
        let text = "ChatMessage(_role=<ChatRole.TOOL: 'tool'>, _content=[ToolCallResult(result='42', error=False)], f=<function f at 0x7f>)";
        assert_eq!(
            read(text),
            json!({"__class__": "ChatMessage", "_role": "tool",
                "_content": [{"__class__": "ToolCallResult", "result": "42", "error": false}], "f": "function f at 0x7f"})
        );
    }

    #[test]
    fn a_cut_value_keeps_what_was_there() {
        let parsed = parse(r#"[{"role":"user","parts":[{"type":"text","content":"How lo"#).unwrap();
        assert!(parsed.cut);
        assert_eq!(parsed.json, json!([{"role": "user", "parts": [{"type": "text", "content": "How lo"}]}]));
        assert!(parse(r#"{"a": "\u00"#).unwrap().cut);
    }

    #[test]
    fn prose_is_not_a_value() {
        for prose in ["Hello (world)", "[kb-114] says so", "'tis", "{name} is here", "A (b=c", "", "  ", "12"]
        {
            assert!(parse(prose).is_none_or(|parsed| parsed.cut || prose.is_empty()), "{prose}");
        }
        assert!(parse("[kb-114] says so").is_none());
        assert!(parse("{name} is here").is_none());
    }

    #[test]
    fn deep_nesting_is_refused_without_a_stack_overflow() {
        let deep = "[".repeat(1_000_000);
        assert!(parse(&deep).is_none());
        let objects = "{'a':".repeat(200_000);
        assert!(parse(&objects).is_none());
    }

    #[test]
    fn surrogate_pairs_are_joined() {
        assert_eq!(read(r#"{'a': '\ud83d\ude00'}"#), json!({"a": "😀"}));
    }
}
