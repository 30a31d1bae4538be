//! A claim's tokens and what each of them weighs.

use std::collections::{BTreeMap, HashMap};

use super::Idf;
use super::evidence::Evidence;
use super::tokens::{Token, TokenKind, tokens};

const NUMBER_WEIGHT: f64 = 12.0;
const CAPITAL_FACTOR: f64 = 1.5;

/// The tokens of a claim and the weights of the distinct ones, negations left out.
pub(super) struct ClaimTokens {
    /// In order of the text.
    pub tokens: Vec<Token>,
    /// By kind and key, ascending: the order in which the reference adds.
    pub weights: Vec<f64>,
    index: HashMap<(TokenKind, String), u32>,
}

impl ClaimTokens {
    pub fn of(claim: &str, idf: &Idf) -> Self {
        let tokens = tokens(claim);
        let mut sorted: BTreeMap<(TokenKind, &str), f64> = BTreeMap::new();
        for token in &tokens {
            if token.kind == TokenKind::Negation {
                continue;
            }
            let weight = sorted.entry((token.kind, &token.key)).or_default();
            *weight = weight.max(weigh(token, idf));
        }
        let weights = sorted.values().copied().collect();
        let index =
            sorted.keys().zip(0..).map(|((kind, key), index)| ((*kind, (*key).to_owned()), index)).collect();
        Self { tokens, weights, index }
    }

    /// The position of a token's weight.
    pub fn index(&self, kind: TokenKind, key: &str) -> Option<u32> {
        self.index.get(&(kind, key.to_owned())).copied()
    }

    /// For each number of the evidence's lexicon: the position of its weight, if the claim has the token.
    pub fn numbers_in(&self, evidence: &Evidence) -> Vec<Option<u32>> {
        let mut known = vec![None; evidence.lexicon.len()];
        for ((kind, key), index) in &self.index {
            if let Some(number) = evidence.lexicon.find(*kind, key) {
                known[number as usize] = Some(*index);
            }
        }
        known
    }

    /// The claim's tokens that are in `text`, ascending.
    pub fn found_in(&self, text: &str) -> Vec<u32> {
        let mut found: Vec<u32> =
            tokens(text).into_iter().filter_map(|token| self.index(token.kind, &token.key)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

fn weigh(token: &Token, idf: &Idf) -> f64 {
    if token.kind == TokenKind::Number {
        return NUMBER_WEIGHT;
    }
    let weight = idf.of(&token.key);
    if token.capital { weight * CAPITAL_FACTOR } else { weight }
}
