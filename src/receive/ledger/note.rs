//! What is done above a committed offset, as text for the commit's metadata, so that the partition's next owner need not read
//! it again. Pure; reads any text back without trusting it.
//!
//! `assayd1:` and, in base64: the number of runs (varint); the runs, which alternate between open and done from the committed
//! offset on, each in Elias' gamma code (a run of one takes one bit); then, for each open record of which some traces are done,
//! the distance from the one before it (varint), how many traces (varint), and their ids. Offsets that no record has count as
//! done, and everything beyond the last run is open.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

const PREFIX: &str = "assayd1:";
const SHARE: usize = size_of::<u128>();
/// More open records than this nobody has noted: the text is not ours.
const MOST_OPEN: usize = 1 << 20;

/// What a note says of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Note {
    /// The open records below `end`, the lowest first, with the traces of each that are done.
    pub open: Vec<(i64, Vec<u128>)>,
    /// From here on everything is open.
    pub end: i64,
}

/// A note in at most `room` characters, and how many of its parts had to be left out for that. `open` are the open records, the
/// lowest first; the lowest is the one at `offset`, if there is any.
pub(super) fn write<'a>(
    offset: i64,
    open: impl Iterator<Item = (i64, &'a [u128])>,
    end: i64,
    room: usize,
) -> (String, usize) {
    let bytes = room.saturating_sub(PREFIX.len()) / 4 * 3;
    let mut shares = Vec::new();
    let mut runs: Vec<(u64, u64)> = Vec::new();
    let (mut at, mut opened) = (offset, 0_u64);
    for (record, done) in open {
        if !done.is_empty() {
            shares.push((record, done));
        }
        if record > at {
            runs.push((opened, distance(at, record)));
            opened = 0;
        }
        opened += 1;
        at = record + 1;
    }
    if end > at {
        runs.push((opened, distance(at, end)));
    }
    if runs.is_empty() && shares.is_empty() {
        return (String::new(), 0);
    }
    let mut bits = Bits::default();
    // The count before them takes up to ten bytes.
    let space = bytes.saturating_sub(10) * 8;
    let whole = runs.len();
    let fit = runs.iter().take_while(|(open, done)| {
        let fits = bits.length + gamma_length(*open) + gamma_length(*done) <= space;
        if fits {
            bits.gamma(*open);
            bits.gamma(*done);
        }
        fits
    });
    let fit = fit.count();
    let mut text = Vec::new();
    varint(&mut text, fit as u64);
    text.extend(bits.bytes);
    let mut left_out = whole - fit;
    let mut before = offset;
    for (record, done) in shares {
        let start = text.len();
        varint(&mut text, distance(before, record));
        varint(&mut text, done.len() as u64);
        done.iter().for_each(|share| text.extend(share.to_be_bytes()));
        if text.len() > bytes {
            text.truncate(start);
            left_out += 1;
        } else {
            before = record;
        }
    }
    if text.len() > bytes || text == [0] {
        return (String::new(), left_out);
    }
    (format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(text)), left_out)
}

/// Reads a note that was written with this offset; none if it is nobody's, or not ours.
pub(super) fn read(offset: i64, text: &str) -> Option<Note> {
    let bytes = URL_SAFE_NO_PAD.decode(text.strip_prefix(PREFIX)?).ok()?;
    let mut rest = &bytes[..];
    let runs = take_varint(&mut rest)?;
    let mut bits = Reading { bytes: rest, at: 0 };
    let mut note = Note { open: Vec::new(), end: offset };
    for _ in 0..runs {
        let (open, done) = (bits.gamma()?, bits.gamma()?);
        if open > (MOST_OPEN - note.open.len()) as u64 {
            return None;
        }
        let first = note.end;
        note.end = first.checked_add_unsigned(open)?.checked_add_unsigned(done)?;
        note.open.extend((0..open as i64).map(|nth| (first + nth, Vec::new())));
    }
    rest = rest.get(bits.at.div_ceil(8)..)?;
    let mut record = offset;
    while !rest.is_empty() {
        record = record.checked_add_unsigned(take_varint(&mut rest)?)?;
        let count = usize::try_from(take_varint(&mut rest)?).ok()?;
        let length = count.checked_mul(SHARE).filter(|length| *length <= rest.len())?;
        let (ids, more) = rest.split_at(length);
        rest = more;
        let done =
            ids.chunks_exact(SHARE).map(|id| u128::from_be_bytes(id.try_into().expect("16 bytes"))).collect();
        match note.open.binary_search_by_key(&record, |(open, _)| *open) {
            Ok(at) => note.open[at].1 = done,
            // Beyond the runs everything is open; the records up to this one are named one by one.
            Err(_) if record >= note.end => {
                let named = distance(note.end, record);
                if named >= (MOST_OPEN - note.open.len()) as u64 {
                    return None;
                }
                note.open.extend((note.end..record).map(|open| (open, Vec::new())));
                note.open.push((record, done));
                note.end = record.checked_add(1)?;
            }
            Err(_) => return None,
        }
    }
    Some(note)
}

fn distance(from: i64, to: i64) -> u64 {
    to.abs_diff(from)
}

fn varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..63).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn gamma_length(number: u64) -> usize {
    2 * number.max(1).ilog2() as usize + 1
}

#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    length: usize,
}

impl Bits {
    fn push(&mut self, bit: bool) {
        if self.length.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(bit) << (7 - self.length % 8);
        }
        self.length += 1;
    }

    /// A number above zero: as many zeros as it has further digits, then its digits.
    fn gamma(&mut self, number: u64) {
        let digits = number.max(1).ilog2();
        (0..digits).for_each(|_| self.push(false));
        (0..=digits).rev().for_each(|digit| self.push(number >> digit & 1 == 1));
    }
}

struct Reading<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reading<'_> {
    fn bit(&mut self) -> Option<bool> {
        let byte = self.bytes.get(self.at / 8)?;
        let bit = byte >> (7 - self.at % 8) & 1 == 1;
        self.at += 1;
        Some(bit)
    }

    fn gamma(&mut self) -> Option<u64> {
        let mut digits = 0;
        while !self.bit()? {
            digits += 1;
            if digits > 62 {
                return None;
            }
        }
        let mut number = 1_u64;
        for _ in 0..digits {
            number = number << 1 | u64::from(self.bit()?);
        }
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const ROOM: usize = 4_000;

    fn written(offset: i64, open: &BTreeMap<i64, Vec<u128>>, end: i64, room: usize) -> (String, usize) {
        write(offset, open.iter().map(|(record, done)| (*record, &done[..])), end, room)
    }

    #[test]
    fn where_nothing_is_done_above_the_offset_there_is_no_note() {
        let open = BTreeMap::from([(7, vec![]), (8, vec![])]);
        assert_eq!(written(7, &open, 9, ROOM), (String::new(), 0));
        assert_eq!(written(7, &BTreeMap::new(), 7, ROOM), (String::new(), 0));
    }

    #[test]
    fn long_runs_and_a_busy_front_take_little_room() {
        let busy = (0..20_000).filter(|record| record % 7 % 2 == 0 || *record == 0);
        let open: BTreeMap<i64, Vec<u128>> = busy.map(|record| (record, vec![])).collect();
        let (text, left_out) = written(0, &open, 20_000, ROOM);
        assert!(left_out == 0 && text.len() < ROOM, "{} characters, {left_out} left out", text.len());
        let old = BTreeMap::from([(0, vec![]), (5_000_000, vec![])]);
        assert!(written(0, &old, 10_000_000, ROOM).0.len() < 40);
    }

    #[test]
    fn what_is_not_ours_is_no_note() {
        for text in ["", "assayd1", "assayd1:", "assayd1:!!", "assayd2:AQ", "some other consumer's words"] {
            assert_eq!(read(5, text), None, "{text}");
        }
    }

    fn open() -> impl Strategy<Value = BTreeMap<i64, Vec<u128>>> {
        let shares = prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(any::<u128>(), 1..4)];
        prop::collection::vec((1_i64..5, shares), 1..80).prop_map(|records| {
            let mut at = -1;
            let place = |(gap, done)| {
                at += gap;
                (at, done)
            };
            records.into_iter().map(place).collect()
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(mut open in open(), offset in 0_i64..1 << 40, beyond in 0_i64..9) {
            // The committed offset is that of the lowest open record.
            let lowest = *open.keys().next().unwrap();
            open = open.into_iter().map(|(record, done)| (record - lowest + offset, done)).collect();
            let end = open.keys().last().unwrap() + 1 + beyond;
            let (text, left_out) = written(offset, &open, end, 1 << 20);
            prop_assert_eq!(left_out, 0);
            let note = read(offset, &text).unwrap_or(Note { open: Vec::new(), end: offset });
            let found: BTreeMap<i64, Vec<u128>> = note.open.into_iter().collect();
            for record in offset..end {
                let is_open = record >= note.end || found.contains_key(&record);
                prop_assert_eq!(is_open, open.contains_key(&record), "{}", record);
                let done = found.get(&record).cloned().unwrap_or_default();
                prop_assert_eq!(done, open.get(&record).cloned().unwrap_or_default());
            }
        }

        #[test]
        fn with_less_room_less_is_called_done_and_never_more(
            open in open(), beyond in 0_i64..9, room in 0_usize..120
        ) {
            let offset = *open.keys().next().unwrap();
            let end = open.keys().last().unwrap() + 1 + beyond;
            let (text, left_out) = written(offset, &open, end, room);
            prop_assert!(text.len() <= room);
            let note = read(offset, &text).unwrap_or(Note { open: Vec::new(), end: offset });
            let found: BTreeMap<i64, Vec<u128>> = note.open.into_iter().collect();
            let mut is_less = false;
            for record in offset..end {
                let is_done = record < note.end && !found.contains_key(&record);
                prop_assert!(!is_done || !open.contains_key(&record), "{} is open", record);
                is_less |= !is_done && !open.contains_key(&record);
                let done = found.get(&record).cloned().unwrap_or_default();
                let truly = open.get(&record).cloned().unwrap_or_default();
                prop_assert!(done.is_empty() || done == truly);
                is_less |= done != truly;
            }
            prop_assert_eq!(is_less, left_out > 0);
        }

        #[test]
        fn no_text_panics(offset in any::<i64>(), bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = read(offset, &format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)));
        }
    }
}
