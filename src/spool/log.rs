//! The spool as the other rooms see it: append, read, settle, replay.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};

use super::disk::{Folder, read_record, segment_path};
use super::format::{Mark, Note, RECORD_HEADER, decode_entry};
use super::keeper::Keeper;
use super::recover::{Recovery, recover};
use super::writer::{Append, Writer, space};
use super::{Config, SpoolError};
use crate::domain::ByteSize;
use crate::metrics;
use crate::ticket;

/// Memory for entries that wait to be written, in units of [`UNIT`]: one commit's worth for a fast disk.
const ROOM: usize = 32 << 10;
const UNIT: usize = 1 << 10;
/// Marks alone wait this long for company.
const COALESCE: Duration = Duration::from_millis(5);

/// An entry's place in the spool. Not settled, it is replayed at the next start.
#[derive(Debug, PartialEq, Eq)]
pub struct SpoolId {
    entry: Mark,
    offset: u64,
    length: usize,
}

impl SpoolId {
    pub(super) fn new(entry: Mark, offset: u64, length: usize) -> Self {
        Self { entry, offset, length }
    }

    pub(super) fn mark(&self) -> Mark {
        self.entry
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }
}

/// An entry as it is read back.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// What [`Spool::append`] was told it is.
    pub kind: u8,
    /// Its bytes.
    pub bytes: Bytes,
}

/// A durable local log. Clones are handles to the same one.
#[derive(Debug, Clone)]
pub struct Spool(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    folder: PathBuf,
    max_bytes: u64,
    used: Arc<AtomicU64>,
    room: Arc<Semaphore>,
    shared: Arc<Shared>,
    closed: tokio::sync::watch::Receiver<()>,
}

/// What the handles and the writer's thread share.
#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    wake: Condvar,
}

/// Bounded: appends by [`ROOM`], settled ones by the entries that exist and their shares, for each is settled once.
#[derive(Default)]
struct Waiting {
    appends: Vec<Append>,
    settled: Vec<Note>,
    closing: bool,
}

impl Shared {
    fn settled(&self, what: impl Into<Note>) {
        let mut waiting = lock(&self.waiting);
        waiting.settled.push(what.into());
        if waiting.settled.len() == 1 {
            self.wake.notify_one();
        }
    }
}

/// A durable entry on its way to its caller. If that went away, it was never acknowledged and is done.
#[derive(Debug)]
struct Unclaimed {
    id: Option<SpoolId>,
    shared: Arc<Shared>,
}

impl Unclaimed {
    fn claim(mut self) -> Option<SpoolId> {
        self.id.take()
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.shared.settled(id.mark());
        }
    }
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (appends, settled) = (self.appends.len(), self.settled.len());
        f.debug_struct("Waiting")
            .field("appends", &appends)
            .field("settled", &settled)
            .finish_non_exhaustive()
    }
}

/// Entries of an earlier process that are not settled, oldest first.
#[derive(Debug)]
pub struct Replay {
    spool: Spool,
    ids: std::vec::IntoIter<SpoolId>,
    shares: HashMap<Mark, Vec<u128>>,
    recovery: Recovery,
}

impl Spool {
    /// Opens the spool in this folder, reads what an earlier process left (blocking; as long as the disk takes for
    /// `max_bytes`), and starts the writer's thread.
    pub fn open(path: &Path, config: &Config) -> Result<(Self, Replay), SpoolError> {
        let folder = Folder::open(path)?;
        let remains = recover(&folder)?;
        let recovery = remains.recovery;
        metrics::spool_recovered(recovery.entries, recovery.damaged_bytes, recovery.torn_bytes);
        let used = Arc::new(AtomicU64::new(0));
        let keeper = Keeper::start(folder, remains.next_number)?;
        let writer =
            Writer::new(keeper, remains.ledger, remains.sizes, config.segment_bytes.0, Arc::clone(&used));
        let shared = Arc::new(Shared::default());
        let (alive, closed) = tokio::sync::watch::channel(());
        let thread = std::thread::Builder::new().name("spool".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                let ending = Ending { shared, _alive: alive };
                run(&ending.shared, writer);
            }
        });
        thread.map_err(|error| SpoolError::disk(super::DiskAction::Create, path, &error))?;
        let handle = Handle {
            folder: path.to_owned(),
            max_bytes: config.max_bytes.0,
            used,
            room: Arc::new(Semaphore::new(ROOM)),
            shared,
            closed,
        };
        let spool = Self(Arc::new(handle));
        let replay =
            Replay { spool: spool.clone(), ids: remains.ids.into_iter(), shares: remains.shares, recovery };
        Ok((spool, replay))
    }

    /// Appends an entry; durable when this returns. Dropped before, the entry is as good as never written.
    /// Refuses at once when the spool is full; waits while more is being written than memory is set aside for.
    pub async fn append(&self, kind: u8, bytes: Bytes) -> Result<SpoolId, SpoolError> {
        let reserved = self.reserve(bytes.len())?;
        let mut refund = Refund { used: &self.0.used, bytes: reserved };
        let units = bytes.len().div_ceil(UNIT).clamp(1, ROOM) as u32;
        let room =
            Arc::clone(&self.0.room).acquire_many_owned(units).await.map_err(|_| SpoolError::Closed)?;
        let (sender, answer) = oneshot::channel();
        let shared = Arc::clone(&self.0.shared);
        let reply = Box::new(move |result: Result<SpoolId, SpoolError>| {
            let unclaimed = result.map(|id| Unclaimed { id: Some(id), shared });
            // If the caller went away this drops the id, and with it the entry.
            let _ = sender.send(unclaimed);
        });
        {
            let mut waiting = lock(&self.0.shared.waiting);
            if waiting.closing {
                return Err(SpoolError::Closed);
            }
            waiting.appends.push(Append { kind, payload: bytes, reserved, reply, room });
        }
        // From here on the writer answers for the space.
        refund.bytes = 0;
        self.0.shared.wake.notify_one();
        let unclaimed = answer.await.map_err(|_| SpoolError::Closed)??;
        unclaimed.claim().ok_or(SpoolError::Closed)
    }

    /// The entry is done: its space may be used again, and it is not replayed. Never blocks.
    pub fn settled(&self, id: SpoolId) {
        self.0.shared.settled(id.mark());
    }

    /// Says of one share of an entry that it is done: it need not be replayed with the others, if a crash makes a replay of them.
    /// Shares and entries that are settled within one `ticket::together` are noted together. Never blocks.
    pub fn share_settler(&self, id: &SpoolId) -> impl Fn(u128) + Send + Sync + use<> {
        let (shared, mark) = (Arc::clone(&self.0.shared), id.mark());
        move |share| shared.settled(Note { mark, share: Some(share) })
    }

    /// Reads an entry back (blocking), for instance to deliver it again.
    pub fn read(&self, id: &SpoolId) -> Result<Entry, SpoolError> {
        let path = segment_path(&self.0.folder, id.entry.segment);
        let (header, mut record) = read_record(&path, id.offset, RECORD_HEADER + id.length)?;
        let kind = header.and_then(|header| decode_entry(&record, header)).map(|(kind, _)| kind);
        let kind = kind.ok_or(SpoolError::Damaged { path, offset: id.offset })?;
        let bytes = Bytes::from(record.split_off(RECORD_HEADER));
        Ok(Entry { kind, bytes })
    }

    /// Bytes on disk, and promised to entries that are being written.
    pub fn used(&self) -> ByteSize {
        ByteSize(self.0.used.load(Ordering::Relaxed))
    }

    /// Takes no more entries, writes what is settled, and returns when the thread has ended.
    pub async fn close(&self) {
        lock(&self.0.shared.waiting).closing = true;
        self.0.shared.wake.notify_one();
        let mut closed = self.0.closed.clone();
        while closed.changed().await.is_ok() {}
    }

    /// Takes the space for a payload, if there is any.
    fn reserve(&self, payload: usize) -> Result<u64, SpoolError> {
        let (wanted, max) = (space(payload), self.0.max_bytes);
        if wanted > max || u32::try_from(payload).is_err() {
            metrics::spool_appends("too_large", 1);
            return Err(SpoolError::TooLarge { bytes: ByteSize(payload as u64), max_bytes: ByteSize(max) });
        }
        let more = |used: u64| used.checked_add(wanted).filter(|total| *total <= max);
        match self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(wanted),
            Err(_) => {
                metrics::spool_appends("full", 1);
                Err(SpoolError::Full { max_bytes: ByteSize(max) })
            }
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        lock(&self.shared.waiting).closing = true;
        self.shared.wake.notify_one();
    }
}

impl Replay {
    /// What was found.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// The shares of an entry that were settled: they need no replay.
    pub fn shares(&mut self, id: &SpoolId) -> Vec<u128> {
        self.shares.remove(&id.mark()).unwrap_or_default()
    }

    /// The next entry. An error is of that entry alone; it is settled, for it cannot be read again.
    pub async fn next(&mut self) -> Option<Result<(SpoolId, Entry), SpoolError>> {
        let id = self.ids.next()?;
        let spool = self.spool.clone();
        let read = tokio::task::spawn_blocking(move || (spool.read(&id), id)).await;
        Some(match read {
            Ok((Ok(entry), id)) => Ok((id, entry)),
            Ok((Err(error @ SpoolError::Damaged { .. }), id)) => {
                self.spool.settled(id);
                Err(error)
            }
            Ok((Err(error), _)) => Err(error),
            Err(_) => Err(SpoolError::Closed),
        })
    }
}

/// Gives promised space back if an append does not come as far as the writer.
struct Refund<'a> {
    used: &'a AtomicU64,
    bytes: u64,
}

impl Drop for Refund<'_> {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Ends with the writer's thread, also if that panics: nobody is left waiting for an answer.
struct Ending {
    shared: Arc<Shared>,
    _alive: tokio::sync::watch::Sender<()>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut waiting = lock(&self.shared.waiting);
        waiting.closing = true;
        waiting.appends.clear();
    }
}

/// The writer's thread.
fn run(shared: &Shared, mut writer: Writer<Keeper>) {
    writer.sweep(Instant::now());
    loop {
        wait(shared, writer.next_sweep());
        let batch = take(shared);
        let closing = batch.closing && batch.appends.is_empty();
        writer.commit(batch.appends, batch.settled);
        writer.sweep(Instant::now());
        if closing {
            writer.close();
            return;
        }
    }
}

/// Takes everything that waits: what came while the disk was busy goes out together; of what settles one verdict, all or nothing.
fn take(shared: &Shared) -> Waiting {
    ticket::apart(|| {
        let mut waiting = lock(&shared.waiting);
        let closing = waiting.closing;
        std::mem::replace(&mut *waiting, Waiting { closing, ..Waiting::default() })
    })
}

/// Returns when something waits, or after `timeout`.
fn wait(shared: &Shared, timeout: Option<Duration>) {
    let mut waiting = lock(&shared.waiting);
    let started = Instant::now();
    let mut coalescing: Option<Instant> = None;
    while waiting.appends.is_empty() && !waiting.closing {
        let limit = if waiting.settled.is_empty() {
            timeout.map(|timeout| started + timeout)
        } else {
            Some(*coalescing.get_or_insert_with(|| Instant::now() + COALESCE))
        };
        let Some(limit) = limit else {
            waiting = shared.wake.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let left = limit.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        waiting = shared.wake.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Nothing in this lock can be left half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
