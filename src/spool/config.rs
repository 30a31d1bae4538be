//! The `spool` section.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::ByteSize;

/// The smallest segment: below it a file system spends more on files than on content.
const MIN_SEGMENT: ByteSize = ByteSize(64 << 10);

/// The local log of deliveries for `acknowledge: stored`, in `data_dir`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Disk space for deliveries that are not done, at most. When it is full, senders are told to come back.
    pub max_bytes: ByteSize,
    /// Size of one file of the log; space is given back in files.
    pub segment_bytes: ByteSize,
}

impl Default for Config {
    fn default() -> Self {
        Self { max_bytes: ByteSize(2 << 30), segment_bytes: ByteSize::mib(64) }
    }
}

impl Config {
    /// Adds what is inconsistent to `problems`.
    pub fn check(&self, problems: &mut Vec<String>) {
        let (max, segment) = (self.max_bytes, self.segment_bytes);
        if segment < MIN_SEGMENT || segment > ByteSize(1 << 30) {
            problems.push(format!("spool.segment_bytes ({segment}) must be from {MIN_SEGMENT} to 1GiB"));
        }
        // The space of a segment comes back when all of it is done: with too few of them one slow trace fills the spool.
        if max.0 < segment.0.saturating_mul(4) {
            problems.push(format!(
                "spool.max_bytes ({max}) must be at least four times spool.segment_bytes ({segment})"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_consistent_and_a_spool_of_one_segment_is_not() {
        let mut problems = Vec::new();
        Config::default().check(&mut problems);
        assert!(problems.is_empty());
        Config { max_bytes: ByteSize::mib(64), ..Config::default() }.check(&mut problems);
        assert_eq!(problems.len(), 1, "{problems:?}");
    }
}
