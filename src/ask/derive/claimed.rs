//! What a claim says that can be computed: its figures, the cells of a table that it names, the columns that it speaks of.

use std::collections::{BTreeSet, HashSet};

use super::super::figures::outside_dates;
use super::super::words::{Word, words};
use super::tables::{Cell, Table};

/// What has more words is a text, no name.
const LONGEST_NAME: usize = 8;

/// A claim, read.
#[derive(Debug)]
pub(super) struct Claimed {
    /// Its characters.
    pub chars: Vec<char>,
    /// Its words, stop words left out.
    pub words: Vec<Word>,
    /// Its figures outside of dates, in order.
    pub figures: Vec<Said>,
    /// All its words in small letters, in order.
    plain: Vec<String>,
}

/// A figure of a claim.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Said {
    /// Position among the claim's words.
    pub at: usize,
    /// Its spelling, the same for equal figures.
    pub key: String,
    /// Its value.
    pub value: f64,
}

/// A cell of a table that a claim names, as often as the table has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Named {
    /// Position among the claim's words.
    pub at: usize,
    /// The column.
    pub column: usize,
    /// The rows that have it there.
    pub rows: Vec<usize>,
    length: usize,
}

impl Claimed {
    pub fn of(claim: &str) -> Self {
        let chars: Vec<char> = claim.chars().collect();
        let plain = claim
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect();
        let words = words(&chars);
        let said = |(at, figure): (usize, &Word)| {
            Some(Said { at, key: figure.key.clone(), value: figure.key.parse().ok()? })
        };
        let figures = outside_dates(&words).filter_map(said).collect();
        Self { words, figures, plain, chars }
    }

    /// Whether it has one of these words, given in small letters.
    pub fn says(&self, words: &[&str]) -> bool {
        self.plain.iter().any(|word| words.contains(&word.as_str()))
    }

    /// Whether it has one of these words after one of those.
    pub fn says_after(&self, before: &[&str], words: &[&str]) -> bool {
        let is = |pair: &[String]| before.contains(&pair[0].as_str()) && words.contains(&pair[1].as_str());
        self.plain.windows(2).any(is)
    }

    /// The cells of a table that the claim names by all their words; of names within a longer one only the longest. A figure
    /// names nothing, unless it may be a year.
    pub fn names(&self, table: &Table) -> Vec<Named> {
        let mut found: Vec<Named> = Vec::new();
        for (at, word) in self.words.iter().enumerate() {
            let is_here = |cell: &&Cell| {
                let rest = self.words[at..].iter().map(|word| &word.key);
                is_name(&cell.keys) && rest.take(cell.keys.len()).eq(&cell.keys)
            };
            found.extend(table.beginning(&word.key).filter(is_here).map(|cell| Named {
                at,
                column: cell.column,
                rows: cell.rows.clone(),
                length: cell.keys.len(),
            }));
        }
        found
            .sort_by_key(|named| (std::cmp::Reverse(named.length), named.at, named.rows.len(), named.column));
        let mut kept: Vec<Named> = Vec::new();
        for named in found {
            let within = |longer: &Named| {
                longer.length > named.length
                    && named.at < longer.at + longer.length
                    && longer.at < named.at + named.length
            };
            if !kept.iter().any(within) {
                kept.push(named);
            }
        }
        kept.sort_by_key(|named| (named.at, named.rows.len(), named.column));
        kept
    }

    /// The positions of words that are parts of names.
    pub fn spent(named: &[Named]) -> BTreeSet<usize> {
        named.iter().flat_map(|named| named.at..named.at + named.length).collect()
    }

    /// The columns of which the claim says at least half of the words, outside of the names: those said best first.
    pub fn columns(&self, table: &Table, named: &[Named]) -> Vec<usize> {
        let spent = Self::spent(named);
        let free = self.words.iter().enumerate().filter(|(at, _)| !spent.contains(at));
        let free: HashSet<&str> = free.map(|(_, word)| word.key.as_str()).collect();
        let mut found: Vec<(usize, usize)> = Vec::new();
        for (column, words) in table.names.iter().enumerate() {
            let said = words.iter().filter(|word| free.contains(word.as_str())).count();
            if said > 0 && 2 * said >= words.len() {
                found.push((100 - 100 * said / words.len(), column));
            }
        }
        found.sort_unstable();
        found.into_iter().map(|(_, column)| column).collect()
    }
}

/// Whether a cell's words can name a row.
fn is_name(cell: &[String]) -> bool {
    let is_figure = |key: &String| key.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match cell {
        [] => false,
        [only] if is_figure(only) => only.parse().is_ok_and(|year: u32| (1800..2100).contains(&year)),
        [only] => only.chars().count() > 1,
        several => several.len() <= LONGEST_NAME,
    }
}
