//! What may leave the house: secrets and personal data become markers such as `[EMAIL]` on their way to a judge, a remote model or
//! a sink. What is decided locally is decided on the raw text. Pure.

mod config;
mod mask;
mod redactor;
mod words;

pub use config::{Config, Pattern, PatternError};
pub use mask::Mask;
pub use redactor::Redactor;
