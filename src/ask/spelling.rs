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
            let is_figure =
                word.class == Class::Number && !dated.contains(&at) && written.chars().count() > 1;
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
        changes.sort_by_key(|(range, _)| range.start);
        let mut aligned = String::with_capacity(claim.len());
        let mut at = 0;
        for (range, written) in changes {
            aligned.extend(&text[at..range.start]);
            aligned.push_str(written);
            at = range.end;
        }
        aligned.extend(&text[at..]);
        aligned
    }
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
            "Scanned on 2026-11-29 at 06:12."
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
        ] {
            assert_eq!(align(claim, evidence), claim);
        }
    }

    #[test]
    fn what_the_evidence_writes_both_ways_is_left_alone() {
        let evidence = "Due 31 October 2026 (2026-10-31), that is 6,500.00 or 6500.";
        for claim in ["It was due on 31 October 2026.", "6500 is open.", "6,500.00 is open."] {
            assert_eq!(align(claim, evidence), claim);
        }
    }
}
