//! The local decision models; each is known by the room only as a `Decider`.

pub(super) mod starter;
pub mod strands;
