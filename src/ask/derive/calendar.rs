//! What follows from the dates of the evidence: a day so many days later, the days between two, the season of a month.

use std::cell::OnceCell;

use jiff::ToSpan;
use jiff::civil::Date;

use super::super::figures::unit_after;
use super::super::units::Index;
use super::super::words::{Class, Word, words};
use super::claimed::{Claimed, Said};
use super::lines::{Line, Origin, holder};

/// With more dates in the evidence, some two would fit by chance.
const MOST_DATES: usize = 8;

/// Units that are searched for dates.
const MOST_UNITS: usize = 200;

/// Months and years of which is told where they lie.
const MOST_PLACED: usize = 4;

/// With more years in the evidence, some two would fit by chance.
const MOST_YEARS: usize = 6;

/// Longer spans are no deadlines.
const MOST_DAYS: f64 = 4_000.0;

/// Seasons by the month, as they are called where most sources are written: north of the equator.
const SEASONS: [&str; 12] = [
    "winter", "winter", "spring", "spring", "spring", "summer", "summer", "summer", "fall", "fall", "fall",
    "winter",
];

/// All that the claim asks of the evidence's dates, which are read once, by the first claim that asks.
pub(super) fn dates(claimed: &Claimed, index: &Index, known: &OnceCell<Vec<(Date, Origin)>>) -> Vec<Line> {
    let mut lines = seasons(claimed, index);
    lines.extend(spans(claimed, index, known));
    lines.extend(ages(claimed, index));
    lines
}

fn seasons(claimed: &Claimed, index: &Index) -> Vec<Line> {
    if !claimed.says_after(&["in", "during", "of", "the"], &["spring", "summer", "fall", "autumn", "winter"])
    {
        return Vec::new();
    }
    let months = (1..=12).filter_map(|month| {
        let unit = *index.with(&format!("month {month}")).first()?;
        Some((unit, month))
    });
    let mut months: Vec<(usize, i8)> = months.collect();
    months.sort_unstable();
    let line = |(unit, month): (usize, i8)| {
        let season = match SEASONS[usize::from(month.unsigned_abs()) - 1] {
            "fall" if claimed.says(&["autumn"]) => "autumn",
            season => season,
        };
        Line {
            text: format!("{} is in the {season}.", name_of(month)),
            from: vec![Origin::unit(index, unit, vec![format!("month {month}")])],
        }
    };
    months.into_iter().take(MOST_PLACED).map(line).collect()
}

/// A claim's "1980s", "century" and "20 years", against the years of the evidence.
fn ages(claimed: &Claimed, index: &Index) -> Vec<Line> {
    let decade = claimed.figures.iter().find_map(|figure| decade(claimed, figure));
    let is_century = claimed.says(&["century"]);
    let spans: Vec<(String, usize)> =
        claimed.figures.iter().filter_map(|figure| span_of_years(claimed, index, figure)).collect();
    if decade.is_none() && !is_century && spans.is_empty() {
        return Vec::new();
    }
    let years = years_of(index);
    if years.len() > MOST_YEARS {
        return Vec::new();
    }
    let from = |year: usize, unit: usize| Origin::unit(index, unit, vec![year.to_string()]);
    let mut lines = Vec::new();
    for (year, unit) in years.iter().take(MOST_PLACED) {
        let century = (year - 1) / 100 + 1;
        let ending = if century == 21 { "st" } else { "th" };
        let told = match decade {
            Some(is_short) if is_short && year / 100 == 19 => format!("the {}0s", year / 10 % 10),
            Some(_) => format!("the {}0s", year / 10),
            None if is_century => format!("the {century}{ending} century"),
            None => continue,
        };
        lines.push(Line { text: format!("{year} is in {told}."), from: vec![from(*year, *unit)] });
    }
    for (told, length) in spans {
        let pairs = years.iter().flat_map(|one| years.iter().map(move |other| (one, other)));
        let fits = pairs.filter(|(one, other)| one.0 + length == other.0);
        lines.extend(fits.take(1).map(|(one, other)| Line {
            text: format!("From {} to {}: {told}.", one.0, other.0),
            from: vec![from(one.0, one.1), from(other.0, other.1)],
        }));
    }
    lines
}

/// Whether a figure is a decade, as in "1980s" (false) or "80s" (true); nobody's thirties.
fn decade(claimed: &Claimed, figure: &Said) -> Option<bool> {
    let end = claimed.words[figure.at].range.end;
    let rest: String = claimed.chars[end..].iter().take(3).collect();
    let rest = rest.strip_prefix(['\'', '’']).unwrap_or(&rest);
    let after = rest.strip_prefix('s')?;
    let is_long = (150..210).contains(&(figure.value as usize / 10)) && figure.key.len() == 4;
    let is_short = figure.key.len() == 2;
    let is_age = claimed.says_after(&["his", "her", "their", "my", "your"], &[&format!("{}s", figure.key)]);
    let is_decade = figure.value % 10.0 == 0.0 && (is_long || is_short) && !is_age;
    (is_decade && !after.starts_with(char::is_alphabetic)).then_some(is_short)
}

/// A figure of years that no tool has said: as it is told, and how many.
fn span_of_years(claimed: &Claimed, index: &Index, figure: &Said) -> Option<(String, usize)> {
    let unit = unit_after(&claimed.chars, claimed.words[figure.at].range.end)?;
    let years = match unit.as_str() {
        "year" | "years" => figure.value,
        "decades" => 10.0 * figure.value,
        _ => return None,
    };
    let is_whole = years.fract() == 0.0 && (2.0..=600.0).contains(&years);
    (is_whole && holder(index, &figure.key).is_none())
        .then(|| (format!("{} {unit}", figure.key), years as usize))
}

/// The years of the evidence, each with the first unit that says it, in order of those.
fn years_of(index: &Index) -> Vec<(usize, usize)> {
    let years = (1500..2100).filter_map(|year: usize| Some((year, *index.with(&year.to_string()).first()?)));
    let mut years: Vec<(usize, usize)> = years.collect();
    years.sort_by_key(|(_, unit)| *unit);
    years
}

/// A claim's "30 days" and its dates, against the dates of the evidence.
fn spans(claimed: &Claimed, index: &Index, known: &OnceCell<Vec<(Date, Origin)>>) -> Vec<Line> {
    let spans: Vec<(String, i64, bool)> = claimed
        .figures
        .iter()
        .filter_map(|figure| {
            let unit = unit_after(&claimed.chars, claimed.words[figure.at].range.end)?;
            let days = match unit.as_str() {
                "day" | "days" | "night" | "nights" => 1,
                "week" | "weeks" => 7,
                _ => return None,
            };
            let is_whole = figure.value.fract() == 0.0 && (1.0..=MOST_DAYS).contains(&figure.value);
            let is_held = holder(index, &figure.key).is_some();
            is_whole.then(|| (format!("{} {unit}", figure.key), figure.value as i64 * days, is_held))
        })
        .collect();
    if spans.is_empty() {
        return Vec::new();
    }
    let known = known.get_or_init(|| dates_of(index));
    if known.is_empty() || known.len() > MOST_DATES {
        return Vec::new();
    }
    let said: Vec<Date> =
        found(&claimed.words).into_iter().filter(|date| known.iter().all(|(one, _)| one != date)).collect();
    let mut lines = Vec::new();
    for (told, days, is_held) in spans {
        for (date, origin) in known {
            let after = date.checked_add(days.days()).ok().filter(|after| is_held && said.contains(after));
            lines.extend(after.map(|after| Line {
                text: format!("{told} after {}: {}.", written(*date), written(after)),
                from: vec![origin.clone()],
            }));
            let until = known.iter().find(|(other, _)| !is_held && days_until(*date, *other) == Some(days));
            lines.extend(until.map(|(until, end)| Line {
                text: format!("From {} to {}: {told}.", written(*date), written(*until)),
                from: vec![origin.clone(), end.clone()],
            }));
        }
    }
    lines
}

/// The dates of the evidence, each once.
fn dates_of(index: &Index) -> Vec<(Date, Origin)> {
    let units = (1..=12).flat_map(|month| index.with(&format!("month {month}")));
    let mut units: Vec<usize> = units.copied().take(MOST_UNITS).collect();
    units.sort_unstable();
    units.dedup();
    let mut all: Vec<(Date, Origin)> = Vec::new();
    for unit in units {
        let said = words(&index.units[unit].told.chars().collect::<Vec<_>>());
        for date in found(&said) {
            if !all.iter().any(|(known, _)| *known == date) {
                let month = format!("month {}", date.month());
                all.push((date, Origin::unit(index, unit, vec![date.day().to_string(), month])));
            }
        }
    }
    all
}

/// The dates among words: year, month, day in any of the orders in which they are written.
fn found(said: &[Word]) -> Vec<Date> {
    let date = |three: &[Word]| {
        let month = three.iter().position(|word| word.key.starts_with("month "))?;
        let others: Vec<&Word> =
            three.iter().enumerate().filter(|(at, _)| *at != month).map(|(_, word)| word).collect();
        let number = |word: &Word| word.key.parse::<i16>().ok().filter(|_| word.class == Class::Number);
        let (one, other) = (number(others.first()?)?, number(others.get(1)?)?);
        let (year, day) = if one > 31 { (one, other) } else { (other, one) };
        let number = three[month].key.strip_prefix("month ")?.parse().ok()?;
        (year > 999).then(|| Date::new(year, number, i8::try_from(day).ok()?).ok())?
    };
    let mut dates: Vec<Date> = Vec::new();
    for three in said.windows(3) {
        dates.extend(date(three).filter(|date| !dates.contains(date)));
    }
    dates
}

fn days_until(date: Date, other: Date) -> Option<i64> {
    Some(i64::from(date.until(other).ok()?.get_days()))
}

/// A month's name.
fn name_of(month: i8) -> String {
    jiff::civil::date(2000, month, 1).strftime("%B").to_string()
}

fn written(date: Date) -> String {
    date.strftime("%-d %B %Y").to_string()
}
