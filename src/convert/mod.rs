//! A trace becomes a story: what the agent was asked, thought, called, saw and answered, whatever library reported it.
//! Pure: no clock, no IO, and no panic on any input.

mod alike;
mod atom;
mod block;
mod collect;
mod declared;
mod dialects;
mod draft;
mod ends;
mod gist;
mod indexed;
mod join;
mod langsmith;
mod media;
mod message;
mod offers;
mod pairing;
mod parse;
mod prompts;
mod pseudo;
mod read;
mod runs;
mod talk;
mod tell;
mod text;
mod thread;
mod tree;
mod weave;
mod wrapping;

pub use join::join_runs;
pub use langsmith::{NotRuns, traces_of_runs};
pub use media::attachments;
pub use read::{read, story};
