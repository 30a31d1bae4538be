//! OTLP protobuf and JSON to domain spans.
