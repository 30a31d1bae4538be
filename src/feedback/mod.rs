//! What people say of verdicts: right or wrong. Each word is on disk before it counts; `assayd calibrate` reads them all.
//! One thread owns the file and what it holds; [`Feedback`] speaks to it.

mod agreement;
mod book;
mod config;
mod file;
mod keeper;
mod record;

pub use agreement::{Agreement, Measure};
pub use config::Config;
pub use file::FeedbackError;
pub use keeper::{Feedback, Recorded, Refused};
pub use record::{Labeler, Mark, Predicted, Record, Verdicted, Word};
