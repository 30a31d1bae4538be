//! Makes the next segment ahead and removes old ones on a thread of its own: both take as long as several commits on a
//! journalled file system.

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::disk::{Disk, Folder};
use super::format::Header;
use super::{DiskAction, SpoolError};

/// Removals that may be under way; the writer keeps to it (see `MOST_REMOVALS` there).
const QUEUE: usize = 64;

enum Job {
    Make(Header),
    Remove(u64),
}

type Made = Result<(Header, File), SpoolError>;
type Removed = (u64, Result<(), SpoolError>);

/// A folder with its helper.
pub(super) struct Keeper {
    folder: Arc<Folder>,
    next_number: u64,
    /// None once the thread has been told to end.
    jobs: Option<SyncSender<Job>>,
    made: Receiver<Made>,
    removed: Receiver<Removed>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts the thread; segments are numbered from `next_number`.
    pub fn start(folder: Folder, next_number: u64) -> Result<Self, SpoolError> {
        let folder = Arc::new(folder);
        let (jobs, todo) = sync_channel(QUEUE);
        let (make, made) = sync_channel(1);
        let (remove, removed) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new().name("spool-files".to_owned()).spawn({
            let folder = Arc::clone(&folder);
            move || work(&folder, &todo, &make, &remove)
        });
        let thread = thread.map_err(|error| SpoolError::disk(DiskAction::Create, folder.path(), &error))?;
        let mut keeper = Self { folder, next_number, jobs: Some(jobs), made, removed, thread: Some(thread) };
        keeper.make();
        Ok(keeper)
    }

    fn make(&mut self) {
        let header = Header { number: self.next_number, salt: salt() };
        self.next_number += 1;
        self.send(Job::Make(header));
    }

    fn send(&self, job: Job) {
        // It fails only if the thread is gone, which the receivers say too.
        let _ = self.jobs.as_ref().map(|jobs| jobs.send(job));
    }
}

impl Disk for Keeper {
    fn next(&mut self) -> Made {
        let made = self.made.recv().map_err(|_| SpoolError::Closed)?;
        self.make();
        made
    }

    fn write(&mut self, file: &File, number: u64, bytes: &[u8], at: u64) -> Result<(), SpoolError> {
        self.folder.write(file, number, bytes, at)
    }

    fn sync(&mut self, file: &File, number: u64) -> Result<(), SpoolError> {
        self.folder.sync(file, number)
    }

    fn truncate(&mut self, file: &File, number: u64, at: u64) -> Result<(), SpoolError> {
        self.folder.truncate(file, number, at)
    }

    fn remove(&mut self, number: u64) {
        self.send(Job::Remove(number));
    }

    fn removed(&mut self) -> Vec<Removed> {
        self.removed.try_iter().collect()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // The segment that was made ahead holds nothing.
        if let Ok(Ok((header, _))) = self.made.try_recv() {
            let _ = self.folder.remove(header.number);
        }
    }
}

fn work(folder: &Folder, todo: &Receiver<Job>, make: &SyncSender<Made>, remove: &SyncSender<Removed>) {
    while let Ok(job) = todo.recv() {
        let sent = match job {
            Job::Make(header) => make.send(folder.create(header).map(|file| (header, file))).is_ok(),
            Job::Remove(number) => remove.send((number, folder.remove(number))).is_ok(),
        };
        if !sent {
            return;
        }
    }
}

/// Nothing that a sender can know.
fn salt() -> u64 {
    RandomState::new().build_hasher().finish()
}
