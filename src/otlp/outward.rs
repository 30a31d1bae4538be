//! Attributes and values to OTLP protobuf.

use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList, any_value};

use crate::domain::{Attributes, Value};

pub(super) fn attributes(pairs: &Attributes) -> Vec<KeyValue> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, inner)| KeyValue { key: key.to_owned(), value: Some(value(inner)), ..Default::default() })
        .collect()
}

pub(super) fn value(inner: &Value) -> AnyValue {
    let out = match inner {
        Value::Null => None,
        Value::Bool(truth) => Some(any_value::Value::BoolValue(*truth)),
        Value::Int(number) => Some(any_value::Value::IntValue(*number)),
        Value::Double(number) => Some(any_value::Value::DoubleValue(*number)),
        Value::String(text) => Some(any_value::Value::StringValue(text.clone())),
        Value::Bytes(bytes) => Some(any_value::Value::BytesValue(bytes.to_vec())),
        Value::List(items) => {
            Some(any_value::Value::ArrayValue(ArrayValue { values: items.iter().map(value).collect() }))
        }
        Value::Map(map) => Some(any_value::Value::KvlistValue(KeyValueList { values: attributes(map) })),
    };
    AnyValue { value: out }
}
