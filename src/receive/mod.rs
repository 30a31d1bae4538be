//! Where spans come in: OTLP over gRPC and HTTP, files; Kafka later. All go through the [`Door`].

mod door;

pub use door::{Delivery, Door, Refusal};
