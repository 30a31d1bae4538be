//! Strands Decider: a Qwen3.5 torso without its language-model head, and a pointer head that answers typed questions.
//! Same prompt, same window, same numbers as the reference, over published checkpoints.

mod config;
mod encoder;
mod engine;
mod error;
mod files;
mod head;
mod json;
mod load;
mod prefix;
mod prompt;
mod readback;
mod schedule;
mod shards;
mod torso;
mod weights;
mod window;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod sharing;

pub use error::LoadError;
pub use files::{Checkpoint, Verified, hash, verify};
pub use json::{JsonError, Node, float_repr};
pub use load::{Options, load, load_on};
pub use prompt::content;
pub use readback::{expected_level, legend, round4};
