//! Evaluation for those who call it: [`Evaluator`] for programs, and one name ([`Backend`]) for every model that can answer, on the
//! command line too.

mod answerer;
mod backend;
mod evaluator;
mod input;
mod labelled;
mod open;

pub use answerer::{Answered, Answerer, Said};
pub use backend::{Backend, BackendError, Endpoint};
pub use evaluator::{Answer, EvaluateError, Evaluation, Evaluator, Unanswered, evaluate, reasoning};
pub use input::Input;
pub use labelled::{Feedback, Item, Labelled, LineError, Record, read_labelled};
pub use open::{OpenError, configure, open};
