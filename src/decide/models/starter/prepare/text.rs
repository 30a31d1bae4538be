//! Characters, white space and sentences, as PREPARE.md counts them.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Words of a piece: longer sentences are cut into such.
const PIECE: usize = 60;

/// Before whose full stop no sentence ends.
static ABBREVIATIONS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    "mr mrs ms dr st no vs eg ie etc inc ltd co jr sr fig al gen col prof rev sen rep gov approx dept est vol pp \
     jan feb mar apr jun jul aug sep sept oct nov dec"
        .split(' ')
        .collect()
});

/// Unicode white space, and the four ASCII separators that Python counts as such.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// Without white space at either end.
pub fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// The runs between white space.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// Words joined with single spaces.
pub fn collapse(text: &str) -> String {
    join(words(text), " ")
}

/// The parts with `between` between them.
pub fn join<T: AsRef<str>>(parts: impl IntoIterator<Item = T>, between: &str) -> String {
    let mut joined = String::new();
    for (index, part) in parts.into_iter().enumerate() {
        if index > 0 {
            joined.push_str(between);
        }
        joined.push_str(part.as_ref());
    }
    joined
}

/// Whether `text` has more than `limit` characters.
pub fn longer_than(text: &str, limit: usize) -> bool {
    text.len() > limit && text.chars().nth(limit).is_some()
}

/// A character that words are made of.
pub fn is_word(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric();
    }
    let point = u32::from(c);
    point >= 0xC0
        && point != 0xD7
        && point != 0xF7
        && !matches!(point, 0x2000..=0x2BFF | 0x3000..=0x303F | 0xFE00..=0xFE0F)
        && point < 0x1F000
}

/// Whether lower-casing changes the character.
pub fn has_lower(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_uppercase() } else { !c.to_lowercase().eq([c]) }
}

/// Ends `text` with a full stop unless it ends like a sentence.
pub fn dot(mut text: String) -> String {
    if !text.ends_with(['.', '!', '?']) {
        text.push('.');
    }
    text
}

/// The number that a cell or field holds, if it holds nothing else.
pub fn number(text: &str) -> Option<f64> {
    let bare = text.replace(',', "");
    let bare = strip(&bare).trim_start_matches(['$', '€', '£']).trim_end_matches('%');
    let digits = bare.strip_prefix('-').unwrap_or(bare);
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (digits, None),
    };
    let is_part =
        |part: &str| (1..=15).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    if is_part(whole) && fraction.is_none_or(is_part) { bare.parse().ok() } else { None }
}

/// The sentences of one collapsed line, each cut into pieces of at most 60 words.
pub fn sentences(line: &str) -> Vec<String> {
    let characters: Vec<char> = line.chars().collect();
    let mut pieces = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < characters.len() {
        if matches!(characters[at], '.' | '!' | '?')
            && let Some(end) = end_of_sentence(&characters, start, at)
        {
            cut(&characters[start..end], &mut pieces);
            start = end + 1;
            at = end;
        }
        at += 1;
    }
    if start < characters.len() {
        cut(&characters[start..], &mut pieces);
    }
    pieces
}

/// Where the sentence with a mark at `mark` ends (a space is there), if it ends.
fn end_of_sentence(characters: &[char], start: usize, mark: usize) -> Option<usize> {
    let mut end = mark + 1;
    while matches!(characters.get(end), Some('"' | '\'' | ')' | ']' | '”' | '’')) {
        end += 1;
    }
    let follower = *characters.get(end + 1)?;
    let starts_sentence = follower.is_ascii_digit()
        || has_lower(follower)
        || matches!(follower, '"' | '\'' | '(' | '[' | '“' | '‘');
    if characters[end] != ' ' || !starts_sentence {
        return None;
    }
    let run = characters[start..mark].iter().rev().take_while(|c| is_word(**c)).count();
    let word = characters[mark - run..mark].iter().collect::<String>().to_lowercase();
    let mut letters = word.chars();
    let is_initial = matches!((letters.next(), letters.next()), (Some(c), None) if !c.is_ascii_digit());
    let is_short = ABBREVIATIONS.contains(word.as_str()) || is_initial;
    if characters[mark] == '.' && is_short { None } else { Some(end) }
}

fn cut(sentence: &[char], pieces: &mut Vec<String>) {
    let sentence: String = sentence.iter().collect();
    let words: Vec<&str> = words(&sentence).collect();
    pieces.extend(words.chunks(PIECE).map(|piece| join(piece, " ")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_where_the_reference_ends_them() {
        let cases: &[(&str, &[&str])] = &[
            ("Dr. Smith left. He ran.", &["Dr. Smith left.", "He ran."]),
            ("He said \"so.\" Then (yes!) 3 more? no", &["He said \"so.\"", "Then (yes!)", "3 more? no"]),
            ("J. R. Tolkien wrote it. A", &["J. R. Tolkien wrote it.", "A"]),
            ("It costs 3. 4 remain", &["It costs 3.", "4 remain"]),
            ("a.b c. d e.", &["a.b c. d e."]),
            ("Ends here.", &["Ends here."]),
            ("", &[]),
        ];
        for (line, wanted) in cases {
            assert_eq!(sentences(line), *wanted, "{line}");
        }
    }

    #[test]
    fn long_sentences_are_cut_into_pieces() {
        let line = vec!["word"; 125].join(" ");
        let lengths: Vec<usize> = sentences(&line).iter().map(|piece| words(piece).count()).collect();
        assert_eq!(lengths, [60, 60, 5]);
    }

    #[test]
    fn numbers_are_read_with_their_marks() {
        for (text, wanted) in [
            ("$1,080.50", Some(1080.5)),
            ("-3", Some(-3.0)),
            ("48%", Some(48.0)),
            ("€ 5", None),
            ("1.", None),
            (".5", None),
            ("1e5", None),
            ("1234567890123456", None),
            ("1.1234567890123456", None),
            ("", None),
            ("٣", None),
        ] {
            assert_eq!(number(text), wanted, "{text}");
        }
    }

    #[test]
    fn white_space_is_unicode_white_space() {
        assert_eq!(collapse("\u{a0}a\u{2003}b\u{1f}c\u{85}\u{3000}"), "a b c");
        assert_eq!(collapse("a\u{200b}b"), "a\u{200b}b");
    }
}
