//! What a Stop hook gets on standard input, and what it says to block.

use serde::Deserialize;

/// The input of a Stop hook, as Claude Code and Codex write it. What else they write is not needed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct HookInput {
    /// The file that the session is written to; none for a session that is not kept.
    #[serde(default)]
    pub transcript_path: Option<String>,
    /// Of a sub-agent's stop: the file of its own session.
    #[serde(default)]
    pub agent_transcript_path: Option<String>,
    /// `Stop`, or `SubagentStop`.
    #[serde(default)]
    pub hook_event_name: Option<String>,
    /// Whether the agent goes on because a Stop hook blocked before.
    #[serde(default)]
    pub stop_hook_active: bool,
    /// The answer that the agent is about to give.
    #[serde(default)]
    pub last_assistant_message: Option<String>,
}

/// Why a text is no hook's input.
#[derive(Debug, thiserror::Error)]
pub enum HookInputError {
    /// Nothing came.
    #[error(
        "standard input is empty: this command is run by Claude Code or Codex as a Stop hook (see docs/hook.md)"
    )]
    Empty,
    /// Not JSON, or a member of another type.
    #[error("standard input is not a Stop hook's JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Another event.
    #[error("the hook's event is {event}, not Stop: only final answers are checked")]
    Event {
        /// Which.
        event: String,
    },
}

impl HookInput {
    /// Reads the input.
    pub fn read(text: &str) -> Result<Self, HookInputError> {
        if text.trim().is_empty() {
            return Err(HookInputError::Empty);
        }
        // By way of a map: serde would also take a list of values in order.
        let members: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text)?;
        let input: Self = serde_json::from_value(members.into())?;
        match input.hook_event_name.as_deref() {
            None | Some("Stop" | "SubagentStop") => Ok(input),
            Some(event) => Err(HookInputError::Event { event: event.to_owned() }),
        }
    }

    /// Whether a sub-agent stops.
    pub fn is_subagent(&self) -> bool {
        self.hook_event_name.as_deref() == Some("SubagentStop")
    }

    /// The transcript of whoever stops.
    pub fn path(&self) -> Option<&str> {
        let own = self.agent_transcript_path.as_deref().filter(|_| self.is_subagent());
        own.or(self.transcript_path.as_deref()).filter(|path| !path.trim().is_empty())
    }

    /// The answer, if the input holds one.
    pub fn answer(&self) -> Option<&str> {
        self.last_assistant_message.as_deref().filter(|answer| !answer.trim().is_empty())
    }
}

/// What the hook prints to send the agent back, with why.
pub fn block(reason: &str) -> String {
    serde_json::json!({ "decision": "block", "reason": reason }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_input_of_both_programs_is_read() {
        let text = r#"{"session_id":"s","transcript_path":"/t.jsonl","cwd":"/","prompt_id":"p","hook_event_name":"Stop",
                       "stop_hook_active":true,"last_assistant_message":"Done.","background_tasks":[]}"#;
        let input = HookInput::read(text).unwrap();
        assert_eq!(
            (input.path(), input.answer(), input.stop_hook_active),
            (Some("/t.jsonl"), Some("Done."), true)
        );
        let bare = HookInput::read(r#"{"transcript_path":null,"last_assistant_message":null}"#).unwrap();
        assert_eq!((bare.path(), bare.answer(), bare.stop_hook_active), (None, None, false));
    }

    #[test]
    fn a_subagents_stop_reads_its_own_transcript() {
        let text = r#"{"transcript_path":"/t.jsonl","agent_transcript_path":"/a.jsonl","hook_event_name":"SubagentStop"}"#;
        assert_eq!(HookInput::read(text).unwrap().path(), Some("/a.jsonl"));
    }

    #[test]
    fn what_is_no_stop_is_told() {
        for text in
            ["", "prose", "[]", r#"{"stop_hook_active":"yes"}"#, r#"{"hook_event_name":"PreToolUse"}"#]
        {
            assert!(HookInput::read(text).is_err(), "{text}");
        }
    }
}
