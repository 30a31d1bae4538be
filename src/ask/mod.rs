//! Stories become claims and questions: those about claims, and those of the evaluators that are configured. Pure.

mod bits;
mod blocks;
mod claims;
mod config;
mod derive;
mod evaluators;
mod evidence;
mod excerpt;
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
pub use evaluators::{
    Candidate, Criteria, Each, EvaluateConfig, EvaluatorConfig, Evaluators, Fate, MatchConfig, MetricConfig,
    Need, QuestionType, Selection, SessionEvaluateConfig, StateOf, reference,
};
pub use excerpt::excerpt;
pub use figures::{Figures, figures};
pub use questions::{fingerprint, questions};

#[cfg(test)]
mod tests;
