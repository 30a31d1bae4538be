//! The model's tokenizer: text to word pieces.

use tokenizers::Tokenizer;

use super::prepare::{PieceError, WordPieces};

/// The tokenizer of `tokenizer.json`.
pub struct WordPiece(Tokenizer);

impl WordPiece {
    /// Reads a `tokenizer.json`.
    pub fn read(json: &[u8]) -> Result<Self, PieceError> {
        let mut tokenizer = Tokenizer::from_bytes(json).map_err(PieceError)?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(PieceError)?;
        Ok(Self(tokenizer))
    }

    /// The id of a special token.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.0.token_to_id(token)
    }
}

impl WordPieces for WordPiece {
    fn pieces(&self, text: &str) -> Result<Vec<u32>, PieceError> {
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let encoding = self.0.encode_fast(text, false).map_err(PieceError)?;
        Ok(encoding.get_ids().to_vec())
    }
}
