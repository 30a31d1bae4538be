//! Spans become traces: a pure state machine that says when a trace is complete.
