//! The section `evaluate` of the configuration.

mod check;

use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Criteria, StateOf};
use crate::domain::Json;
use crate::find;

/// What traces are evaluated for, beside the claims of their answers. docs/evaluators.md lists the built-in evaluators and
/// shows own ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluateConfig {
    /// Whether the claims of answers are held against the evidence. Off, only the evaluators below run.
    pub grounding: bool,
    /// The built-in evaluators that run, such as `toxicity`, `prompt_injection`, `loop`, `secrets`.
    #[serde(rename = "use")]
    pub built_in: Vec<String>,
    /// Own evaluators by name, which run; and other settings for built-in ones, under their names.
    pub evaluators: BTreeMap<String, EvaluatorConfig>,
    /// Own metrics by name: the judge alone gives a value of any shape.
    pub metrics: BTreeMap<String, MetricConfig>,
    /// Tool calls of one story that an evaluator of single calls asks about; of more, the last ones.
    pub max_steps: NonZeroUsize,
    /// What whole conversations are evaluated for, if `assemble.sessions` puts them together. Evaluators for which `state` matters
    /// want `conversation` or `story` here.
    pub sessions: SessionEvaluateConfig,
}

/// What conversations are evaluated for; the keys mean what they mean for traces. A `match` by attributes fits none, and `sample`
/// leaves none out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SessionEvaluateConfig {
    /// The built-in evaluators that run over conversations.
    #[serde(rename = "use")]
    pub built_in: Vec<String>,
    /// Own evaluators by name, which run over conversations; and other settings for built-in ones, under their names.
    pub evaluators: BTreeMap<String, EvaluatorConfig>,
    /// Own metrics of conversations by name.
    pub metrics: BTreeMap<String, MetricConfig>,
}

impl Default for EvaluateConfig {
    fn default() -> Self {
        Self {
            grounding: true,
            built_in: Vec::new(),
            evaluators: BTreeMap::new(),
            metrics: BTreeMap::new(),
            max_steps: NonZeroUsize::new(20).expect("20 is not zero"),
            sessions: SessionEvaluateConfig::default(),
        }
    }
}

impl EvaluateConfig {
    /// Judge templates that evaluators and metrics name, each once; whoever asks the judge reads them.
    pub fn prompts(&self) -> BTreeSet<&PathBuf> {
        let sessions = &self.sessions;
        let evaluators = self.evaluators.values().chain(sessions.evaluators.values());
        let metrics = self.metrics.values().chain(sessions.metrics.values());
        let of_evaluators = evaluators.filter_map(|evaluator| evaluator.prompt.as_ref());
        of_evaluators.chain(metrics.filter_map(|metric| metric.prompt.as_ref())).collect()
    }

    /// The same section as it is for conversations: their evaluators and nothing else.
    pub fn of_sessions(&self) -> Self {
        let sessions = self.sessions.clone();
        Self {
            grounding: false,
            built_in: sessions.built_in,
            evaluators: sessions.evaluators,
            metrics: sessions.metrics,
            max_steps: self.max_steps,
            sessions: SessionEvaluateConfig::default(),
        }
    }
}

/// An evaluator of the operator's own, or other settings for a built-in one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluatorConfig {
    /// The kind of question. Own evaluators need it; built-in ones have theirs.
    #[serde(rename = "type")]
    pub kind: Option<QuestionType>,
    /// What is asked. Own evaluators need it.
    pub instructions: Option<String>,
    /// What the labels mean. `choice`: a map of 2 to 255 labels; `score`: a list of 2 to 10 levels, lowest first; `noul`:
    /// `true`, `false` or both, may be left out.
    pub criteria: Option<Criteria>,
    /// What of the story is shown.
    pub state: Option<StateOf>,
    /// Whether it asks once for the story, or once for each tool call of the last turn.
    pub each: Option<Each>,
    /// Labels that count as a failure.
    pub fail: Option<Vec<String>>,
    /// What `secrets` or `pii` look for; no other evaluator has this.
    pub find: Option<Vec<find::Kind>>,
    /// Which traces it is for; all, if not given.
    #[serde(rename = "match")]
    pub matching: Option<MatchConfig>,
    /// The share of those traces, from 0 to 1; which ones is decided by their ids and the evaluator's name.
    pub sample: Option<f64>,
    /// The confidence below which its answers go to the judge, from 0 to 1; not given: `decide.min_confidence`.
    pub min_confidence: Option<f64>,
    /// Whether its questions may go to the judge.
    pub escalate: Option<bool>,
    /// The most questions of it that go to the judge in an hour; beyond them the decision model's answers stay.
    pub escalations_per_hour: Option<NonZeroU32>,
    /// A judge's template of its own (minijinja); see `judge.prompts`.
    pub prompt: Option<PathBuf>,
}

/// A metric of the operator's own: the judge answers, in any shape that the schema allows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MetricConfig {
    /// What is asked.
    pub instructions: Option<String>,
    /// A judge's template of its own (minijinja); see `judge.prompts`. One of this and `instructions` is needed.
    pub prompt: Option<PathBuf>,
    /// The JSON Schema of the value.
    pub schema: Json,
    /// What of the story is shown; the exchange, if not given.
    pub state: Option<StateOf>,
    /// Which traces it is for; all, if not given.
    #[serde(rename = "match")]
    pub matching: Option<MatchConfig>,
    /// The share of those traces, from 0 to 1.
    pub sample: Option<f64>,
}

/// Kinds of questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QuestionType {
    /// Is something true of the state? Labels `true` and `false`.
    Noul,
    /// One of several labels.
    Choice,
    /// One of several levels. Labels `0`, `1`, ….
    Score,
}

/// How often an evaluator asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Each {
    /// Once.
    #[default]
    Story,
    /// Once for each tool call of the last turn.
    ToolCall,
}

/// Which traces. All that is given must fit. Patterns are globs: `*`, `?`, `[a-z]`, `{one,other}`; case counts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MatchConfig {
    /// `service.name`.
    pub service: Option<String>,
    /// An agent that took part.
    pub agent: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// Attributes of any span or of its resource, by name: `deployment.environment.name: prod*`.
    pub attributes: BTreeMap<String, String>,
}
