//! Evidence as units: sentences of text, lines made of JSON, rows of tables.

use std::collections::HashMap;

use super::json::{Node, read};
use super::text::{collapse, dot, join, longer_than, number, sentences, strip};

/// Strings with more characters are prose: they become sentences and no cells.
const LONG: usize = 160;
/// Items of a list of scalars in one unit.
const CHUNK: usize = 16;

/// A piece of evidence that is selected or left out whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unit {
    /// A sentence or line.
    Text(String),
    /// A row of a table.
    Row {
        /// Which table of the evidence.
        table: usize,
        /// Column names and values, in order.
        cells: Vec<Cell>,
    },
}

/// A value of a row under its column's name (which may be empty).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The column's name.
    pub column: String,
    /// The value.
    pub value: String,
}

impl Unit {
    /// The text that the model reads.
    pub fn text(&self) -> String {
        match self {
            Unit::Text(text) => text.clone(),
            Unit::Row { cells, .. } => row_text(cells),
        }
    }
}

/// The text of a row with these cells.
pub fn row_text<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> String {
    let cells = cells.into_iter().map(|cell| {
        if cell.column.is_empty() { cell.value.clone() } else { format!("{}: {}", cell.column, cell.value) }
    });
    dot(join(cells, "; "))
}

/// The units of `evidence`.
pub fn units(evidence: &str) -> Vec<Unit> {
    let mut units = Units::default();
    let stripped = strip(evidence);
    match read(stripped) {
        Some(node) => units.node(&node, ""),
        None => units.text(stripped),
    }
    units.list
}

#[derive(Default)]
struct Units {
    list: Vec<Unit>,
    tables: usize,
}

/// A list of column names that waits for its rows.
struct Header {
    path: String,
    names: Vec<String>,
}

/// An object of a list as a row, its long strings apart.
#[derive(Default)]
struct Flat {
    cells: Vec<Cell>,
    long: Vec<(String, String)>,
}

impl Units {
    fn add(&mut self, text: String) {
        self.list.push(Unit::Text(text));
    }

    fn key_value(&mut self, path: &str, value: &str) {
        self.add(dot(if path.is_empty() { value.to_owned() } else { format!("{path}: {value}") }));
    }

    fn text(&mut self, text: &str) {
        let lines: Vec<String> = text.split('\n').map(collapse).filter(|line| !line.is_empty()).collect();
        let mut at = 0;
        while let Some(line) = lines.get(at) {
            if let Some(node) = read(line) {
                self.node(&node, "");
                at += 1;
            } else if let Some(end) = end_of_csv(&lines, at) {
                let names: Vec<String> = line.split(',').map(key).collect();
                let rows = lines[at + 1..end].iter().map(|row| cells(&names, row.split(',').map(spelled)));
                self.rows(rows.map(Flat::from).collect(), "");
                at = end;
            } else {
                sentences(line).into_iter().for_each(|sentence| self.add(sentence));
                at += 1;
            }
        }
    }

    fn node(&mut self, node: &Node, path: &str) {
        match node {
            Node::Map(entries) => self.map(entries, path),
            Node::List(items) => self.list(items, path),
            scalar => self.scalar(scalar, path),
        }
    }

    fn scalar(&mut self, scalar: &Node, path: &str) {
        let value = value(scalar);
        match scalar.text() {
            Some(raw) if longer_than(&value, LONG) => self.long(path, raw),
            _ => self.key_value(path, &value),
        }
    }

    fn map(&mut self, entries: &[(String, Node)], path: &str) {
        if entries.is_empty() {
            self.key_value(path, "none");
        }
        let mut header: Option<Header> = None;
        for (name, node) in entries {
            let path = below(path, name);
            if let Some(names) = header_names(name, node) {
                header = Some(Header { path, names });
                continue;
            }
            let waiting = header.take();
            if let (Some(waiting), Some(rows)) = (&waiting, rows_of_scalars(node))
                && rows.iter().all(|row| row.len() == waiting.names.len())
            {
                let rows = rows.into_iter().map(|row| cells(&waiting.names, row.iter().map(value)));
                self.rows(rows.map(Flat::from).collect(), &path);
                continue;
            }
            self.header_alone(waiting);
            self.node(node, &path);
        }
        self.header_alone(header);
    }

    fn header_alone(&mut self, header: Option<Header>) {
        if let Some(header) = header {
            self.key_value(&header.path, &join(&header.names, ", "));
        }
    }

    fn list(&mut self, items: &[Node], path: &str) {
        if items.is_empty() {
            return self.key_value(path, "none");
        }
        if items.iter().all(Node::is_scalar) {
            return self.scalars(items, path);
        }
        if items.iter().all(|item| matches!(item, Node::Map(_))) {
            return self.maps(items, path);
        }
        if let Some(rows) = table(items) {
            return self.rows(rows, path);
        }
        for item in items {
            match item {
                Node::List(inner) if inner.is_empty() => self.key_value(path, "none"),
                Node::List(inner) if inner.iter().all(Node::is_scalar) => {
                    self.key_value(path, &join(inner.iter().map(value), ", "));
                }
                other => self.node(other, path),
            }
        }
    }

    fn scalars(&mut self, items: &[Node], path: &str) {
        let values: Vec<String> = items.iter().map(value).collect();
        if values.iter().any(|value| longer_than(value, LONG)) {
            for (item, value) in items.iter().zip(&values) {
                let raw = item.text().filter(|_| longer_than(value, LONG));
                self.long(path, raw.unwrap_or(value));
            }
        } else {
            values.chunks(CHUNK).for_each(|chunk| self.key_value(path, &join(chunk, ", ")));
        }
    }

    fn maps(&mut self, items: &[Node], path: &str) {
        if items.iter().any(is_deep) {
            return items.iter().for_each(|item| self.node(item, path));
        }
        let rows: Vec<Flat> = items.iter().map(flat).collect();
        if rows.iter().any(|row| row.cells.is_empty()) {
            return items.iter().for_each(|item| self.node(item, path));
        }
        self.rows(rows, path);
    }

    fn rows(&mut self, rows: Vec<Flat>, path: &str) {
        let table = self.tables;
        self.tables += 1;
        if rows.len() > 1 {
            let name = if path.is_empty() { "list" } else { path };
            self.add(format!("{name}: {} rows.", rows.len()));
        }
        if rows.len() >= 3 {
            extremes(&rows).into_iter().for_each(|text| self.add(text));
        }
        for row in rows {
            if !row.cells.is_empty() {
                self.list.push(Unit::Row { table, cells: row.cells });
            }
            row.long.iter().for_each(|(path, raw)| self.long(path, raw));
        }
    }

    fn long(&mut self, path: &str, raw: &str) {
        let sentences = raw.split('\n').flat_map(|line| sentences(&collapse(line)));
        for (index, sentence) in sentences.enumerate() {
            self.add(if index == 0 && !path.is_empty() { format!("{path}: {sentence}") } else { sentence });
        }
    }
}

impl From<Vec<Cell>> for Flat {
    fn from(cells: Vec<Cell>) -> Self {
        Self { cells, long: Vec::new() }
    }
}

fn cells(names: &[String], values: impl Iterator<Item = String>) -> Vec<Cell> {
    names.iter().zip(values).map(|(column, value)| Cell { column: column.clone(), value }).collect()
}

/// A key as words: `_` and camelCase become spaces.
fn key(name: &str) -> String {
    let mut spaced = String::with_capacity(name.len() + 4);
    let mut before = None;
    for c in name.chars() {
        let is_hump =
            c.is_ascii_uppercase() && before.is_some_and(|before: char| before.is_ascii_lowercase());
        if is_hump {
            spaced.push(' ');
        }
        spaced.push(if c == '_' { ' ' } else { c });
        before = Some(c);
    }
    collapse(&spaced)
}

fn key_or_dash(name: &str) -> String {
    let key = key(name);
    if key.is_empty() { "-".to_owned() } else { key }
}

/// The path of `name` below `path`.
fn below(path: &str, name: &str) -> String {
    strip(&format!("{path} {}", key(name))).to_owned()
}

fn spelled(text: &str) -> String {
    let text = collapse(text);
    if text.is_empty() { "none".to_owned() } else { text }
}

/// A scalar as text; the reference never asks for the value of anything else.
fn value(node: &Node) -> String {
    match node {
        Node::Bool(true) => "true".to_owned(),
        Node::Bool(false) => "false".to_owned(),
        Node::Number(text) | Node::Text(text) => spelled(text),
        Node::Null | Node::List(_) | Node::Map(_) => "none".to_owned(),
    }
}

/// The column names that `node` lists, if its key says that it does.
fn header_names(name: &str, node: &Node) -> Option<Vec<String>> {
    let Node::List(items) = node else { return None };
    let lower = name.to_lowercase();
    if items.is_empty() || !["column", "header", "field"].iter().any(|word| lower.contains(word)) {
        return None;
    }
    items.iter().map(|item| item.text().map(key_or_dash)).collect()
}

/// The rows of a non-empty array of arrays of scalars.
fn rows_of_scalars(node: &Node) -> Option<Vec<&[Node]>> {
    let Node::List(items) = node else { return None };
    if items.is_empty() {
        return None;
    }
    items.iter().map(row_of_scalars).collect()
}

fn row_of_scalars(node: &Node) -> Option<&[Node]> {
    match node {
        Node::List(row) if row.iter().all(Node::is_scalar) => Some(row),
        _ => None,
    }
}

/// An array of arrays whose first one names the columns of the others.
fn table(items: &[Node]) -> Option<Vec<Flat>> {
    let rows: Vec<&[Node]> = items.iter().map(row_of_scalars).collect::<Option<_>>()?;
    let (head, body) = rows.split_first()?;
    let are_names = head.iter().all(|cell| cell.text().is_some_and(|text| number(text).is_none()));
    if head.is_empty() || body.is_empty() || !are_names || body.iter().any(|row| row.len() != head.len()) {
        return None;
    }
    let names: Vec<String> = head.iter().filter_map(Node::text).map(key_or_dash).collect();
    Some(body.iter().map(|row| Flat::from(cells(&names, row.iter().map(value)))).collect())
}

/// Whether an array with an element that is no scalar is in there, at any depth of objects.
fn is_deep(node: &Node) -> bool {
    match node {
        Node::Map(entries) => entries.iter().any(|(_, value)| is_deep(value)),
        Node::List(items) => !items.iter().all(Node::is_scalar),
        _ => false,
    }
}

fn flat(node: &Node) -> Flat {
    let mut row = Flat::default();
    flatten(node, "", &mut row);
    row
}

fn flatten(node: &Node, path: &str, row: &mut Flat) {
    let cell = match node {
        Node::Map(entries) => {
            return entries.iter().for_each(|(name, value)| flatten(value, &below(path, name), row));
        }
        Node::List(items) if items.is_empty() => "none".to_owned(),
        Node::List(items) => join(items.iter().map(value), ", "),
        scalar => value(scalar),
    };
    match node.text() {
        Some(raw) if longer_than(&cell, LONG) => row.long.push((path.to_owned(), raw.to_owned())),
        _ => row.cells.push(Cell { column: path.to_owned(), value: cell }),
    }
}

/// For each numeric column, the rows with its highest and lowest value.
fn extremes(rows: &[Flat]) -> Vec<String> {
    let mut order: Vec<&str> = Vec::new();
    let mut columns: HashMap<&str, Vec<(&str, &str)>> = HashMap::new();
    for row in rows {
        let Some(first) = row.cells.first() else { continue };
        for cell in &row.cells {
            let values = columns.entry(&cell.column).or_default();
            if values.is_empty() {
                order.push(&cell.column);
            }
            values.push((&cell.value, &first.value));
        }
    }
    let named_by = rows.first().and_then(|row| row.cells.first()).map(|cell| cell.column.as_str());
    let mut texts = Vec::new();
    for column in order {
        let values = &columns[column];
        if values.len() != rows.len() || Some(column) == named_by {
            continue;
        }
        let Some(numbers) = values.iter().map(|(value, _)| number(value)).collect::<Option<Vec<f64>>>()
        else {
            continue;
        };
        let (mut highest, mut lowest) = (0, 0);
        for (index, number) in numbers.iter().enumerate() {
            if *number > numbers[highest] {
                highest = index;
            }
            if *number < numbers[lowest] {
                lowest = index;
            }
        }
        if numbers[lowest] < numbers[highest] {
            let shown = |index: usize| format!("{} ({})", values[index].0, values[index].1);
            texts.push(format!("{column}: highest {}, lowest {}.", shown(highest), shown(lowest)));
        }
    }
    texts
}

/// The end of the CSV table whose header is the line at `start`, if one starts there.
fn end_of_csv(lines: &[String], start: usize) -> Option<usize> {
    let commas = |line: &str| line.bytes().filter(|byte| *byte == b',').count();
    let header = &lines[start];
    let count = commas(header);
    let is_header = || header.split(',').all(|field| !field.is_empty() && number(field).is_none());
    if count == 0 || header.contains(", ") || !is_header() {
        return None;
    }
    let rows =
        lines[start + 1..].iter().take_while(|line| commas(line) == count && !line.contains(", ")).count();
    (rows >= 2).then_some(start + 1 + rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(evidence: &str) -> Vec<String> {
        units(evidence).iter().map(Unit::text).collect()
    }

    #[test]
    fn lists_of_objects_become_rows_with_their_extremes() {
        assert_eq!(
            texts(r#"{"openOrders":[{"id":1,"total":10.50},{"id":2,"total":7},{"id":3,"total":10.5}]}"#),
            [
                "open Orders: 3 rows.",
                "total: highest 10.50 (1), lowest 7 (2).",
                "id: 1; total: 10.50.",
                "id: 2; total: 7.",
                "id: 3; total: 10.5.",
            ]
        );
    }

    #[test]
    fn a_header_waits_for_its_rows_only() {
        assert_eq!(
            texts(
                r#"{"columns":["a","b"],"x":1,"fields":["c"],"headers":["d"],"rows":[[1],[2]],"field":["e"]}"#
            ),
            ["columns: a, b.", "x: 1.", "rows: 2 rows.", "d: 1.", "d: 2.", "field: e."]
        );
        assert_eq!(texts(r#"{"columns":["a"],"rows":[[1,2]]}"#), ["columns: a.", "rows: 1, 2."]);
    }

    #[test]
    fn csv_needs_two_rows_of_its_width() {
        assert_eq!(texts("a,b\n1,2\n3,4\n5"), ["list: 2 rows.", "a: 1; b: 2.", "a: 3; b: 4.", "5"]);
        assert_eq!(texts("a,b\n1,2"), ["a,b", "1,2"]);
        assert_eq!(texts("a,2\n1,2\n3,4"), ["a,2", "1,2", "3,4"]);
    }

    #[test]
    fn long_strings_of_a_row_follow_it_as_sentences() {
        let long = format!("{}. {}", "x ".repeat(60).trim(), "Y ".repeat(60).trim());
        let found = texts(&format!(r#"[{{"id":1,"note":"{long}"}}]"#));
        assert_eq!(found.len(), 3);
        assert_eq!(found[0], "id: 1.");
        assert!(found[1].starts_with("note: x x") && found[2].starts_with("Y Y"));
    }

    #[test]
    fn nesting_up_to_the_bound_needs_little_stack() {
        let objects = format!("{}1{}", r#"{"a":[{"b":"#.repeat(160), "}]}".repeat(160));
        let deep = std::thread::Builder::new().stack_size(1 << 20).spawn(move || units(&objects).len());
        assert_eq!(deep.unwrap().join().unwrap(), 1);
    }
}
