//! Where sentences end, in running text of any language.
//!
//! A mark ends a sentence only where more than one thing says so: a full stop needs white space and no lower-case letter
//! after it, and no abbreviation, initial or ordinal before it. So decimals, versions, URLs and addresses stay whole.
//! Marks of scripts without letter case or without spaces (`。`, `؟`, `।`) end a sentence wherever they stand.

use std::ops::Range;

/// Longer sentences are cut at white space, so that a text without any mark is not one claim of a megabyte.
const LONGEST: usize = 1_000;

/// How far a bracket or quotation mark may be from its partner to hold a sentence together.
const ENCLOSED: usize = 300;

/// Marks that end a sentence wherever they stand.
const ALWAYS: &str = "。！？｡؟۔।॥።፧։՞។။";

/// Never the last word of a sentence, in English and its neighbours: what follows belongs to them.
const LEADING: &[&str] = &[
    "mr", "mrs", "ms", "dr", "prof", "st", "mt", "gen", "col", "sgt", "capt", "lt", "rev", "hon", "sen",
    "rep", "gov", "no", "nos", "nr", "fig", "figs", "sec", "ch", "eq", "vol", "pp", "art", "para", "vs",
    "eg", "ie", "cf", "viz", "approx", "ca", "est", "al", "bzw", "zb", "usw", "dh", "sr", "sra", "mme",
    "mlle", "ing", "hr", "fr", "abb", "ref",
];

/// May be the last word of a sentence: they end it only if a new sentence clearly begins.
const TRAILING: &[&str] = &[
    "etc", "inc", "ltd", "co", "corp", "jr", "dept", "am", "pm", "us", "uk", "eu", "un", "jan", "feb", "mar",
    "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec", "mon", "tue", "wed", "thu", "fri", "sat",
    "sun", "min", "max", "hrs", "gmbh", "sa", "srl", "bv", "plc", "llc", "ave", "blvd", "rd", "ph",
];

/// Words that begin a sentence and hardly ever follow an abbreviation or an initial.
const BEGINNINGS: &[&str] = &[
    "the", "it", "its", "this", "that", "these", "those", "they", "we", "you", "he", "she", "i", "your",
    "our", "there", "here", "if", "in", "on", "at", "for", "from", "as", "and", "but", "so", "however",
    "please", "when", "after", "before", "then", "also", "no", "yes", "an", "a", "once", "because", "to",
    "with", "all", "both", "each",
];

/// Months, for `6. November`: German, Danish, Norwegian, Swedish, Finnish, Czech and Polish write ordinals with a stop.
const MONTHS: &[&str] = &[
    "jan", "feb", "mär", "mar", "apr", "maj", "mai", "may", "jun", "jul", "aug", "sep", "okt", "oct", "nov",
    "dez", "dec", "des", "led", "úno", "bře", "dub", "kvě", "čer", "srp", "zář", "říj", "lis", "pro", "tam",
    "hel", "maa", "huh", "tou", "kes", "hei", "elo", "syy", "lok", "mar", "jou",
];

/// Sentences of a running text, in order, without the white space around them. Newlines count as white space.
pub(super) fn sentences(text: &[char]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut at = 0;
    let mut enclosed_until = 0;
    while at < text.len() {
        if at >= enclosed_until
            && let Some(end) = partner(text, at)
        {
            enclosed_until = end;
        }
        let marks = text[at..].iter().take_while(|c| is_mark(**c)).count();
        if marks == 0 {
            at += 1;
            continue;
        }
        let after = after_closers(text, at + marks);
        // Within brackets or quotation marks only their own end counts.
        let free = at >= enclosed_until || after > enclosed_until;
        at += marks;
        if free && ends_sentence(text, start, at - marks..at, after) {
            push(&mut found, text, start..after);
            start = after;
            at = after;
        }
    }
    push(&mut found, text, start..text.len());
    found
}

fn is_mark(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '．' | '…') || ALWAYS.contains(c)
}

/// Whether the run of marks, with what closes after it, is the end of the sentence that began at `start`.
fn ends_sentence(text: &[char], start: usize, marks: Range<usize>, after: usize) -> bool {
    let Some(gap) = text[after..].iter().position(|c| !c.is_whitespace()) else { return true };
    if text[marks.clone()].iter().any(|mark| ALWAYS.contains(*mark)) {
        return true;
    }
    if gap == 0 || text[after + gap].is_lowercase() {
        return false;
    }
    let full_stop = marks.len() == 1 && text[marks.start] == '.';
    !(full_stop && belongs_to_what_follows(text, start, marks.start, after + gap))
}

/// Whether the full stop at `at` is that of an abbreviation, an initial or an ordinal, so that the sentence goes on.
fn belongs_to_what_follows(text: &[char], start: usize, at: usize, next: usize) -> bool {
    let mut from = at;
    while from > start && (text[from - 1].is_alphanumeric() || text[from - 1] == '.') {
        from -= 1;
    }
    let word: String = text[from..at].iter().filter(|c| **c != '.').flat_map(|c| c.to_lowercase()).collect();
    let following: String = text[next..]
        .iter()
        .take_while(|c| c.is_alphanumeric())
        .take(20)
        .flat_map(|c| c.to_lowercase())
        .collect();
    if word.is_empty() {
        return false;
    }
    let begins = BEGINNINGS.contains(&following.as_str());
    if word.chars().all(|c| c.is_ascii_digit()) {
        let prefix: String = following.chars().take(3).collect();
        let ordinal = word.len() <= 2 && !text[from..at].contains(&'.');
        // `1.` alone is the number of a list that lost its line.
        return ordinal && (MONTHS.contains(&prefix.as_str()) || from == start);
    }
    if LEADING.contains(&word.as_str()) {
        // `no` and the like are words too: "The answer is no. The order …".
        return !begins || !matches!(word.as_str(), "no" | "st" | "us" | "al" | "art");
    }
    let initial = word.chars().count() == 1;
    let dotted =
        text[from..at].contains(&'.') && word.chars().count() <= 4 && word.chars().all(char::is_alphabetic);
    if TRAILING.contains(&word.as_str()) || initial || dotted {
        return !begins;
    }
    false
}

/// Steps over what closes with the sentence: quotation marks, brackets, Markdown's emphasis, and a reference such as `[3]`.
fn after_closers(text: &[char], mut end: usize) -> usize {
    loop {
        match text.get(end) {
            Some(
                '"' | '\'' | ')' | ']' | '}' | '”' | '’' | '»' | '」' | '』' | '）' | '】' | '》' | '*' | '_'
                | '`',
            ) => end += 1,
            Some('[') => {
                let close = text[end..].iter().take(14).position(|c| *c == ']');
                match close {
                    Some(length) if !text[end + 1..end + length].iter().any(|c| c.is_whitespace()) => {
                        end += length + 1
                    }
                    _ => return end,
                }
            }
            _ => return end,
        }
    }
}

/// Where the bracket or quotation mark that opens at `at` closes, if it does so soon.
fn partner(text: &[char], at: usize) -> Option<usize> {
    let open = text[at];
    let close = match open {
        '(' => ')',
        '（' => '）',
        '“' => '”',
        '«' => '»',
        '「' => '」',
        '"' => '"',
        _ => return None,
    };
    // An inch mark or a stray quote: an opening one stands after white space or a bracket.
    if open == '"' && at > 0 && !(text[at - 1].is_whitespace() || "([{—–-".contains(text[at - 1])) {
        return None;
    }
    let mut depth = 0;
    for (offset, c) in text[at..].iter().take(ENCLOSED).enumerate() {
        if offset > 0 && *c == close && (open != close || offset > 1) {
            depth -= 1;
            if depth == 0 {
                return Some(at + offset);
            }
        } else if *c == open && (open != close || offset == 0) {
            depth += 1;
        }
    }
    None
}

/// Adds a sentence without the white space around it, cut into pieces if it is very long.
fn push(found: &mut Vec<Range<usize>>, text: &[char], range: Range<usize>) {
    let mut rest = trim(text, range);
    while rest.len() > LONGEST {
        let window = &text[rest.start..rest.start + LONGEST];
        let cut = window.iter().rposition(|c| c.is_whitespace()).filter(|cut| *cut > 0).unwrap_or(LONGEST);
        found.push(trim(text, rest.start..rest.start + cut));
        rest = trim(text, rest.start + cut..rest.end);
    }
    if !rest.is_empty() {
        found.push(rest);
    }
}

/// The range without the white space around it.
pub(super) fn trim(text: &[char], range: Range<usize>) -> Range<usize> {
    let slice = &text[range.clone()];
    let Some(first) = slice.iter().position(|c| !c.is_whitespace()) else { return range.start..range.start };
    let last = slice.iter().rposition(|c| !c.is_whitespace()).unwrap_or(first);
    range.start + first..range.start + last + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        let chars: Vec<char> = text.chars().collect();
        sentences(&chars).into_iter().map(|range| chars[range].iter().collect()).collect()
    }

    fn whole(text: &str) {
        assert_eq!(split(text), [text]);
    }

    #[test]
    fn sentences_end_at_marks() {
        assert_eq!(split("It came. It works! Does it? Yes."), ["It came.", "It works!", "Does it?", "Yes."]);
        assert_eq!(split("  One.\nTwo.  "), ["One.", "Two."]);
        assert_eq!(split("No mark at the end"), ["No mark at the end"]);
        assert_eq!(split("Wait... Then it came."), ["Wait...", "Then it came."]);
        assert_eq!(split("Really?! Yes."), ["Really?!", "Yes."]);
        assert_eq!(split(""), Vec::<String>::new());
    }

    #[test]
    fn decimals_versions_addresses_and_times_stay_whole() {
        whole("NOK 6,500.00 of 10,500.00 is open.");
        whole("Version 2.1.3 needs Python 3.11 or node.js 20.");
        whole("See https://example.com/a.b?c=1.5&d=x!y for it.");
        whole("Write to jane.doe@example.co.uk today.");
        whole("It was scanned at 6.12 a.m. by PostNord.");
        assert_eq!(split("Use v2.1. The old one fails."), ["Use v2.1.", "The old one fails."]);
        assert_eq!(split("It rose in 2026. Sales fell."), ["It rose in 2026.", "Sales fell."]);
        assert_eq!(split("Day 6. Nothing came."), ["Day 6.", "Nothing came."]);
    }

    #[test]
    fn abbreviations_initials_and_ordinals_do_not_end_a_sentence() {
        whole("Dr. Smith and Mr. J. R. Brown vs. Acme Inc. met, e.g. in St. Louis.");
        whole("See Fig. 3 and No. 5, i.e. the U.S. Senate report.");
        whole("Am 6. November kam es an.");
        whole("Approx. 40 were sold, etc. and so on.");
        assert_eq!(
            split("It ships from the U.S. The parcel is late."),
            ["It ships from the U.S.", "The parcel is late."]
        );
        assert_eq!(
            split("The answer is no. The order is late."),
            ["The answer is no.", "The order is late."]
        );
        assert_eq!(
            split("We sell shoes, bags etc. You can return them."),
            ["We sell shoes, bags etc.", "You can return them."]
        );
        assert_eq!(split("That is plan B. It costs 5."), ["That is plan B.", "It costs 5."]);
    }

    #[test]
    fn quotes_and_brackets_hold_together_and_close_with_their_sentence() {
        assert_eq!(
            split("He said \"It is late. We go.\" Then he left."),
            ["He said \"It is late. We go.\"", "Then he left."]
        );
        assert_eq!(
            split("It is deleted (see section 2. It is long). It is gone."),
            ["It is deleted (see section 2. It is long).", "It is gone."]
        );
        assert_eq!(split("**It is deleted.** Next one."), ["**It is deleted.**", "Next one."]);
        assert_eq!(split("It is deleted.[3] Next one."), ["It is deleted.[3]", "Next one."]);
        assert_eq!(split("It is deleted [kb-114]. Next one."), ["It is deleted [kb-114].", "Next one."]);
        assert_eq!(
            split("A 27\" screen. It is big. A 32\" one."),
            ["A 27\" screen.", "It is big.", "A 32\" one."]
        );
        assert_eq!(split("An open ( bracket. Next one."), ["An open ( bracket.", "Next one."]);
    }

    #[test]
    fn scripts_without_case_or_spaces_are_split_at_their_own_marks() {
        assert_eq!(
            split("退款需要30天。运费是4.95欧元！可以吗？"),
            ["退款需要30天。", "运费是4.95欧元！", "可以吗？"]
        );
        assert_eq!(
            split("هل وصل؟ وصل يوم 6. الرسوم 0.5% فقط."),
            ["هل وصل؟", "وصل يوم 6.", "الرسوم 0.5% فقط."]
        );
        assert_eq!(split("ההזמנה הגיעה. היא בחיפה."), ["ההזמנה הגיעה.", "היא בחיפה."]);
        assert_eq!(split("यह आ गया। यह काम करता है।"), ["यह आ गया।", "यह काम करता है।"]);
        assert_eq!(split("یہ آ گیا۔ یہ کام کرتا ہے۔"), ["یہ آ گیا۔", "یہ کام کرتا ہے۔"]);
        assert_eq!(split("「30天。」他说。"), ["「30天。」", "他说。"]);
    }

    #[test]
    fn a_text_without_marks_is_cut_at_white_space() {
        let text = "word ".repeat(1_000);
        let pieces = split(&text);
        assert!(
            pieces.len() > 4
                && pieces.iter().all(|piece| piece.chars().count() <= LONGEST && piece.ends_with("word"))
        );
        assert_eq!(
            split(&"字".repeat(2_500)).iter().map(|piece| piece.chars().count()).collect::<Vec<_>>(),
            [1_000, 1_000, 500]
        );
    }
}
