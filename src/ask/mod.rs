//! Stories become claims and questions. Pure.

mod bits;
mod blocks;
mod claims;
mod config;
mod evidence;
mod figures;
mod matching;
mod questions;
mod records;
mod sentences;
mod spelling;
mod talk;
mod units;
mod words;

pub use config::Config;
pub use figures::{Figures, figures};
pub use questions::{fingerprint, questions};

#[cfg(test)]
mod tests;
