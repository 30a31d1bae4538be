//! Figures of a claim that follow from others of it, which the evidence holds: sums, differences, products, shares.

use super::super::figures::unit_after;
use super::super::units::Index;
use super::super::words::Class;
use super::claimed::{Claimed, Said};
use super::lines::{Line, Origin, holder, plain};

/// Of more figures some would fit each other by chance.
const MOST_FIGURES: usize = 8;

/// Smaller whole figures fit each other too easily.
const SMALL: f64 = 10.0;

/// Words that say that one figure is not below another, and that it is not above.
const REACHES: &[&str] = &[
    "cover",
    "covers",
    "covered",
    "enough",
    "sufficient",
    "suffices",
    "exceed",
    "exceeds",
    "exceeded",
    "over",
    "above",
    "more",
    "least",
];
const KEEPS_BELOW: &[&str] = &["within", "under", "below", "less", "fewer"];

/// Words of reckoning: what follows from them is meant.
const RECKONED: &[&str] = &[
    "together",
    "total",
    "totals",
    "sum",
    "combined",
    "altogether",
    "so",
    "leaves",
    "leaving",
    "left",
    "remaining",
    "remains",
    "minus",
    "less",
    "plus",
    "deducted",
    "difference",
    "more",
    "fewer",
    "both",
    "equals",
];

/// What the claim's figures make of each other. `asked` holds the figures of the user's own words.
pub(super) fn sums(claimed: &Claimed, index: &Index, asked: &[String]) -> Vec<Line> {
    let figures = &claimed.figures;
    if !(2..=MOST_FIGURES).contains(&figures.len()) {
        return Vec::new();
    }
    let mut held: Vec<(&Said, Origin)> = Vec::new();
    let mut open: Vec<&Said> = Vec::new();
    for figure in figures {
        match holder(index, &figure.key) {
            Some(_) if held.iter().any(|(known, _)| known.key == figure.key) => {}
            Some(origin) => held.push((figure, origin)),
            None if open.iter().any(|known| known.key == figure.key) => {}
            None => open.push(figure),
        }
    }
    let mut lines = Vec::new();
    let mut known: Vec<&Said> = held.iter().map(|(figure, _)| *figure).collect();
    for figure in &open {
        if let Some(line) = made_of(claimed, figure, &held) {
            lines.push(line);
            known.push(figure);
        }
    }
    lines.extend(against_the_asked(claimed, &open, &known, asked));
    lines
}

/// How a figure follows from two that are held, or from all of them.
fn made_of(claimed: &Claimed, figure: &Said, held: &[(&Said, Origin)]) -> Option<Line> {
    let is_percent = matches!(unit_of(claimed, figure).as_deref(), Some("%" | "percent"));
    if figure.value < SMALL && figure.value.fract() == 0.0 && !is_percent && !claimed.says(RECKONED) {
        return None;
    }
    let pairs =
        held.iter().enumerate().flat_map(|(at, one)| held[at + 1..].iter().map(move |other| (one, other)));
    for (one, other) in pairs {
        let (large, small) = if one.0.value >= other.0.value { (one, other) } else { (other, one) };
        let (a, b) = (large.0.value, small.0.value);
        let close = |value: f64| (value - figure.value).abs() <= 1e-9 * figure.value.abs().max(1.0);
        let told = |mark: &str| format!("{} {mark} {} = {}.", large.0.key, small.0.key, figure.key);
        let text = if is_percent {
            share(figure, (small, large)).or_else(|| share(figure, (large, small)))
        } else if close(a + b) {
            Some(told("+"))
        } else if close(a - b) {
            Some(told("-"))
        } else if close(a * b) {
            Some(told("*"))
        } else {
            None
        };
        if let Some(text) = text {
            return Some(Line { text, from: vec![large.1.clone(), small.1.clone()] });
        }
    }
    let sum: f64 = held.iter().map(|(part, _)| part.value).sum();
    let is_sum = held.len() > 2 && (sum - figure.value).abs() <= 1e-9 * figure.value.abs().max(1.0);
    is_sum.then(|| Line {
        text: format!(
            "{} = {}.",
            held.iter().map(|(part, _)| part.key.as_str()).collect::<Vec<_>>().join(" + "),
            figure.key
        ),
        from: held.iter().map(|(_, origin)| origin.clone()).collect(),
    })
}

/// What one figure is of another in percent, or by how much it differs, rounded as it is written.
fn share(figure: &Said, (one, other): (&(&Said, Origin), &(&Said, Origin))) -> Option<String> {
    let places = figure.key.split_once('.').map_or(0, |(_, part)| part.len());
    let most = 0.5 * 10f64.powi(-i32::try_from(places).unwrap_or(0)) + 1e-9;
    if other.0.value == 0.0 {
        return None;
    }
    let percent = 100.0 * one.0.value / other.0.value;
    let (part, whole) = (&one.0.key, &other.0.key);
    if (percent - figure.value).abs() <= most {
        return Some(format!("{part} is {}% of {whole}.", figure.key));
    }
    let change = percent - 100.0;
    let word = if change < 0.0 { "less" } else { "more" };
    ((change.abs() - figure.value).abs() <= most)
        .then(|| format!("{part} is {}% {word} than {whole}.", figure.key))
}

/// A figure that the user named, beside the figure before it in the claim: "together 49, which covers the 45". Only where it is
/// as the claim says: a small model reads a comparison as support, whichever way it goes.
fn against_the_asked(claimed: &Claimed, open: &[&Said], known: &[&Said], asked: &[String]) -> Option<Line> {
    let denies = claimed.words.iter().any(|word| word.class == Class::Negation);
    let (reaches, keeps_below) = (claimed.says(REACHES), claimed.says(KEEPS_BELOW));
    if denies || reaches == keeps_below {
        return None;
    }
    let figure = open.iter().find(|figure| asked.contains(&figure.key) && !known.contains(*figure))?;
    let before = known.iter().filter(|one| one.at < figure.at).max_by_key(|one| one.at)?;
    let (mine, named) = (before.value, figure.value);
    if (reaches && mine < named) || (keeps_below && mine > named) {
        return None;
    }
    let relation = if mine > named {
        "more than"
    } else if mine < named {
        "less than"
    } else {
        "equal to"
    };
    let text = format!("{} is {relation} {}, which the user named.", plain(mine), plain(named));
    Some(Line { text, from: Vec::new() })
}

fn unit_of(claimed: &Claimed, figure: &Said) -> Option<String> {
    unit_after(&claimed.chars, claimed.words[figure.at].range.end)
}
