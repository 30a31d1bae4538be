//! The file: lines are only added, and each is on the disk before anybody is told so.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::Record;

/// The file cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep feedback in {}, below data_dir: {source}", path.display())]
pub struct FeedbackError {
    /// The file or its folder.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// What an earlier run left.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub records: Vec<Record>,
    /// Bytes at the end that a crash left of an unfinished line; they are gone now.
    pub torn_bytes: usize,
    /// Whole lines that are no records; they stay in the file.
    pub unreadable_lines: usize,
}

#[derive(Debug)]
pub(super) struct Lines {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Lines {
    /// Opens the file in `folder`, which is made if it is missing.
    pub fn open(folder: &Path) -> Result<(Self, Found), FeedbackError> {
        let path = folder.join("feedback.jsonl");
        let told = |source| FeedbackError { path: path.clone(), source };
        fs::create_dir_all(folder).map_err(told)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(told)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(told)?;
        let (found, whole) = read(&text);
        let mut lines = Self { path: path.clone(), file, bytes: whole as u64 };
        if whole < text.len() {
            lines.cut_back().map_err(told)?;
        }
        // The file's name must survive a crash as well.
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(told)?;
        Ok((lines, found))
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a line; returns when it is on the disk. What could not be written whole is cut off again.
    pub fn append(&mut self, line: &[u8]) -> Result<(), FeedbackError> {
        let written = self.write(line);
        if written.is_err()
            && let Err(error) = self.cut_back()
        {
            tracing::error!(%error, "half a line of feedback cannot be removed; the next start does it");
        }
        written.map_err(|source| FeedbackError { path: self.path.clone(), source })
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.bytes))?;
        self.file.write_all(line)?;
        self.file.sync_data()?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    fn cut_back(&mut self) -> io::Result<()> {
        self.file.set_len(self.bytes)?;
        self.file.sync_data()
    }
}

/// The records, and how many bytes are whole lines.
fn read(text: &[u8]) -> (Found, usize) {
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut found = Found { torn_bytes: text.len() - whole, ..Found::default() };
    for line in text[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line) {
            Ok(record) => found.records.push(record),
            Err(_) => found.unreadable_lines += 1,
        }
    }
    (found, whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Time;
    use crate::feedback::{Mark, Predicted, Verdicted, Word};

    fn record(number: u64) -> Record {
        let word = Word {
            verdict_id: format!("v{number}"),
            claim: Some(2),
            label: Some(Mark::Grounded),
            by: None,
            note: Some("zwei\nZeilen".into()),
        };
        let verdicted = Verdicted {
            trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".parse().unwrap()),
            predicted: Predicted::None,
            hallucination_probability: None,
            confidence: Some(0.5),
        };
        Record::new(word, &verdicted, Time(number))
    }

    #[test]
    fn lines_come_back_and_a_torn_end_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let (mut lines, found) = Lines::open(folder.path()).unwrap();
        assert!(found.records.is_empty());
        lines.append(&record(1).line()).unwrap();
        lines.append(b"not a record\n").unwrap();
        lines.append(&record(2).line()).unwrap();
        let torn = &record(3).line()[..40];
        let path = folder.path().join("feedback.jsonl");
        OpenOptions::new().append(true).open(&path).unwrap().write_all(torn).unwrap();

        let (mut lines, found) = Lines::open(folder.path()).unwrap();
        assert_eq!(found.records, [record(1), record(2)]);
        assert_eq!((found.torn_bytes, found.unreadable_lines), (40, 1));
        lines.append(&record(4).line()).unwrap();
        assert_eq!(lines.bytes(), fs::metadata(&path).unwrap().len());
        let (_, found) = Lines::open(folder.path()).unwrap();
        assert_eq!(found.records, [record(1), record(2), record(4)]);
    }

    #[test]
    fn a_line_has_exactly_the_documented_keys() {
        let line: serde_json::Value = serde_json::from_slice(&record(1).line()).unwrap();
        let keys: Vec<&String> = line.as_object().unwrap().keys().collect();
        assert_eq!(
            keys,
            [
                "verdict_id",
                "trace_id",
                "claim",
                "label",
                "predicted",
                "hallucination_probability",
                "confidence",
                "labeled_by",
                "by",
                "note",
                "time"
            ]
        );
        assert_eq!((&line["labeled_by"], &line["predicted"]), (&"human".into(), &"none".into()));
    }
}
