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
/// National numbers, where a word before them says what they are.
static NATIONAL: LazyLock<Regex> = LazyLock::new(|| {
    compiled(concat!(
        r"(?i)\b(?:tel|telefon|telephone|téléphone|tél|phone|mobile|mobil|handy|cell|fax|call(?: me)?(?: at| on)?)[.:]?",
        r"\s{0,2}[:.]?\s{0,2}(0[1-9][0-9]{0,4}(?:[ ./-]?[0-9]{2,8}){1,5})\b",
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
    // A user name in a URL or a connection string is not an address, nor is a message's id or a file such as `icon@2x.png`.
    let is_address = |range: &Range<usize>| {
        let before = text[..range.start].chars().rev().take(200).take_while(|c| !c.is_whitespace());
        let is_in_url = before.collect::<String>().contains("//:");
        let head = text[..range.start].trim_end_matches('<').trim_end();
        let is_message = head
            .len()
            .checked_sub(11)
            .and_then(|at| head.get(at..))
            .is_some_and(|name| name.eq_ignore_ascii_case("message-id:"));
        let end = text[range.clone()].rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
        !is_in_url && !is_message && !text[..range.start].ends_with('/') && !FILES.contains(&end.as_str())
    };
    EMAIL.find_iter(text).map(|found| found.range()).filter(is_address).collect()
}

/// Ends of file names that are no domains of the internet.
const FILES: [&str; 16] = [
    "png", "jpg", "jpeg", "gif", "svg", "webp", "avif", "css", "js", "ts", "html", "json", "yaml", "yml",
    "pdf", "txt",
];

pub(super) fn phones(text: &str) -> Vec<Range<usize>> {
    let candidates = PHONE.find_iter(text).filter(|found| {
        let digits = found.as_str().bytes().filter(u8::is_ascii_digit).count();
        (8..=15).contains(&digits) && (!found.as_str().starts_with('+') || is_international(found.as_str()))
    });
    let national = NATIONAL.captures_iter(text).filter_map(|found| {
        let number = found.get(1)?;
        let digits = number.as_str().bytes().filter(u8::is_ascii_digit).count();
        (9..=13).contains(&digits).then(|| number.range())
    });
    candidates
        .map(|found| found.range())
        .chain(national)
        .filter(|range| stands_alone(text, range) && !is_part_number(text, range))
        .collect()
}

/// A country's code, and not a decimal number or one in groups of thousands.
fn is_international(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let is_decimal = text.matches('.').count() == 1 && !text.contains([' ', '-', '(']);
    let number =
        |length: usize| digits.get(..length).and_then(|code| code.parse::<u32>().ok()).unwrap_or_default();
    // The first digits of the country codes that are in use, by ITU's list E.164.
    let is_code = matches!(digits.as_bytes().first(), Some(b'1' | b'7'))
        || matches!(
            number(2),
            20 | 27 | 30..=34 | 36 | 39..=41 | 43..=49 | 51..=58 | 60..=66 | 81 | 82 | 84 | 86 | 90..=95 | 98
        )
        || matches!(
            number(3),
            211..=213 | 216 | 218 | 220..=269 | 290 | 291 | 297..=299 | 350..=359 | 370..=378 | 380..=383 | 385..=387 | 389
                | 420 | 421 | 423 | 500..=509 | 590..=599 | 670..=692 | 850 | 852 | 853 | 855 | 856 | 880 | 886 | 960..=968
                | 970..=977 | 992..=996 | 998
        );
    // North America's area codes and exchanges begin with 2 to 9.
    let is_american = digits.starts_with('1');
    let fits =
        !is_american || digits.len() == 11 && digits.as_bytes()[1] >= b'2' && digits.as_bytes()[4] >= b'2';
    is_code && fits && !is_decimal
}

/// `NW-415-867-5309-A`: letters on one side, joined by a dash.
fn is_part_number(text: &str, range: &Range<usize>) -> bool {
    let mut before = text[..range.start].chars().rev();
    let mut after = text[range.end..].chars();
    let glued = |mark: Option<char>, letter: Option<char>| {
        matches!(mark, Some('-' | '_')) && letter.is_some_and(char::is_alphanumeric)
    };
    glued(before.next(), before.next()) || glued(after.next(), after.next())
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
        // Thirteen digits are no longer issued; they are article numbers and times.
        19 => starts(4, 4, 1),
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
