//! Why the spool does not take or give a delivery.

use std::io;
use std::path::{Path, PathBuf};

use crate::domain::ByteSize;
use crate::error::Fault;

/// What was to be done on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskAction {
    /// Making a file or folder.
    Create,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Making it durable.
    Sync,
    /// Removing a file.
    Remove,
}

impl std::fmt::Display for DiskAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DiskAction::Create => "create",
            DiskAction::Read => "read",
            DiskAction::Write => "write",
            DiskAction::Sync => "sync",
            DiskAction::Remove => "remove",
        })
    }
}

/// Why the spool does not take or give a delivery.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpoolError {
    /// Its space is taken by deliveries that are not done.
    #[error("the spool's {max_bytes} are full; retry later")]
    Full {
        /// `spool.max_bytes`.
        max_bytes: ByteSize,
    },
    /// The delivery alone is larger than the spool.
    #[error("a delivery of {bytes} does not fit into the spool's {max_bytes}")]
    TooLarge {
        /// Its size.
        bytes: ByteSize,
        /// `spool.max_bytes`.
        max_bytes: ByteSize,
    },
    /// The file system has no space left, or no quota.
    #[error("no space is left on the disk of {path}")]
    NoSpace {
        /// The file.
        path: PathBuf,
    },
    /// The disk fails.
    #[error("cannot {action} {path}: {message}")]
    Disk {
        /// What was to be done.
        action: DiskAction,
        /// The file or folder.
        path: PathBuf,
        /// What kind of failure it is.
        kind: io::ErrorKind,
        /// What the system said.
        message: String,
    },
    /// Another process has the spool.
    #[error(
        "the spool {path} is in use by another process: is an assayd running already? Each needs a `data_dir` of its own"
    )]
    InUse {
        /// Its folder.
        path: PathBuf,
    },
    /// The entry's bytes are not what was written.
    #[error("the spool's entry at byte {offset} of {path} is damaged")]
    Damaged {
        /// The segment's file.
        path: PathBuf,
        /// Where the entry begins.
        offset: u64,
    },
    /// The spool is closed, or its thread is gone.
    #[error("the spool is closed")]
    Closed,
}

impl SpoolError {
    /// What to do about it.
    pub fn fault(&self) -> Fault {
        match self {
            SpoolError::Full { .. }
            | SpoolError::NoSpace { .. }
            | SpoolError::Disk { .. }
            | SpoolError::Closed => Fault::Transient,
            SpoolError::TooLarge { .. } | SpoolError::Damaged { .. } => Fault::Poison,
            SpoolError::InUse { .. } => Fault::Fatal,
        }
    }

    pub(super) fn disk(action: DiskAction, path: &Path, error: &io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => SpoolError::NoSpace { path },
            kind => SpoolError::Disk { action, path, kind, message: error.to_string() },
        }
    }
}
