//! Evaluators: which questions a story is asked beside those about its claims. A built-in catalogue, the operator's own
//! ones, and what each looks at, in which traces, how often.

mod arguments;
mod catalogue;
mod config;
mod criteria;
mod evaluator;
mod leaks;
mod loops;
mod offered;
mod page;
mod scope;
mod selection;
mod state;
mod suggest;
mod verbatim;

pub use config::{
    Each, EvaluateConfig, EvaluatorConfig, MatchConfig, MetricConfig, QuestionType, SessionEvaluateConfig,
};
pub use criteria::Criteria;
pub use evaluator::Evaluators;
pub use page::reference;
pub use scope::Candidate;
pub use selection::{Fate, Need, Selection};
pub use state::StateOf;

#[cfg(test)]
mod tests;
