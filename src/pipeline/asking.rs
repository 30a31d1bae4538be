//! From a story to its questions: the one way of the daemon, of replays, and of those who only want to know what would be asked.

use crate::ask::{self, Candidate, Evaluators, Selection};
use crate::config::Config;
use crate::convert;
use crate::domain::{Questions, Skip, Story, Trace};
use crate::score::Origin;

/// What is asked of stories, by one configuration.
#[derive(Debug, Clone)]
pub struct Asking {
    config: ask::Config,
    evaluators: Evaluators,
}

impl Asking {
    /// By a configuration that was checked. Loads nothing.
    pub fn new(config: &Config) -> Self {
        Self { config: config.ask.clone(), evaluators: Evaluators::new(&config.evaluate) }
    }

    /// What is asked of conversations.
    pub fn of_sessions(config: &Config) -> Self {
        Self { config: config.ask.clone(), evaluators: Evaluators::new(&config.evaluate.of_sessions()) }
    }

    /// The evaluators that run.
    pub fn evaluators(&self) -> &Evaluators {
        &self.evaluators
    }

    /// The questions about a story, and what became of it for each evaluator. `trace` is what it was read from.
    pub fn ask(&self, story: &Story, trace: Option<&Trace>, origin: &Origin) -> (Questions, Vec<Selection>) {
        let candidate = Candidate { story, trace, service: origin.service.as_deref() };
        self.evaluators.ask(&candidate, &self.config)
    }

    /// The questions about a story's claims alone.
    pub fn claims(&self, story: &Story) -> Questions {
        ask::questions(story, &self.config)
    }

    /// What would be asked about a trace, without asking: the story's questions and each evaluator's fate, or why there is no
    /// story.
    pub fn explain(&self, trace: &Trace) -> Result<(Questions, Vec<Selection>), Skip> {
        let story = convert::story(trace)?;
        Ok(self.ask(&story, Some(trace), &Origin::of(trace)))
    }

    /// All that shapes the questions, for the plan's hash.
    pub fn fingerprint(&self) -> serde_json::Value {
        let mut all = serde_json::json!({ "claims": ask::fingerprint(&self.config) });
        let evaluators = self.evaluators.fingerprint();
        if !evaluators.is_null() {
            all["evaluators"] = evaluators.clone();
        }
        all
    }
}
