//! The lines themselves: what they say, what they are made of, and how they are put below the evidence.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::ops::Range;

use super::super::figures::outside_dates;
use super::super::units::{Index, Source};
use super::super::words::words;
use super::calendar::dates;
use super::claimed::Claimed;
use super::readings::{asks, read};
use super::sums::sums;
use super::tables::{Table, tables};

/// What follows from the evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ask) struct Line {
    /// As it is told.
    pub text: String,
    /// What it is made of, as far as it is told from one place.
    pub from: Vec<Origin>,
}

/// Where a part of a line stands in the evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ask) struct Origin {
    /// Position of the source.
    pub source: usize,
    /// Its words.
    pub words: Vec<String>,
    /// Words that stand beside it.
    pub beside: Vec<String>,
}

/// Grows when other lines are derived: the plan's hash follows it.
pub(in crate::ask) const VERSION: u32 = 2;

/// What stands above the lines, so that nobody takes them for what a tool has said.
const HEADING: &str = "Computed from the above:";

/// Lines of one claim, and of all.
const MOST_OF_ONE: usize = 8;
const MOST: usize = 48;

/// A longer line holds texts rather than figures.
const LONGEST: usize = 400;

/// Units that are looked at for a figure, and those of one row.
const MOST_UNITS: usize = 16;
const LONGEST_ROW: usize = 40;

impl Origin {
    /// Words of a unit.
    pub(super) fn unit(index: &Index, unit: usize, words: Vec<String>) -> Self {
        Self { source: index.units[unit].source, words, beside: Vec::new() }
    }

    /// The unit that it is: of those with its words the one beside which most of the others stand, the first of equals.
    pub(in crate::ask) fn find(&self, index: &Index) -> Option<usize> {
        let (first, rest) = self.words.split_first()?;
        let all = index.with(first).iter().copied().filter(|unit| {
            index.units[*unit].source == self.source
                && rest.iter().all(|key| stands(index, key, *unit..*unit + 1))
        });
        let beside = |unit: usize| {
            let row = row(index, unit);
            self.beside.iter().filter(|key| stands(index, key, row.clone())).count()
        };
        all.take(MOST_UNITS).max_by_key(|unit| (beside(*unit), std::cmp::Reverse(*unit)))
    }
}

/// Whether one of these units has a word.
fn stands(index: &Index, key: &str, units: Range<usize>) -> bool {
    let with = index.with(key);
    with.get(with.partition_point(|unit| *unit < units.start)).is_some_and(|unit| *unit < units.end)
}

/// The units around one that belong to what it belongs to.
fn row(index: &Index, unit: usize) -> Range<usize> {
    let same = |other: &usize| index.units[*other].group == index.units[unit].group;
    let before = (0..unit).rev().take(LONGEST_ROW).take_while(same).count();
    let after = (unit..index.units.len()).take(LONGEST_ROW).take_while(same).count();
    unit - before..unit + after
}

/// What follows for each of the claims. `requests` are the user's words.
pub(in crate::ask) fn derive(
    claims: &[String],
    index: &Index,
    observations: &[Source],
    requests: &[Source],
) -> Vec<Vec<Line>> {
    let claimed: Vec<Claimed> = claims.iter().map(|claim| Claimed::of(claim)).collect();
    let tables: Vec<Table> = if claimed.iter().any(asks) { tables(observations) } else { Vec::new() };
    let asked: Vec<String> = requests.iter().flat_map(|request| figures_of(&request.text)).collect();
    let known_dates = OnceCell::new();
    let mut told = HashSet::new();
    let lines = |claim: &Claimed| {
        let mut lines: Vec<Line> = tables.iter().flat_map(|table| read(table, claim)).collect();
        lines.extend(sums(claim, index, &asked));
        lines.extend(dates(claim, index, &known_dates));
        lines.retain(|line| line.text.chars().count() <= LONGEST);
        let mut own = HashSet::new();
        lines.retain(|line| own.insert(line.text.clone()));
        lines.truncate(MOST_OF_ONE);
        // Of very many claims the last ones get none that no other has.
        lines.retain(|line| {
            told.contains(&line.text) || (told.len() < MOST && told.insert(line.text.clone()))
        });
        lines
    };
    claimed.iter().map(lines).collect()
}

/// The evidence with the lines below it.
pub(in crate::ask) fn put(mut state: String, lines: &[Vec<Line>]) -> String {
    let mut told = HashSet::new();
    let lines: Vec<&str> =
        lines.iter().flatten().map(|line| line.text.as_str()).filter(|line| told.insert(*line)).collect();
    if !lines.is_empty() {
        state.push('\n');
        state.push_str(HEADING);
        for line in lines {
            state.push('\n');
            state.push_str(line);
        }
    }
    state
}

/// Where the evidence says a figure that is no part of a date.
pub(super) fn holder(index: &Index, key: &str) -> Option<Origin> {
    let says = |unit: &&usize| {
        let said = words(&index.units[**unit].told.chars().collect::<Vec<_>>());
        outside_dates(&said).any(|(_, figure)| figure.key == key)
    };
    let unit = index.with(key).iter().take(MOST_UNITS).find(says)?;
    Some(Origin::unit(index, *unit, vec![key.to_owned()]))
}

/// A figure without needless decimals.
pub(super) fn plain(value: f64) -> String {
    let rounded = format!("{value:.2}");
    rounded.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn figures_of(text: &[char]) -> Vec<String> {
    outside_dates(&words(text)).map(|(_, figure)| figure.key.clone()).collect()
}
