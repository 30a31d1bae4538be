//! What was answered, kept in a file, a JSON object a line: what was paid for once is not asked again.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::evaluate::{Answered, Answerer, Item, Said};
use crate::judge::Pricing;

/// One item, answered by one backend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Digest of the item's state and questions.
    pub item: String,
    /// The backend, as it was named.
    pub backend: String,
    /// The model's own name.
    pub model: String,
    /// What its probabilities were calibrated by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<String>,
    /// Answers by the questions' ids.
    pub answers: BTreeMap<String, Given>,
    /// How long it took.
    pub seconds: f64,
    /// What it cost.
    pub cost_usd: f64,
    /// What its tokens were counted at, in words; none for a decision model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pricing: Option<String>,
    /// Tokens that were read.
    pub input_tokens: u64,
    /// Why the call failed as a whole. Such a line is asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An answer: one of the three.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Given {
    /// One per label, in the order of the question's options.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probabilities: Option<Vec<f64>>,
    /// The picked label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Why nobody answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nobody: Option<String>,
}

impl Line {
    /// Of an answered item.
    pub fn new(item: &Item, backend: &str, answerer: &Answerer, answered: &Answered) -> Self {
        let answers = item.inquiry.questions.iter().zip(&answered.answers).map(|(question, said)| {
            let given = match said {
                Said::Probabilities(p) => Given { probabilities: Some(p.clone()), ..Given::default() },
                Said::Pick(at) => {
                    Given { label: question.kind.labels().get(*at).cloned(), ..Given::default() }
                }
                Said::Nobody(why) => Given { nobody: Some(why.clone()), ..Given::default() },
            };
            (question.id.clone(), given)
        });
        Self {
            item: item.digest.clone(),
            backend: backend.to_owned(),
            model: answerer.model().to_owned(),
            calibration: answerer.calibration(),
            answers: answers.collect(),
            seconds: answered.took.as_secs_f64(),
            cost_usd: answered.cost_usd,
            pricing: answerer.pricing().map(Pricing::to_string),
            input_tokens: answered.input_tokens,
            error: answered.error.clone(),
        }
    }
}

/// All that is kept, and the file to which more is added.
pub struct Kept {
    lines: HashMap<(String, String), Line>,
    file: Option<(PathBuf, File)>,
}

impl Kept {
    /// Reads `merged` and, if it is there already, `save`, to which more is added. Of equal items the last line counts.
    pub fn read(merged: &[PathBuf], save: Option<&Path>) -> anyhow::Result<Self> {
        let mut kept = Self { lines: HashMap::new(), file: None };
        for path in merged {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            kept.take(&text, path, false)?;
        }
        let Some(path) = save else { return Ok(kept) };
        let mut ends_whole = true;
        if path.exists() {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            kept.take(&text, path, true)?;
            ends_whole = text.is_empty() || text.ends_with('\n');
        }
        let opened = OpenOptions::new().create(true).append(true).open(path);
        let mut file = opened.with_context(|| format!("cannot write {}", path.display()))?;
        if !ends_whole {
            writeln!(file)?;
        }
        kept.file = Some((path.to_owned(), file));
        Ok(kept)
    }

    /// `is_own`: a last line that is not whole is what a broken-off run leaves behind.
    fn take(&mut self, text: &str, path: &Path, is_own: bool) -> anyhow::Result<()> {
        let count = text.lines().count();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            match serde_json::from_str::<Line>(line) {
                Ok(line) => {
                    self.lines.insert((line.item.clone(), line.backend.clone()), line);
                }
                Err(_) if is_own && at + 1 == count && !text.ends_with('\n') => {}
                Err(error) => anyhow::bail!(
                    "{}: line {}: it is not a record of `assayd compare`: {error}",
                    path.display(),
                    at + 1
                ),
            }
        }
        Ok(())
    }

    /// Whether an item need not be asked again.
    pub fn holds(&self, item: &Item, backend: &str, calibration: Option<&str>) -> bool {
        self.get(item, backend)
            .is_some_and(|line| line.error.is_none() && line.calibration.as_deref() == calibration)
    }

    /// What a backend said of an item.
    pub fn get(&self, item: &Item, backend: &str) -> Option<&Line> {
        self.lines.get(&(item.digest.clone(), backend.to_owned()))
    }

    /// Keeps a line, in the file too.
    pub fn add(&mut self, line: Line) -> anyhow::Result<()> {
        if let Some((path, file)) = &mut self.file {
            let text = format!("{}\n", serde_json::to_string(&line)?);
            file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
        }
        self.lines.insert((line.item.clone(), line.backend.clone()), line);
        Ok(())
    }
}
