//! A conversation: what was said in the traces of one service that name the same session.

use super::{Closed, Label, Story, Time, TraceId};

/// A conversation that is taken as over.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Its id, as the instrumentation gave it (`gen_ai.conversation.id`, `session.id` and the like).
    pub id: String,
    /// `service.name` of the service that held it.
    pub service: Option<String>,
    /// 0 the first time; one more each time a trace resumed it.
    pub revision: u32,
    /// Why it was taken as over.
    pub closed: Closed,
    /// When.
    pub closed_at: Time,
    /// The traces that it covers, in the order of their answers.
    pub traces: Vec<TraceId>,
    /// All that they tell, each turn once.
    pub story: Story,
    /// The worst label of their verdicts.
    pub label: Option<Label>,
    /// The largest of their verdicts.
    pub hallucination_probability: Option<f64>,
}

/// What one trace contributes to its conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionTrace {
    /// The trace.
    pub trace_id: TraceId,
    /// What it tells.
    pub story: Story,
    /// Its verdict's label.
    pub label: Option<Label>,
    /// Its verdict's probability.
    pub hallucination_probability: Option<f64>,
}
