//! One spelling for one thing: figures and dates of a claim that the evidence holds too, as the evidence writes them.
//!
//! "EUR 129.90" and `129.9`, "6 November 2026" and `2026-11-06` are equal, but small models miss it: the embedded one gives
//! "Delivery is estimated for 3 December 2026" 0.26 for grounded against `"estimated_delivery": "2026-12-03"`, and 0.90 if
//! both write the date alike. Only equal values are rewritten, so a wrong one stays as wrong as it was.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::units::{LONGEST_SOURCE, Source};
use super::words::{Class, Word, words};

/// How the evidence writes its figures and dates.
#[derive(Debug, Clone, Default)]
pub(super) struct Spellings {
    figures: HashMap<String, Vec<String>>,
    dates: HashMap<Date, String>,
    /// Points in time: a date with its hour and minute.
    moments: HashMap<(Date, String), String>,
    /// Dates that the evidence also writes with the month's name.
    spelled_out: HashSet<Date>,
}

/// Year, month and day, as words have them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Date {
    year: String,
    month: String,
    day: String,
}

/// A date in a text.
struct Place {
    date: Date,
    range: Range<usize>,
    in_digits: bool,
    /// Positions of its words.
    words: Range<usize>,
}

impl Spellings {
    /// Of all sources.
    pub fn of(sources: &[Source]) -> Self {
        let mut spellings = Self::default();
        for source in sources {
            let text = &source.text[..source.text.len().min(LONGEST_SOURCE)];
            let said = words(text);
            let dates = dates(&said);
            for place in &dates {
                if place.in_digits {
                    let written = text[place.range.clone()].iter().collect();
                    spellings.dates.entry(place.date.clone()).or_insert(written);
                    if let Some((clock, end)) = clock_in_digits(text, place.range.end) {
                        let written = text[place.range.start..end].iter().collect();
                        spellings.moments.entry((place.date.clone(), clock)).or_insert(written);
                    }
                } else {
                    spellings.spelled_out.insert(place.date.clone());
                }
            }
            let dated: HashSet<usize> = dates.into_iter().flat_map(|place| place.words).collect();
            for (at, word) in said.into_iter().enumerate() {
                if word.class == Class::Number && !dated.contains(&at) {
                    let written: String = text[word.range].iter().collect();
                    let known = spellings.figures.entry(word.key).or_default();
                    if !known.contains(&written) {
                        known.push(written);
                    }
                }
            }
        }
        spellings
    }

    /// The claim, with the evidence's spelling of what both hold.
    pub fn align(&self, claim: &str) -> String {
        let text: Vec<char> = claim.chars().collect();
        let said = words(&text);
        let dates = dates(&said);
        let mut changes: Vec<(Range<usize>, &str)> = Vec::new();
        for place in &dates {
            let moment = clock_in_words(&text, place.range.end)
                .and_then(|(clock, end)| Some((self.moments.get(&(place.date.clone(), clock))?, end)));
            if let Some((written, end)) = moment {
                changes.push((place.range.start..end, written));
                continue;
            }
            if let Some(written) = self.dates.get(&place.date)
                && !place.in_digits
                && !self.spelled_out.contains(&place.date)
            {
                changes.push((place.range.clone(), written));
            }
        }
        let dated: HashSet<usize> = dates.into_iter().flat_map(|place| place.words).collect();
        for (at, word) in said.iter().enumerate() {
            let written: String = text[word.range.clone()].iter().collect();
            // Small numbers are words of the language too: "one of 2" is left alone, and so are numerals.
            let is_figure = word.class == Class::Number
                && !dated.contains(&at)
                && written.chars().count() > 1
                && stands_alone(&text, &word.range);
            let Some(known) = self
                .figures
                .get(&word.key)
                .filter(|_| is_figure && !written.chars().any(char::is_alphabetic))
            else {
                continue;
            };
            if !known.contains(&written) {
                changes.push((word.range.clone(), &known[0]));
            }
        }
        // Of changes that meet, as at the hour of a point in time, the one that begins first is made.
        changes.sort_by_key(|(range, _)| range.start);
        let mut aligned = String::with_capacity(claim.len());
        let mut at = 0;
        for (range, written) in changes {
            if range.start < at {
                continue;
            }
            aligned.extend(&text[at..range.start]);
            aligned.push_str(written);
            at = range.end;
        }
        aligned.extend(&text[at..]);
        aligned
    }
}

/// Whether a figure is no part of a time, a range or a fraction.
fn stands_alone(text: &[char], range: &Range<usize>) -> bool {
    let joins = |at: Option<usize>| {
        at.and_then(|at| text.get(at)).is_some_and(|c| matches!(c, ':' | '-' | '–' | '/'))
    };
    !joins(range.start.checked_sub(1)) && !joins(Some(range.end))
}

/// Hour and minute after a date in digits, `T06:12:00Z`, and where they end. Only UTC: other zones would need arithmetic.
fn clock_in_digits(text: &[char], at: usize) -> Option<(String, usize)> {
    let mark = text.get(at).filter(|mark| matches!(mark, 'T' | ' '))?;
    let (clock, mut end) = clock(text, at + 1)?;
    if text.get(end) == Some(&'.') {
        end += 1 + text[end + 1..].iter().take_while(|c| c.is_ascii_digit()).count();
    }
    let rest = |zone: &str| text[end..].iter().take(zone.len()).copied().eq(zone.chars());
    let zone = ["Z", "+00:00", "+0000", " UTC"].into_iter().find(|zone| rest(zone));
    let elsewhere = *mark == 'T' && text.get(end).is_some_and(|c| matches!(c, '+' | '-'));
    if zone.is_none() && elsewhere {
        return None;
    }
    Some((clock, end + zone.map_or(0, str::len)))
}

/// Hour and minute after a date in a sentence, ` at 06:12 UTC` or `, 06:12`, and where they end.
fn clock_in_words(text: &[char], at: usize) -> Option<(String, usize)> {
    let ahead: String = text[at..].iter().take(5).collect();
    let gap = [" at ", ", at ", ", ", " "].into_iter().find(|gap| ahead.starts_with(gap))?;
    let (clock, end) = clock(text, at + gap.len())?;
    let rest = |zone: &str| text[end..].iter().take(zone.len()).copied().eq(zone.chars());
    let zone = [" UTC", " GMT", "Z"].into_iter().find(|zone| rest(zone));
    Some((clock, end + zone.map_or(0, str::len)))
}

/// `06:12` or `6:12:30` as `06:12`, and where it ends.
fn clock(text: &[char], at: usize) -> Option<(String, usize)> {
    let digits = |from: usize| text.iter().skip(from).take(3).take_while(|c| c.is_ascii_digit()).count();
    let hours = Some(digits(at)).filter(|count| matches!(count, 1 | 2))?;
    let colon = at + hours;
    text.get(colon).filter(|c| **c == ':')?;
    if digits(colon + 1) != 2 {
        return None;
    }
    let mut end = colon + 3;
    if text.get(end) == Some(&':') && digits(end + 1) == 2 {
        end += 3;
    }
    let hour: String = text[at..colon].iter().collect();
    let minute: String = text[colon + 1..colon + 3].iter().collect();
    Some((format!("{hour:0>2}:{minute}"), end))
}

/// The whole dates among words: `2026-11-06`, `6 November 2026`, `November 6, 2026`.
fn dates(said: &[Word]) -> Vec<Place> {
    let mut found = Vec::new();
    let mut at = 0;
    while at + 3 <= said.len() {
        match date(&said[at..at + 3]) {
            Some((date, in_digits)) => {
                let range = said[at].range.start..said[at + 2].range.end;
                found.push(Place { date, range, in_digits, words: at..at + 3 });
                at += 3;
            }
            None => at += 1,
        }
    }
    found
}

fn date(three: &[Word]) -> Option<(Date, bool)> {
    let [first, second, third] = three else { return None };
    let is_month = |word: &Word| word.key.starts_with("month ");
    let is_year = |word: &Word| word.class == Class::Number && word.key.len() == 4;
    let is_day = |word: &Word| word.class == Class::Number && word.key.len() <= 2;
    let of = |year: &Word, month: &Word, day: &Word| Date {
        year: year.key.clone(),
        month: month.key.clone(),
        day: day.key.clone(),
    };
    let in_digits = first.range == third.range;
    // Words apart are no date: "on 6 of 9 days in November of the year 2026".
    let together = third.range.end.saturating_sub(first.range.start) <= 24;
    if in_digits {
        return Some((of(first, second, third), true));
    }
    if !together || !is_year(third) {
        return None;
    }
    if is_day(first) && is_month(second) {
        return Some((of(third, second, first), false));
    }
    (is_month(first) && is_day(second)).then(|| (of(third, first, second), false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn align(claim: &str, evidence: &str) -> String {
        Spellings::of(&[Source { step: 0, text: evidence.chars().collect() }]).align(claim)
    }

    #[test]
    fn equal_dates_and_figures_are_written_as_the_evidence_writes_them() {
        let evidence =
            r#"{"due": "2026-10-31", "open": 6500.0, "price": 129.9, "scan": "2026-11-29T06:12:00Z"}"#;
        assert_eq!(
            align("It was due on 31 October 2026, so NOK 6,500.00 is late.", evidence),
            "It was due on 2026-10-31, so NOK 6500.0 is late."
        );
        assert_eq!(align("Due October 31st, 2026: EUR 129.90.", evidence), "Due 2026-10-31: EUR 129.9.");
        assert_eq!(
            align("Scanned on 29 November 2026 at 06:12.", evidence),
            "Scanned on 2026-11-29T06:12:00Z."
        );
    }

    #[test]
    fn other_values_stay_as_they_are() {
        let evidence = r#"{"due": "2026-10-31", "open": 6500.0}"#;
        for claim in [
            "It was due on 30 October 2026.",
            "It was due in October 2026.",
            "NOK 6,501.00 is open.",
            "two of 3",
            "It is 2026-10-31.",
            "from 06:12 to 3-07",
        ] {
            assert_eq!(align(claim, evidence), claim);
        }
    }

    #[test]
    fn another_time_of_a_date_or_another_zone_is_not_equal() {
        let evidence = r#"{"scan": "2026-11-29T06:12:00Z", "sent": "2026-11-28T06:12:00+02:00"}"#;
        assert_eq!(
            align("Scanned on 29 November 2026 at 09:12 UTC.", evidence),
            "Scanned on 2026-11-29 at 09:12 UTC."
        );
        assert_eq!(
            align("Sent on 28 November 2026 at 06:12 UTC.", evidence),
            "Sent on 2026-11-28 at 06:12 UTC."
        );
        assert_eq!(align("Scanned on 2026-11-29 at 6:12.", evidence), "Scanned on 2026-11-29T06:12:00Z.");
    }

    #[test]
    fn what_the_evidence_writes_both_ways_is_left_alone() {
        let evidence = "Due 31 October 2026 (2026-10-31), that is 6,500.00 or 6500.";
        for claim in ["It was due on 31 October 2026.", "6500 is open.", "6,500.00 is open."] {
            assert_eq!(align(claim, evidence), claim);
        }
    }
}
