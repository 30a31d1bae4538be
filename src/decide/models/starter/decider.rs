//! The starter model as a decider.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::bert::{Bert, BertConfig, Row};
use super::calibration::CLASSES;
use super::encode::{Reading, Texts, Work};
use super::files::{EMBEDDED, Files, invalid, json};
use super::matrix::Form;
use super::weights::Weights;
use crate::decide::{
    Calibration as Grounds, Capabilities, DecideError, Decider, Encoder, Layout, LoadError, ModelInfo, Reply,
};
use crate::domain::{Decision, Nobody};

/// Tokens of one forward pass. More would not be faster: the products are at their full speed, and what lies between them
/// leaves the caches.
const TOKENS_A_PASS: usize = 512;
const GROUNDED: usize = 0;

/// The starter model, loaded.
pub struct Starter {
    bert: Bert<'static>,
    texts: Arc<Texts>,
    threads: ThreadPool,
}

impl Starter {
    /// The model in the binary, computing on so many threads (not given: one for each core).
    pub fn embedded(threads: Option<NonZeroUsize>) -> Result<Self, LoadError> {
        Self::load(EMBEDDED, threads, Form::FASTER)
    }

    pub(super) fn load(files: Files, threads: Option<NonZeroUsize>, form: Form) -> Result<Self, LoadError> {
        let config: BertConfig = json("config.json", files.config)?;
        let texts = Texts::load(files)?;
        if !config.labels().eq(CLASSES) || config.max_position_embeddings < texts.calibration.limits().tokens
        {
            return Err(invalid("config.json", Misfit));
        }
        let bert = Bert::load(&config, &Weights::read("model.safetensors", files.weights)?, form)?;
        let threads = ThreadPoolBuilder::new()
            .num_threads(threads.map_or(0, NonZeroUsize::get))
            .thread_name(|index| format!("decide-{index}"))
            .build()
            .map_err(|source| LoadError::Thread { source: source.into() })?;
        Ok(Self { bert, texts: Arc::new(texts), threads })
    }

    /// The logits of each row, computed a pass of limited size at a time.
    pub(super) fn logits(&self, rows: &[&Row]) -> Result<Vec<Vec<f32>>, DecideError> {
        let mut logits = Vec::with_capacity(rows.len());
        for pass in passes(rows) {
            logits.extend(self.threads.install(|| self.bert.logits(pass)).map_err(DecideError::forward)?);
        }
        if logits.iter().flatten().all(|logit| logit.is_finite()) {
            Ok(logits)
        } else {
            Err(DecideError::NotFinite)
        }
    }

    fn reply(&self, work: &Work, logits: &[Vec<f32>]) -> Reply {
        let tokens = |rows: Range<usize>| work.rows[rows].iter().map(|row| row.ids.len()).sum::<usize>();
        let least_grounded = |rows: &Range<usize>| {
            let standings =
                rows.clone().map(|row| self.texts.calibration.standings(&logits[row], &work.features[row]));
            standings.min_by(|a, b| a[GROUNDED].total_cmp(&b[GROUNDED])).unwrap_or([f64::NAN; 3])
        };
        let decision = |reading: &Reading| match reading {
            Reading::Standing { rows, options } => {
                let standing = least_grounded(rows);
                let probabilities = options.iter().map(|class| class.map_or(0.0, |class| standing[class]));
                Decision { probabilities: probabilities.collect(), tokens: tokens(rows.clone()) as u32 }
            }
            Reading::Supported { rows } => yes_or_no(least_grounded(rows)[GROUNDED], tokens(rows.clone())),
            Reading::Relevant { row } => {
                yes_or_no(self.texts.calibration.relevance(&logits[*row]), tokens(*row..row + 1))
            }
        };
        let decisions = work.readings.iter().map(|reading| match reading {
            Ok(reading) => Ok(decision(reading)),
            Err(nobody) => Err(Nobody::clone(nobody)),
        });
        Reply {
            decisions: decisions.collect(),
            input_tokens: tokens(0..work.rows.len()) as u64,
            truncated: work.truncated,
        }
    }
}

fn yes_or_no(yes: f64, tokens: usize) -> Decision {
    Decision { probabilities: vec![1.0 - yes, yes], tokens: tokens as u32 }
}

/// Cuts rows into runs of at most [`TOKENS_A_PASS`] tokens; a longer row is a run of its own.
fn passes<'a, 'b>(rows: &'a [&'b Row]) -> impl Iterator<Item = &'a [&'b Row]> {
    let mut rest = rows;
    std::iter::from_fn(move || {
        let mut tokens = 0;
        let fits = rest.iter().take_while(|row| {
            tokens += row.ids.len();
            tokens <= TOKENS_A_PASS
        });
        let count = fits.count().max(1).min(rest.len());
        let (pass, left) = rest.split_at(count);
        rest = left;
        (!pass.is_empty()).then_some(pass)
    })
}

impl Decider for Starter {
    type Work = Work;

    fn info(&self) -> ModelInfo {
        ModelInfo {
            name: "assayd-starter".to_owned(),
            revision: "2".to_owned(),
            calibration: Grounds::Labelled {
                data:
                    "eight public sources of labelled claims and one made set (models/starter/MODEL_CARD.md)"
                        .to_owned(),
            },
            capabilities: Capabilities {
                general: false,
                grounding: true,
                relevance: true,
                noul: true,
                choice: true,
                score: false,
            },
            max_tokens: Some(self.texts.calibration.limits().tokens),
            facts: serde_json::Map::new(),
        }
    }

    fn encoder(&self) -> Arc<dyn Encoder<Work>> {
        Arc::clone(&self.texts) as _
    }

    fn layout(&self) -> Layout {
        Layout::Ragged
    }

    fn decide(&mut self, batch: &[Work]) -> Result<Vec<Reply>, DecideError> {
        let rows: Vec<&Row> = batch.iter().flat_map(|work| &work.rows).collect();
        let logits = self.logits(&rows)?;
        let mut rest = logits.as_slice();
        let replies = batch.iter().map(|work| {
            let (own, others) = rest.split_at(work.rows.len());
            rest = others;
            self.reply(work, own)
        });
        Ok(replies.collect())
    }

    fn warm_up(&mut self) -> Result<(), DecideError> {
        let tokens = self.texts.calibration.limits().tokens;
        let row = Row { ids: vec![self.texts.separator; tokens], split: tokens / 2 };
        self.logits(&vec![&row; TOKENS_A_PASS / tokens]).map(drop)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("its labels or its longest input are not those of calibration.json")]
struct Misfit;
