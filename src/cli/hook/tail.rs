//! Reads a transcript from its end: it may be large, and only its last turn counts.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context, ensure};

use crate::transcript::Session;

/// Bytes that are read first.
const FIRST: u64 = 4 << 20;

/// Bytes that are read at most. A turn that is longer is checked by what its last part holds.
const MOST: u64 = 256 << 20;

/// The session in the file at `path`, from the beginning of its last turn or earlier.
pub fn read(path: &Path, side: bool) -> anyhow::Result<Session> {
    read_back(path, side, FIRST)
}

fn read_back(path: &Path, side: bool, first: u64) -> anyhow::Result<Session> {
    let mut file =
        File::open(path).with_context(|| format!("cannot open the transcript {}", path.display()))?;
    let about = file.metadata().with_context(|| format!("cannot read the transcript {}", path.display()))?;
    ensure!(about.is_file(), "the transcript {} is not a file", path.display());
    let length = about.len();
    let mut window = first;
    loop {
        let from = length.saturating_sub(window);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        // The agent may write on meanwhile: no more is read than was there.
        (&mut file).take(length - from).read_to_end(&mut bytes).context("cannot read the transcript")?;
        // The first line is not whole; a character cut in two is in it.
        let session = Session::read(&String::from_utf8_lossy(&bytes), side);
        if from == 0 || session.has_request() || window >= MOST {
            return Ok(session);
        }
        window *= 4;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_last_turn_is_found_however_long_the_file_and_the_turn() {
        let user = |text: &str| serde_json::json!({"type": "user", "message": {"content": text}}).to_string();
        let result = |text: &str| {
            serde_json::json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "x", "content": text}]}})
                .to_string()
        };
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for turn in 0..200 {
            writeln!(file, "{}\n{}", user(&format!("é {turn}")), result("old")).unwrap();
        }
        writeln!(file, "{}\n{}", user("last"), result(&"long ".repeat(500))).unwrap();
        write!(file, "{{\"type\":\"assist").unwrap();
        for first in [7, 64, 1000, 1 << 20] {
            let session = read_back(file.path(), false, first).unwrap();
            assert!(session.has_tool_output(), "{first}");
            let told = session.told("x", 100_000);
            assert_eq!(told.story.request.as_deref(), Some("last"), "{first}");
        }
    }

    #[test]
    fn what_is_no_file_is_named() {
        for path in ["/no/such/transcript.jsonl", "/tmp"] {
            let error = read(Path::new(path), false).unwrap_err();
            assert!(format!("{error:#}").contains(path), "{error:#}");
        }
    }
}
