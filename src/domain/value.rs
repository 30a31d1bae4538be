//! Attribute values, as OTLP's `AnyValue`, and the small ordered map that holds them.

use bytes::Bytes;

/// An attribute's value: OTLP's `AnyValue` without its empty cases.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    /// The sender set the key and no value.
    #[default]
    Null,
    /// `boolValue`.
    Bool(bool),
    /// `intValue`.
    Int(i64),
    /// `doubleValue`.
    Double(f64),
    /// `stringValue`.
    String(String),
    /// `bytesValue`.
    Bytes(Bytes),
    /// `arrayValue`.
    List(Vec<Value>),
    /// `kvlistValue`, in the sender's order.
    Map(Attributes),
}

impl Value {
    /// The text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if this is an integer.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// Bytes that this value holds in memory, roughly.
    pub fn weight(&self) -> usize {
        size_of::<Value>()
            + match self {
                Value::String(text) => text.len(),
                Value::Bytes(bytes) => bytes.len(),
                Value::List(items) => items.iter().map(Value::weight).sum(),
                Value::Map(attributes) => attributes.weight(),
                Value::Null | Value::Bool(_) | Value::Int(_) | Value::Double(_) => 0,
            }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::String(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Value::Double(number)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Value::Bool(truth)
    }
}

/// Key-value pairs in the sender's order. A linear search beats a hash at the sizes that spans have (median 15).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attributes(Vec<(String, Value)>);

impl Attributes {
    /// No attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of `key`; the first one if a sender repeats it.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The text of `key`, if it is there and a string.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }

    /// The pairs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a pair at the end.
    pub fn push(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        self.0.push((key.into(), value.into()));
    }

    /// Bytes that the pairs hold in memory, roughly.
    pub fn weight(&self) -> usize {
        self.0.iter().map(|(key, value)| size_of::<String>() + key.len() + value.weight()).sum()
    }
}

impl FromIterator<(String, Value)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl IntoIterator for Attributes {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<(String, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
