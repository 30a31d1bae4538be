//! A file of JSON lines that outlives crashes, full disks and other people's log rotation.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use futures::future::BoxFuture;

use super::config::{Fsync, JsonlConfig};
use super::lines::{LineFile, Lines, line};
use super::{EmitError, Sink};
use crate::domain::Verdict;
use crate::error::Fault;

/// Longest unfinished line that a crash of ours can have left; anything longer is somebody else's file.
const LONGEST_TAIL: u64 = 64 << 20;

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
            (Err(error), _) => error.kind() == io::ErrorKind::NotFound,
            (_, Err(_)) => false,
        }
    }
}

impl LineFile for JsonlFile {
    fn append(&mut self, lines: &[Vec<u8>]) -> io::Result<()> {
        self.append_at(SystemTime::now(), lines)
    }
}

/// Two processes that append to one file would tear each other's lines when mending.
fn lock(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(io::Error::other("another process is writing to this file")),
        // Some network file systems have no locks; then the operator must keep files apart.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Ends the file with a whole line and gives its length. A crash can leave half a line: it was never reported as written, so
/// it is cut off. A whole verdict that lacks only its newline is kept.
fn mend(file: &mut File, path: &Path) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let tail = tail(file, length)?;
    if tail.is_empty() {
        return Ok(length);
    }
    if serde_json::from_slice::<serde::de::IgnoredAny>(&tail).is_ok() {
        file.write_all(b"\n")?;
        file.sync_all()?;
        return Ok(length + 1);
    }
    let whole = length - tail.len() as u64;
    tracing::warn!(path = %path.display(), bytes = tail.len(), "cut off an unfinished line that a crash has left");
    file.set_len(whole)?;
    file.sync_all()?;
    Ok(whole)
}

/// The bytes behind the last newline.
fn tail(file: &mut File, length: u64) -> io::Result<Vec<u8>> {
    let mut tail = Vec::new();
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(64 << 10);
        let mut piece = vec![0; usize::try_from(end - start).unwrap_or(0)];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut piece)?;
        let newline = piece.iter().rposition(|byte| *byte == b'\n');
        let mut found = piece.split_off(newline.map_or(0, |at| at + 1));
        found.append(&mut tail);
        tail = found;
        if newline.is_some() {
            break;
        }
        if tail.len() as u64 > LONGEST_TAIL {
            return Err(io::Error::other("this file does not hold JSON lines"));
        }
        end = start;
    }
    Ok(tail)
}

/// `verdicts.jsonl` becomes `verdicts.000007.jsonl`: patterns such as `*.jsonl` still find it, in order.
fn numbered(path: &Path, number: u64) -> PathBuf {
    let (stem, extension) = parts(path);
    path.with_file_name(format!("{stem}.{number:06}{extension}"))
}

/// The numbers of the files that were set aside, lowest first.
fn rotated(path: &Path) -> io::Result<Vec<u64>> {
    let (stem, extension) = parts(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix(&stem)?.strip_prefix('.')?.strip_suffix(&extension))
            .filter(|digits| digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|digits| digits.parse::<u64>().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn parts(path: &Path) -> (String, String) {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let extension = path.extension().map_or_else(String::new, |text| format!(".{}", text.to_string_lossy()));
    (stem, extension)
}

/// Makes a new or renamed file's name durable. Not every system can; the file's content is synced on its own.
fn sync_folder(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
        tracing::debug!(folder = %folder.display(), %error, "cannot sync a folder");
    }
}

#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(_: &fs::Metadata) -> Option<(u64, u64)> {
    None
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::time::Duration;

    use super::*;
    use crate::domain::{ByteSize, Period};
    use crate::emit::config::RotateConfig;
    use crate::emit::sample;

    fn config(folder: &tempfile::TempDir, rotate: RotateConfig) -> JsonlConfig {
        JsonlConfig { path: folder.path().join("out/verdicts.jsonl"), fsync: Fsync::Always, rotate }
    }

    fn never() -> RotateConfig {
        RotateConfig { max_bytes: None, max_age: None, keep: None }
    }

    fn verdicts(path: &Path) -> Vec<Verdict> {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn names(folder: &tempfile::TempDir) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder.path().join("out"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn verdicts_are_appended_across_restarts() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..3 {
            let sink = Jsonl::open(config(&folder, never())).unwrap();
            sink.write(&sample::numbered(number)).await.unwrap();
        }
        assert_eq!(verdicts(&folder.path().join("out/verdicts.jsonl")), [0, 1, 2].map(sample::numbered));
    }

    #[tokio::test]
    async fn verdicts_written_at_once_all_arrive_whole() {
        let folder = tempfile::tempdir().unwrap();
        let sink = Jsonl::open(config(&folder, never())).unwrap();
        let writes = (0..200).map(|number| {
            let sink = &sink;
            async move { sink.write(&sample::numbered(number)).await }
        });
        assert!(futures::future::join_all(writes).await.iter().all(Result::is_ok));
        let mut found: Vec<String> = verdicts(&folder.path().join("out/verdicts.jsonl"))
            .into_iter()
            .map(|verdict| verdict.verdict_id)
            .collect();
        found.sort();
        found.dedup();
        assert_eq!(found.len(), 200);
    }

    #[test]
    fn files_stay_below_the_size_and_the_oldest_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let one = line(&sample::numbered(0)).len() as u64;
        let rotate = RotateConfig {
            max_bytes: Some(ByteSize(one * 2 + 10)),
            max_age: None,
            keep: NonZeroUsize::new(2),
        };
        let mut file = JsonlFile::open(config(&folder, rotate)).unwrap();
        let lines: Vec<Vec<u8>> = (0..9).map(|number| line(&sample::numbered(number))).collect();
        file.append(&lines[..5]).unwrap();
        file.append(&lines[5..]).unwrap();
        assert_eq!(names(&folder), ["verdicts.000003.jsonl", "verdicts.000004.jsonl", "verdicts.jsonl"]);
        let out = folder.path().join("out");
        assert_eq!(verdicts(&out.join("verdicts.000003.jsonl")), [4, 5].map(sample::numbered));
        assert_eq!(verdicts(&out.join("verdicts.000004.jsonl")), [6, 7].map(sample::numbered));
        assert_eq!(verdicts(&out.join("verdicts.jsonl")), [8].map(sample::numbered));
    }

    #[test]
    fn a_verdict_above_the_size_has_a_file_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let rotate = RotateConfig { max_bytes: Some(ByteSize(10)), max_age: None, keep: None };
        let mut file = JsonlFile::open(config(&folder, rotate)).unwrap();
        let lines: Vec<Vec<u8>> = (0..2).map(|number| line(&sample::numbered(number))).collect();
        file.append(&lines).unwrap();
        assert_eq!(names(&folder), ["verdicts.000001.jsonl", "verdicts.jsonl"]);
        assert_eq!(verdicts(&folder.path().join("out/verdicts.jsonl")), [sample::numbered(1)]);
    }

    #[test]
    fn an_old_file_is_set_aside_at_the_next_verdict() {
        let folder = tempfile::tempdir().unwrap();
        let rotate = RotateConfig { max_bytes: None, max_age: Some(Period::seconds(3600)), keep: None };
        let mut file = JsonlFile::open(config(&folder, rotate)).unwrap();
        let start = SystemTime::now();
        file.append_at(start, &[line(&sample::numbered(0))]).unwrap();
        file.append_at(start + Duration::from_secs(3000), &[line(&sample::numbered(1))]).unwrap();
        assert_eq!(names(&folder), ["verdicts.jsonl"]);
        file.append_at(start + Duration::from_secs(7200), &[line(&sample::numbered(2))]).unwrap();
        file.append_at(start + Duration::from_secs(7300), &[line(&sample::numbered(3))]).unwrap();
        assert_eq!(names(&folder), ["verdicts.000001.jsonl", "verdicts.jsonl"]);
        assert_eq!(verdicts(&folder.path().join("out/verdicts.jsonl")), [2, 3].map(sample::numbered));
    }

    #[test]
    fn half_a_line_of_a_crash_is_cut_off_and_a_whole_one_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let settings = config(&folder, never());
        fs::create_dir_all(settings.path.parent().unwrap()).unwrap();
        let whole = String::from_utf8(line(&sample::numbered(0))).unwrap();

        fs::write(&settings.path, format!("{whole}{}", &whole[..whole.len() / 2])).unwrap();
        let mut file = JsonlFile::open(settings.clone()).unwrap();
        file.append(&[line(&sample::numbered(1))]).unwrap();
        drop(file);
        assert_eq!(verdicts(&settings.path), [0, 1].map(sample::numbered));

        fs::write(&settings.path, format!("{whole}{}", whole.trim_end())).unwrap();
        let mut file = JsonlFile::open(settings.clone()).unwrap();
        file.append(&[line(&sample::numbered(1))]).unwrap();
        assert_eq!(verdicts(&settings.path), [0, 0, 1].map(sample::numbered));
    }

    #[test]
    fn a_long_torn_line_is_found_across_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let settings = config(&folder, never());
        fs::create_dir_all(settings.path.parent().unwrap()).unwrap();
        fs::write(&settings.path, format!("{{}}\n{{\"a\":\"{}", "x".repeat(300_000))).unwrap();
        let file = JsonlFile::open(settings.clone()).unwrap();
        assert_eq!(file.length, 3);
        assert_eq!(fs::read_to_string(&settings.path).unwrap(), "{}\n");
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

        #[test]
        fn wherever_a_crash_cuts_the_file_all_whole_lines_stay_and_nothing_else(cut in 0usize..6_000) {
            let folder = tempfile::tempdir().unwrap();
            let settings = config(&folder, never());
            fs::create_dir_all(settings.path.parent().unwrap()).unwrap();
            let all: Vec<u8> = (0..3).flat_map(|number| line(&sample::numbered(number))).collect();
            let left = &all[..cut.min(all.len())];
            fs::write(&settings.path, left).unwrap();
            let mut file = JsonlFile::open(settings.clone()).unwrap();
            file.append(&[line(&sample::numbered(9))]).unwrap();
            let one = line(&sample::numbered(0)).len();
            // A line that lacks only its newline is whole.
            let whole = (left.len() + 1) / one;
            let expected: Vec<Verdict> = (0..whole as u64).chain([9]).map(sample::numbered).collect();
            proptest::prop_assert_eq!(verdicts(&settings.path), expected);
        }
    }

    #[test]
    fn pipes_and_devices_are_refused() {
        let device = JsonlConfig { path: "/dev/null".into(), ..JsonlConfig::default() };
        let error = Jsonl::open(device).err().unwrap();
        assert!(error.message.contains("not a regular file"), "{error}");
    }

    #[test]
    fn a_second_writer_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let _first = Jsonl::open(config(&folder, never())).unwrap();
        let error = Jsonl::open(config(&folder, never())).err().unwrap();
        assert_eq!(error.fault, Fault::Fatal);
        assert!(error.message.contains("another process"), "{error}");
    }

    #[test]
    fn a_file_that_somebody_moved_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let settings = config(&folder, never());
        let mut file = JsonlFile::open(settings.clone()).unwrap();
        file.append(&[line(&sample::numbered(0))]).unwrap();
        let moved = settings.path.with_file_name("moved");
        fs::rename(&settings.path, &moved).unwrap();
        file.append(&[line(&sample::numbered(1))]).unwrap();
        assert_eq!(verdicts(&moved), [sample::numbered(0)]);
        assert_eq!(verdicts(&settings.path), [sample::numbered(1)]);
    }

    #[test]
    fn a_failed_write_leaves_no_half_line_behind() {
        let folder = tempfile::tempdir().unwrap();
        let settings = config(&folder, never());
        let mut file = JsonlFile::open(settings.clone()).unwrap();
        file.append(&[line(&sample::numbered(0))]).unwrap();
        // As after a write that a full disk cut short: bytes behind the last whole line, and a handle that cannot write.
        let mut torn = OpenOptions::new().append(true).open(&settings.path).unwrap();
        torn.write_all(b"{\"schema\":1,\"ver").unwrap();
        file.file = File::open(&settings.path).unwrap();
        assert!(file.append(&[line(&sample::numbered(1))]).is_err());
        assert!(file.suspect);
        file.append(&[line(&sample::numbered(1))]).unwrap();
        assert_eq!(verdicts(&settings.path), [0, 1].map(sample::numbered));
    }
}
