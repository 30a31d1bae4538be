//! What a table says about what a claim asks: the highest and the lowest, two rows side by side, sums, how many rows.

use std::collections::{BTreeMap, BTreeSet};

use super::claimed::{Claimed, Named};
use super::lines::{Line, Origin, plain};
use super::tables::{Row, Table};

const HIGHEST: &[&str] = &[
    "most", "highest", "largest", "greatest", "biggest", "longest", "maximum", "max", "tallest", "heaviest",
    "top", "best",
];
const LOWEST: &[&str] = &["least", "lowest", "fewest", "smallest", "minimum", "min", "shortest"];
const COMPARED: &[&str] = &[
    "more",
    "less",
    "fewer",
    "higher",
    "lower",
    "greater",
    "larger",
    "smaller",
    "longer",
    "shorter",
    "better",
    "worse",
    "bigger",
    "same",
    "equal",
    "difference",
    "than",
];
const SUMMED: &[&str] = &["total", "sum", "combined", "together", "altogether", "average", "mean"];
const COUNTED: &[&str] = &["only", "once", "twice", "times"];

/// Whether a claim asks for anything that a table could answer.
pub(super) fn asks(claimed: &Claimed) -> bool {
    [HIGHEST, LOWEST, COMPARED, SUMMED, COUNTED].iter().any(|cues| claimed.says(cues))
        || !claimed.figures.is_empty()
}

/// The answers of one table.
pub(super) fn read(table: &Table, claimed: &Claimed) -> Vec<Line> {
    let named = claimed.names(table);
    let columns = claimed.columns(table, &named);
    let reading = Reading { table, claimed, figures: figures_of(table, &columns), named, columns };
    let mut lines = reading.counts();
    lines.extend(reading.extremes());
    lines.extend(reading.compared());
    lines.extend(reading.sums());
    lines
}

fn figures_of(table: &Table, columns: &[usize]) -> Vec<usize> {
    columns.iter().copied().filter(|column| table.is_numeric(*column)).take(MOST_COLUMNS).collect()
}

/// Columns that are computed of, values that are counted, rows that share an extreme.
const MOST_COLUMNS: usize = 2;
const MOST_VALUES: usize = 4;
const MOST_EQUALS: usize = 3;

struct Reading<'a> {
    table: &'a Table,
    claimed: &'a Claimed,
    named: Vec<Named>,
    /// The columns that the claim speaks of.
    columns: Vec<usize>,
    /// Those of figures among them.
    figures: Vec<usize>,
}

impl Reading<'_> {
    fn cell(&self, row: usize, column: usize) -> &str {
        &self.table.rows[row].cells[column]
    }

    fn origin(&self, row: usize, column: usize) -> Origin {
        let Row { source, keys, .. } = &self.table.rows[row];
        Origin { source: *source, words: keys[column].clone(), beside: keys.concat() }
    }

    /// How many rows have what the claim names: each by itself, then all together.
    fn counts(&self) -> Vec<Line> {
        let spent = Claimed::spent(&self.named);
        let may_count = |value: f64| value.fract() == 0.0 && value <= self.table.rows.len() as f64;
        let counts_something =
            self.claimed.figures.iter().any(|figure| !spent.contains(&figure.at) && may_count(figure.value));
        if !counts_something && !self.claimed.says(COUNTED) {
            return Vec::new();
        }
        let all = self.table.rows.len();
        let name = |named: &Named| {
            format!("{} {}", self.table.columns[named.column], self.cell(named.rows[0], named.column))
        };
        let line = |text: String, rows: &[usize], column: usize| Line {
            text,
            from: rows.iter().take(MOST_EQUALS).map(|row| self.origin(*row, column)).collect(),
        };
        let mut seen = BTreeSet::new();
        let named: Vec<&Named> = self
            .named
            .iter()
            .filter(|named| seen.insert((named.column, named.rows[0])))
            .take(MOST_VALUES)
            .collect();
        let mut lines: Vec<Line> = named
            .iter()
            .map(|named| {
                let text = format!("{} of {all} rows: {}.", named.rows.len(), name(named));
                line(text, &named.rows, named.column)
            })
            .collect();
        let mut by_column: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for named in &named {
            by_column.entry(named.column).or_default().extend(&named.rows);
        }
        let together = by_column.values().cloned().reduce(|left, right| &left & &right).unwrap_or_default();
        if by_column.len() > 1 && !together.is_empty() {
            let names: Vec<String> = named.iter().map(|named| name(named)).collect();
            let rows: Vec<usize> = together.into_iter().collect();
            let text = format!("{} of {all} rows: {}.", rows.len(), names.join(" and "));
            lines.push(line(text, &rows, named[0].column));
        }
        lines
    }

    /// Who has the highest, or the lowest, of the columns that the claim speaks of.
    fn extremes(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for column in &self.figures {
            for (cues, word, sign) in [(HIGHEST, "highest", 1.0), (LOWEST, "lowest", -1.0)] {
                if self.claimed.says(cues) {
                    lines.extend(self.extreme(*column, word, sign));
                }
            }
        }
        lines
    }

    fn extreme(&self, column: usize, word: &str, sign: f64) -> Option<Line> {
        let rows = 0..self.table.rows.len();
        let values: Vec<(usize, f64)> =
            rows.filter_map(|row| Some((row, sign * self.table.number(row, column)?))).collect();
        let best = values.iter().map(|(_, value)| *value).reduce(f64::max)?;
        let holders: Vec<usize> =
            values.iter().filter(|(_, value)| *value == best).map(|(row, _)| *row).collect();
        if holders.len() > MOST_EQUALS {
            return None;
        }
        let who: Vec<String> = holders.iter().map(|row| self.label(*row, column)).collect();
        Some(Line {
            text: format!(
                "{word} {}: {} ({}).",
                self.table.columns[column],
                self.cell(holders[0], column),
                who.join("; ")
            ),
            from: holders.iter().map(|row| self.origin(*row, column)).collect(),
        })
    }

    /// What a row is known by: its cells of the columns that the claim speaks of, or else its first.
    fn label(&self, row: usize, but: usize) -> String {
        let mut columns: Vec<usize> = Vec::new();
        let said = self.named.iter().map(|named| named.column).chain(self.columns.iter().copied());
        for column in said.filter(|column| *column != but) {
            if !columns.contains(&column) && columns.len() < MOST_EQUALS {
                columns.push(column);
            }
        }
        if columns.is_empty() {
            columns.push(usize::from(but == 0).min(self.table.columns.len() - 1));
        }
        let cells: Vec<&str> = columns
            .into_iter()
            .map(|column| self.cell(row, column))
            .filter(|cell| !cell.is_empty())
            .collect();
        cells.join(", ")
    }

    /// Rows that the claim names, each alone by a cell of one column: that column, and the rows in the claim's order.
    fn subjects(&self) -> Option<(usize, Vec<usize>)> {
        let mut by_column: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for named in &self.named {
            if let [row] = named.rows[..] {
                let rows = by_column.entry(named.column).or_default();
                if !rows.contains(&row) {
                    rows.push(row);
                }
            }
        }
        by_column.into_iter().find(|(_, rows)| rows.len() > 1)
    }

    /// The first two rows that the claim names, side by side.
    fn compared(&self) -> Vec<Line> {
        let Some((by, rows)) = self.subjects().filter(|_| self.claimed.says(COMPARED)) else {
            return Vec::new();
        };
        let (one, other) = (rows[0], rows[1]);
        let (name, second) = (self.cell(one, by), self.cell(other, by));
        let columns = self.figures.iter().filter(|column| **column != by);
        let line = |column: &usize| {
            let more = self.table.number(one, *column)? - self.table.number(other, *column)?;
            let relation = match more {
                0.0 => format!("{name} has as many as {second}"),
                more if more > 0.0 => format!("{name} has {} more than {second}", plain(more)),
                more => format!("{name} has {} less than {second}", plain(-more)),
            };
            Some(Line {
                text: format!(
                    "{}: {name} {}, {second} {}. {relation}.",
                    self.table.columns[*column],
                    self.cell(one, *column),
                    self.cell(other, *column)
                ),
                from: vec![self.origin(one, *column), self.origin(other, *column)],
            })
        };
        columns.filter_map(line).collect()
    }

    /// What the rows that the claim names add up to, in the columns of which it says all their figures; else what all rows do, in
    /// the columns that it speaks of.
    fn sums(&self) -> Vec<Line> {
        if !self.claimed.says(SUMMED) {
            return Vec::new();
        }
        if let Some((by, rows)) = self.subjects() {
            let said: Vec<f64> = self.claimed.figures.iter().map(|figure| figure.value).collect();
            let is_said = |column: &usize| {
                rows.iter()
                    .all(|row| self.table.number(*row, *column).is_some_and(|value| said.contains(&value)))
            };
            let all = 0..self.table.columns.len();
            let columns =
                all.filter(|column| *column != by && (self.figures.contains(column) || is_said(column)));
            let lines: Vec<Line> =
                columns.take(MOST_COLUMNS).filter_map(|column| self.sum_of(&rows, by, column)).collect();
            if !lines.is_empty() {
                return lines;
            }
        }
        self.figures.iter().filter_map(|column| self.sum(*column)).collect()
    }

    fn sum_of(&self, rows: &[usize], by: usize, column: usize) -> Option<Line> {
        let values: Vec<f64> =
            rows.iter().map(|row| self.table.number(*row, column)).collect::<Option<_>>()?;
        let parts: Vec<String> =
            rows.iter().map(|row| format!("{} ({})", self.cell(*row, column), self.cell(*row, by))).collect();
        let sum = plain(values.iter().sum());
        Some(Line {
            text: format!("{}: sum of {}: {sum}.", self.table.columns[column], parts.join(" and ")),
            from: rows.iter().map(|row| self.origin(*row, column)).collect(),
        })
    }

    fn sum(&self, column: usize) -> Option<Line> {
        let rows = 0..self.table.rows.len();
        let values: Vec<f64> = rows.filter_map(|row| self.table.number(row, column)).collect();
        let count = values.len();
        let sum: f64 = values.iter().sum();
        Some(Line {
            text: format!(
                "{}: sum {}, average {}, {count} rows.",
                self.table.columns[column],
                plain(sum),
                plain(sum / count as f64)
            ),
            from: (0..MOST_EQUALS.min(self.table.rows.len())).map(|row| self.origin(row, column)).collect(),
        })
        .filter(|_| count > 1)
    }
}
