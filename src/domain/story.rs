//! What an agent did, in causal order, whatever library reported it.

use serde::{Deserialize, Serialize};

use super::{Json, SpanId, Time, TraceId};

/// What a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// What a user asked for.
    Request,
    /// What the agent thought: text beside a tool call, or a reasoning block.
    Thought,
    /// The agent called a tool.
    ToolCall,
    /// A tool's result, or retrieved documents.
    Observation,
    /// What the agent answered: the user, or, for a sub-agent, its caller.
    Answer,
    /// Another agent took over.
    Handoff,
}

/// One step of a story. Fields that do not apply are `None` and absent in JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Position in the story, from 0.
    pub index: usize,
    /// The user turn that it belongs to, from 1.
    pub turn: u32,
    /// What it is.
    pub kind: StepKind,
    /// Who did it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Option<String>,
    /// The request, thought, answer, or observation (a tool's structured result as compact JSON).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub text: Option<String>,
    /// The tool, of calls and observations; the target, of handoffs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool: Option<String>,
    /// The call's arguments.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub arguments: Option<Json>,
    /// Joins a tool call and its observation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub call_id: Option<String>,
    /// Of observations: whether the tool failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub is_error: Option<bool>,
    /// The span that told it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub span_id: Option<SpanId>,
    /// When it happened, by the sender's clock.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub time: Option<Time>,
}

impl Step {
    /// A bare step of `kind`; `index` and `turn` are set when the story is put together.
    pub fn new(kind: StepKind) -> Self {
        Self {
            index: 0,
            turn: 1,
            kind,
            agent: None,
            text: None,
            tool: None,
            arguments: None,
            call_id: None,
            is_error: None,
            span_id: None,
            time: None,
        }
    }
}

/// A tool that agents could call, as it was declared to their model. A sender's text: untrusted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfferedTool {
    /// Its name.
    pub name: String,
    /// What it is said to do.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub description: Option<String>,
    /// The JSON Schema of its arguments.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parameters: Option<Json>,
    /// The agents that could call it; none where the trace does not say.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub agents: Vec<String>,
    /// Known by a run of it alone: no request of a model lists it, so others may have been offered beside it.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub unlisted: bool,
}

/// What a model was told before the conversation: its system prompt. A sender's text: untrusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instructions {
    /// The agents that were told so; none where the trace does not say.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub agents: Vec<String>,
    /// The text.
    pub text: String,
}

/// What an agent did in one trace.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Story {
    /// The trace; none for a story that did not come from one (`/v1/check`).
    pub trace_id: Option<TraceId>,
    /// The conversation or session, if the trace names it.
    pub session_id: Option<String>,
    /// `service.name` of the service whose agent answered.
    pub service: Option<String>,
    /// The agents that took part, in order of appearance.
    pub agents: Vec<String>,
    /// The instructions of the agents' models, each text once; absent in JSON where none were recorded.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub instructions: Vec<Instructions>,
    /// The tools that the agents were offered, each declaration once; absent in JSON where none were recorded.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tools: Vec<OfferedTool>,
    /// The user's latest request.
    pub request: Option<String>,
    /// What happened, in causal order.
    pub steps: Vec<Step>,
    /// The final answer of the last turn, whole.
    pub answer: Option<String>,
    /// The dialects that told it, such as `gen_ai` or `openinference`.
    pub dialects: Vec<String>,
    /// What was cut, by the sender or by us.
    pub truncated: Vec<String>,
    /// What could not be read.
    pub warnings: Vec<String>,
    /// The model that gave the answer. Not part of the story's JSON.
    #[serde(skip)]
    pub model: Option<String>,
    /// `service.version` of that service. Not part of the story's JSON.
    #[serde(skip)]
    pub service_version: Option<String>,
    /// The version of the prompt that the answer was written with, as `NAME@VERSION` where its spans name it. Not part of the
    /// story's JSON.
    #[serde(skip)]
    pub prompt_version: Option<String>,
}

/// Why a trace has no story to evaluate. A skip is a recorded outcome, not an error.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Skip {
    /// No span is of a model, tool or agent.
    #[error("no_agent: no span of this trace is of a model, a tool or an agent")]
    NoAgent,
    /// Spans of models are there, but content was not recorded or is masked.
    #[error("no_content: the instrumentation did not record message content")]
    NoContent,
    /// The story holds steps but no answer: the run failed or ended in a tool call.
    #[error("no_answer: the trace ends without an answer")]
    NoAnswer,
    /// The trace is assayd's own telemetry.
    #[error("own_telemetry: assayd does not evaluate itself")]
    OwnTelemetry,
}

impl Skip {
    /// The word that metrics and verdicts use.
    pub fn reason(&self) -> &'static str {
        match self {
            Skip::NoAgent => "no_agent",
            Skip::NoContent => "no_content",
            Skip::NoAnswer => "no_answer",
            Skip::OwnTelemetry => "own_telemetry",
        }
    }
}
