//! Evaluation for those who call it: one backend's name for every model, on the command line and in a program.

mod answerer;
mod backend;
mod labelled;
mod open;

pub use answerer::{Answered, Answerer, Said};
pub use backend::{Backend, BackendError, Endpoint};
pub use labelled::{Feedback, Item, Labelled, LineError, Record, read_labelled};
pub use open::{OpenError, configure, open};
