//! The words of the house: what every room may speak of. Data only; no IO, no clock.

mod answer;
mod claim;
mod id;
mod partition;
mod question;
mod session;
mod span;
mod story;
mod time;
mod trajectory;
mod units;
mod value;
mod verdict;

pub use answer::{AnswerBy, Answers, Decision, Nobody, Response};
pub use claim::{Claim, EvidenceRef, EvidenceType, Partition, Standing};
pub use id::{IdError, SpanId, TraceId};
pub use partition::{DecisionStatus, JudgeView, JudgedPartition, LocalView, Placed, Views};
pub use question::{Handling, Inquiry, Json, Kind, Measure, Question, Questions, Ruling, Subject};
pub use session::{Session, SessionTrace};
pub use span::{Closed, Event, Link, LogRecord, Resource, Scope, Span, SpanKind, Status, Trace};
pub use story::{Instructions, OfferedTool, Skip, Step, StepKind, Story};
pub use time::Time;
pub use trajectory::{Ended, RoundSummary, Trajectory, Turn};
pub use units::{ByteSize, Period, UnitError};
pub use value::{Attributes, Value};
pub use verdict::{
    AssayedClaim, Counts, Grounding, JudgeMetric, Label, Outcome, Provenance, TaskAnswer, Tier, Times, Usage,
    Verdict,
};
