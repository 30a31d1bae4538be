//! Where spans come in: OTLP over gRPC and HTTP, Kafka, files. All go through the [`Door`].
//!
//! Nothing is answered with OK and dropped: what is not admitted is refused, with a word on when to come back. Two things are
//! dropped with OK, and counted: log records without a trace, and assayd's own telemetry.

mod body;
mod config;
mod delivery;
mod door;
mod files;
mod grpc;
mod guard;
mod http;
mod intake;
mod kafka;
pub mod ledger;
mod reply;
#[cfg(test)]
pub(crate) mod sample;

pub use config::{Acknowledge, Config, Grpc, Http};
pub use delivery::{Arrival, Delivery, Fence, Raw, Stake, Stakes, share};
pub use door::{Door, Forward, Held, LeftOut, Refusal, Store, open};
pub use files::{FileError, FileProblem, FilesRead, read_files, read_files_telling};
pub use grpc::serve as serve_grpc;
pub use guard::{Guard, GuardError};
pub use http::serve as serve_http;
pub use intake::is_own;
pub use kafka::{
    DeadLetters, Kafka, KafkaFailure, KafkaSource, RetryConfig, RunningKafka, StartAt, ValueEncoding,
    WithoutTopic,
};
