//! Writes the log: everything that waits goes out in one write and one sync. One thread owns it.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use super::disk::Disk;
use super::format::{Header, Mark, Note, RECORD_HEADER, SEGMENT_HEADER, encode_entry, encode_notes};
use super::ledger::Ledger;
use super::{SpoolError, SpoolId};
use crate::metrics;

/// A segment that is done stays for this long: removing a file takes longer than writing a mark, and can wait.
pub(super) const GRACE: Duration = Duration::from_millis(500);
/// Removals that are under way at most.
const MOST_REMOVALS: usize = 8;
/// So many that what settles one verdict does not come to stand in two records.
const NOTES_PER_RECORD: usize = 1 << 20;
/// So many notes are written without a sync before there is one.
const MOST_LOOSE: usize = 256;

/// An entry that waits to become durable.
pub(super) struct Append {
    pub kind: u8,
    pub payload: Bytes,
    /// Space that it was promised on disk: its payload and its record's header.
    pub reserved: u64,
    /// Called once, with where it is or why it is not.
    pub reply: Box<dyn FnOnce(Result<SpoolId, SpoolError>) + Send>,
    /// Its share of the memory for waiting entries; free when it is written.
    pub room: OwnedSemaphorePermit,
}

struct Active {
    header: Header,
    file: File,
    offset: u64,
    entries: u32,
}

/// The writer of a spool.
pub(super) struct Writer<D> {
    disk: D,
    ledger: Ledger,
    active: Option<Active>,
    segment_bytes: u64,
    /// Bytes on disk by segment.
    sizes: HashMap<u64, u64>,
    /// Bytes on disk and promised; what new entries are measured against.
    used: Arc<AtomicU64>,
    /// Settled, and not yet said so in the log.
    notes: Vec<Note>,
    /// Written since the last sync. A power cut may take any of what is not synced, and a delivery that is noted in whole says the
    /// same of its shares: so each record repeats these, and one that outlives those before it leaves no verdict noted in parts.
    loose: Vec<Note>,
    /// Written and not yet synced.
    unsynced: bool,
    /// Segments that are done, and since when.
    doomed: Vec<(u64, Instant)>,
    /// Segments that are being removed.
    going: Vec<u64>,
    buffer: Vec<u8>,
}

impl<D: Disk> Writer<D> {
    /// A writer that goes on after what `ledger` knows.
    pub fn new(
        disk: D,
        ledger: Ledger,
        sizes: HashMap<u64, u64>,
        segment_bytes: u64,
        used: Arc<AtomicU64>,
    ) -> Self {
        used.store(sizes.values().sum(), Ordering::Relaxed);
        Self {
            disk,
            ledger,
            active: None,
            segment_bytes,
            sizes,
            used,
            notes: Vec::new(),
            loose: Vec::new(),
            unsynced: false,
            doomed: Vec::new(),
            going: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Makes `appends` durable and answers each of them; writes `settled` along.
    pub fn commit(&mut self, appends: Vec<Append>, settled: Vec<Note>) {
        self.notes.extend(settled);
        let mut waiting = VecDeque::from(appends);
        while !waiting.is_empty() {
            if let Err(error) = self.write_some(&mut waiting) {
                tracing::error!(%error, refused = waiting.len(), "the spool cannot write");
                metrics::spool_appends("failed", waiting.len());
                for append in waiting.drain(..) {
                    self.used.fetch_sub(append.reserved, Ordering::Relaxed);
                    (append.reply)(Err(error.clone()));
                }
            }
        }
        if !self.notes.is_empty()
            && let Err(error) = self.write_notes()
        {
            tracing::warn!(%error, "the spool cannot note what is settled; it tries again");
        }
    }

    /// Removes segments that have been done for long enough.
    pub fn sweep(&mut self, now: Instant) {
        for (number, result) in self.disk.removed() {
            self.going.retain(|going| *going != number);
            if let Err(error) = result {
                tracing::warn!(%error, "the spool cannot remove a segment that is done; it tries again");
                self.doomed.push((number, now));
                continue;
            }
            self.ledger.remove(number);
            self.used.fetch_sub(self.sizes.remove(&number).unwrap_or_default(), Ordering::Relaxed);
            metrics::spool_held(self.used.load(Ordering::Relaxed), self.ledger.live());
        }
        for done in self.ledger.done() {
            if !self.going.contains(&done) && !self.doomed.iter().any(|(doomed, _)| *doomed == done) {
                self.notes.extend(self.ledger.needed(done));
                self.doomed.push((done, now));
            }
        }
        let is_ripe = |(_, since): &(u64, Instant)| now.saturating_duration_since(*since) >= GRACE;
        if !self.doomed.iter().any(is_ripe) {
            return;
        }
        // What settled these segments' neighbours has to be durable before the segments go.
        if let Err(error) = self.write_notes().and_then(|()| self.sync()) {
            tracing::warn!(%error, "the spool cannot note what is settled; it keeps the segments");
            return;
        }
        // The oldest first: marks stand in later segments than what they settle.
        self.doomed.sort_unstable_by_key(|(number, _)| *number);
        let room = MOST_REMOVALS - self.going.len();
        let ripe: Vec<u64> = self
            .doomed
            .iter()
            .filter(|doomed| is_ripe(doomed))
            .map(|(number, _)| *number)
            .take(room)
            .collect();
        self.doomed.retain(|(number, _)| !ripe.contains(number));
        for number in ripe {
            self.going.push(number);
            self.disk.remove(number);
        }
    }

    /// When [`Writer::sweep`] has something to do, if nothing else happens.
    pub fn next_sweep(&self) -> Option<Duration> {
        (!self.doomed.is_empty() || !self.going.is_empty() || !self.notes.is_empty()).then_some(GRACE)
    }

    /// Writes what is left to say. Afterwards a spool in which nothing is live is empty.
    pub fn close(&mut self) {
        if let Err(error) = self.write_notes().and_then(|()| self.sync()) {
            tracing::warn!(%error, "the spool cannot note what is settled; it will be replayed");
            return;
        }
        self.seal();
        if self.ledger.live() > 0 {
            return;
        }
        for number in self.ledger.done() {
            if !self.going.contains(&number) {
                self.disk.remove(number);
                // Nobody needs the results any more, but they must not pile up.
                self.disk.removed();
            }
        }
    }

    /// Writes as many entries as the segment takes, with all notes, in one write and one sync.
    fn write_some(&mut self, waiting: &mut VecDeque<Append>) -> Result<(), SpoolError> {
        let mut active = self.take_active()?;
        self.buffer.clear();
        let mut notes = std::mem::take(&mut self.notes);
        self.encode(&notes, active.header);
        let extra = self.buffer.len() as u64;
        let mut taken = Vec::new();
        while let Some(append) = waiting.pop_front() {
            let entry = Mark { segment: active.header.number, index: active.entries + taken.len() as u32 };
            let id = SpoolId::new(entry, active.offset + self.buffer.len() as u64, append.payload.len());
            encode_entry(&mut self.buffer, active.header, entry.index, append.kind, &append.payload);
            taken.push((append, id));
            if active.offset + self.buffer.len() as u64 >= self.segment_bytes {
                break;
            }
        }
        let number = active.header.number;
        let start = Instant::now();
        let written = self.disk.write(&active.file, number, &self.buffer, active.offset);
        if let Err(error) = written.and_then(|()| self.disk.sync(&active.file, number)) {
            self.notes.append(&mut notes);
            self.abandon(&active);
            taken.into_iter().rev().for_each(|(append, _)| waiting.push_front(append));
            return Err(error);
        }
        metrics::spool_commit(taken.len(), self.buffer.len(), start.elapsed());
        self.unsynced = false;
        self.loose.clear();
        active.offset += self.buffer.len() as u64;
        active.entries += taken.len() as u32;
        self.grow(number, extra, self.buffer.len() as u64);
        for note in notes {
            self.ledger.settled(note, number);
        }
        metrics::spool_appends("ok", taken.len());
        for (append, id) in taken {
            self.ledger.appended(id.mark());
            drop(append.room);
            (append.reply)(Ok(id));
        }
        self.active = Some(active);
        metrics::spool_held(self.used.load(Ordering::Relaxed), self.ledger.live());
        Ok(())
    }

    /// Writes the notes alone, not synced: a kill does not lose them, and a power cut only costs a repetition.
    fn write_notes(&mut self) -> Result<(), SpoolError> {
        if self.notes.is_empty() {
            return Ok(());
        }
        if self.loose.len() >= MOST_LOOSE {
            self.sync()?;
        }
        let mut active = self.take_active()?;
        let number = active.header.number;
        let notes = std::mem::take(&mut self.notes);
        self.buffer.clear();
        self.encode(&notes, active.header);
        if let Err(error) = self.disk.write(&active.file, number, &self.buffer, active.offset) {
            self.notes = notes;
            self.abandon(&active);
            return Err(error);
        }
        let length = self.buffer.len() as u64;
        active.offset += length;
        self.grow(number, length, length);
        self.unsynced = true;
        for note in &notes {
            self.ledger.settled(*note, number);
        }
        self.loose.extend(notes);
        self.active = Some(active);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), SpoolError> {
        if !self.unsynced {
            return Ok(());
        }
        if let Some(active) = &self.active {
            self.disk.sync(&active.file, active.header.number)?;
        }
        self.unsynced = false;
        self.loose.clear();
        Ok(())
    }

    /// Adds a record of these notes to the buffer, if there are any.
    fn encode(&mut self, notes: &[Note], header: Header) {
        if notes.is_empty() {
            return;
        }
        let all = [&self.loose[..], notes].concat();
        for part in all.chunks(NOTES_PER_RECORD) {
            encode_notes(&mut self.buffer, header, part);
        }
    }

    /// The segment to write to. It is put back only after a write that went well.
    fn take_active(&mut self) -> Result<Active, SpoolError> {
        if self.active.as_ref().is_some_and(|active| active.offset >= self.segment_bytes) {
            self.sync()?;
            self.seal();
        }
        if let Some(active) = self.active.take() {
            return Ok(active);
        }
        let (header, file) = self.disk.next()?;
        self.ledger.open(header.number);
        self.grow(header.number, SEGMENT_HEADER as u64, SEGMENT_HEADER as u64);
        Ok(Active { header, file, offset: SEGMENT_HEADER as u64, entries: 0 })
    }

    /// After a failed write or sync nobody knows what is on the disk: the last write is taken back, the file is not written to
    /// again, and the marks in it, which may not be durable, are written again elsewhere.
    fn abandon(&mut self, active: &Active) {
        let number = active.header.number;
        let _ = self.disk.truncate(&active.file, number, active.offset);
        self.ledger.seal(number);
        self.notes.extend(self.ledger.notes(number));
        self.unsynced = false;
        self.loose.clear();
    }

    fn seal(&mut self) {
        if let Some(active) = self.active.take() {
            self.ledger.seal(active.header.number);
        }
    }

    /// A segment grew by `length`, of which `unpromised` bytes are not counted yet.
    fn grow(&mut self, number: u64, unpromised: u64, length: u64) {
        *self.sizes.entry(number).or_default() += length;
        self.used.fetch_add(unpromised, Ordering::Relaxed);
    }
}

/// Space that an entry takes on disk.
pub(super) fn space(payload: usize) -> u64 {
    (payload + RECORD_HEADER) as u64
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tokio::sync::{Semaphore, oneshot};

    use super::super::DiskAction;
    use super::super::disk::Folder;
    use super::super::recover::recover;
    use super::*;

    /// A folder whose next writes or syncs fail.
    struct Failing {
        folder: Folder,
        number: u64,
        writes: usize,
        syncs: usize,
        removed: Vec<(u64, Result<(), SpoolError>)>,
    }

    impl Failing {
        fn failure(action: DiskAction) -> SpoolError {
            let error = std::io::Error::from(std::io::ErrorKind::StorageFull);
            SpoolError::disk(action, Path::new("segment"), &error)
        }
    }

    impl Disk for Failing {
        fn next(&mut self) -> Result<(Header, File), SpoolError> {
            self.number += 1;
            let header = Header { number: self.number, salt: 5 };
            self.folder.create(header).map(|file| (header, file))
        }

        fn write(&mut self, file: &File, number: u64, bytes: &[u8], at: u64) -> Result<(), SpoolError> {
            if self.writes > 0 {
                self.writes -= 1;
                // A disk that fills up takes the first part.
                self.folder.write(file, number, &bytes[..bytes.len() / 2], at)?;
                return Err(Self::failure(DiskAction::Write));
            }
            self.folder.write(file, number, bytes, at)
        }

        fn sync(&mut self, file: &File, number: u64) -> Result<(), SpoolError> {
            if self.syncs > 0 {
                self.syncs -= 1;
                return Err(Self::failure(DiskAction::Sync));
            }
            self.folder.sync(file, number)
        }

        fn truncate(&mut self, file: &File, number: u64, at: u64) -> Result<(), SpoolError> {
            self.folder.truncate(file, number, at)
        }

        fn remove(&mut self, number: u64) {
            self.removed.push((number, self.folder.remove(number)));
        }

        fn removed(&mut self) -> Vec<(u64, Result<(), SpoolError>)> {
            std::mem::take(&mut self.removed)
        }
    }

    type Answer = oneshot::Receiver<Result<SpoolId, SpoolError>>;

    fn writer(path: &Path, segment_bytes: u64) -> Writer<Failing> {
        let disk = Failing {
            folder: Folder::open(path).unwrap(),
            number: 0,
            writes: 0,
            syncs: 0,
            removed: Vec::new(),
        };
        Writer::new(disk, Ledger::default(), HashMap::new(), segment_bytes, Arc::new(AtomicU64::new(0)))
    }

    /// An entry of this text, its space taken as the spool does it.
    fn append(writer: &Writer<Failing>, text: &str) -> (Append, Answer) {
        let (reply, answer) = oneshot::channel();
        let room = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let payload = Bytes::copy_from_slice(text.as_bytes());
        let reserved = space(payload.len());
        writer.used.fetch_add(reserved, Ordering::Relaxed);
        let reply = Box::new(move |result| reply.send(result).unwrap());
        (Append { kind: 1, payload, reserved, reply, room }, answer)
    }

    fn commit_one(writer: &mut Writer<Failing>, text: &str) -> Result<SpoolId, SpoolError> {
        let (entry, mut answer) = append(writer, text);
        writer.commit(vec![entry], Vec::new());
        answer.try_recv().unwrap()
    }

    fn size_on_disk(path: &Path) -> u64 {
        let files = std::fs::read_dir(path).unwrap().map(|file| file.unwrap().path());
        files.filter(|path| path.extension().is_some()).map(|path| path.metadata().unwrap().len()).sum()
    }

    /// Entries that the next process would replay.
    fn live_after(writer: Writer<Failing>, path: &Path) -> usize {
        drop(writer);
        let remains = recover(&Folder::open(path).unwrap()).unwrap();
        assert_eq!(remains.recovery.damaged_places, 0);
        remains.ids.len()
    }

    #[test]
    fn a_write_or_sync_that_fails_is_said_takes_nothing_and_the_next_one_works() {
        for (writes, syncs) in [(1, 0), (0, 1)] {
            let folder = tempfile::tempdir().unwrap();
            let mut writer = writer(folder.path(), 1 << 20);
            commit_one(&mut writer, "before").unwrap();
            (writer.disk.writes, writer.disk.syncs) = (writes, syncs);
            let error = commit_one(&mut writer, "refused").unwrap_err();
            assert!(matches!(error, SpoolError::NoSpace { .. }), "{error}");
            commit_one(&mut writer, "after").unwrap();
            assert_eq!(writer.used.load(Ordering::Relaxed), size_on_disk(folder.path()));
            assert_eq!(live_after(writer, folder.path()), 2);
        }
    }

    #[test]
    fn all_that_waits_becomes_durable_together_and_ends_are_kept_between_segments() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path(), 200);
        let (entries, answers): (Vec<_>, Vec<_>) =
            (0..10).map(|number| append(&writer, &format!("entry {number:060}"))).unzip();
        writer.commit(entries, Vec::new());
        let ids: Vec<SpoolId> =
            answers.into_iter().map(|mut answer| answer.try_recv().unwrap().unwrap()).collect();
        let segments: std::collections::BTreeSet<u64> = ids.iter().map(|id| id.mark().segment).collect();
        assert!(segments.len() > 2, "{segments:?}");
        assert_eq!(writer.used.load(Ordering::Relaxed), size_on_disk(folder.path()));
        assert_eq!(live_after(writer, folder.path()), 10);
    }

    #[test]
    fn a_settled_entry_is_not_replayed_and_its_segment_goes_after_the_grace() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path(), 64);
        let first = commit_one(&mut writer, "a text that fills its segment at once, and more").unwrap();
        let second = commit_one(&mut writer, "another text that fills its segment at once").unwrap();
        writer.commit(Vec::new(), vec![first.mark().into()]);
        let now = Instant::now();
        writer.sweep(now);
        let path = super::super::disk::segment_path(folder.path(), first.mark().segment);
        assert!(path.exists(), "it stays for the grace");
        writer.sweep(now + GRACE);
        assert!(!path.exists());
        writer.sweep(now + GRACE);
        assert_eq!(writer.used.load(Ordering::Relaxed), size_on_disk(folder.path()));
        let remains = live_after(writer, folder.path());
        assert_eq!(remains, 1, "{second:?} is live");
    }

    #[test]
    fn what_is_not_synced_is_noted_again_with_what_comes_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path(), 1 << 20);
        let ids: Vec<SpoolId> = (0..4).map(|_| commit_one(&mut writer, "entry").unwrap()).collect();
        writer.commit(Vec::new(), vec![ids[0].mark().into()]);
        writer.commit(Vec::new(), vec![ids[1].mark().into()]);
        let (entry, _answer) = append(&writer, "a write that is synced");
        writer.commit(vec![entry], vec![ids[2].mark().into()]);
        writer.commit(Vec::new(), vec![ids[3].mark().into()]);
        let path = super::super::disk::segment_path(folder.path(), ids[0].mark().segment);
        let bytes = std::fs::read(path).unwrap();
        let header = Header::decode(&bytes).unwrap();
        let records = super::super::format::scan(&bytes, header).filter_map(|found| match found {
            super::super::format::Found::Notes(notes) => Some(notes.len()),
            _ => None,
        });
        assert_eq!(records.collect::<Vec<_>>(), [1, 2, 3, 1]);
    }

    #[test]
    fn marks_outlive_the_segment_that_they_were_written_in() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path(), 300);
        let settled = commit_one(&mut writer, "settled soon").unwrap();
        let _live = commit_one(&mut writer, "never settled").unwrap();
        let filler = commit_one(&mut writer, &"x".repeat(300)).unwrap();
        // In the second segment: the mark for the first one, and an entry that is settled too.
        let mut second = vec![commit_one(&mut writer, "y").unwrap().mark()];
        writer.commit(Vec::new(), vec![settled.mark().into(), filler.mark().into()]);
        second.push(commit_one(&mut writer, &"z".repeat(300)).unwrap().mark());
        assert!(second.iter().all(|mark| mark.segment == settled.mark().segment + 1));
        // In the third: what settles the second.
        let third = commit_one(&mut writer, "in the third").unwrap();
        writer.commit(Vec::new(), second.into_iter().map(Note::from).collect());
        let now = Instant::now();
        writer.sweep(now);
        writer.sweep(now + GRACE);
        let gone = super::super::disk::segment_path(folder.path(), settled.mark().segment + 1);
        assert!(!gone.exists());
        assert_eq!(live_after(writer, folder.path()), 2, "only the one never settled and {third:?}");
    }

    #[test]
    fn marks_that_could_not_be_written_are_written_later() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path(), 1 << 20);
        let id = commit_one(&mut writer, "entry").unwrap();
        writer.disk.writes = 1;
        writer.commit(Vec::new(), vec![id.mark().into()]);
        assert_eq!(writer.ledger.live(), 1);
        writer.commit(Vec::new(), Vec::new());
        assert_eq!(live_after(writer, folder.path()), 0);
    }
}
