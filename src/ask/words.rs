//! The words and figures of a text, in a form in which a claim and its evidence can be compared whatever model judges them.

use std::ops::Range;

/// What a word says, for its weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// A figure, in one spelling: `6,500.00` is `6500`.
    Number,
    /// A name by its capital letter within a sentence, or an identifier such as `NW-48213`.
    Name,
    /// Any other word that means something.
    Word,
    /// No, not, none and their like.
    Negation,
}

/// One word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// Equal for words that mean the same: lower case, without endings; months by number.
    pub key: String,
    /// What it says.
    pub class: Class,
    /// Characters of the text, from and up to; of a date in digits, those of the whole date for each of its parts.
    pub range: Range<usize>,
}

const STOP: &[&str] = &[
    "a", "an", "the", "of", "in", "on", "at", "to", "for", "from", "by", "with", "and", "or", "but", "as",
    "is", "are", "was", "were", "be", "been", "being", "it", "its", "this", "that", "these", "those",
    "there", "their", "they", "he", "she", "his", "her", "him", "them", "we", "you", "your", "our", "i",
    "my", "me", "us", "do", "does", "did", "has", "have", "had", "will", "would", "can", "could", "may",
    "might", "should", "shall", "must", "than", "then", "so", "such", "into", "about", "also", "just", "if",
    "when", "while", "which", "who", "what", "where", "how", "s", "t", "st", "nd", "rd", "th", "der", "die",
    "das", "und", "ist", "ein", "eine", "le", "la", "les", "et", "est", "un", "une", "el", "los", "las", "y",
    "es", "una", "de", "du", "des", "en", "il", "lo", "e", "o", "os", "um", "uma",
];

const NEGATIONS: &[&str] = &[
    "no",
    "not",
    "nor",
    "never",
    "without",
    "none",
    "neither",
    "cannot",
    "nobody",
    "nothing",
    "nowhere",
    "null",
    "isn't",
    "aren't",
    "wasn't",
    "weren't",
    "doesn't",
    "don't",
    "didn't",
    "can't",
    "couldn't",
    "won't",
    "wouldn't",
    "hasn't",
    "haven't",
    "hadn't",
    "shouldn't",
    "unable",
    "missing",
    "absent",
    "nicht",
    "kein",
    "keine",
    "ohne",
    "pas",
    "aucun",
    "aucune",
    "sans",
    "ningún",
    "ninguno",
    "ninguna",
    "sin",
    "nada",
    "não",
    "nenhum",
    "sem",
    "non",
    "nessun",
    "senza",
    "нет",
    "не",
    "без",
    "لا",
    "ليس",
    "لم",
    "لن",
    "אין",
    "לא",
    "ללא",
];

const NUMERALS: &[&str] = &[
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
];

/// English months, their short forms, and those of German, French, Spanish, Italian, Portuguese and Dutch.
const MONTHS: [&[&str]; 12] = [
    &["january", "jan", "januar", "janvier", "enero", "gennaio", "janeiro", "januari"],
    &["february", "feb", "februar", "février", "febrero", "febbraio", "fevereiro", "februari"],
    &["march", "mar", "märz", "mars", "marzo", "março", "maart"],
    &["april", "apr", "avril", "abril", "aprile"],
    &["may", "mai", "mayo", "maggio", "maio", "mei"],
    &["june", "jun", "juni", "juin", "junio", "giugno", "junho"],
    &["july", "jul", "juli", "juillet", "julio", "luglio", "julho"],
    &["august", "aug", "août", "agosto", "augustus"],
    &["september", "sep", "sept", "septembre", "septiembre", "settembre", "setembro"],
    &["october", "oct", "oktober", "octobre", "octubre", "ottobre", "outubro"],
    &["november", "nov", "novembre", "noviembre", "novembro"],
    &["december", "dec", "dezember", "décembre", "diciembre", "dicembre", "dezembro"],
];

/// The words of a text, in order, stop words left out.
pub(super) fn words(text: &[char]) -> Vec<Word> {
    let mut found = Vec::new();
    let mut at = 0;
    let mut first = true;
    while at < text.len() {
        let c = text[at];
        if digit(c).is_some() {
            at = number(text, at, &mut found);
        } else if is_ideograph(c) {
            at = ideographs(text, at, &mut found);
        } else if is_letter(c) {
            at = letters(text, at, first, &mut found);
        } else {
            first = first || matches!(c, '.' | '!' | '?' | '\n' | ':' | '"');
            at += 1;
            continue;
        }
        first = false;
    }
    found
}

/// `orderId` and `order_id` become `order id`: keys of records are words too.
pub(super) fn spaced(key: &[char]) -> Vec<char> {
    let mut out = Vec::with_capacity(key.len() + 4);
    for (index, c) in key.iter().enumerate() {
        if index > 0 && c.is_uppercase() && key[index - 1].is_lowercase() {
            out.push(' ');
        }
        out.push(if *c == '_' { ' ' } else { *c });
    }
    out
}

/// The value of a decimal digit of a script that models write: ASCII, Arabic, Persian, Devanagari, full width.
fn digit(c: char) -> Option<char> {
    let zero = match c {
        '0'..='9' => return Some(c),
        '\u{660}'..='\u{669}' => 0x660,
        '\u{6F0}'..='\u{6F9}' => 0x6F0,
        '\u{966}'..='\u{96F}' => 0x966,
        '\u{FF10}'..='\u{FF19}' => 0xFF10,
        _ => return None,
    };
    char::from_digit(c as u32 - zero, 10)
}

fn is_letter(c: char) -> bool {
    // Combining marks are parts of the words of Arabic, Hebrew, Thai and the scripts of India.
    c.is_alphanumeric()
        || matches!(c, '\u{300}'..='\u{36F}' | '\u{591}'..='\u{5C7}' | '\u{610}'..='\u{61A}' | '\u{64B}'..='\u{65F}' | '\u{900}'..='\u{DFF}' | '\u{E31}'..='\u{E4E}')
}

/// Scripts that put no space between words.
fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{30FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3134F}')
}

fn digits(text: &[char], from: usize) -> usize {
    text[from.min(text.len())..].iter().take_while(|c| digit(**c).is_some()).count()
}

/// Reads a figure or an ISO date at `from`.
fn number(text: &[char], from: usize, found: &mut Vec<Word>) -> usize {
    if let Some(end) = iso_date(text, from, found) {
        return end;
    }
    let mut end = from + digits(text, from);
    // Groups of three and a fraction: 6,500.00 · 6.500,00 · 6 500,00 · 129,90.
    let mut groups: Vec<(char, usize)> = vec![];
    while end < text.len() && matches!(text[end], ',' | '.' | '٫' | '٬' | '\u{a0}' | '\u{202f}') {
        let run = digits(text, end + 1);
        let spaced = matches!(text[end], '\u{a0}' | '\u{202f}');
        if run == 0 || (spaced && run != 3) {
            break;
        }
        groups.push((text[end], run));
        end += 1 + run;
    }
    let last = groups.last().copied();
    let mixed = groups.iter().any(|(mark, _)| Some(*mark) != last.map(|(mark, _)| mark));
    let fraction = match last {
        None => false,
        Some(_) if mixed => true,
        Some(('.' | '٫', _)) => groups.len() == 1,
        Some((',', run)) => groups.len() == 1 && run != 3,
        Some(_) => false,
    };
    // Three or more parts that are no groups of three: a version or an address. One figure each would match too much.
    let whole_groups = if fraction { groups.len() - 1 } else { groups.len() };
    let version = groups[..whole_groups].iter().any(|(_, run)| *run != 3);
    let plain: String =
        text[from..end].iter().filter_map(|c| digit(*c).or((*c == '.' && version).then_some('.'))).collect();
    if version {
        found.push(Word { key: plain, class: Class::Number, range: from..end });
        return end;
    }
    let places = if fraction { last.map_or(0, |(_, run)| run) } else { 0 };
    let (whole, part) = plain.split_at(plain.len() - places);
    let whole = whole.trim_start_matches('0');
    let part = part.trim_end_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let key = if part.is_empty() { whole.to_owned() } else { format!("{whole}.{part}") };
    found.push(Word { key, class: Class::Number, range: from..end });
    end
}

/// `2026-11-06` says the year, the month and the day, as "6 November 2026" does.
fn iso_date(text: &[char], from: usize, found: &mut Vec<Word>) -> Option<usize> {
    let field = |at: usize, length: usize| -> Option<u32> {
        (digits(text, at) == length).then(|| {
            text[at..at + length].iter().filter_map(|c| digit(*c)).collect::<String>().parse().ok()
        })?
    };
    let year = field(from, 4)?;
    let mark = *text.get(from + 4).filter(|mark| matches!(mark, '-' | '/'))?;
    let month = field(from + 5, 2).filter(|month| (1..=12).contains(month))?;
    text.get(from + 7).filter(|c| **c == mark)?;
    let day = field(from + 8, 2).filter(|day| (1..=31).contains(day))?;
    let range = from..from + 10;
    let parts = [
        (year.to_string(), Class::Number),
        (format!("month {month}"), Class::Word),
        (day.to_string(), Class::Number),
    ];
    found.extend(parts.map(|(key, class)| Word { key, class, range: range.clone() }));
    // The T of a date and time is no word.
    Some(from + 10 + usize::from(text.get(from + 10) == Some(&'T') && digits(text, from + 11) > 0))
}

/// Pairs of neighbouring ideographs: without a dictionary the nearest thing to words.
fn ideographs(text: &[char], from: usize, found: &mut Vec<Word>) -> usize {
    let length = text[from..].iter().take_while(|c| is_ideograph(**c)).count();
    let size = length.min(2);
    found.extend((from..=from + length - size).map(|at| Word {
        key: text[at..at + size].iter().collect(),
        class: Class::Word,
        range: at..at + size,
    }));
    from + length
}

/// Reads a word or an identifier at `from`.
fn letters(text: &[char], from: usize, first: bool, found: &mut Vec<Word>) -> usize {
    let stays = |at: usize| is_letter(text[at]) && !is_ideograph(text[at]);
    let mut end = from;
    while end < text.len() {
        let apostrophe =
            matches!(text[end], '\'' | '’') && end > from && text.get(end + 1).is_some_and(|c| is_letter(*c));
        if !stays(end) && !apostrophe {
            break;
        }
        end += 1;
    }
    // An identifier: parts of letters and digits joined without white space, with a digit somewhere.
    let mut whole = end;
    while whole + 1 < text.len()
        && matches!(text[whole], '-' | '_' | '.' | '/')
        && text[whole + 1].is_alphanumeric()
    {
        let length = text[whole + 1..].iter().take_while(|c| c.is_alphanumeric()).count();
        if text[whole] == '.' && digit(text[whole + 1]).is_none() {
            break;
        }
        whole += 1 + length;
    }
    let has_digit = |range: &[char]| range.iter().any(|c| digit(*c).is_some());
    if has_digit(&text[from..whole]) {
        let key = text[from..whole].iter().flat_map(|c| digit(*c).unwrap_or(*c).to_lowercase()).collect();
        found.push(Word { key, class: Class::Name, range: from..whole });
        return whole;
    }
    let lower: String = text[from..end]
        .iter()
        .map(|c| if *c == '’' { '\'' } else { *c })
        .flat_map(char::to_lowercase)
        .collect();
    let capital = text[from].is_uppercase() && !first;
    if let Some((key, class)) = word(&lower, capital) {
        found.push(Word { key, class, range: from..end });
    }
    end
}

/// The key and class of a word; none for a stop word.
fn word(lower: &str, capital: bool) -> Option<(String, Class)> {
    if NEGATIONS.contains(&lower) {
        return Some(("not".to_owned(), Class::Negation));
    }
    if let Some(value) = NUMERALS.iter().position(|numeral| *numeral == lower) {
        return (value != 1).then(|| (value.to_string(), Class::Number));
    }
    // "may" and "mar" are months only with their capital letter.
    let month = MONTHS.iter().position(|names| names.contains(&lower));
    if let Some(month) = month
        && (capital || lower.chars().count() > 4)
    {
        return Some((format!("month {}", month + 1), Class::Word));
    }
    let base = lower.strip_suffix("'s").unwrap_or(lower);
    let short = base.chars().count() < 2;
    if short || STOP.contains(&base) {
        return None;
    }
    let class = if capital { Class::Name } else { Class::Word };
    Some((stem(base), class))
}

/// Takes off the endings of English inflection, so that `returned` meets `returns`.
fn stem(word: &str) -> String {
    let length = word.chars().count();
    let endings: [(&str, usize, &str); 6] =
        [("ies", 5, "y"), ("ing", 6, ""), ("ed", 5, ""), ("es", 5, ""), ("s", 4, ""), ("e", 5, "")];
    for (ending, shortest, instead) in endings {
        if length < shortest || word.ends_with("ss") {
            continue;
        }
        if let Some(base) = word.strip_suffix(ending) {
            let base = format!("{base}{instead}");
            return base
                .strip_suffix('e')
                .filter(|short| short.chars().count() > 3)
                .unwrap_or(&base)
                .to_owned();
        }
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<String> {
        words(&text.chars().collect::<Vec<_>>()).into_iter().map(|word| word.key).collect()
    }

    fn class(text: &str, key: &str) -> Class {
        let all = words(&text.chars().collect::<Vec<_>>());
        all.iter().find(|word| word.key == key).unwrap_or_else(|| panic!("{key} is not in {all:?}")).class
    }

    #[test]
    fn one_figure_has_one_spelling() {
        for text in ["6500", "6,500", "6,500.00", "6.500,00", "6\u{a0}500,00", "6500.0", "٦٥٠٠"] {
            assert_eq!(keys(text), ["6500"], "{text}");
        }
        assert_eq!(keys("129.90 129,90 129.9"), ["129.9"; 3]);
        assert_eq!(keys("05 0.50"), ["5", "0.5"]);
        assert_eq!(keys("3-7 14:02"), ["3", "7", "14", "2"]);
        assert_eq!(keys("seven 7"), ["7", "7"]);
        assert_eq!(keys("2.1.3"), ["2.1.3"]);
        assert_eq!(keys("30-day 812ms"), ["30", "day", "812", "ms"]);
    }

    #[test]
    fn one_date_has_one_spelling() {
        let iso = keys("2026-11-06");
        assert_eq!(iso, ["2026", "month 11", "6"]);
        for text in ["on 6 November 2026", "on November 6, 2026", "am 6. November 2026", "on 6th Nov 2026"] {
            let mut found = keys(text);
            found.retain(|key| iso.contains(key));
            assert_eq!(found.len(), 3, "{text}: {:?}", keys(text));
        }
        assert_eq!(keys("2026-11-29T06:12:00Z")[..5], ["2026", "month 11", "29", "6", "12"]);
        assert_eq!(keys("we may do it in May"), ["month 5"]);
    }

    #[test]
    fn identifiers_are_one_word_and_names() {
        assert_eq!(keys("Order NW-48213, charge ch_7793"), ["order", "nw-48213", "charg", "ch_7793"]);
        assert_eq!(class("Order NW-48213", "nw-48213"), Class::Name);
        assert_eq!(class("It is with PostNord.", "postnord"), Class::Name);
        assert_eq!(class("Parcels are late.", "parcel"), Class::Word);
    }

    #[test]
    fn endings_do_not_part_equal_words() {
        assert_eq!(keys("returned returns returning"), ["return"; 3]);
        assert_eq!(keys("delivered delivery"), ["deliver", "delivery"]);
        assert_eq!(keys("price prices priced"), ["pric"; 3]);
        assert_eq!(keys("class"), ["class"]);
    }

    #[test]
    fn scripts_without_spaces_are_pairs() {
        assert_eq!(keys("退款30天"), ["退款", "30", "天"]);
        assert_eq!(keys("غرامة التأخير ٨٪"), ["غرامة", "التأخير", "8"]);
    }

    #[test]
    fn keys_of_records_are_words() {
        let text = |key: &str| spaced(&key.chars().collect::<Vec<_>>()).into_iter().collect::<String>();
        assert_eq!(text("orderId"), "order Id");
        assert_eq!(text("purchased_on"), "purchased on");
    }
}
