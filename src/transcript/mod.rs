//! What coding agents write down of a session, as a story: the transcripts of Claude Code and Codex, and the input and
//! output of their Stop hooks. Pure.

mod claude;
mod codex;
mod event;
mod hook;
mod session;
mod text;

pub use hook::{HookInput, HookInputError, block};
pub use session::{Session, Told};
