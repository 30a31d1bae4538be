//! Tables in observations: lists of records, rows below a header, delimited text, and like records over several observations.

use std::collections::HashMap;

use super::super::blocks::cells;
use super::super::units::Source;
use super::super::words::{spaced, words};
use crate::domain::Json;

/// Rows with the same columns.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    /// The names of the columns, as words.
    pub columns: Vec<String>,
    /// The words of each name, as they are compared.
    pub names: Vec<Vec<String>>,
    /// The rows; each has as many cells as there are columns.
    pub rows: Vec<Row>,
    /// The cells that have words, equal ones of a column as one.
    pub cells: Vec<Cell>,
    /// Positions among `cells` by the first word.
    by_word: HashMap<String, Vec<usize>>,
}

/// A cell, as often as a column has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cell {
    /// The column.
    pub column: usize,
    /// Its words, as they are compared.
    pub keys: Vec<String>,
    /// The rows that have it.
    pub rows: Vec<usize>,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// Position of the source that holds it.
    pub source: usize,
    /// Its cells as text, an absent one empty.
    pub cells: Vec<String>,
    /// The words of each cell.
    pub keys: Vec<Vec<String>>,
}

impl Table {
    fn new(columns: Vec<String>, rows: Vec<Row>) -> Self {
        let mut table = Self {
            names: columns.iter().map(|name| keys(name)).collect(),
            columns,
            rows,
            cells: Vec::new(),
            by_word: HashMap::new(),
        };
        let mut places: HashMap<(usize, &[String]), usize> = HashMap::new();
        for (at, row) in table.rows.iter().enumerate() {
            for (column, keys) in row.keys.iter().enumerate().filter(|(_, keys)| !keys.is_empty()) {
                let place = *places.entry((column, keys)).or_insert(table.cells.len());
                if place == table.cells.len() {
                    table.by_word.entry(keys[0].clone()).or_default().push(place);
                    table.cells.push(Cell { column, keys: keys.clone(), rows: Vec::new() });
                }
                table.cells[place].rows.push(at);
            }
        }
        table
    }

    /// The cells that begin with a word.
    pub fn beginning(&self, key: &str) -> impl Iterator<Item = &Cell> {
        self.by_word.get(key).into_iter().flatten().map(|place| &self.cells[*place])
    }

    /// The cell as a figure.
    pub fn number(&self, row: usize, column: usize) -> Option<f64> {
        number(&self.rows[row].cells[column])
    }

    /// Whether most cells of a column are figures.
    pub fn is_numeric(&self, column: usize) -> bool {
        let figures = (0..self.rows.len()).filter(|row| self.number(*row, column).is_some()).count();
        figures >= 2 && 10 * figures >= 6 * self.rows.len()
    }
}

/// Sources with more characters are not read as tables, longer and wider tables not at all: what is said of all rows must be true.
const LONGEST_TEXT: usize = 200_000;
const MOST_ROWS: usize = 500;
const MOST_COLUMNS: usize = 40;
const MOST_TABLES: usize = 12;

/// Longer cells are texts, and name nothing.
const LONGEST_CELL: usize = 80;

/// Deeper JSON is not looked into.
const DEEPEST: usize = 24;

/// The tables of all sources, in order; last those that records of several observations make together.
pub(super) fn tables(sources: &[Source]) -> Vec<Table> {
    let mut reader = Reader::default();
    for (source, text) in sources.iter().enumerate().filter(|(_, source)| source.text.len() <= LONGEST_TEXT) {
        reader.text(&text.text.iter().collect::<String>(), source);
    }
    reader.together();
    reader.found
}

#[derive(Default)]
struct Reader {
    found: Vec<Table>,
    /// Records that stand alone, by their columns, in order of the first.
    alone: Vec<Alone>,
}

/// Records with the same columns that stand alone.
struct Alone {
    columns: Vec<String>,
    /// Position of the source, and the cells.
    rows: Vec<(usize, Vec<String>)>,
}

impl Reader {
    fn text(&mut self, text: &str, source: usize) {
        if let Some(json) = parse(text) {
            self.alone(&json, source);
            self.json(&json, source, 0);
            return;
        }
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        // Of a text that was cut there is no saying how many rows it had.
        let is_cut = lines.last().is_some_and(|line| line.ends_with(['…', ']']) || line.ends_with("..."));
        let mut at = 0;
        while at < lines.len() {
            if let Some(json) = parse(lines[at]) {
                self.alone(&json, source);
                self.json(&json, source, 0);
            } else if !is_cut
                && let Some((header, rows, end)) =
                    ['|', '\t', ','].into_iter().find_map(|mark| delimited(&lines, at, mark))
            {
                self.push(header, rows.into_iter().map(|row| (source, row)).collect());
                at = end;
                continue;
            }
            at += 1;
        }
    }

    fn json(&mut self, json: &Json, source: usize, depth: usize) {
        if depth > DEEPEST {
            return;
        }
        match json {
            Json::Object(members) => {
                let mut header: Option<Vec<String>> = None;
                for (key, value) in members {
                    if let Some(names) = header_of(key, value) {
                        header = Some(names);
                    } else if let Some(names) = header.take()
                        && let Some(rows) = value.as_array().and_then(|items| rows_of(names.len(), items))
                    {
                        self.push(names, rows.into_iter().map(|row| (source, row)).collect());
                    } else {
                        self.json(value, source, depth + 1);
                    }
                }
            }
            Json::Array(items) if !items.is_empty() && items.iter().all(Json::is_object) => {
                self.records(items, source);
                // What the records hold beside their scalars may be tables of their own.
                let inner = items.iter().filter_map(Json::as_object).flat_map(|item| item.values());
                inner.filter(|value| !is_scalar(value)).for_each(|value| self.json(value, source, depth + 1));
            }
            Json::Array(items) => match with_header_row(items) {
                Some((names, rows)) => {
                    self.push(names, rows.into_iter().map(|row| (source, row)).collect());
                }
                None => items.iter().for_each(|item| self.json(item, source, depth + 1)),
            },
            Json::String(text) if depth < DEEPEST => {
                if let Some(inner) = parse(text) {
                    self.json(&inner, source, depth + 1);
                }
            }
            _ => {}
        }
    }

    fn records(&mut self, items: &[Json], source: usize) {
        let flattened: Vec<Vec<(String, String)>> = items.iter().map(flat).collect();
        let mut columns: Vec<String> = Vec::new();
        for (name, _) in flattened.iter().flatten() {
            if !columns.contains(name) {
                columns.push(name.clone());
            }
            if columns.len() > MOST_COLUMNS {
                return;
            }
        }
        let row = |record: &Vec<(String, String)>| {
            let by_name: HashMap<&str, &str> =
                record.iter().map(|(name, cell)| (name.as_str(), cell.as_str())).collect();
            columns
                .iter()
                .map(|name| by_name.get(name.as_str()).copied().unwrap_or_default().to_owned())
                .collect()
        };
        let rows = flattened.iter().map(|record| (source, row(record))).collect();
        self.push(columns, rows);
    }

    /// Remembers a record that is a whole observation, or a whole line.
    fn alone(&mut self, json: &Json, source: usize) {
        if !json.is_object() {
            return;
        }
        let (columns, cells): (Vec<String>, Vec<String>) = flat(json).into_iter().unzip();
        if let Some(alone) = self.alone.iter_mut().find(|alone| alone.columns == columns) {
            alone.rows.push((source, cells));
        } else if self.alone.len() < MOST_TABLES {
            self.alone.push(Alone { columns, rows: vec![(source, cells)] });
        }
    }

    fn together(&mut self) {
        for Alone { columns, rows } in std::mem::take(&mut self.alone) {
            self.push(columns, rows);
        }
    }

    fn push(&mut self, columns: Vec<String>, rows: Vec<(usize, Vec<String>)>) {
        let fits = (2..=MOST_ROWS).contains(&rows.len()) && (1..=MOST_COLUMNS).contains(&columns.len());
        if !fits || self.found.len() >= MOST_TABLES {
            return;
        }
        let row = |(source, cells): (usize, Vec<String>)| {
            let cells: Vec<String> = cells.iter().map(|cell| short(cell)).collect();
            let keys = cells.iter().map(|cell| keys(cell)).collect();
            Row { source, cells, keys }
        };
        self.found.push(Table::new(columns, rows.into_iter().map(row).collect()));
    }
}

/// The words of a text, as they are compared.
pub(super) fn keys(text: &str) -> Vec<String> {
    words(&text.chars().collect::<Vec<_>>()).into_iter().map(|word| word.key).collect()
}

/// A figure as tables write it: `- 12`, `1,080.5`, `$49.00`, `7%`.
pub(super) fn number(cell: &str) -> Option<f64> {
    let cell = cell.trim().trim_start_matches(['$', '€', '£']).trim_end_matches('%').trim();
    let (sign, digits) = match cell.strip_prefix(['-', '−']) {
        Some(rest) => (-1.0, rest.trim_start()),
        None => (1.0, cell.strip_prefix('+').unwrap_or(cell).trim_start()),
    };
    let digits = digits.trim_start_matches(['$', '€', '£']);
    let (whole, part) = digits.split_once('.').map_or((digits, None), |(whole, part)| (whole, Some(part)));
    let is_digits =
        |text: &str| !text.is_empty() && text.len() <= 15 && text.bytes().all(|b| b.is_ascii_digit());
    let mut groups = whole.split(',');
    let first = groups.next().filter(|group| is_digits(group))?;
    let rest: Vec<&str> = groups.collect();
    let is_grouped = rest.is_empty() || first.len() <= 3;
    if !is_grouped || !rest.iter().all(|group| group.len() == 3 && is_digits(group)) {
        return None;
    }
    if !part.is_none_or(is_digits) {
        return None;
    }
    let plain = format!("{first}{}.{}", rest.concat(), part.unwrap_or("0"));
    plain.parse::<f64>().ok().map(|value| sign * value)
}

fn parse(text: &str) -> Option<Json> {
    let text = text.trim();
    let json = text.starts_with(['{', '[']).then(|| serde_json::from_str(text))?;
    json.ok()
}

fn is_scalar(json: &Json) -> bool {
    !json.is_object() && !json.is_array()
}

fn cell(json: &Json) -> String {
    match json {
        Json::Null => String::new(),
        Json::String(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

fn short(cell: &str) -> String {
    if cell.chars().count() > LONGEST_CELL { String::new() } else { cell.to_owned() }
}

fn name(key: &str) -> String {
    let key: String = spaced(&key.chars().collect::<Vec<_>>()).into_iter().collect();
    key.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The scalars of a record, at any depth of objects; lists are no cells.
fn flat(json: &Json) -> Vec<(String, String)> {
    fn add(json: &Json, path: &str, depth: usize, cells: &mut Vec<(String, String)>) {
        match json {
            Json::Object(members) if depth < DEEPEST => {
                for (key, value) in members {
                    let path = format!("{path} {}", name(key));
                    add(value, path.trim(), depth + 1, cells);
                }
            }
            Json::Object(_) | Json::Array(_) => {}
            scalar => cells.push((path.to_owned(), cell(scalar))),
        }
    }
    let mut cells = Vec::new();
    add(json, "", 0, &mut cells);
    cells
}

/// The names in a member such as `"columns": ["city", "units"]`.
fn header_of(key: &str, value: &Json) -> Option<Vec<String>> {
    let key = key.to_lowercase();
    let says = ["column", "header", "field"].iter().any(|word| key.contains(word));
    let names: Option<Vec<String>> = value.as_array()?.iter().map(|item| item.as_str().map(name)).collect();
    names.filter(|names| says && !names.is_empty())
}

/// The rows of so many cells, if all are.
fn rows_of(columns: usize, items: &[Json]) -> Option<Vec<Vec<String>>> {
    let row = |item: &Json| -> Option<Vec<String>> {
        let items = item.as_array().filter(|items| items.len() == columns && items.iter().all(is_scalar))?;
        Some(items.iter().map(cell).collect())
    };
    items.iter().map(row).collect()
}

/// An array of arrays whose first one names the columns.
fn with_header_row(items: &[Json]) -> Option<(Vec<String>, Vec<Vec<String>>)> {
    let (first, rest) = items.split_first()?;
    let first = first.as_array().filter(|names| !names.is_empty())?;
    let names: Vec<String> = first.iter().map(|item| item.as_str().map(name)).collect::<Option<_>>()?;
    if names.iter().any(|name| number(name).is_some()) {
        return None;
    }
    let rows = rows_of(names.len(), rest)?;
    Some((names, rows))
}

/// The table of delimited lines that begins at a line: its header, its rows, and where it ends.
fn delimited(lines: &[&str], at: usize, mark: char) -> Option<(Vec<String>, Vec<Vec<String>>, usize)> {
    let split = |line: &str| -> Option<Vec<String>> {
        // A comma in running text has a space after it.
        if !line.contains(mark) || (mark == ',' && line.contains(", ")) {
            return None;
        }
        let parts = match mark {
            '|' => cells(&line.chars().collect::<Vec<_>>()),
            _ => line.split(mark).map(|part| part.trim().to_owned()).collect(),
        };
        (parts.len() > 1).then_some(parts)
    };
    let header = split(lines[at])?;
    if header.iter().any(|name| name.is_empty() || number(name).is_some()) {
        return None;
    }
    let is_rule = |row: &[String]| row.iter().all(|cell| cell.chars().all(|c| matches!(c, '-' | ':' | ' ')));
    let body = lines[at + 1..].iter().map_while(|line| split(line).filter(|row| row.len() == header.len()));
    let body: Vec<Vec<String>> = body.collect();
    let end = at + 1 + body.len();
    let rows: Vec<Vec<String>> = body.into_iter().filter(|row| !is_rule(row)).collect();
    (rows.len() >= 2).then(|| (header.iter().map(|column| name(column)).collect(), rows, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> Vec<(Vec<String>, Vec<Vec<String>>)> {
        let source = |(step, text): (usize, &&str)| Source { step, text: text.chars().collect() };
        let sources: Vec<Source> = texts.iter().enumerate().map(source).collect();
        let plain = |table: Table| (table.columns, table.rows.into_iter().map(|row| row.cells).collect());
        tables(&sources).into_iter().map(plain).collect()
    }

    fn table(columns: &[&str], rows: &[&[&str]]) -> (Vec<String>, Vec<Vec<String>>) {
        let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        (own(columns), rows.iter().map(|row| own(row)).collect())
    }

    #[test]
    fn rows_are_read_from_every_form_that_tools_give_them() {
        let expected = [table(&["on hand", "city"], &[&["42", "Rotterdam"], &["7", "Gdansk"]])];
        let forms = [
            r#"[{"on_hand": 42, "city": "Rotterdam"}, {"onHand": 7, "city": "Gdansk"}]"#.replace("onHand", "on_hand"),
            r#"{"columns": ["on_hand", "city"], "rows": [[42, "Rotterdam"], [7, "Gdansk"]]}"#.to_owned(),
            r#"[["on_hand", "city"], [42, "Rotterdam"], [7, "Gdansk"]]"#.to_owned(),
            "on_hand,city\n42,Rotterdam\n7,Gdansk".to_owned(),
            "Stock of today\n| on_hand | city |\n|---|---|\n| 42 | Rotterdam |\n| 7 | Gdansk |\nThe end.".to_owned(),
            "on_hand\tcity\n42\tRotterdam\n7\tGdansk".to_owned(),
            "{\"on_hand\": 42, \"city\": \"Rotterdam\"}\n{\"on_hand\": 7, \"city\": \"Gdansk\"}".to_owned(),
            r#"{"result": "[{\"on_hand\": 42, \"city\": \"Rotterdam\"}, {\"on_hand\": 7, \"city\": \"Gdansk\"}]"}"#.to_owned(),
        ];
        for form in &forms {
            assert_eq!(read(&[form]), expected, "{form}");
        }
        let apart = [r#"{"on_hand": 42, "city": "Rotterdam"}"#, r#"{"on_hand": 7, "city": "Gdansk"}"#];
        assert_eq!(read(&apart), expected);
    }

    #[test]
    fn running_text_and_what_was_cut_are_no_tables() {
        for text in [
            "One, two, three.\nFour, five, six.\nSeven, eight, nine.",
            "a,b\n1,2\n3,4\n5,…",
            "{\"a\": 1}",
            "[1, 2]",
        ] {
            assert_eq!(read(&[text]), [], "{text}");
        }
    }

    #[test]
    fn figures_of_cells_are_read_as_they_are_written() {
        let read = [
            ("1,080.50", 1080.5),
            ("- 12", -12.0),
            ("+ 6", 6.0),
            ("$49.00", 49.0),
            ("-€3", -3.0),
            ("7 %", 7.0),
            ("0", 0.0),
        ];
        for (cell, value) in read {
            assert_eq!(number(cell), Some(value), "{cell}");
        }
        for cell in ["", "-", "1,5", "12th", "2 - 1", "1e5", "NaN", "1.2.3", "12,34,567"] {
            assert_eq!(number(cell), None, "{cell}");
        }
    }
}
