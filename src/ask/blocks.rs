//! The layout of an answer: Markdown as models write it, read line by line.

use std::ops::Range;

use super::sentences::trim;

/// A part of an answer that is read in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Block {
    /// Running text; may go over several lines.
    Prose(Range<usize>),
    /// A heading, without its marks.
    Heading(Range<usize>),
    /// An item of a list, without its bullet; `depth` is its indentation in characters.
    Item {
        /// Its text; may go over several lines.
        range: Range<usize>,
        /// Its indentation.
        depth: usize,
    },
    /// A row of a table below its header.
    Row {
        /// The whole line.
        range: Range<usize>,
        /// The cells of the table's header.
        header: Vec<String>,
    },
    /// A fenced or indented block of code, without its fences.
    Code(Range<usize>),
}

/// A wrapped line is at least this long; a shorter line that ends without a mark was meant to end.
const WRAPPED: usize = 50;

/// The blocks of an answer, in order.
pub(super) fn blocks(text: &[char]) -> Vec<Block> {
    let lines = lines(text);
    let mut found: Vec<Block> = Vec::new();
    let mut open = false;
    let mut at = 0;
    while at < lines.len() {
        let line = trim(text, lines[at].clone());
        let depth = line.start - lines[at].start;
        if let Some(fence) = fence(&text[line.clone()]) {
            let body = at + 1;
            let closing =
                (body..lines.len()).find(|index| closes(&text[trim(text, lines[*index].clone())], fence));
            let end = closing.unwrap_or(lines.len());
            let range = if body < end { lines[body].start..lines[end - 1].end } else { line.end..line.end };
            found.push(Block::Code(range));
            open = false;
            at = end + 1;
            continue;
        }
        if let Some(end) = table(text, &lines, at) {
            let header = cells(&text[line]);
            let rows = (at + 2..end).map(|row| trim(text, lines[row].clone()));
            found.extend(rows.map(|range| Block::Row { range, header: header.clone() }));
            open = false;
            at = end;
            continue;
        }
        open = self::line(text, line, depth, open, &mut found);
        at += 1;
    }
    found
}

/// Reads one line; says whether the next may go on with the block.
fn line(text: &[char], line: Range<usize>, depth: usize, open: bool, found: &mut Vec<Block>) -> bool {
    let line = trim(text, line.start + quote_mark(&text[line.clone()])..line.end);
    let content = &text[line.clone()];
    if content.is_empty() || is_rule(content) {
        return false;
    }
    if let Some(mark) = heading_mark(content) {
        found.push(Block::Heading(trim(text, line.start + mark..line.end)));
        return false;
    }
    if let Some(bullet) = bullet(content) {
        let range = trim(text, line.start + bullet..line.end);
        if !range.is_empty() {
            found.push(Block::Item { range, depth });
        }
        return true;
    }
    if open
        && let Some(Block::Prose(range) | Block::Item { range, .. }) = found.last_mut()
        && goes_on(&text[range.clone()], content)
    {
        range.end = line.end;
        return true;
    }
    // A line below an item that is indented with it is a paragraph of the item, for its context too.
    if depth >= 2
        && let Some(Block::Item { depth: above, .. }) = found.last()
        && depth > *above
    {
        let above = *above;
        found.push(Block::Item { range: line, depth: above });
        return true;
    }
    found.push(Block::Prose(line));
    true
}

/// Whether a line carries on the sentence that the line above broke off.
fn goes_on(above: &[char], line: &[char]) -> bool {
    let last_line = above.rsplit(|c| *c == '\n').next().unwrap_or(above);
    let ended = above.last().is_some_and(|c| ".!?:。！？؟۔।…;".contains(*c));
    let small = line.first().is_some_and(|c| c.is_lowercase());
    (small && !ended) || (last_line.len() >= WRAPPED && above.last().is_none_or(|c| *c != ':'))
}

/// The lines of a text, without their ends.
fn lines(text: &[char]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    for (at, c) in text.iter().enumerate() {
        if *c == '\n' {
            found.push(start..at);
            start = at + 1;
        }
    }
    found.push(start..text.len());
    found
}

/// The mark and length of a fence that this line opens.
fn fence(line: &[char]) -> Option<(char, usize)> {
    let mark = *line.first().filter(|c| matches!(c, '`' | '~'))?;
    let length = line.iter().take_while(|c| **c == mark).count();
    // ```x``` on one line is code within a sentence.
    (length >= 3 && !(mark == '`' && line[length..].contains(&'`'))).then_some((mark, length))
}

fn closes(line: &[char], (mark, length): (char, usize)) -> bool {
    line.len() >= length && line.iter().all(|c| *c == mark)
}

fn quote_mark(line: &[char]) -> usize {
    line.iter().take_while(|c| matches!(c, '>' | ' ')).count() * usize::from(line.first() == Some(&'>'))
}

fn heading_mark(line: &[char]) -> Option<usize> {
    let level = line.iter().take_while(|c| **c == '#').count();
    ((1..=6).contains(&level) && line.get(level).is_some_and(|c| c.is_whitespace())).then_some(level)
}

/// `---`, `***`, `===`: a rule, or the underline of a heading.
fn is_rule(line: &[char]) -> bool {
    line.len() >= 3
        && matches!(line[0], '-' | '*' | '_' | '=' | '—' | '─')
        && line.iter().all(|c| *c == line[0] || *c == ' ')
}

/// The length of the bullet or number, with its white space, that this line begins with.
fn bullet(line: &[char]) -> Option<usize> {
    let first = *line.first()?;
    let mark = if matches!(
        first,
        '-' | '*'
            | '+'
            | '•'
            | '·'
            | '–'
            | '—'
            | '‣'
            | '▪'
            | '◦'
            | '●'
            | '○'
            | '✓'
            | '✔'
            | '➤'
            | '→'
    ) {
        1
    } else {
        let opened = usize::from(first == '(');
        let digits = line[opened..].iter().take_while(|c| c.is_ascii_digit()).take(3).count();
        let letter = usize::from(digits == 0 && line.get(opened).is_some_and(|c| c.is_ascii_lowercase()));
        let length = opened + digits + letter;
        let closed = line.get(length).is_some_and(|c| *c == ')' || (*c == '.' && opened == 0 && digits > 0));
        if digits + letter == 0 || !closed {
            return None;
        }
        length + 1
    };
    let space = line[mark..].iter().take_while(|c| c.is_whitespace()).count();
    if space == 0 && mark < line.len() {
        return None;
    }
    let rest = mark + space;
    // A task's box: `[x]`.
    let boxed = line.get(rest) == Some(&'[')
        && line.get(rest + 2) == Some(&']')
        && line.get(rest + 1).is_some_and(|c| matches!(c, ' ' | 'x' | 'X'));
    Some(if boxed { rest + 3 } else { rest })
}

/// Where the table that begins at this line ends: a row of cells, a row of dashes, more rows.
fn table(text: &[char], lines: &[Range<usize>], at: usize) -> Option<usize> {
    let is_row = |index: usize| lines.get(index).is_some_and(|line| text[line.clone()].contains(&'|'));
    let dashes = lines.get(at + 1)?;
    let dashes = &text[trim(text, dashes.clone())];
    let is_dashes = dashes.contains(&'|')
        && dashes.contains(&'-')
        && dashes.iter().all(|c| matches!(c, '|' | '-' | ':' | ' '));
    if !is_row(at) || !is_dashes {
        return None;
    }
    Some((at + 2..).find(|index| !is_row(*index)).unwrap_or(lines.len()))
}

/// The cells of a table's row.
pub(super) fn cells(row: &[char]) -> Vec<String> {
    let row: String = row.iter().collect();
    let inner = row.trim();
    let inner = inner.strip_prefix('|').unwrap_or(inner);
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    inner.split('|').map(|cell| cell.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(&'static str, String)> {
        let chars: Vec<char> = text.chars().collect();
        let show = |range: Range<usize>| chars[range].iter().collect::<String>();
        blocks(&chars)
            .into_iter()
            .map(|block| match block {
                Block::Prose(range) => ("prose", show(range)),
                Block::Heading(range) => ("heading", show(range)),
                Block::Item { range, depth: 0 } => ("item", show(range)),
                Block::Item { range, .. } => ("inner item", show(range)),
                Block::Row { range, .. } => ("row", show(range)),
                Block::Code(range) => ("code", show(range)),
            })
            .collect()
    }

    fn pairs(expected: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
        expected.iter().map(|(kind, text)| (*kind, (*text).to_owned())).collect()
    }

    #[test]
    fn headings_lists_and_prose_are_told_apart() {
        let text = "# Refund\n\nTwo things:\n- one\n* two\n  - inner\n1. first\n2) second\n(a) third\n- [x] done\n\nThe end.\n---\n";
        let expected = [
            ("heading", "Refund"),
            ("prose", "Two things:"),
            ("item", "one"),
            ("item", "two"),
            ("inner item", "inner"),
            ("item", "first"),
            ("item", "second"),
            ("item", "third"),
            ("item", "done"),
            ("prose", "The end."),
        ];
        assert_eq!(read(text), pairs(&expected));
    }

    #[test]
    fn what_looks_like_a_bullet_need_not_be_one() {
        let text = "**Bold** start\n\n-5 degrees\n\n2026 was good\n\n3.5 is the mean";
        let expected = [
            ("prose", "**Bold** start"),
            ("prose", "-5 degrees"),
            ("prose", "2026 was good"),
            ("prose", "3.5 is the mean"),
        ];
        assert_eq!(read(text), pairs(&expected));
    }

    #[test]
    fn a_wrapped_line_goes_on_and_a_short_one_ends() {
        let long = "This line of text was wrapped by its writer at some\ncolumn, and goes on.";
        assert_eq!(read(long), pairs(&[("prose", long)]));
        assert_eq!(
            read("Order: NW-1\nStatus: late"),
            pairs(&[("prose", "Order: NW-1"), ("prose", "Status: late")])
        );
        assert_eq!(read("- an item that\n  goes on"), pairs(&[("item", "an item that\n  goes on")]));
    }

    #[test]
    fn code_is_set_apart_even_if_its_fence_never_closes() {
        assert_eq!(
            read("Run:\n```sh\nls -l\n```\nDone."),
            pairs(&[("prose", "Run:"), ("code", "ls -l"), ("prose", "Done.")])
        );
        assert_eq!(read("~~~\na\nb"), pairs(&[("code", "a\nb")]));
        assert_eq!(read("```"), pairs(&[("code", "")]));
        assert_eq!(read("```x``` is code"), pairs(&[("prose", "```x``` is code")]));
    }

    #[test]
    fn rows_of_a_table_know_their_header() {
        let text: Vec<char> =
            "| City | Units |\n|---|:-:|\n| Lyon | 0 |\n| Gdansk | 7 |\nAfter.".chars().collect();
        let found = blocks(&text);
        assert_eq!(found.len(), 3);
        let Block::Row { header, range } = &found[1] else { panic!("{found:?}") };
        assert_eq!(header, &["City", "Units"]);
        assert_eq!(cells(&text[range.clone()]), ["Gdansk", "7"]);
    }

    #[test]
    fn quoted_text_is_text() {
        assert_eq!(read("> He is late.\n> # No"), pairs(&[("prose", "He is late."), ("heading", "No")]));
    }
}
