//! Whether the figures and names of a claim are in the evidence: what can be said without a model, and the least that a
//! supported claim must meet. That they are there does not make the claim true; that one is not there makes it doubtful.

use std::collections::{BTreeMap, HashSet};

use super::matching::gives_cause;
use super::words::{Class, Word, words};
use crate::domain::Json;

/// What of a claim the evidence holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figures {
    /// Figures and names in the claim.
    pub said: usize,
    /// The figures that neither stand in the evidence nor follow from what does, as the claim writes them.
    pub missing: Vec<String>,
    /// The names that do not stand in the evidence.
    pub strangers: Vec<String>,
    /// Whether the claim gives a cause: figures do not bear one out.
    pub is_causal: bool,
}

impl Figures {
    /// Whether the claim says figures or names, all of them known, and nothing beyond them that needs support of its own.
    pub fn are_held(&self) -> bool {
        self.said > 0 && self.missing.is_empty() && self.strangers.is_empty() && !self.is_causal
    }
}

/// More figures than this in the evidence are not put together in pairs: some pair would fit by chance.
const FEW: usize = 64;

/// More figures than this in the evidence are not divided by each other: some share would fit by chance.
const FEWER: usize = 12;

/// Columns of a table that are summed.
const MOST_COLUMNS: usize = 64;

/// Counts up to this are looked for in lists.
const MOST_COUNTED: f64 = 200.0;

/// Units after a figure, and how many of a smaller unit they may stand for.
const UNITS: &[(&[&str], &[f64])] = &[
    (&["k", "kb", "kib", "thousand", "km", "kg"], &[1e3, 1024.0]),
    (&["mb", "mib", "million", "m"], &[1e6, 1_048_576.0, 1e3, 1024.0]),
    (&["gb", "gib", "billion"], &[1e9, 1_073_741_824.0, 1e3, 1024.0]),
    (&["s", "sec", "second", "seconds"], &[1e3]),
    (&["min", "mins", "minute", "minutes"], &[60.0, 6e4]),
    (&["h", "hour", "hours"], &[60.0, 3600.0, 3.6e6]),
    (&["day", "days"], &[24.0, 86_400.0]),
    (&["week", "weeks"], &[7.0]),
    (&["year", "years"], &[12.0]),
    (&["%", "percent"], &[0.01]),
];

/// Names that follow from dates and figures.
const DERIVED: &[&str] = &[
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "utc",
    "gmt",
    "kib",
    "mib",
    "gib",
];

/// Looks for a claim's figures and names in the evidence.
pub fn figures(claim: &str, evidence: &[&str]) -> Figures {
    let known = Known::of(evidence);
    let chars = joined(claim);
    let said = words(&chars);
    let numbers: Vec<(usize, &Word)> =
        said.iter().enumerate().filter(|(_, word)| word.class == Class::Number).collect();
    let found = |at: usize, word: &Word| known.holds(&word.key, is_of_date(&said, at));
    let own: Vec<f64> = numbers
        .iter()
        .filter(|(at, word)| found(*at, word))
        .filter_map(|(_, word)| word.key.parse().ok())
        .collect();
    let missing = numbers
        .iter()
        .filter(|(at, word)| {
            !found(*at, word) && !known.yields(&word.key, unit_after(&chars, word.range.end).as_deref(), &own)
        })
        .map(|(_, word)| chars[word.range.clone()].iter().collect());
    let mut figures = Figures {
        missing: distinct(missing),
        is_causal: said.iter().any(|word| gives_cause(&word.key)),
        ..Figures::default()
    };
    let names = said.iter().filter(|word| word.class == Class::Name);
    let strange = names.clone().filter(|word| {
        let lower: String =
            chars[word.range.clone()].iter().flat_map(|letter| letter.to_lowercase()).collect();
        !known.words.contains(&word.key) && !DERIVED.contains(&lower.as_str())
    });
    figures.strangers = distinct(strange.map(|word| chars[word.range.clone()].iter().collect()));
    figures.said = numbers.len() + names.count();
    figures
}

fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = HashSet::new();
    texts.filter(|text| seen.insert(text.clone())).collect()
}

/// `1_048_576` is one figure.
fn joined(text: &str) -> Vec<char> {
    let chars: Vec<char> = text.chars().collect();
    let is_digit = |at: Option<usize>| at.and_then(|at| chars.get(at)).is_some_and(char::is_ascii_digit);
    let is_joint = |at: usize| chars[at] == '_' && is_digit(at.checked_sub(1)) && is_digit(Some(at + 1));
    (0..chars.len()).filter(|at| !is_joint(*at)).map(|at| chars[at]).collect()
}

/// The figures that are no part of a date, with their positions.
pub(super) fn outside_dates(said: &[Word]) -> impl Iterator<Item = (usize, &Word)> {
    let is_figure = |(at, word): &(usize, &Word)| word.class == Class::Number && !is_of_date(said, *at);
    said.iter().enumerate().filter(is_figure)
}

/// Whether a figure is a part of a date: `2026-11-06`, "6 November 2026".
fn is_of_date(said: &[Word], at: usize) -> bool {
    let near = &said[at.saturating_sub(2)..(at + 3).min(said.len())];
    // A month in digits belongs to its own date alone: what follows it is a time.
    let is_month = |word: &Word| {
        word.key.starts_with("month ") && (word.range == said[at].range || !is_of_digits(near, word))
    };
    near.iter().any(is_month) || (said[at].key.len() == 4 && said[at].range.len() == 10)
}

/// Whether a month stands in digits, and so on one range with its year and day.
fn is_of_digits(said: &[Word], month: &Word) -> bool {
    said.iter().filter(|word| word.range == month.range).count() > 1
}

/// The unit that follows a figure.
pub(super) fn unit_after(chars: &[char], end: usize) -> Option<String> {
    let rest = chars.get(end..)?;
    let skipped = rest.iter().take_while(|letter| matches!(letter, ' ' | '-' | '\u{a0}')).count();
    let rest = &rest[skipped..];
    if rest.first() == Some(&'%') {
        return Some("%".to_owned());
    }
    let unit: String = rest
        .iter()
        .take_while(|letter| letter.is_alphabetic())
        .flat_map(|letter| letter.to_lowercase())
        .collect();
    (!unit.is_empty()).then_some(unit)
}

/// What the evidence says.
struct Known {
    words: HashSet<String>,
    /// Figures outside of dates.
    plain: HashSet<String>,
    values: Vec<f64>,
    /// Whole dates, as days since some day.
    days: Vec<i64>,
    /// How long lists are: the lines of a text, the items of a JSON array.
    counts: HashSet<usize>,
    /// Sums of JSON arrays, those of objects by key.
    sums: Vec<f64>,
}

impl Known {
    fn of(evidence: &[&str]) -> Self {
        let mut known = Self {
            words: HashSet::new(),
            plain: HashSet::new(),
            values: Vec::new(),
            days: Vec::new(),
            counts: HashSet::new(),
            sums: Vec::new(),
        };
        for text in evidence {
            let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
            // With and without a heading.
            known.counts.extend([lines, lines.saturating_sub(1)]);
            known.columns(text);
            if let Ok(json) = serde_json::from_str::<Json>(text) {
                known.lists(&json);
            }
            let said = words(&joined(text));
            known.days.extend(said.windows(3).filter_map(day));
            for (_, figure) in outside_dates(&said) {
                if known.plain.insert(figure.key.clone()) {
                    known.values.extend(figure.key.parse::<f64>().ok());
                }
            }
            known.words.extend(said.into_iter().map(|word| word.key));
        }
        known
    }

    /// Sums of the columns of a table in plain text.
    fn columns(&mut self, text: &str) {
        for mark in [',', '|', '\t', ';'] {
            let mut sums: Vec<(f64, usize)> = Vec::new();
            for line in text.lines().filter(|line| line.contains(mark)) {
                for (at, cell) in line.split(mark).enumerate().take(MOST_COLUMNS) {
                    if sums.len() <= at {
                        sums.push((0.0, 0));
                    }
                    if let Ok(value) = cell.trim().parse::<f64>() {
                        sums[at].0 += value;
                        sums[at].1 += 1;
                    }
                }
            }
            self.sums.extend(sums.into_iter().filter(|(_, count)| *count > 1).map(|(sum, _)| sum));
        }
    }

    /// Counts and sums of the arrays in a JSON text.
    fn lists(&mut self, json: &Json) {
        match json {
            Json::Array(items) => {
                self.counts.insert(items.len());
                let mut by_key: BTreeMap<&str, f64> = BTreeMap::new();
                for item in items {
                    if let Some(value) = item.as_f64() {
                        *by_key.entry("").or_default() += value;
                    }
                    for (key, value) in item.as_object().into_iter().flatten() {
                        *by_key.entry(key).or_default() += value.as_f64().unwrap_or_default();
                    }
                    self.lists(item);
                }
                self.sums.extend(by_key.into_values());
            }
            Json::Object(members) => members.values().for_each(|member| self.lists(member)),
            _ => {}
        }
    }

    /// The day of a date is no number of days: what is no part of a date must stand outside of one.
    fn holds(&self, key: &str, of_date: bool) -> bool {
        if of_date { self.words.contains(key) } else { self.plain.contains(key) }
    }

    /// Whether a figure follows: in another unit, from two others of the claim, or, if it has decimals, from two of the evidence;
    /// as the time between two dates, a share, a version's beginning, a list's length or sum.
    fn yields(&self, key: &str, unit: Option<&str>, own: &[f64]) -> bool {
        let Ok(value) = key.parse::<f64>() else { return false };
        let close = |other: f64| (other - value).abs() <= 1e-6 * value.abs().max(1.0);
        let factors = UNITS.iter().filter(|(names, _)| unit.is_some_and(|unit| names.contains(&unit)));
        let converted = factors.flat_map(|(_, factors)| *factors).any(|factor| {
            self.values
                .iter()
                .any(|known| (value * factor - known).abs() <= 1e-3 * known.abs().max(f64::MIN_POSITIVE))
        });
        let pairs = |from: &[f64], by: &dyn Fn(f64, f64) -> bool| {
            from.iter().enumerate().any(|(at, one)| from[at + 1..].iter().any(|other| by(*one, *other)))
        };
        let adds = |one: f64, other: f64| close(one + other) || close((one - other).abs());
        converted
            || pairs(own, &|one, other| adds(one, other) || close(one * other))
            || (value.fract() != 0.0 && self.values.len() <= FEW && pairs(&self.values, &adds))
            || self.sums.iter().any(|sum| close(*sum))
            || self.begins_version(key)
            || match unit {
                Some("%" | "percent") => self.values.len() <= FEWER && self.is_share(key, value),
                Some("day" | "days" | "night" | "nights") => self.lies_between(value),
                Some("week" | "weeks") => self.lies_between(value * 7.0),
                // A list of one or two has the length of too much that is none.
                Some(unit) if !is_unit(unit) => {
                    (3.0..=MOST_COUNTED).contains(&value) && self.counts.contains(&(value as usize))
                }
                _ => false,
            }
    }

    /// Whether it is what one figure is of another, or by how much it differs, in percent, rounded as it is written.
    fn is_share(&self, key: &str, value: f64) -> bool {
        let places = key.split_once('.').map_or(0, |(_, part)| part.len());
        let most = 0.5 * 10f64.powi(-i32::try_from(places).unwrap_or(0)) + 1e-9;
        let is_of = |one: f64, other: f64| {
            let share = 100.0 * one / other;
            other != 0.0 && ((share - value).abs() <= most || ((share - 100.0).abs() - value).abs() <= most)
        };
        self.values.iter().any(|one| self.values.iter().any(|other| is_of(*one, *other)))
    }

    fn lies_between(&self, value: f64) -> bool {
        self.days.iter().any(|one| self.days.iter().any(|other| (one - other) as f64 == value))
    }

    /// `20` of `v20.11.1`.
    fn begins_version(&self, key: &str) -> bool {
        self.words.iter().any(|word| {
            let version = word.strip_prefix('v').unwrap_or(word);
            let rest = version.strip_prefix(key);
            version.matches('.').count() >= 2 && rest.is_some_and(|rest| rest.starts_with('.'))
        })
    }
}

fn is_unit(word: &str) -> bool {
    let money = [
        "eur", "usd", "gbp", "chf", "jpy", "euro", "euros", "dollar", "dollars", "pound", "pounds", "cent",
        "cents",
    ];
    UNITS.iter().any(|(names, _)| names.contains(&word))
        || money.contains(&word)
        || ["ms", "month", "months"].contains(&word)
}

/// The day of a date in digits, which is three words on one range.
fn day(parts: &[Word]) -> Option<i64> {
    let [year, month, day] = parts else { return None };
    if year.range.len() != 10 || year.range != day.range {
        return None;
    }
    let number = |word: &Word| word.key.parse::<i8>().ok();
    let month = month.key.strip_prefix("month ")?.parse().ok()?;
    let date = jiff::civil::Date::new(year.key.parse().ok()?, month, number(day)?).ok()?;
    let epoch = jiff::civil::date(2000, 1, 1);
    Some(i64::from(date.since(epoch).ok()?.get_days()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: &str =
        r#"{"order_id": "NW-48213", "delivered_on": "2026-11-06", "price": 129.9, "currency": "EUR"}"#;
    const POLICY: &str = "Footwear may be returned within 30 days. Section 2.4: shipping costs EUR 4.95.";
    const LIMITS: &str = "[upload]\nmax_bytes = 1_048_576\ntimeout_ms = 30000\nretries = 2";

    fn missing(claim: &str, evidence: &[&str]) -> Vec<String> {
        figures(claim, evidence).missing
    }

    #[test]
    fn figures_that_stand_in_the_evidence_or_follow_from_it_are_known() {
        for claim in [
            "Order NW-48213 was delivered on 6 November 2026.",
            "You have until 6 December 2026, within 30 days.",
            "You paid EUR 129.90 less EUR 4.95, so you get EUR 124.95.",
            "You get EUR 124.95 back.",
        ] {
            assert!(
                figures(claim, &[ORDER, POLICY]).are_held(),
                "{claim}: {:?}",
                figures(claim, &[ORDER, POLICY])
            );
        }
        assert!(
            figures("Uploads are limited to 1048576 bytes (1 MiB) and end after 30 seconds.", &[LIMITS])
                .are_held()
        );
    }

    #[test]
    fn figures_that_do_not_are_named_as_they_stand() {
        assert_eq!(missing("within 90 days, until 4 February 2027", &[ORDER, POLICY]), ["90", "4", "2027"]);
        assert_eq!(missing("It ends after 60 seconds with 2 retries.", &[LIMITS]), ["60"]);
        assert_eq!(missing("It costs 5.95.", &[POLICY]), ["5.95"]);
        assert_eq!(missing("Penguins swim.", &[POLICY]), Vec::<String>::new());
    }

    #[test]
    fn the_day_of_a_date_is_no_number_of_days() {
        assert_eq!(missing("You can cancel within 14 days.", &[r#"{"starts": "2026-12-14"}"#]), ["14"]);
        assert_eq!(
            missing("It starts on 14 December.", &[r#"{"starts": "2026-12-14"}"#]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn counts_sums_shares_and_spans_follow_from_what_they_are_made_of() {
        let orders = r#"{"orders": [{"id": 1, "eur": 10.5}, {"id": 2, "eur": 20.0}, {"id": 3, "eur": 4.5}]}"#;
        let files = "src/a.rs\nsrc/b.rs\n\nsrc/c.rs\nsrc/d.rs\n";
        let dates = "created 2026-10-25, closed 2026-11-08";
        let follow = [
            ("The 3 orders add up to 35 euros.", orders),
            ("There are 4 files in src.", files),
            ("It took 14 days to close, that is 2 weeks.", dates),
            ("The error rate is 2.5%.", "errors: 5\nrequests: 200"),
            ("About 3 percent failed.", "errors: 5\nrequests: 199"),
            ("Node 20 is installed, 20.11 to be exact.", "node v20.11.1"),
            (
                "The total rose from 260 to 300 in all three regions.",
                "region,q1,q2\nnorth,120,130\nsouth,80,95\nwest,60,75",
            ),
            ("It takes half of the time, 50% less.", "before: 182 ms\nafter: 91 ms"),
            ("It is of 08:00 UTC on 30 November 2026.", r#"{"updated": "2026-11-30T08:00:00Z"}"#),
        ];
        for (claim, evidence) in follow {
            assert_eq!(missing(claim, &[evidence]), Vec::<String>::new(), "{claim}");
        }
        let do_not = [
            ("They add up to 45 euros.", orders, "45"),
            ("There are 6 files in src.", files, "6"),
            ("It took 15 days to close.", dates, "15"),
            ("The error rate is 7.5%.", "errors: 5\nrequests: 200", "7.5"),
            ("Node 22 is installed.", "node v20.11.1", "22"),
            ("It takes 4 days.", files, "4"),
            ("It costs 4 euros.", files, "4"),
        ];
        for (claim, evidence, figure) in do_not {
            assert_eq!(missing(claim, &[evidence]), [figure], "{claim}");
        }
    }

    #[test]
    fn names_and_causes_need_support_of_their_own() {
        let found = figures("The parcel is with DHL in Oslo.", &["Your parcel is in Oslo."]);
        assert_eq!(found.strangers, ["DHL"]);
        assert!(!found.are_held());
        assert!(!figures("It failed at 13:58 because of 2 leaks.", &["13:58 2 leaks"]).are_held());
        assert!(!figures("It works.", &["It works."]).are_held(), "nothing to hold it by");
    }
}
