//! How much of a claim's wording the evidence holds: inputs of the calibrated layer.

use std::collections::HashSet;

use super::claim::ClaimTokens;
use super::evidence::Evidence;
use super::select::{Candidate, fullest};
use super::tokens::TokenKind;

/// More missing numbers count no more than so many.
const MANY: usize = 5;

/// The lexical features of a claim and the whole evidence (PREPARE.md, section 4).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Features {
    /// Weight of the claim's tokens that are anywhere in the evidence, as a share of all.
    pub cov_idf: f64,
    /// Share of the claim's numbers that are in the evidence.
    pub num_found: f64,
    /// How many of them are not, at most 5.
    pub num_missing: f64,
    /// Share of the claim's capitalised words that are in the evidence.
    pub name_found: f64,
    /// Weight of the claim's tokens in the one unit that has most, as a share of all.
    pub max_unit: f64,
    /// Share of the claim's pairs of neighbouring tokens that are neighbours in a unit.
    pub bigram: f64,
    /// ln(1 + tokens of the evidence).
    pub log_ev: f64,
    /// ln(1 + tokens of the claim).
    pub log_claim: f64,
    /// 1 if exactly one of claim and best unit has a negation.
    pub neg_mismatch: f64,
    /// As `max_unit`, for the best pair that the best unit is part of.
    pub two_units: f64,
}

impl Features {
    /// The feature of this name.
    pub fn by_name(&self, name: &str) -> Option<f64> {
        Some(match name {
            "cov_idf" => self.cov_idf,
            "num_found" => self.num_found,
            "num_missing" => self.num_missing,
            "name_found" => self.name_found,
            "max_unit" => self.max_unit,
            "bigram" => self.bigram,
            "log_ev" => self.log_ev,
            "log_claim" => self.log_claim,
            "neg_mismatch" => self.neg_mismatch,
            "two_units" => self.two_units,
            _ => return None,
        })
    }

    /// The names of all.
    pub const NAMES: [&str; 10] = [
        "cov_idf",
        "num_found",
        "num_missing",
        "name_found",
        "max_unit",
        "bigram",
        "log_ev",
        "log_claim",
        "neg_mismatch",
        "two_units",
    ];

    /// Those of `claim` and `evidence`, of which `units` are all units, none narrowed.
    pub(super) fn of(claim: &ClaimTokens, evidence: &Evidence, units: &[Candidate]) -> Self {
        let found = found_anywhere(claim, units);
        let is_found = |kind, key: &str| claim.index(kind, key).is_some_and(|index| found[index as usize]);
        let total: f64 = claim.weights.iter().sum();
        let covered = sum(claim, (0..claim.weights.len()).filter(|index| found[*index]));
        let share = |part: f64| if total == 0.0 { 1.0 } else { part / total };

        let of_kind = |kind: TokenKind, capital: bool| -> HashSet<&str> {
            let tokens =
                claim.tokens.iter().filter(|token| token.kind == kind && (token.capital || !capital));
            tokens.map(|token| token.key.as_str()).collect()
        };
        let numbers = of_kind(TokenKind::Number, false);
        let names = of_kind(TokenKind::Word, true);
        let numbers_found = numbers.iter().filter(|key| is_found(TokenKind::Number, key)).count();
        let names_found = names.iter().filter(|key| is_found(TokenKind::Word, key)).count();

        let gains: Vec<f64> =
            units.iter().map(|unit| sum(claim, unit.found.iter().map(|i| *i as usize))).collect();
        let best = fullest(&gains);
        let in_best = best.map_or(0.0, |best| gains[best]);
        let negates = claim.tokens.iter().any(|token| token.kind == TokenKind::Negation);
        let best_negates = best.is_some_and(|best| evidence.units[best].negates);
        let in_two = best.map_or(0.0, |best| best_pair(claim, units, best));
        Self {
            cov_idf: share(covered),
            num_found: part_of(numbers_found, numbers.len()),
            num_missing: (numbers.len() - numbers_found).min(MANY) as f64,
            name_found: part_of(names_found, names.len()),
            max_unit: share(in_best),
            bigram: bigrams(claim, evidence),
            log_ev: (evidence.tokens as f64).ln_1p(),
            log_claim: (claim.tokens.len() as f64).ln_1p(),
            neg_mismatch: f64::from(u8::from(negates != best_negates)),
            two_units: share(in_two),
        }
    }
}

fn part_of(found: usize, all: usize) -> f64 {
    if all == 0 { 1.0 } else { found as f64 / all as f64 }
}

fn sum(claim: &ClaimTokens, indices: impl Iterator<Item = usize>) -> f64 {
    indices.map(|index| claim.weights[index]).sum()
}

fn found_anywhere(claim: &ClaimTokens, units: &[Candidate]) -> Vec<bool> {
    let mut found = vec![false; claim.weights.len()];
    for index in units.iter().flat_map(|unit| &unit.found) {
        found[*index as usize] = true;
    }
    found
}

/// The largest weight that a unit has together with the best one.
fn best_pair(claim: &ClaimTokens, units: &[Candidate], best: usize) -> f64 {
    let mut in_best = vec![false; claim.weights.len()];
    units[best].found.iter().for_each(|index| in_best[*index as usize] = true);
    let pairs = units.iter().map(|unit| {
        let mut both = in_best.clone();
        unit.found.iter().for_each(|index| both[*index as usize] = true);
        sum(claim, (0..both.len()).filter(|index| both[*index]))
    });
    pairs.fold(0.0, f64::max)
}

/// Of the claim's neighbouring tokens (negations left out), the share that are neighbours in a unit.
fn bigrams(claim: &ClaimTokens, evidence: &Evidence) -> f64 {
    let sequence: Vec<u32> =
        claim.tokens.iter().filter_map(|token| claim.index(token.kind, &token.key)).collect();
    let wanted: HashSet<(u32, u32)> = pairs(&sequence).collect();
    if wanted.is_empty() {
        return 1.0;
    }
    let known = claim.numbers_in(evidence);
    let negations = evidence.negations();
    let mut found = HashSet::new();
    for unit in &evidence.units {
        let mut before = None;
        for token in unit.tokens.iter().filter(|token| !negations[**token as usize]) {
            let now = known[*token as usize];
            if let (Some(before), Some(now)) = (before, now)
                && wanted.contains(&(before, now))
            {
                found.insert((before, now));
            }
            before = now;
        }
    }
    let hits = pairs(&sequence).filter(|pair| found.contains(pair)).count();
    hits as f64 / (sequence.len() - 1) as f64
}

fn pairs(sequence: &[u32]) -> impl Iterator<Item = (u32, u32)> {
    sequence.windows(2).map(|pair| (pair[0], pair[1]))
}
