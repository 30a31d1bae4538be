//! The flow, from span to verdict.
