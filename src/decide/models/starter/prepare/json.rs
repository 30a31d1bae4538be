//! A reader of JSON that keeps what evidence must keep: the spelling of numbers and the order of keys.

/// Nesting beyond which a text is not taken for JSON. Bounds the stack of everything that walks a [`Node`].
pub const MAX_DEPTH: usize = 500;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as it is spelled.
    Number(String),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Node>),
    /// An object: each key once, at its first place, with its last value.
    Map(Vec<(String, Node)>),
}

impl Node {
    /// Neither object nor array.
    pub fn is_scalar(&self) -> bool {
        !matches!(self, Node::List(_) | Node::Map(_))
    }

    /// The text of a string or the spelling of a number.
    pub fn text(&self) -> Option<&str> {
        match self {
            Node::Text(text) | Node::Number(text) => Some(text),
            _ => None,
        }
    }
}

/// The object or array that `text` is, with strings inside that are objects or arrays themselves replaced by those.
pub fn read(text: &str) -> Option<Node> {
    read_below(text, 0)
}

fn read_below(text: &str, depth: usize) -> Option<Node> {
    let mut reader = Reader { text, at: 0 };
    reader.space();
    if !matches!(reader.peek(), Some(b'{' | b'[')) {
        return None;
    }
    let mut node = reader.value(depth)?;
    reader.space();
    if reader.at != text.len() {
        return None;
    }
    unwrap(&mut node, depth);
    Some(node)
}

/// Replaces strings that hold an object or array by it.
fn unwrap(node: &mut Node, depth: usize) {
    match node {
        Node::List(items) => items.iter_mut().for_each(|item| unwrap(item, depth + 1)),
        Node::Map(entries) => entries.iter_mut().for_each(|(_, value)| unwrap(value, depth + 1)),
        Node::Text(text) => {
            let stripped = super::text::strip(text);
            if stripped.starts_with(['{', '['])
                && let Some(inner) = read_below(stripped, depth)
            {
                *node = inner;
            }
        }
        Node::Null | Node::Bool(_) | Node::Number(_) => {}
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn word(&mut self, word: &str, node: Node) -> Option<Node> {
        self.text[self.at..].starts_with(word).then(|| {
            self.at += word.len();
            node
        })
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Option<Node> {
        match self.peek()? {
            b'"' => self.string().map(Node::Text),
            b'{' if depth < MAX_DEPTH => self.map(depth),
            b'[' if depth < MAX_DEPTH => self.list(depth),
            b'n' => self.word("null", Node::Null),
            b't' => self.word("true", Node::Bool(true)),
            b'f' => self.word("false", Node::Bool(false)),
            _ => self.number(),
        }
    }

    fn list(&mut self, depth: usize) -> Option<Node> {
        let mut items = Vec::new();
        self.take(b'[')?;
        self.space();
        if self.take(b']').is_some() {
            return Some(Node::List(items));
        }
        loop {
            self.space();
            items.push(self.value(depth + 1)?);
            self.space();
            if self.take(b',').is_none() {
                self.take(b']')?;
                return Some(Node::List(items));
            }
        }
    }

    fn map(&mut self, depth: usize) -> Option<Node> {
        let mut entries = Entries::default();
        self.take(b'{')?;
        self.space();
        if self.take(b'}').is_some() {
            return Some(Node::Map(entries.list));
        }
        loop {
            self.space();
            let key = self.string()?;
            self.space();
            self.take(b':')?;
            self.space();
            let value = self.value(depth + 1)?;
            entries.insert(key, value);
            self.space();
            if self.take(b',').is_none() {
                self.take(b'}')?;
                return Some(Node::Map(entries.list));
            }
        }
    }

    fn number(&mut self) -> Option<Node> {
        let start = self.at;
        let _ = self.take(b'-');
        if self.take(b'0').is_none() {
            self.digits()?;
        }
        let whole = self.at;
        // Like Python's reader: a fraction or exponent without digits is not part of the number.
        if self.take(b'.').is_some() && self.digits().is_none() {
            self.at = whole;
        }
        let mantissa = self.at;
        if self.take(b'e').or_else(|| self.take(b'E')).is_some() {
            let _ = self.take(b'-').or_else(|| self.take(b'+'));
            if self.digits().is_none() {
                self.at = mantissa;
            }
        }
        Some(Node::Number(self.text[start..self.at].to_owned()))
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn string(&mut self) -> Option<String> {
        self.take(b'"')?;
        let mut string = String::new();
        loop {
            let start = self.at;
            while self.peek().is_some_and(|byte| byte != b'"' && byte != b'\\' && byte >= 0x20) {
                self.at += 1;
            }
            string.push_str(&self.text[start..self.at]);
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(string);
                }
                b'\\' => string.push(self.escape()?),
                _ => return None,
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        self.take(b'\\')?;
        let byte = self.peek()?;
        self.at += 1;
        Some(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.code_unit(),
            _ => return None,
        })
    }

    /// The character of `\uXXXX`, or of two that are a surrogate pair; half a pair is the replacement character.
    fn code_unit(&mut self) -> Option<char> {
        let first = self.hex()?;
        if !(0xD800..0xDC00).contains(&first) || !self.text[self.at..].starts_with("\\u") {
            return Some(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let after_first = self.at;
        self.at += 2;
        let second = self.hex()?;
        if !(0xDC00..0xE000).contains(&second) {
            self.at = after_first;
            return Some(char::REPLACEMENT_CHARACTER);
        }
        char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        self.at += 4;
        u32::from_str_radix(digits, 16).ok()
    }
}

/// An object in the making. A linear search is fastest for the few keys that objects have; past them it would be quadratic.
#[derive(Default)]
struct Entries {
    list: Vec<(String, Node)>,
    index: std::collections::HashMap<String, usize>,
}

impl Entries {
    const FEW: usize = 16;

    fn insert(&mut self, key: String, value: Node) {
        match self.position(&key) {
            Some(position) => self.list[position].1 = value,
            None => {
                if self.list.len() >= Self::FEW {
                    self.index.insert(key.clone(), self.list.len());
                }
                self.list.push((key, value));
            }
        }
    }

    fn position(&self, key: &str) -> Option<usize> {
        let few = self.list.iter().take(Self::FEW).position(|(name, _)| name == key);
        few.or_else(|| self.index.get(key).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Node {
        Node::Text(text.to_owned())
    }

    fn number(text: &str) -> Node {
        Node::Number(text.to_owned())
    }

    #[test]
    fn numbers_keep_their_spelling_and_keys_their_first_place() {
        let node = read(r#" {"b": 3.20, "a": -0, "b": 1E+05} "#).unwrap();
        assert_eq!(node, Node::Map(vec![("b".into(), number("1E+05")), ("a".into(), number("-0"))]));
        let many: Vec<String> = (0..40).map(|key| format!("\"k{key}\":0")).collect();
        let twice = format!("{{{},\"k39\":1,\"k0\":2}}", many.join(","));
        let Some(Node::Map(entries)) = read(&twice) else { panic!() };
        assert_eq!((entries.len(), &entries[39].1, &entries[0].1), (40, &number("1"), &number("2")));
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for bad in [
            "",
            "3",
            "\"a\"",
            "[NaN]",
            "[Infinity]",
            "[-Infinity]",
            "[01]",
            "[1.]",
            "[.5]",
            "[1,]",
            "[1 2]",
            "{1:2}",
            "{\"a\"}",
            "[\"a\nb\"]",
            "[\"\\x\"]",
            "[\"\\u12g4\"]",
            "[\"\\u+123\"]",
            "[1]]",
            "[",
            "{\"a\":",
            "[\"",
            "[tru]",
            "[-]",
            "[\u{a0}1]",
            "[1e]",
            "[\"\\",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn escapes_are_read() {
        let node = read(r#"["\"\\\/\b\f\n\r\t\u00e9\ud83d\ude42", "\ud83d", "\ud83d\u0041"]"#).unwrap();
        let wanted = ["\"\\/\u{8}\u{c}\n\r\té🙂", "\u{fffd}", "\u{fffd}A"];
        assert_eq!(node, Node::List(wanted.map(text).to_vec()));
    }

    #[test]
    fn json_in_strings_becomes_json() {
        let node = read(r#"[" {\"a\": \"[1.50]\"} ", "{no}", "[1"]"#).unwrap();
        let inner = Node::Map(vec![("a".into(), Node::List(vec![number("1.50")]))]);
        assert_eq!(node, Node::List(vec![inner, text("{no}"), text("[1")]));
    }

    #[test]
    fn nesting_has_a_bound() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(&nested(MAX_DEPTH)).is_some());
        assert!(read(&nested(MAX_DEPTH + 1)).is_none());
        assert!(read(&nested(1_000_000)).is_none());
    }
}
