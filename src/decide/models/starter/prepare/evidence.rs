//! Evidence, read once for all claims about it.

use std::cell::OnceCell;
use std::collections::HashMap;

use super::tokens::{TokenKind, tokens};
use super::units::{Unit, units};
use super::{PieceError, WordPieces};

/// The units of a piece of evidence with what every claim asks of them.
pub struct Evidence {
    /// In order.
    pub(super) units: Vec<ReadUnit>,
    /// Kind and key of each number that stands for a token.
    pub(super) lexicon: Lexicon,
    /// Lexical tokens of all units.
    pub(super) tokens: usize,
}

/// A unit, its text and its tokens.
pub(super) struct ReadUnit {
    pub unit: Unit,
    pub text: String,
    /// Lexical tokens, as numbers of the lexicon.
    pub tokens: Vec<u32>,
    pub negates: bool,
    pieces: Pieces,
}

/// A text's word pieces, made when somebody needs them: of long evidence only the few best units are ever read by the model.
pub(super) struct Pieces {
    least: usize,
    made: OnceCell<Vec<u32>>,
}

/// Numbers for the distinct tokens of an evidence.
#[derive(Default)]
pub(super) struct Lexicon {
    numbers: HashMap<(TokenKind, String), u32>,
}

impl Lexicon {
    fn number(&mut self, kind: TokenKind, key: String) -> u32 {
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        *self.numbers.entry((kind, key)).or_insert(next)
    }

    /// The number of a token, if the evidence has it.
    pub fn find(&self, kind: TokenKind, key: &str) -> Option<u32> {
        self.numbers.get(&(kind, key.to_owned())).copied()
    }

    /// How many distinct tokens there are.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }
}

impl Evidence {
    /// Reads evidence: plain text, text with JSON or CSV in it, or JSON.
    pub fn read(text: &str) -> Self {
        let mut lexicon = Lexicon::default();
        let mut count = 0;
        let units = units(text)
            .into_iter()
            .map(|unit| {
                let text = unit.text();
                let found = tokens(&text);
                count += found.len();
                let negates = found.iter().any(|token| token.kind == TokenKind::Negation);
                let tokens = found.into_iter().map(|token| lexicon.number(token.kind, token.key)).collect();
                ReadUnit { unit, pieces: Pieces::of(&text), text, tokens, negates }
            })
            .collect();
        Self { units, lexicon, tokens: count }
    }

    /// For each number of the lexicon: whether it stands for a negation.
    pub(super) fn negations(&self) -> Vec<bool> {
        let mut negations = vec![false; self.lexicon.len()];
        for ((kind, _), number) in &self.lexicon.numbers {
            negations[*number as usize] = *kind == TokenKind::Negation;
        }
        negations
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }
}

impl ReadUnit {
    /// The unit's word pieces.
    pub fn pieces(&self, by: &dyn WordPieces) -> Result<&[u32], PieceError> {
        self.pieces.get(&self.text, by)
    }

    /// At least so many word pieces; exact once they are made.
    pub fn least_pieces(&self) -> usize {
        self.pieces.least()
    }
}

impl Pieces {
    /// Those of `text`, not made yet.
    pub fn of(text: &str) -> Self {
        Self { least: least_pieces(text), made: OnceCell::new() }
    }

    /// The pieces of `text`, which must be the text that they are of.
    pub fn get(&self, text: &str, by: &dyn WordPieces) -> Result<&[u32], PieceError> {
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        let made = by.pieces(text)?;
        Ok(self.made.get_or_init(|| made))
    }

    /// At least so many; exact once they are made.
    pub fn least(&self) -> usize {
        self.made.get().map_or(self.least, Vec::len)
    }
}

/// A lower bound that costs little: a run between spaces with an ASCII letter or digit in it is at least one word piece.
fn least_pieces(text: &str) -> usize {
    text.split(' ').filter(|word| word.bytes().any(|byte| byte.is_ascii_alphanumeric())).count()
}
