//! The files of a spool: one per segment.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::format::Header;
use super::{DiskAction, SpoolError};

const EXTENSION: &str = "spool";
const DAMAGED: &str = "damaged";
const LOCK: &str = "lock";

/// What the writer does to the disk. The tests' second implementation fails where they want it to.
pub(super) trait Disk: Send {
    /// A new segment with its header, durable.
    fn next(&mut self) -> Result<(Header, File), SpoolError>;
    /// Writes at a position.
    fn write(&mut self, file: &File, number: u64, bytes: &[u8], at: u64) -> Result<(), SpoolError>;
    /// Makes what was written durable.
    fn sync(&mut self, file: &File, number: u64) -> Result<(), SpoolError>;
    /// Takes back what was written from a position on.
    fn truncate(&mut self, file: &File, number: u64, at: u64) -> Result<(), SpoolError>;
    /// Begins to remove a segment.
    fn remove(&mut self, number: u64);
    /// Segments whose removal has ended since the last call, and how.
    fn removed(&mut self) -> Vec<(u64, Result<(), SpoolError>)>;
}

/// A folder of segments, locked against other processes as long as this lives.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the folder if need be, and locks it.
    pub fn open(path: &Path) -> Result<Self, SpoolError> {
        fs::create_dir_all(path).map_err(|error| SpoolError::disk(DiskAction::Create, path, &error))?;
        let lock_path = path.join(LOCK);
        let lock = File::create(&lock_path)
            .map_err(|error| SpoolError::disk(DiskAction::Create, &lock_path, &error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(fs::TryLockError::WouldBlock) => Err(SpoolError::InUse { path: path.to_owned() }),
            Err(fs::TryLockError::Error(error)) => {
                Err(SpoolError::disk(DiskAction::Create, &lock_path, &error))
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Numbers of the segments that are there, in order.
    pub fn segments(&self) -> Result<Vec<u64>, SpoolError> {
        let read = |error: io::Error| SpoolError::disk(DiskAction::Read, &self.path, &error);
        let mut numbers = Vec::new();
        for file in fs::read_dir(&self.path).map_err(read)? {
            let path = file.map_err(read)?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            if path.extension().is_some_and(|extension| extension == EXTENSION)
                && let Ok(number) = u64::from_str_radix(stem, 16)
            {
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// A segment's bytes.
    pub fn read(&self, number: u64) -> Result<Vec<u8>, SpoolError> {
        let path = segment_path(&self.path, number);
        fs::read(&path).map_err(|error| SpoolError::disk(DiskAction::Read, &path, &error))
    }

    /// Sets a segment aside that cannot be read at all: for a person to look at, and not in our way again.
    pub fn set_aside(&self, number: u64) -> Result<PathBuf, SpoolError> {
        let path = segment_path(&self.path, number);
        let aside = path.with_extension(DAMAGED);
        fs::rename(&path, &aside).map_err(|error| SpoolError::disk(DiskAction::Write, &path, &error))?;
        Ok(aside)
    }
}

impl Folder {
    /// Makes a segment with its header, durable.
    pub fn create(&self, header: Header) -> Result<File, SpoolError> {
        let number = header.number;
        let path = segment_path(&self.path, number);
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(|error| self.failed(DiskAction::Create, number, &error))?;
        let made = || {
            let write = |error| self.failed(DiskAction::Write, number, &error);
            let sync = |error| self.failed(DiskAction::Sync, number, &error);
            file.write_all_at(&header.encode(), 0).map_err(write)?;
            file.sync_all().map_err(sync)?;
            File::open(&self.path).and_then(|folder| folder.sync_all()).map_err(sync)
        };
        if let Err(error) = made() {
            // A segment without its header holds nothing; the next one has another number.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(file)
    }

    /// Writes at a position.
    pub fn write(&self, file: &File, number: u64, bytes: &[u8], at: u64) -> Result<(), SpoolError> {
        file.write_all_at(bytes, at).map_err(|error| self.failed(DiskAction::Write, number, &error))
    }

    /// Makes what was written durable.
    pub fn sync(&self, file: &File, number: u64) -> Result<(), SpoolError> {
        file.sync_data().map_err(|error| self.failed(DiskAction::Sync, number, &error))
    }

    /// Takes back what was written from a position on.
    pub fn truncate(&self, file: &File, number: u64, at: u64) -> Result<(), SpoolError> {
        file.set_len(at).map_err(|error| self.failed(DiskAction::Write, number, &error))
    }

    /// Removes a segment.
    pub fn remove(&self, number: u64) -> Result<(), SpoolError> {
        match fs::remove_file(segment_path(&self.path, number)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.failed(DiskAction::Remove, number, &error))
            }
            _ => Ok(()),
        }
    }

    fn failed(&self, action: DiskAction, number: u64, error: &io::Error) -> SpoolError {
        SpoolError::disk(action, &segment_path(&self.path, number), error)
    }
}

/// The file of a segment.
pub(super) fn segment_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:016x}.{EXTENSION}"))
}

/// Reads a segment's header and one of its records.
pub(super) fn read_record(
    path: &Path,
    offset: u64,
    length: usize,
) -> Result<(Option<Header>, Vec<u8>), SpoolError> {
    let failed = |error: io::Error| SpoolError::disk(DiskAction::Read, path, &error);
    let file = File::open(path).map_err(failed)?;
    let mut header = [0; super::format::SEGMENT_HEADER];
    file.read_exact_at(&mut header, 0).map_err(failed)?;
    let mut record = vec![0; length];
    file.read_exact_at(&mut record, offset).map_err(failed)?;
    Ok((Header::decode(&header), record))
}
