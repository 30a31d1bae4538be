use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::ByteSize;

/// What people say of verdicts, kept in `data_dir/feedback/feedback.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Largest file; beyond it feedback is refused until someone exports and moves it. It is held in memory too.
    pub max_bytes: ByteSize,
}

impl Default for Config {
    fn default() -> Self {
        Self { max_bytes: ByteSize::mib(64) }
    }
}

impl Config {
    /// Adds what is wrong with this section.
    pub fn check(&self, problems: &mut Vec<String>) {
        if self.max_bytes == ByteSize(0) {
            problems.push("feedback.max_bytes (0B) must be above 0".to_owned());
        }
    }
}
