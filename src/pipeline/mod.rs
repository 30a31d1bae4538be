//! The flow, from span to verdict.

mod cascade;

pub use cascade::Cascade;
