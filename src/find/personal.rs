//! What leads to a person: cards, accounts, numbers, addresses.

use core::net::Ipv4Addr;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::checks::{iban, iban_length, luhn};

static CARD: LazyLock<Regex> = LazyLock::new(|| compiled(r"\b[0-9](?:[ -]?[0-9]){12,18}\b"));
static IBAN: LazyLock<Regex> = LazyLock::new(|| compiled(r"\b[A-Z]{2}[0-9]{2} ?[A-Z0-9]"));
static SSN: LazyLock<Regex> = LazyLock::new(|| compiled(r"\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b"));
static EMAIL: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"\b[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}[A-Za-z]{2,24}\b",
    )
});
static PHONE: LazyLock<Regex> = LazyLock::new(|| {
    compiled(concat!(
        r"\+[1-9][0-9]{0,3}(?:[ .-]?\(?[0-9]{1,5}\)?){2,6}\b",
        r"|(?:\b1[ .-])?(?:\([2-9][0-9]{2}\) ?|\b[2-9][0-9]{2}[ .-])[2-9][0-9]{2}[ .-][0-9]{4}\b",
    ))
});
static IP: LazyLock<Regex> = LazyLock::new(|| compiled(r"\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}\b"));

pub(super) fn cards(text: &str) -> Vec<Range<usize>> {
    let candidates = CARD.find_iter(text).map(|found| found.range());
    candidates.filter(|range| stands_alone(text, range) && is_card(&text[range.clone()])).collect()
}

pub(super) fn ibans(text: &str) -> Vec<Range<usize>> {
    IBAN.find_iter(text).filter_map(|found| account(text, found.start())).collect()
}

pub(super) fn ssns(text: &str) -> Vec<Range<usize>> {
    let is_issued = |number: &str| {
        let (area, group, serial) = (&number[..3], &number[4..6], &number[7..]);
        area != "000" && area != "666" && !area.starts_with('9') && group != "00" && serial != "0000"
    };
    let candidates = SSN.find_iter(text).filter(|found| is_issued(found.as_str())).map(|found| found.range());
    candidates.filter(|range| stands_alone(text, range)).collect()
}

pub(super) fn emails(text: &str) -> Vec<Range<usize>> {
    // A user name in a URL or a connection string is not an address.
    let is_address = |range: &Range<usize>| !text[..range.start].ends_with([':', '/']);
    EMAIL.find_iter(text).map(|found| found.range()).filter(is_address).collect()
}

pub(super) fn phones(text: &str) -> Vec<Range<usize>> {
    let candidates = PHONE.find_iter(text).filter(|found| {
        let digits = found.as_str().bytes().filter(u8::is_ascii_digit).count();
        (8..=15).contains(&digits)
    });
    candidates.map(|found| found.range()).filter(|range| stands_alone(text, range)).collect()
}

pub(super) fn addresses(text: &str) -> Vec<Range<usize>> {
    let is_public = |text: &str| {
        text.parse::<Ipv4Addr>().is_ok_and(|address| {
            !(address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_documentation()
                || address.is_unspecified()
                || address.is_broadcast()
                || address.is_multicast())
        })
    };
    let candidates = IP.find_iter(text).filter(|found| is_public(found.as_str())).map(|found| found.range());
    candidates.filter(|range| stands_alone(text, range)).collect()
}

/// Whether the number is not a part of a longer one, or of a word.
fn stands_alone(text: &str, range: &Range<usize>) -> bool {
    let glued = |c: char| c.is_alphanumeric() || c == '_';
    let before = text[..range.start].chars().next_back();
    let mut after = text[range.end..].chars();
    let (next, second) = (after.next(), after.next());
    let joins = |mark: Option<char>, beyond: Option<char>| {
        matches!(mark, Some('-' | '.' | ',')) && beyond.is_some_and(|c| c.is_ascii_digit())
    };
    let beyond_before = text[..range.start].chars().rev().nth(1);
    !before.is_some_and(glued)
        && !next.is_some_and(glued)
        && !joins(next, second)
        && !joins(before, beyond_before)
}

fn is_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let starts = |from: u32, to: u32, length: usize| {
        digits
            .get(..length)
            .and_then(|prefix| prefix.parse::<u32>().ok())
            .is_some_and(|n| (from..=to).contains(&n))
    };
    let issued = match digits.len() {
        13 | 19 => starts(4, 4, 1),
        14 => starts(300, 305, 3) || starts(36, 36, 2) || starts(38, 39, 2),
        15 => starts(34, 34, 2) || starts(37, 37, 2),
        16 => {
            starts(4, 4, 1)
                || starts(51, 55, 2)
                || starts(2221, 2720, 4)
                || starts(6011, 6011, 4)
                || starts(644, 659, 3)
                || starts(3528, 3589, 4)
                || starts(62, 62, 2)
        }
        _ => false,
    };
    issued && luhn(&digits)
}

/// The account number that starts here, with or without spaces.
fn account(text: &str, start: usize) -> Option<Range<usize>> {
    let wanted = iban_length(text.get(start..start + 2)?)?;
    let mut bare = String::with_capacity(wanted);
    let mut end = start;
    for (at, letter) in text[start..].char_indices() {
        match letter {
            'A'..='Z' | '0'..='9' => bare.push(letter),
            ' ' if !text[..start + at].ends_with(' ') => continue,
            _ => break,
        }
        end = start + at + 1;
        if bare.len() == wanted {
            break;
        }
    }
    (iban(&bare) && stands_alone(text, &(start..end))).then_some(start..end)
}

fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is written here and a test compiles it")
}
