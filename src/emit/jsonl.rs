//! A file of JSON lines that outlives crashes, full disks and other people's log rotation.

mod mend;
mod names;
#[cfg(test)]
mod tests;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::time::SystemTime;

use futures::future::BoxFuture;

use self::mend::{identity, lock, mend, sync_folder};
use self::names::{numbered, rotated};
use super::config::{Fsync, JsonlConfig};
use super::lines::{LineFile, Lines, line};
use super::{EmitError, Sink};
use crate::domain::Verdict;
use crate::error::Fault;

/// Appends verdicts to a file.
pub struct Jsonl {
    lines: Lines,
}

impl Jsonl {
    /// Opens the file, mends its end and starts writing.
    pub fn open(config: JsonlConfig) -> Result<Self, EmitError> {
        let path = config.path.display().to_string();
        let fatal = |error: io::Error| EmitError {
            sink: "jsonl",
            message: format!("{path}: {error}"),
            fault: Fault::Fatal,
        };
        let file = JsonlFile::open(config).map_err(fatal)?;
        Ok(Self { lines: Lines::start("jsonl", file).map_err(fatal)? })
    }
}

impl Sink for Jsonl {
    fn write<'a>(&'a self, verdict: &'a Verdict) -> BoxFuture<'a, Result<(), EmitError>> {
        Box::pin(self.lines.write(line(verdict)))
    }
}

struct JsonlFile {
    config: JsonlConfig,
    file: File,
    /// Bytes of whole lines; what lies behind them is from a write that failed.
    length: u64,
    began: SystemTime,
    /// The end of the file could not be mended after a failure: open it again before the next write.
    suspect: bool,
}

impl JsonlFile {
    fn open(config: JsonlConfig) -> io::Result<Self> {
        if let Some(folder) = config.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)?;
        }
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(&config.path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("not a regular file; for pipes and terminals there is emit.stdout"));
        }
        lock(&file)?;
        let length = mend(&mut file, &config.path)?;
        let metadata = file.metadata()?;
        let began = metadata.created().unwrap_or_else(|_| SystemTime::now());
        sync_folder(&config.path);
        Ok(Self { config, file, length, began, suspect: false })
    }

    fn append_at(&mut self, now: SystemTime, lines: &[Vec<u8>]) -> io::Result<()> {
        if self.suspect || self.was_moved_away() {
            self.reopen()?;
        }
        if self.is_old(now) {
            self.rotate(now)?;
        }
        let mut group = Vec::new();
        for line in lines {
            let filled = self.length + group.len() as u64;
            if filled > 0 && self.is_above_limit(filled + line.len() as u64) {
                self.write(&group)?;
                group.clear();
                self.rotate(now)?;
            }
            group.extend_from_slice(line);
        }
        self.write(&group)
    }

    fn is_old(&self, now: SystemTime) -> bool {
        let age = now.duration_since(self.began).unwrap_or_default();
        self.length > 0 && self.config.rotate.max_age.is_some_and(|most| age >= most.0)
    }

    fn is_above_limit(&self, bytes: u64) -> bool {
        self.config.rotate.max_bytes.is_some_and(|most| bytes > most.0)
    }

    fn write(&mut self, group: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(group).and_then(|()| match self.config.fsync {
            Fsync::Always => self.file.sync_data(),
            Fsync::Never => Ok(()),
        });
        match written {
            Ok(()) => self.length += group.len() as u64,
            // A full disk leaves half a line. Without this the next line would be glued to it.
            Err(_) => self.suspect = self.file.set_len(self.length).is_err(),
        }
        written
    }

    fn rotate(&mut self, now: SystemTime) -> io::Result<()> {
        let mut numbers = rotated(&self.config.path)?;
        let next = numbers.last().copied().unwrap_or(0) + 1;
        self.file.sync_all()?;
        fs::rename(&self.config.path, numbered(&self.config.path, next))?;
        numbers.push(next);
        self.suspect = true;
        self.reopen()?;
        self.began = now;
        let kept = self.config.rotate.keep.map_or(usize::MAX, |keep| keep.get());
        for number in numbers.iter().take(numbers.len().saturating_sub(kept)) {
            let path = numbered(&self.config.path, *number);
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "cannot remove an old file of verdicts");
            }
        }
        Ok(())
    }

    fn reopen(&mut self) -> io::Result<()> {
        // Our own lock would keep us out. Where there are no locks, there is none to release.
        self.file.unlock().ok();
        *self = Self::open(self.config.clone())?;
        Ok(())
    }

    /// Whether somebody renamed or removed the file under us, as logrotate does.
    fn was_moved_away(&self) -> bool {
        match (fs::metadata(&self.config.path), self.file.metadata()) {
            (Ok(there), Ok(ours)) => identity(&there) != identity(&ours),
            (Err(error), _) => matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
            (_, Err(_)) => false,
        }
    }
}

impl LineFile for JsonlFile {
    fn append(&mut self, lines: &[Vec<u8>]) -> io::Result<()> {
        self.append_at(SystemTime::now(), lines)
    }
}
