//! From an inquiry to token ids: on the callers' threads.

use std::path::Path;
use std::sync::Arc;

use tokenizers::Tokenizer;

use super::config::DeciderConfig;
use super::error::LoadError;
use super::prompt::{QuestionText, question_text, state_text};
use super::window::{self, CHUNK, Refusal};
use crate::decide::{DecideError, Encoded, Encoder, Reply, Size};
use crate::domain::{Inquiry, Json, Nobody};

/// An inquiry as token ids.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    /// Up to 32 questions each, with one state.
    pub chunks: Vec<Chunk>,
    /// Whether the state or a question was cut to fit the window.
    pub truncated: bool,
}

/// Questions that share a state.
#[derive(Debug, Clone, PartialEq)]
pub struct Chunk {
    /// The state's tokens, cut to the window.
    pub state: Arc<[u32]>,
    /// The questions, in order, or why one cannot be asked.
    pub questions: Vec<Result<Prompt, Refusal>>,
}

/// A question as token ids.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// Its tokens, cut to the window; the last one gives the answer.
    pub tokens: Vec<u32>,
    /// Per option: the position of its token in `tokens`.
    pub options: Vec<usize>,
    /// What its logits are divided by.
    pub temperature: f32,
}

impl Work {
    /// Tokens of all chunks.
    pub fn tokens(&self) -> usize {
        self.chunks.iter().map(Chunk::tokens).sum()
    }
}

impl Chunk {
    fn tokens(&self) -> usize {
        let questions = self.questions.iter().flatten().map(|prompt| prompt.tokens.len());
        self.state.len() + questions.sum::<usize>()
    }
}

/// Makes token ids of inquiries.
pub struct StrandsEncoder {
    tokenizer: Tokenizer,
    config: DeciderConfig,
    strict_window: bool,
}

impl StrandsEncoder {
    /// Reads `tokenizer.json`, whose ids must all be rows of an embedding of `vocab` rows.
    pub fn load(
        path: &Path,
        vocab: usize,
        config: DeciderConfig,
        strict_window: bool,
    ) -> Result<Self, LoadError> {
        let wrong = |message: String| LoadError::Tokenizer { path: path.to_owned(), message };
        if !path.exists() {
            return Err(LoadError::Missing { path: path.to_owned(), why: "the tokenizer is in it" });
        }
        let mut tokenizer = Tokenizer::from_file(path).map_err(|error| wrong(error.to_string()))?;
        tokenizer.with_padding(None).with_truncation(None).map_err(|error| wrong(error.to_string()))?;
        let largest = tokenizer.get_vocab(true).into_values().max().unwrap_or(0);
        if largest as usize >= vocab {
            return Err(wrong(format!("token id {largest} is not below the model's vocab_size {vocab}")));
        }
        Ok(Self { tokenizer, config, strict_window })
    }

    #[cfg(test)]
    /// The smoothing that score questions were trained with.
    pub fn ordinal_smoothing(&self) -> f64 {
        self.config.ordinal_smoothing
    }

    /// The tokens of an inquiry.
    pub fn work(&self, inquiry: &Inquiry) -> Result<Work, DecideError> {
        let state = self.tokens(&state_text(&inquiry.state), true)?.ids;
        let mut work = Work { chunks: Vec::new(), truncated: false };
        for questions in inquiry.questions.chunks(CHUNK) {
            let texts: Vec<QuestionText> = questions.iter().map(question_text).collect();
            let mut encoded = Vec::with_capacity(texts.len());
            for text in &texts {
                encoded.push(self.tokens(&text.text, false)?);
            }
            let lengths = encoded.iter().map(|question| question.ids.len());
            let fit = if self.strict_window {
                window::fit_strictly(self.config.max_length, state.len(), lengths)
            } else {
                Ok(window::fit(self.config.max_length, state.len(), lengths))
            };
            let fit = match fit {
                Ok(fit) => fit,
                Err(refusal) => {
                    let refused = questions.iter().map(|_| Err(refusal.clone())).collect();
                    work.chunks.push(Chunk { state: Arc::from([]), questions: refused });
                    continue;
                }
            };
            work.truncated |= fit.state < state.len();
            let mut prompts = Vec::with_capacity(encoded.len());
            for ((question, text), mut encoded) in questions.iter().zip(&texts).zip(encoded) {
                work.truncated |= fit.question < encoded.ids.len();
                encoded.keep_last(fit.question);
                let temperature = self.config.temperature(question.kind.as_str());
                prompts.push(encoded.option_tokens(&text.spans).map(|options| Prompt {
                    tokens: encoded.ids,
                    options,
                    temperature,
                }));
            }
            work.chunks.push(Chunk { state: Arc::from(&state[..fit.state]), questions: prompts });
        }
        Ok(work)
    }

    fn tokens(&self, text: &str, special: bool) -> Result<window::Encoded, DecideError> {
        let encoding = self
            .tokenizer
            .encode_char_offsets(text, special)
            .map_err(|error| DecideError::Encode { source: Arc::from(error) })?;
        Ok(window::Encoded { ids: encoding.get_ids().to_vec(), offsets: encoding.get_offsets().to_vec() })
    }
}

impl Encoder<Work> for StrandsEncoder {
    fn encode(&self, inquiry: Inquiry) -> Result<Encoded<Work>, DecideError> {
        let work = self.work(&inquiry)?;
        let mut prompts = work.chunks.iter().flat_map(|chunk| &chunk.questions);
        if prompts.any(Result::is_ok) {
            let size = Size { rows: 1, longest: work.tokens(), tokens: work.tokens() };
            return Ok(Encoded::Work { work, size });
        }
        let refusals = work.chunks.iter().flat_map(|chunk| &chunk.questions);
        let decisions = refusals.filter_map(|prompt| prompt.as_ref().err()).map(refused).collect();
        Ok(Encoded::Done(Reply { decisions, input_tokens: 0, truncated: work.truncated }))
    }

    fn is_quick(&self, inquiry: &Inquiry) -> bool {
        // About four microseconds for each hundred characters; texts of questions are short.
        inquiry.questions.len() <= 4 && matches!(&*inquiry.state, Json::String(text) if text.len() < 2_000)
    }
}

/// A question that is not asked.
pub fn refused<T>(refusal: &Refusal) -> Result<T, Nobody> {
    Err(Nobody::Refused(refusal.to_string()))
}
