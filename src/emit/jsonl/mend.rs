//! What a file of lines needs from the system: one writer, a whole last line, a name that stays.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Longest unfinished line that a crash of ours can have left; anything longer is somebody else's file.
const LONGEST_TAIL: u64 = 64 << 20;

/// Two processes that append to one file would tear each other's lines when mending.
pub(super) fn lock(file: &File) -> io::Result<()> {
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
pub(super) fn mend(file: &mut File, path: &Path) -> io::Result<u64> {
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

/// Makes a new or renamed file's name durable. Not every system can; the file's content is synced on its own.
pub(super) fn sync_folder(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
        tracing::debug!(folder = %folder.display(), %error, "cannot sync a folder");
    }
}

#[cfg(unix)]
pub(super) fn identity(metadata: &fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
pub(super) fn identity(_: &fs::Metadata) -> Option<(u64, u64)> {
    None
}
