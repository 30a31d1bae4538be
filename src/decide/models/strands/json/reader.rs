//! Reading JSON with the messages and positions of Python's decoder.

use super::{JsonError, Node, float_repr};

/// Deepest nesting that is read.
const MAX_DEPTH: usize = 200;

pub(super) fn read(text: &str) -> Result<Node, JsonError> {
    let mut reader = Reader { text, at: 0 };
    reader.skip_space();
    let node = reader.value(0)?;
    reader.skip_space();
    if reader.at < text.len() {
        return Err(reader.error("Extra data", reader.at));
    }
    Ok(node)
}

struct Reader<'a> {
    text: &'a str,
    /// In bytes, always on a character boundary.
    at: usize,
}

impl Reader<'_> {
    fn error(&self, message: &'static str, at: usize) -> JsonError {
        JsonError { message, position: self.text[..at].chars().count() }
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.byte(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, JsonError> {
        if depth > MAX_DEPTH {
            return Err(self.error("Nesting too deep", self.at));
        }
        let rest = &self.text[self.at..];
        for (word, node) in [
            ("null", Node::Null),
            ("true", Node::Bool(true)),
            ("false", Node::Bool(false)),
            ("NaN", Node::Number("NaN".to_owned())),
            ("Infinity", Node::Number("Infinity".to_owned())),
            ("-Infinity", Node::Number("-Infinity".to_owned())),
        ] {
            if rest.starts_with(word) {
                self.at += word.len();
                return Ok(node);
            }
        }
        match self.byte() {
            Some(b'"') => self.string().map(Node::String),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            _ => self.number(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Node, JsonError> {
        self.at += 1;
        let mut members: Vec<(String, Node)> = Vec::new();
        // Positions by key: a linear search would make a body of many keys quadratic.
        let mut positions = std::collections::HashMap::new();
        self.skip_space();
        if self.byte() == Some(b'}') {
            self.at += 1;
            return Ok(Node::Object(members));
        }
        loop {
            if self.byte() != Some(b'"') {
                return Err(self.error("Expecting property name enclosed in double quotes", self.at));
            }
            let key = self.string()?;
            self.skip_space();
            if self.byte() != Some(b':') {
                return Err(self.error("Expecting ':' delimiter", self.at));
            }
            self.at += 1;
            self.skip_space();
            let node = self.value(depth + 1)?;
            match positions.get(&key) {
                Some(&position) => {
                    let member: &mut (String, Node) = &mut members[position];
                    member.1 = node;
                }
                None => {
                    positions.insert(key.clone(), members.len());
                    members.push((key, node));
                }
            }
            self.skip_space();
            match self.byte() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Node::Object(members));
                }
                _ => return Err(self.error("Expecting ',' delimiter", self.at)),
            }
            self.skip_space();
        }
    }

    fn array(&mut self, depth: usize) -> Result<Node, JsonError> {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_space();
        if self.byte() == Some(b']') {
            self.at += 1;
            return Ok(Node::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.skip_space();
            match self.byte() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Node::Array(items));
                }
                _ => return Err(self.error("Expecting ',' delimiter", self.at)),
            }
            self.skip_space();
        }
    }

    fn digits(&self, from: usize) -> usize {
        self.text.as_bytes()[from..].iter().take_while(|byte| byte.is_ascii_digit()).count()
    }

    fn number(&mut self) -> Result<Node, JsonError> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut end = start + usize::from(self.byte() == Some(b'-'));
        let whole = if bytes.get(end) == Some(&b'0') { 1 } else { self.digits(end) };
        if whole == 0 {
            return Err(self.error("Expecting value", start));
        }
        end += whole;
        let mut float = false;
        if bytes.get(end) == Some(&b'.') && self.digits(end + 1) > 0 {
            float = true;
            end += 1 + self.digits(end + 1);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let signed = end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            if self.digits(signed.min(bytes.len())) > 0 {
                float = true;
                end = signed + self.digits(signed);
            }
        }
        self.at = end;
        let literal = &self.text[start..end];
        Ok(Node::Number(match literal {
            "-0" => "0".to_owned(),
            _ if float => float_repr(literal.parse().unwrap_or(f64::NAN)),
            _ => literal.to_owned(),
        }))
    }

    fn string(&mut self) -> Result<String, JsonError> {
        let open = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(stop) = rest.find(|c: char| c == '"' || c == '\\' || c < ' ') else {
                return Err(self.error("Unterminated string starting at", open));
            };
            out.push_str(&rest[..stop]);
            self.at += stop;
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape(open)?),
                _ => return Err(self.error("Invalid control character at", self.at)),
            }
        }
    }

    fn escape(&mut self, open: usize) -> Result<char, JsonError> {
        let backslash = self.at;
        let Some(letter) = self.text[backslash + 1..].chars().next() else {
            return Err(self.error("Unterminated string starting at", open));
        };
        self.at = backslash + 1 + letter.len_utf8();
        Ok(match letter {
            '"' | '\\' | '/' => letter,
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => {
                let first = self.hex4(backslash)?;
                if (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with("\\u") {
                    self.at += 2;
                    let second = self.hex4(backslash)?;
                    if (0xdc00..0xe000).contains(&second) {
                        let scalar = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                        return char::from_u32(scalar)
                            .ok_or_else(|| self.error("Lone surrogate at", backslash));
                    }
                }
                // Python would keep half a character here and fail later, when the text is encoded.
                char::from_u32(first).ok_or_else(|| self.error("Lone surrogate at", backslash))?
            }
            _ => return Err(self.error("Invalid \\escape", backslash)),
        })
    }

    fn hex4(&mut self, backslash: usize) -> Result<u32, JsonError> {
        let bytes = self.text.as_bytes().get(self.at..self.at + 4).unwrap_or_default();
        if bytes.len() < 4 || !bytes.iter().all(u8::is_ascii_hexdigit) {
            return Err(self.error("Invalid \\uXXXX escape", backslash + 1));
        }
        self.at += 4;
        Ok(bytes.iter().fold(0, |sum, byte| sum * 16 + char::from(*byte).to_digit(16).unwrap_or(0)))
    }
}
