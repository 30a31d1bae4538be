//! Finds secrets and personal data in text: known shapes, confirmed by checksums and entropy where there are such. Pure.
//! Evaluators look for leaks with it; whoever masks text uses the same finders.

mod checks;
mod kind;
mod personal;
mod placeholder;
mod scan;
mod secrets;

pub use checks::{entropy, iban, luhn};
pub use kind::Kind;
pub use scan::{Finding, find, masked};
