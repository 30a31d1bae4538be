//! Which units of long evidence the model reads for a claim.

use super::claim::ClaimTokens;
use super::evidence::{Evidence, Pieces, ReadUnit};
use super::tokens::{TokenKind, tokens};
use super::units::{Cell, Unit, row_text};
use super::{PieceError, WordPieces};

/// Rows with more cells are narrowed when room is short.
const NARROW: usize = 4;
/// Scores closer than this are equal; the earlier unit wins.
const TIE: f64 = 1e-9;
/// With so few pieces left, nothing more is looked for.
const REST: usize = 2;
/// After so many units that turned out too long, the word pieces of all candidates are made at once.
const PATIENCE: usize = 32;

/// A unit as one claim sees it.
pub(super) struct Candidate<'a> {
    unit: &'a ReadUnit,
    /// Claim tokens that it holds, in order of weight index.
    pub found: Vec<u32>,
    narrowed: Option<(String, Pieces)>,
}

/// The units that were chosen.
pub(super) struct Selection {
    pub pieces: Vec<u32>,
    pub texts: Vec<String>,
    /// Whether the last of them was cut.
    pub cut: bool,
}

impl<'a> Candidate<'a> {
    /// The units of `evidence`, whole.
    pub fn all(evidence: &'a Evidence, claim: &ClaimTokens) -> Vec<Self> {
        let known = claim.numbers_in(evidence);
        evidence
            .units
            .iter()
            .map(|unit| {
                let mut found: Vec<u32> =
                    unit.tokens.iter().filter_map(|token| known[*token as usize]).collect();
                found.sort_unstable();
                found.dedup();
                Self { unit, found, narrowed: None }
            })
            .collect()
    }

    fn text(&self) -> &str {
        self.narrowed.as_ref().map_or(&self.unit.text, |(text, _)| text)
    }

    fn pieces(&self, by: &dyn WordPieces) -> Result<&[u32], PieceError> {
        match &self.narrowed {
            Some((text, pieces)) => pieces.get(text, by),
            None => self.unit.pieces(by),
        }
    }

    fn least_pieces(&self) -> usize {
        self.narrowed.as_ref().map_or_else(|| self.unit.least_pieces(), |(_, pieces)| pieces.least())
    }

    fn is_row(&self) -> bool {
        matches!(self.unit.unit, Unit::Row { .. })
    }
}

/// Chooses among `units` what fits into `budget` word pieces and speaks most of the claim; narrows wide tables first.
pub(super) fn select(
    mut units: Vec<Candidate>,
    claim: &ClaimTokens,
    budget: usize,
    by: &dyn WordPieces,
) -> Result<Selection, PieceError> {
    if !fit(&units, budget, by)? {
        narrow_tables(&mut units, claim);
        if !fit(&units, budget, by)? {
            let chosen = choose(&units, claim, budget, by)?;
            let mut keep = chosen.iter();
            units.retain(|_| *keep.next().unwrap_or(&false));
        }
    }
    let mut pieces = Vec::new();
    for unit in &units {
        pieces.extend_from_slice(unit.pieces(by)?);
    }
    let cut = pieces.len() > budget;
    pieces.truncate(budget);
    let texts = units.iter().map(|unit| unit.text().to_owned()).collect();
    Ok(Selection { pieces, texts, cut })
}

/// Whether all units together have at most `budget` pieces.
fn fit(units: &[Candidate], budget: usize, by: &dyn WordPieces) -> Result<bool, PieceError> {
    if units.iter().map(Candidate::least_pieces).sum::<usize>() > budget {
        return Ok(false);
    }
    let mut sum = 0;
    for unit in units {
        sum += unit.pieces(by)?.len();
        if sum > budget {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Leaves of each table with wide rows the first column and what has to do with the claim.
fn narrow_tables(units: &mut [Candidate], claim: &ClaimTokens) {
    let mut tables: Vec<Vec<usize>> = Vec::new();
    for (index, candidate) in units.iter().enumerate() {
        if let Unit::Row { table, .. } = candidate.unit.unit {
            if tables.len() <= table {
                tables.resize_with(table + 1, Vec::new);
            }
            tables[table].push(index);
        }
    }
    for rows in tables {
        narrow(units, &rows, claim);
    }
}

fn narrow(units: &mut [Candidate], rows: &[usize], claim: &ClaimTokens) {
    let table: Vec<&[Cell]> = rows
        .iter()
        .filter_map(|row| match &units[*row].unit.unit {
            Unit::Row { cells, .. } => Some(cells.as_slice()),
            Unit::Text(_) => None,
        })
        .collect();
    if table.iter().all(|cells| cells.len() <= NARROW) {
        return;
    }
    let mut keep = std::collections::HashSet::new();
    for cell in table.iter().flat_map(|cells| cells.iter().skip(1)) {
        let speaks = || {
            mentions(&cell.column, TokenKind::Word, claim) || mentions(&cell.value, TokenKind::Word, claim)
        };
        if !keep.contains(cell.column.as_str()) && speaks() {
            keep.insert(cell.column.as_str());
        }
    }
    if keep.is_empty() {
        return;
    }
    let texts: Vec<String> = table
        .iter()
        .map(|cells| {
            let kept = cells.iter().enumerate().filter(|(index, cell)| {
                *index == 0
                    || keep.contains(cell.column.as_str())
                    || mentions(&cell.value, TokenKind::Number, claim)
            });
            row_text(kept.map(|(_, cell)| cell))
        })
        .collect();
    for (row, text) in rows.iter().zip(texts) {
        units[*row].found = claim.found_in(&text);
        units[*row].narrowed = Some((text.clone(), Pieces::of(&text)));
    }
}

fn mentions(text: &str, kind: TokenKind, claim: &ClaimTokens) -> bool {
    tokens(text).iter().any(|token| token.kind == kind && claim.index(kind, &token.key).is_some())
}

/// Greedy choice; says of each unit whether it is taken.
fn choose(
    units: &[Candidate],
    claim: &ClaimTokens,
    budget: usize,
    by: &dyn WordPieces,
) -> Result<Vec<bool>, PieceError> {
    let mut chosen = vec![false; units.len()];
    let mut aside = vec![false; units.len()];
    let mut left = budget;
    let mut cover = vec![1.0; claim.weights.len()];
    let gain = |cover: &[f64], unit: &Candidate| -> f64 {
        unit.found.iter().map(|token| claim.weights[*token as usize] * cover[*token as usize]).sum()
    };
    let full: Vec<f64> = units.iter().map(|unit| gain(&cover, unit)).collect();
    if let Some(first) = units.first() {
        let pieces = first.pieces(by)?.len();
        if pieces <= left {
            chosen[0] = true;
            left -= pieces;
        }
    }
    let mut gains = full.clone();
    let mut too_long = 0;
    while let Some((best, score)) = best(units, &gains, &chosen, &aside, left) {
        if score == 0.0 {
            // Nothing that is left speaks of the claim, and that stays so: the rest goes in order.
            fill(units, &mut chosen, &aside, left, by)?;
            break;
        }
        let pieces = units[best].pieces(by)?.len();
        if pieces > left {
            aside[best] = true;
            too_long += 1;
            if too_long == PATIENCE {
                for unit in units {
                    unit.pieces(by)?;
                }
            }
            continue;
        }
        chosen[best] = true;
        left -= pieces;
        if left <= REST {
            break;
        }
        if !units[best].found.is_empty() {
            units[best].found.iter().for_each(|token| cover[*token as usize] *= 0.5);
            for (gain_of, unit) in gains.iter_mut().zip(units) {
                *gain_of = gain(&cover, unit);
            }
        }
    }
    // If nothing fits: the unit that speaks most of the claim, though it will be cut.
    if !chosen.contains(&true)
        && let Some(fullest) = fullest(&full)
    {
        chosen[fullest] = true;
    }
    Ok(chosen)
}

/// The unit to try next, and its score: neither taken nor set aside, nor known to be too long.
fn best(
    units: &[Candidate],
    gains: &[f64],
    chosen: &[bool],
    aside: &[bool],
    left: usize,
) -> Option<(usize, f64)> {
    let mut best: Option<(usize, f64)> = None;
    for (index, unit) in units.iter().enumerate() {
        if chosen[index] || aside[index] || unit.least_pieces() > left {
            continue;
        }
        let mut score = gains[index];
        if !unit.is_row() {
            let before = if index > 0 { gains[index - 1] } else { 0.0 };
            let after = gains.get(index + 1).copied().unwrap_or(0.0);
            score += 0.25 * (before + after);
        }
        if best.is_none_or(|(_, highest)| score > highest + TIE) {
            best = Some((index, score));
        }
    }
    best
}

/// Takes what fits of the units that are left, in order.
fn fill(
    units: &[Candidate],
    chosen: &mut [bool],
    aside: &[bool],
    mut left: usize,
    by: &dyn WordPieces,
) -> Result<(), PieceError> {
    for (index, unit) in units.iter().enumerate() {
        if chosen[index] || aside[index] || unit.least_pieces() > left {
            continue;
        }
        let pieces = unit.pieces(by)?.len();
        if pieces > left {
            continue;
        }
        chosen[index] = true;
        left -= pieces;
        if left <= REST {
            break;
        }
    }
    Ok(())
}

/// The position of the highest gain, the earliest on ties.
pub(super) fn fullest(gains: &[f64]) -> Option<usize> {
    let mut fullest: Option<usize> = None;
    for (index, gain) in gains.iter().enumerate() {
        if fullest.is_none_or(|fullest| *gain > gains[fullest]) {
            fullest = Some(index);
        }
    }
    fullest
}
