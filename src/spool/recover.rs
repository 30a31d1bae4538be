//! Reads what an earlier process left: live entries in order, what was torn, what is damaged.

use std::collections::HashMap;

use super::disk::Folder;
use super::format::{Found, Header, Mark, Note, RECORD_HEADER, SEGMENT_HEADER, scan};
use super::ledger::Ledger;
use super::{SpoolError, SpoolId};

/// What was found when the spool was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Entries that are not settled.
    pub entries: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes at the ends of segments that are no whole record: writes that were cut off before they were acknowledged.
    pub torn_bytes: u64,
    /// Places inside segments that are no record: acknowledged deliveries may have been lost there.
    pub damaged_places: usize,
    /// Their bytes.
    pub damaged_bytes: u64,
}

/// A spool as it was found.
pub(super) struct Remains {
    pub recovery: Recovery,
    pub ledger: Ledger,
    pub ids: Vec<SpoolId>,
    /// Of each of them, the shares that are settled.
    pub shares: HashMap<Mark, Vec<u128>>,
    /// Bytes of all segments, by number.
    pub sizes: HashMap<u64, u64>,
    /// A number that no segment has had since the oldest that is left.
    pub next_number: u64,
}

/// Reads all segments of `folder`. Afterwards all of them are sealed: new entries go to a new one.
pub(super) fn recover(folder: &Folder) -> Result<Remains, SpoolError> {
    let mut found = Remains {
        recovery: Recovery::default(),
        ledger: Ledger::default(),
        ids: Vec::new(),
        shares: HashMap::new(),
        sizes: HashMap::new(),
        next_number: 1,
    };
    let mut notes: Vec<(u64, Note)> = Vec::new();
    for number in folder.segments()? {
        found.next_number = number + 1;
        let bytes = folder.read(number)?;
        let Some(header) = Header::decode(&bytes).filter(|header| header.number == number) else {
            // The header is made durable before the first entry is taken: a shorter file never held one.
            if bytes.len() <= SEGMENT_HEADER {
                found.recovery.torn_bytes += bytes.len() as u64;
                folder.remove(number)?;
                continue;
            }
            let aside = folder.set_aside(number)?;
            tracing::error!(file = %aside.display(), bytes = bytes.len(), "a segment of the spool cannot be read and is set aside");
            found.recovery.damaged_places += 1;
            found.recovery.damaged_bytes += bytes.len() as u64;
            continue;
        };
        found.ledger.open(number);
        found.sizes.insert(number, bytes.len() as u64);
        for record in scan(&bytes, header) {
            match record {
                Found::Entry { index, payload, .. } => {
                    found.ledger.appended(Mark { segment: number, index });
                    let offset = (payload.start - RECORD_HEADER) as u64;
                    found.ids.push(SpoolId::new(Mark { segment: number, index }, offset, payload.len()));
                }
                Found::Notes(found) => notes.extend(found.into_iter().map(|note| (number, note))),
                Found::Damaged(range) => {
                    tracing::error!(segment = number, ?range, "a part of the spool is damaged and skipped");
                    found.recovery.damaged_places += 1;
                    found.recovery.damaged_bytes += range.len() as u64;
                }
                Found::Torn(range) => {
                    tracing::warn!(segment = number, ?range, "the end of a segment of the spool was cut off");
                    found.recovery.torn_bytes += range.len() as u64;
                }
            }
        }
        found.ledger.seal(number);
    }
    // After all segments are read: a note may stand before or after what it settles.
    for (at, note) in notes {
        found.ledger.settled(note, at);
    }
    found.shares = found.ledger.shares();
    let ledger = &found.ledger;
    found.ids.retain(|id| ledger.is_live(id.mark()));
    found.recovery.entries = found.ids.len();
    found.recovery.bytes = found.ids.iter().map(|id| id.length() as u64).sum();
    Ok(found)
}
