//! All that people said: the last word of each person on each thing. Pure; the file is elsewhere.

use std::collections::HashMap;

use super::agreement::Confusion;
use super::{Record, Verdicted};

/// What a word changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// It is the first of this person on this thing, or differs from the one before.
    Changed,
    /// The same person said the same before.
    Same,
}

/// Who spoke of what.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Target {
    verdict_id: String,
    claim: Option<u32>,
    by: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Book {
    /// In order of the first word on each target.
    records: Vec<Record>,
    places: HashMap<Target, usize>,
    by_verdict: HashMap<String, Vec<usize>>,
    confusion: Confusion,
}

impl Book {
    /// What taking `record` would change.
    pub fn would(&self, record: &Record) -> Change {
        match self.places.get(&target(record)).map(|place| &self.records[*place]) {
            Some(before) if before.label == record.label && before.note == record.note => Change::Same,
            None if record.label.is_none() => Change::Same,
            Some(_) | None => Change::Changed,
        }
    }

    /// The last word counts.
    pub fn take(&mut self, record: Record) {
        self.confusion.add(&record);
        match self.places.get(&target(&record)) {
            Some(&place) => {
                self.confusion.remove(&self.records[place]);
                self.records[place] = record;
            }
            None => {
                let place = self.records.len();
                self.places.insert(target(&record), place);
                self.by_verdict.entry(record.verdict_id.clone()).or_default().push(place);
                self.records.push(record);
            }
        }
    }

    /// The same person's word that counts now.
    pub fn current(&self, record: &Record) -> Option<&Record> {
        self.places.get(&target(record)).map(|place| &self.records[*place])
    }

    /// What the verdict had said of this thing, if somebody spoke of it before.
    pub fn verdicted(&self, verdict_id: &str, claim: Option<u32>) -> Option<Verdicted> {
        self.all_of(verdict_id).find(|record| record.claim == claim).map(Record::verdicted)
    }

    /// What counts of what was said of a verdict.
    pub fn of(&self, verdict_id: &str) -> impl Iterator<Item = &Record> {
        self.all_of(verdict_id).filter(|record| record.label.is_some())
    }

    /// All that counts, as lines of JSON.
    pub fn export(&self) -> Vec<u8> {
        let labels = self.records.iter().filter(|record| record.label.is_some());
        labels.flat_map(Record::line).collect()
    }

    pub fn confusion(&self) -> &Confusion {
        &self.confusion
    }

    fn all_of(&self, verdict_id: &str) -> impl Iterator<Item = &Record> {
        self.by_verdict.get(verdict_id).into_iter().flatten().map(|place| &self.records[*place])
    }
}

fn target(record: &Record) -> Target {
    Target { verdict_id: record.verdict_id.clone(), claim: record.claim, by: record.by.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Time;
    use crate::feedback::{Mark, Predicted, Word};

    fn record(by: &str, claim: Option<u32>, label: Option<Mark>) -> Record {
        let word = Word { verdict_id: "v".into(), claim, label, by: Some(by.into()), note: None };
        let verdicted = Verdicted {
            trace_id: None,
            predicted: if claim.is_some() { Predicted::Grounded } else { Predicted::Hallucination },
            hallucination_probability: Some(0.9),
            confidence: None,
        };
        Record::new(word, &verdicted, Time(1))
    }

    #[test]
    fn the_last_word_of_each_person_on_each_thing_counts() {
        let mut book = Book::default();
        let first = record("ann", None, Some(Mark::Faithful));
        assert_eq!(book.would(&first), Change::Changed);
        book.take(first.clone());
        assert_eq!(book.would(&Record { time: Time(9), ..first }), Change::Same);
        book.take(record("bob", None, Some(Mark::Faithful)));
        book.take(record("ann", Some(0), Some(Mark::Contradicted)));
        book.take(record("ann", None, Some(Mark::Hallucination)));
        let said: Vec<_> = book.of("v").map(|record| (record.claim, record.label.unwrap())).collect();
        assert_eq!(
            said,
            [(None, Mark::Hallucination), (None, Mark::Faithful), (Some(0), Mark::Contradicted)]
        );
        let agreement = book.confusion().agreement();
        assert_eq!((agreement.verdicts.true_positives, agreement.verdicts.false_positives), (1, 1));
        assert_eq!(agreement.claims.false_negatives, 1);
        assert_eq!(book.export().iter().filter(|byte| **byte == b'\n').count(), 3);
    }

    #[test]
    fn a_word_can_be_taken_back() {
        let mut book = Book::default();
        let withdrawn = record("ann", None, None);
        assert_eq!(book.would(&withdrawn), Change::Same, "there is nothing to take back");
        book.take(record("ann", None, Some(Mark::Faithful)));
        assert_eq!(book.would(&withdrawn), Change::Changed);
        book.take(withdrawn);
        assert_eq!(book.of("v").count(), 0);
        assert!(book.export().is_empty());
        assert_eq!(book.confusion().agreement().verdicts.labels, 0);
        assert_eq!(book.verdicted("v", None).unwrap().predicted, Predicted::Hallucination);
    }
}
