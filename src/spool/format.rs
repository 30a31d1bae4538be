//! The bytes of a segment. Pure: encodes records, and reads any bytes back without trusting one of them.
//!
//! A segment is a header and records. A record's header has a checksum of its own, so damage to a payload costs that record
//! only; after damage to a header the next record is looked for. Checksums start from the segment's salt: content that holds
//! the bytes of a record (it is untrusted) is not taken for one.

use std::ops::Range;

/// Bytes of a segment's header.
pub(super) const SEGMENT_HEADER: usize = 32;
/// Bytes of a record's header.
pub(super) const RECORD_HEADER: usize = 24;

const SEGMENT_MAGIC: [u8; 8] = *b"ASSAYDS1";
const RECORD_MAGIC: [u8; 4] = [0xf5, 0xa7, 0x9d, 0xe1];
const ENTRY: u8 = 1;
const MARKS: u8 = 2;
const NOTES: u8 = 3;
const MARK: usize = 12;
const SHARE: usize = size_of::<u128>();

/// A segment's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Its number; later segments have larger ones.
    pub number: u64,
    /// Where its checksums start.
    pub salt: u64,
}

impl Header {
    /// The header's bytes.
    pub fn encode(self) -> [u8; SEGMENT_HEADER] {
        let mut bytes = [0; SEGMENT_HEADER];
        bytes[..8].copy_from_slice(&SEGMENT_MAGIC);
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.salt.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..24]);
        bytes[24..28].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a header; none if it is damaged or of another version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..SEGMENT_HEADER)?;
        let header = Self { number: u64_at(bytes, 8), salt: u64_at(bytes, 16) };
        (header.encode() == bytes).then_some(header)
    }

    fn sum(self, parts: &[&[u8]]) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.salt.to_le_bytes());
        parts.iter().for_each(|part| hasher.update(part));
        hasher.finalize()
    }
}

/// An entry's place. By itself it says that the entry is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Mark {
    /// The entry's segment.
    pub segment: u64,
    /// Its position among the entries of the segment.
    pub index: u32,
}

/// Says that an entry is settled, or one share of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Note {
    /// The entry.
    pub mark: Mark,
    /// The share; none if all of the entry is meant.
    pub share: Option<u128>,
}

impl From<Mark> for Note {
    fn from(mark: Mark) -> Self {
        Self { mark, share: None }
    }
}

/// Appends an entry to `buffer`. The payload has at most `u32::MAX` bytes.
pub(super) fn encode_entry(buffer: &mut Vec<u8>, header: Header, index: u32, kind: u8, payload: &[u8]) {
    encode(buffer, header, index, kind, ENTRY, payload);
}

/// Appends notes to `buffer`, as one record: after a crash all of them are there, or none.
pub(super) fn encode_notes(buffer: &mut Vec<u8>, header: Header, notes: &[Note]) {
    let has_shares = notes.iter().any(|note| note.share.is_some());
    let mut payload = Vec::with_capacity(notes.len() * (MARK + if has_shares { 1 + SHARE } else { 0 }));
    for Note { mark, share } in notes {
        payload.extend_from_slice(&mark.segment.to_le_bytes());
        payload.extend_from_slice(&mark.index.to_le_bytes());
        if has_shares {
            payload.push(u8::from(share.is_some()));
            share.iter().for_each(|share| payload.extend_from_slice(&share.to_be_bytes()));
        }
    }
    // Versions before this one know marks only.
    encode(buffer, header, 0, 0, if has_shares { NOTES } else { MARKS }, &payload);
}

fn encode(buffer: &mut Vec<u8>, segment: Header, index: u32, kind: u8, tag: u8, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("payloads are limited where they enter");
    let mut header = [0; RECORD_HEADER];
    header[..4].copy_from_slice(&RECORD_MAGIC);
    header[4..8].copy_from_slice(&length.to_le_bytes());
    header[8..12].copy_from_slice(&index.to_le_bytes());
    header[12] = kind;
    header[13] = tag;
    let payload_sum = segment.sum(&[payload]);
    header[16..20].copy_from_slice(&payload_sum.to_le_bytes());
    let header_sum = segment.sum(&[&header[..20]]);
    header[20..].copy_from_slice(&header_sum.to_le_bytes());
    buffer.extend_from_slice(&header);
    buffer.extend_from_slice(payload);
}

/// Something found in a segment. Ranges are bytes of the segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// A whole entry.
    Entry {
        /// Its position among the segment's entries.
        index: u32,
        /// What its writer said it is.
        kind: u8,
        /// Where its payload is.
        payload: Range<usize>,
    },
    /// What is settled.
    Notes(Vec<Note>),
    /// Bytes that are no record, with records after them: something was lost.
    Damaged(Range<usize>),
    /// Bytes at the end that are no whole record: a write was cut off.
    Torn(Range<usize>),
}

/// Reads all of a segment's bytes, header included.
pub(super) fn scan(bytes: &[u8], header: Header) -> Scan<'_> {
    Scan { bytes, header, at: SEGMENT_HEADER.min(bytes.len()) }
}

/// Checks and reads one entry's record; none if it is not whole.
pub(super) fn decode_entry(record: &[u8], header: Header) -> Option<(u8, &[u8])> {
    let head = Head::read(record, 0, header)?;
    let payload = record.get(RECORD_HEADER..)?;
    let is_whole =
        head.tag == ENTRY && payload.len() == head.length && header.sum(&[payload]) == head.payload_sum;
    is_whole.then_some((head.kind, payload))
}

/// An iterator over what is in a segment.
pub(super) struct Scan<'a> {
    bytes: &'a [u8],
    header: Header,
    at: usize,
}

struct Head {
    length: usize,
    index: u32,
    kind: u8,
    tag: u8,
    payload_sum: u32,
}

impl Head {
    fn read(bytes: &[u8], at: usize, segment: Header) -> Option<Self> {
        let header = bytes.get(at..at.checked_add(RECORD_HEADER)?)?;
        if header[..4] != RECORD_MAGIC || segment.sum(&[&header[..20]]) != u32_at(header, 20) {
            return None;
        }
        Some(Self {
            length: usize::try_from(u32_at(header, 4)).ok()?,
            index: u32_at(header, 8),
            kind: header[12],
            tag: header[13],
            payload_sum: u32_at(header, 16),
        })
    }
}

impl Iterator for Scan<'_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        let start = self.at;
        if start >= self.bytes.len() {
            return None;
        }
        if let Some(head) = Head::read(self.bytes, start, self.header) {
            let payload = start + RECORD_HEADER..start + RECORD_HEADER + head.length;
            if let Some(content) = self.bytes.get(payload.clone()) {
                self.at = payload.end;
                if self.header.sum(&[content]) != head.payload_sum {
                    return Some(self.bad(start));
                }
                return Some(match head.tag {
                    ENTRY => Found::Entry { index: head.index, kind: head.kind, payload },
                    MARKS => Found::Notes(marks(content)),
                    NOTES => match notes(content) {
                        Some(notes) => Found::Notes(notes),
                        None => Found::Damaged(start..payload.end),
                    },
                    // A whole record of a kind that this version does not know.
                    _ => Found::Damaged(start..payload.end),
                });
            }
        }
        self.at = self.next_record(start + 1);
        // Space that was set aside and never written is no damage.
        if self.at == self.bytes.len() && self.bytes[start..].iter().all(|byte| *byte == 0) {
            return None;
        }
        Some(self.bad(start))
    }
}

impl Scan<'_> {
    /// What lies from `start` to `self.at`, which is no whole record.
    fn bad(&self, start: usize) -> Found {
        if self.at == self.bytes.len() { Found::Torn(start..self.at) } else { Found::Damaged(start..self.at) }
    }

    /// Where the next record's header is, from `from` on; the end if there is none.
    fn next_record(&self, from: usize) -> usize {
        let mut at = from;
        while let Some(offset) =
            self.bytes.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == RECORD_MAGIC[0]))
        {
            at += offset;
            if Head::read(self.bytes, at, self.header).is_some() {
                return at;
            }
            at += 1;
        }
        self.bytes.len()
    }
}

fn marks(payload: &[u8]) -> Vec<Note> {
    payload.chunks_exact(MARK).map(|mark| mark_at(mark).into()).collect()
}

fn notes(mut payload: &[u8]) -> Option<Vec<Note>> {
    let mut notes = Vec::new();
    while !payload.is_empty() {
        let mark = mark_at(payload.get(..MARK)?);
        let has_share = *payload.get(MARK)? == 1;
        payload = &payload[MARK + 1..];
        let mut share = None;
        if has_share {
            share = Some(u128::from_be_bytes(payload.get(..SHARE)?.try_into().ok()?));
            payload = &payload[SHARE..];
        }
        notes.push(Note { mark, share });
    }
    Some(notes)
}

fn mark_at(bytes: &[u8]) -> Mark {
    Mark { segment: u64_at(bytes, 0), index: u32_at(bytes, 8) }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: Header = Header { number: 7, salt: 0x1234_5678_9abc_def0 };

    /// A segment of these payloads, each followed by a mark, and where each record begins.
    fn segment(payloads: &[Vec<u8>]) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = HEADER.encode().to_vec();
        let mut starts = Vec::new();
        for (index, payload) in (0..).zip(payloads) {
            starts.push(bytes.len());
            encode_entry(&mut bytes, HEADER, index, 3, payload);
        }
        starts.push(bytes.len());
        (bytes, starts)
    }

    fn entries(bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        scan(bytes, HEADER)
            .filter_map(|found| match found {
                Found::Entry { index, payload, kind: 3 } => Some((index, bytes[payload].to_vec())),
                _ => None,
            })
            .collect()
    }

    fn lost(bytes: &[u8]) -> usize {
        scan(bytes, HEADER)
            .map(|found| match found {
                Found::Damaged(range) | Found::Torn(range) => range.len(),
                _ => 0,
            })
            .sum()
    }

    #[test]
    fn notes_survive_their_bytes() {
        let mut bytes = HEADER.encode().to_vec();
        let marks = [Mark { segment: 1, index: 2 }, Mark { segment: u64::MAX, index: u32::MAX }];
        let whole: Vec<Note> = marks.iter().map(|mark| Note::from(*mark)).collect();
        let share = |share| Note { mark: marks[0], share: Some(share) };
        let mixed = vec![whole[0], share(7), whole[1], share(u128::MAX)];
        encode_notes(&mut bytes, HEADER, &whole);
        encode_notes(&mut bytes, HEADER, &mixed);
        assert_eq!(scan(&bytes, HEADER).collect::<Vec<_>>(), [Found::Notes(whole), Found::Notes(mixed)]);
    }

    #[test]
    fn unwritten_space_at_the_end_is_no_damage_and_a_header_of_another_version_is_none() {
        let (mut bytes, _) = segment(&[vec![1; 10]]);
        bytes.extend([0; 5000]);
        assert_eq!((entries(&bytes).len(), lost(&bytes)), (1, 0));
        assert_eq!(Header::decode(&bytes), Some(HEADER));
        bytes[7] = b'2';
        assert_eq!(Header::decode(&bytes), None);
        assert_eq!(Header::decode(&bytes[..31]), None);
    }

    #[test]
    fn content_that_looks_like_a_record_is_not_taken_for_one() {
        let mut forged = Vec::new();
        encode_entry(&mut forged, Header { number: 7, salt: 0 }, 99, 3, b"forged");
        let (mut bytes, starts) = segment(&[forged, b"next".to_vec()]);
        // Damage the outer header, so that the next record has to be looked for inside the content.
        bytes[starts[0] + 5] ^= 1;
        assert_eq!(entries(&bytes), [(1, b"next".to_vec())]);
    }

    fn payloads() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let byte = prop_oneof![Just(0xf5_u8), Just(0xa7), Just(0), any::<u8>()];
        prop::collection::vec(prop::collection::vec(byte, 0..60), 1..8)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn what_was_written_is_read(payloads in payloads()) {
            let (bytes, _) = segment(&payloads);
            let expected: Vec<(u32, Vec<u8>)> = (0..).zip(payloads).collect();
            prop_assert_eq!(entries(&bytes), expected);
            prop_assert_eq!(lost(&bytes), 0);
        }

        #[test]
        fn a_cut_loses_the_cut_record_only_and_says_how_much(payloads in payloads(), cut in any::<prop::sample::Index>()) {
            let (bytes, starts) = segment(&payloads);
            let end = SEGMENT_HEADER + cut.index(bytes.len() - SEGMENT_HEADER + 1);
            let whole = starts.iter().filter(|start| **start <= end).count() - 1;
            let found: Vec<Found> = scan(&bytes[..end], HEADER).collect();
            let count = found.iter().filter(|found| matches!(found, Found::Entry { .. })).count();
            prop_assert_eq!(count, whole);
            let torn = end - starts[whole];
            let is_torn = torn > 0 && bytes[starts[whole]..end].iter().any(|byte| *byte != 0);
            prop_assert_eq!(found.last() == Some(&Found::Torn(starts[whole]..end)), is_torn);
            prop_assert!(!found.iter().any(|found| matches!(found, Found::Damaged(_))));
        }

        #[test]
        fn damage_loses_the_records_it_touches_only_and_is_never_silent(
            payloads in payloads(),
            at in any::<prop::sample::Index>(),
            length in 1..40_usize,
            flip in 1..=255_u8,
        ) {
            let (mut bytes, starts) = segment(&payloads);
            let start = SEGMENT_HEADER + at.index(bytes.len() - SEGMENT_HEADER);
            let end = (start + length).min(bytes.len());
            bytes[start..end].iter_mut().for_each(|byte| *byte ^= flip);
            let untouched: Vec<(u32, Vec<u8>)> = (0..)
                .zip(&payloads)
                .filter(|(index, _): &(u32, _)| {
                    let index = *index as usize;
                    starts[index + 1] <= start || starts[index] >= end
                })
                .map(|(index, payload)| (index, payload.clone()))
                .collect();
            prop_assert_eq!(entries(&bytes), untouched);
            prop_assert!(lost(&bytes) > 0);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            scan(&bytes, HEADER).for_each(drop);
            let _ = Header::decode(&bytes);
            let _ = decode_entry(&bytes, HEADER);
        }
    }
}
