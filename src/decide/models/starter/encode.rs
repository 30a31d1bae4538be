//! The callers' side: which questions the model answers, and the rows that it reads for them.

use std::ops::Range;

use super::bert::Row;
use super::calibration::{CLASSES, Calibration};
use super::files::{Files, invalid, json};
use super::prepare::{Evidence, Features, Idf, PieceError, Prepared, WordPieces, prepare, sentences};
use super::wordpiece::WordPiece;
use crate::decide::{DecideError, Encoded, Encoder, LoadError, Reply, Size};
use crate::domain::{Inquiry, Json, Kind, Nobody, Question, Standing, Subject};

/// Bytes of evidence and claims that are prepared in well under half a millisecond.
const QUICK: usize = 1024;

/// Tokenizer, word weights and calibration: all that callers need of the model.
pub struct Texts {
    pub tokenizer: WordPiece,
    pub idf: Idf,
    pub calibration: Calibration,
    /// The id of `[CLS]`.
    pub start: u32,
    /// The id of `[SEP]`.
    pub separator: u32,
}

/// The rows of an inquiry, and how to read the logits.
#[derive(Debug)]
pub struct Work {
    /// What the model reads.
    pub rows: Vec<Row>,
    /// For each row: what the calibrated layer sees beside its logits.
    pub features: Vec<Features>,
    /// One for each question.
    pub readings: Vec<Result<Reading, Nobody>>,
    /// Whether some row holds only a part of its claim or evidence.
    pub truncated: bool,
}

/// How the answer to one question comes of logits.
#[derive(Debug, PartialEq)]
pub enum Reading {
    /// Of the rows of the claim's sentences, the least grounded one; its classes as the options ask for them.
    Standing {
        /// Rows of the claim.
        rows: Range<usize>,
        /// For each option: the class that it is; none for one that the model never gives.
        options: Vec<Option<usize>>,
    },
    /// The same, as yes or no.
    Supported {
        /// Rows of the claim.
        rows: Range<usize>,
    },
    /// Relevance of the evidence to a query.
    Relevant {
        /// The query's row.
        row: usize,
    },
}

impl Encoder<Work> for Texts {
    fn encode(&self, inquiry: Inquiry) -> Result<Encoded<Work>, DecideError> {
        let mut work =
            Work { rows: Vec::new(), features: Vec::new(), readings: Vec::new(), truncated: false };
        let is_asked = inquiry.questions.iter().any(|question| wanted(question).is_some());
        // The evidence is read once for all claims about it, and not at all if no question is for this model.
        let evidence = if is_asked { Some(Evidence::read(&text(&inquiry.state))) } else { None };
        for question in &inquiry.questions {
            let reading = match (wanted(question), &evidence) {
                (Some(wanted), Some(evidence)) if !evidence.is_empty() => {
                    Ok(self.read(wanted, evidence, &mut work).map_err(DecideError::encode)?)
                }
                (Some(_), _) => Err(Nobody::NoEvidence),
                (None, _) => Err(Nobody::Unsupported),
            };
            work.readings.push(reading);
        }
        if work.rows.is_empty() {
            let decisions =
                work.readings.into_iter().map(|reading| Err(reading.err().unwrap_or(Nobody::Unsupported)));
            return Ok(Encoded::Done(Reply {
                decisions: decisions.collect(),
                input_tokens: 0,
                truncated: false,
            }));
        }
        let size = Size::of_rows(work.rows.iter().map(|row| row.ids.len()));
        Ok(Encoded::Work { work, size })
    }

    fn is_quick(&self, inquiry: &Inquiry) -> bool {
        let claims = inquiry.questions.iter().map(|question| match &question.subject {
            Subject::Grounding { claim: text } | Subject::Relevance { query: text } => text.len(),
            Subject::General => 0,
        });
        inquiry.state.as_str().is_some_and(|state| {
            state.len() * inquiry.questions.len().max(1) + claims.sum::<usize>() <= QUICK
        })
    }
}

/// A question that the model answers.
enum Wanted<'a> {
    Standing { claim: &'a str, options: Vec<Option<usize>> },
    Supported { claim: &'a str },
    Relevant { query: &'a str },
}

fn wanted(question: &Question) -> Option<Wanted<'_>> {
    match (&question.subject, &question.kind) {
        (Subject::Grounding { claim }, Kind::Choice { options }) => {
            let options = classes_of(options)?;
            Some(Wanted::Standing { claim, options })
        }
        (Subject::Grounding { claim }, Kind::Noul { .. }) => Some(Wanted::Supported { claim }),
        (Subject::Relevance { query }, Kind::Noul { .. }) => Some(Wanted::Relevant { query }),
        _ => None,
    }
}

/// The class of each option. The model cannot tell what is complementary: that option is known and never given.
fn classes_of(options: &[(String, Json)]) -> Option<Vec<Option<usize>>> {
    let mut classes = Vec::with_capacity(options.len());
    for (name, _) in options {
        let class = CLASSES.iter().position(|class| class == name);
        if class.is_none() && name != Standing::Complementary.as_str() {
            return None;
        }
        classes.push(class);
    }
    let each_once =
        (0..CLASSES.len()).all(|class| classes.iter().filter(|found| **found == Some(class)).count() == 1);
    each_once.then_some(classes)
}

/// A state as evidence.
fn text(state: &Json) -> std::borrow::Cow<'_, str> {
    match state {
        Json::String(text) => text.into(),
        Json::Null => "".into(),
        other => other.to_string().into(),
    }
}

impl Texts {
    /// Reads the files that they are in.
    pub fn load(files: Files) -> Result<Self, LoadError> {
        let calibration: Calibration = json("calibration.json", files.calibration)?;
        calibration.check().map_err(|source| invalid("calibration.json", source))?;
        let tokenizer =
            WordPiece::read(files.tokenizer).map_err(|source| invalid("tokenizer.json", source))?;
        let special = |token: &'static str| {
            tokenizer.id(token).ok_or_else(|| invalid("tokenizer.json", NoToken { token }))
        };
        let (start, separator) = (special("[CLS]")?, special("[SEP]")?);
        Ok(Self { idf: json("idf.json", files.idf)?, calibration, start, separator, tokenizer })
    }

    fn read(&self, wanted: Wanted, evidence: &Evidence, work: &mut Work) -> Result<Reading, PieceError> {
        Ok(match wanted {
            Wanted::Standing { claim, options } => {
                Reading::Standing { rows: self.claim_rows(claim, evidence, work)?, options }
            }
            Wanted::Supported { claim } => {
                Reading::Supported { rows: self.claim_rows(claim, evidence, work)? }
            }
            Wanted::Relevant { query } => {
                let row = work.rows.len();
                self.row(query, evidence, work)?;
                Reading::Relevant { row }
            }
        })
    }

    /// A row for each sentence of the claim that stands for itself, or one for the whole of it.
    fn claim_rows(
        &self,
        claim: &str,
        evidence: &Evidence,
        work: &mut Work,
    ) -> Result<Range<usize>, PieceError> {
        let first = work.rows.len();
        for sentence in sentences(claim) {
            self.row(&sentence, evidence, work)?;
        }
        if work.rows.len() == first {
            self.row(claim, evidence, work)?;
        }
        Ok(first..work.rows.len())
    }

    fn row(&self, claim: &str, evidence: &Evidence, work: &mut Work) -> Result<(), PieceError> {
        let prepared = self.prepare(claim, evidence)?;
        work.truncated |= prepared.cut || prepared.selected < prepared.units;
        work.features.push(prepared.features);
        work.rows.push(self.layout(&prepared));
        Ok(())
    }

    /// What the model reads of one claim.
    pub fn prepare(&self, claim: &str, evidence: &Evidence) -> Result<Prepared, PieceError> {
        prepare(claim, evidence, &self.idf, self.calibration.limits(), &self.tokenizer as &dyn WordPieces)
    }

    /// `[CLS] claim [SEP] evidence [SEP]`; the second segment starts after the first separator.
    pub fn layout(&self, prepared: &Prepared) -> Row {
        let mut ids = Vec::with_capacity(prepared.claim.len() + prepared.evidence.len() + 3);
        ids.push(self.start);
        ids.extend_from_slice(&prepared.claim);
        ids.push(self.separator);
        let split = ids.len();
        ids.extend_from_slice(&prepared.evidence);
        ids.push(self.separator);
        Row { ids, split }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("it has no token {token}")]
struct NoToken {
    token: &'static str,
}
