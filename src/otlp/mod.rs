//! OTLP protobuf and JSON to domain spans and log records; and, for whoever passes them on, to parts that are as they came.
//!
//! One bad span does not spoil its request: it is set aside with a reason, the others go on. A body that cannot be read at
//! all is a [`DecodeError`]. Nesting is bounded by the decoders (100 messages in protobuf, 128 levels in JSON), and so is
//! every recursion here. Attribute values keep their types; strings move and are not copied again.

mod decoded;
mod json;
mod lenient;
mod outward;
mod parts;
mod protobuf;
mod swell;

pub use decoded::{
    DecodeError, Decoded, Encoding, Reject, Rejects, Signal, decode, decode_any, decode_protobuf,
};
pub use parts::{Part, join, parts};
pub use protobuf::{from_logs, from_traces};
pub use swell::swell;

#[cfg(test)]
mod tests;
