//! The thread that owns the file and the book, and the handle that speaks to it.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, oneshot};

use super::book::{Book, Change};
use super::file::{FeedbackError, Lines};
use super::{Agreement, Config, Mark, Predicted, Record, Verdicted, Word};
use crate::domain::{ByteSize, Time};
use crate::metrics;

/// Requests that may wait for the thread.
const WAITING: usize = 64;

/// What became of a word.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// The line that counts now.
    pub record: Record,
    /// False if this person had said the same before.
    pub changed: bool,
}

/// Why a word was not kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Nobody knows what the verdict had said.
    #[error("there is no verdict {0} (any more)")]
    UnknownVerdict(String),
    /// The file has reached its limit.
    #[error(
        "the feedback file has reached feedback.max_bytes ({0}): export it, move it away and restart, or raise the limit"
    )]
    Full(ByteSize),
    /// The disk did not take it.
    #[error("the feedback could not be stored: {0}")]
    NotStored(String),
    /// Too many wait, or the daemon stops.
    #[error("feedback is not taken right now")]
    Busy,
}

enum Ask {
    Record { word: Word, verdicted: Option<Verdicted>, reply: oneshot::Sender<Result<Recorded, Refused>> },
    Of { verdict_id: String, reply: oneshot::Sender<Vec<Record>> },
    Export { reply: oneshot::Sender<Vec<u8>> },
    Agreement { reply: oneshot::Sender<Agreement> },
}

/// What people said. Cheap to clone; the thread ends with the last handle.
#[derive(Clone)]
pub struct Feedback {
    asks: mpsc::Sender<Ask>,
}

impl Feedback {
    /// Reads what is in `folder`, which is made if it is missing, and starts the thread.
    pub fn open(folder: &Path, config: &Config) -> Result<Self, FeedbackError> {
        let (lines, found) = Lines::open(folder)?;
        if found.torn_bytes > 0 || found.unreadable_lines > 0 {
            tracing::warn!(
                torn_bytes = found.torn_bytes,
                unreadable_lines = found.unreadable_lines,
                "the feedback file is damaged; what can be read counts"
            );
        }
        let mut book = Book::default();
        found.records.into_iter().for_each(|record| book.take(record));
        let (asks, asked) = mpsc::channel(WAITING);
        let keeper = Keeper { lines, book, max_bytes: config.max_bytes };
        keeper.show();
        let spawned = std::thread::Builder::new().name("feedback".to_owned()).spawn(|| keeper.run(asked));
        spawned.map_err(|source| FeedbackError { path: folder.to_owned(), source })?;
        Ok(Self { asks })
    }

    /// Keeps what a person says; returns when it is on the disk. Without `verdicted`, an earlier word on the same thing has to
    /// know what the verdict had said.
    pub async fn record(&self, word: Word, verdicted: Option<Verdicted>) -> Result<Recorded, Refused> {
        self.ask(|reply| Ask::Record { word, verdicted, reply }).await?
    }

    /// What people say of a verdict.
    pub async fn of(&self, verdict_id: &str) -> Result<Vec<Record>, Refused> {
        let verdict_id = verdict_id.to_owned();
        self.ask(|reply| Ask::Of { verdict_id, reply }).await
    }

    /// All that people say, as lines of JSON.
    pub async fn export(&self) -> Result<Vec<u8>, Refused> {
        self.ask(|reply| Ask::Export { reply }).await
    }

    /// How far people and verdicts agree.
    pub async fn agreement(&self) -> Result<Agreement, Refused> {
        self.ask(|reply| Ask::Agreement { reply }).await
    }

    async fn ask<T>(&self, ask: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Result<T, Refused> {
        let (reply, answer) = oneshot::channel();
        self.asks.try_send(ask(reply)).map_err(|_| Refused::Busy)?;
        answer.await.map_err(|_| Refused::Busy)
    }
}

struct Keeper {
    lines: Lines,
    book: Book,
    max_bytes: ByteSize,
}

impl Keeper {
    fn run(mut self, mut asked: mpsc::Receiver<Ask>) {
        while let Some(ask) = asked.blocking_recv() {
            // Who asked may have gone; what is recorded stays recorded.
            match ask {
                Ask::Record { word, verdicted, reply } => drop(reply.send(self.record(word, verdicted))),
                Ask::Of { verdict_id, reply } => {
                    drop(reply.send(self.book.of(&verdict_id).cloned().collect()))
                }
                Ask::Export { reply } => drop(reply.send(self.book.export())),
                Ask::Agreement { reply } => drop(reply.send(self.book.confusion().agreement())),
            }
        }
    }

    fn record(&mut self, word: Word, verdicted: Option<Verdicted>) -> Result<Recorded, Refused> {
        let recorded = self.keep(word, verdicted);
        metrics::feedback_word(match &recorded {
            Ok(recorded) if recorded.changed => "stored",
            Ok(_) => "repeated",
            Err(Refused::UnknownVerdict(_)) => "unknown_verdict",
            Err(Refused::Full(_)) => "full",
            Err(Refused::NotStored(_) | Refused::Busy) => "failed",
        });
        recorded
    }

    fn keep(&mut self, word: Word, verdicted: Option<Verdicted>) -> Result<Recorded, Refused> {
        let verdicted = verdicted
            .or_else(|| self.book.verdicted(&word.verdict_id, word.claim))
            .ok_or_else(|| Refused::UnknownVerdict(word.verdict_id.clone()))?;
        let record = Record::new(word, &verdicted, now());
        if self.book.would(&record) == Change::Same {
            let record = self.book.current(&record).cloned().unwrap_or(record);
            return Ok(Recorded { record, changed: false });
        }
        let line = record.line();
        if self.lines.bytes() + line.len() as u64 > self.max_bytes.0 {
            return Err(Refused::Full(self.max_bytes));
        }
        self.lines.append(&line).map_err(|error| {
            tracing::error!(%error, "feedback could not be stored");
            Refused::NotStored(error.source.to_string())
        })?;
        self.book.take(record.clone());
        self.show();
        Ok(Recorded { record, changed: true })
    }

    /// Sets the gauges.
    fn show(&self) {
        let confusion = self.book.confusion();
        for predicted in Predicted::OF_ANSWERS {
            for label in Mark::OF_ANSWERS {
                let count = confusion.count(predicted, label);
                metrics::feedback_verdicts(predicted.as_str(), label.as_str(), count);
            }
        }
        for predicted in Predicted::OF_CLAIMS {
            for label in Mark::OF_CLAIMS {
                metrics::feedback_claims(
                    predicted.as_str(),
                    label.as_str(),
                    confusion.count(predicted, label),
                );
            }
        }
        let Agreement { verdicts, claims } = confusion.agreement();
        for (target, measure) in [("verdict", verdicts), ("claim", claims)] {
            metrics::feedback_agreement(
                target,
                measure.kappa,
                measure.false_positives,
                measure.false_negatives,
            );
        }
        metrics::feedback_bytes(self.lines.bytes());
    }
}

fn now() -> Time {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(by: &str, label: Option<Mark>) -> Word {
        Word { verdict_id: "v".into(), claim: None, label, by: Some(by.into()), note: None }
    }

    fn verdicted() -> Option<Verdicted> {
        Some(Verdicted {
            trace_id: None,
            predicted: Predicted::Hallucination,
            hallucination_probability: Some(0.9),
            confidence: Some(0.8),
        })
    }

    #[tokio::test]
    async fn words_survive_a_restart_and_repeats_add_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Feedback::open(folder.path(), &Config::default()).unwrap();
        let feedback = open();
        let first = feedback.record(word("ann", Some(Mark::Faithful)), verdicted()).await.unwrap();
        assert!(first.changed);
        let again = feedback.record(word("ann", Some(Mark::Faithful)), verdicted()).await.unwrap();
        assert_eq!(again, Recorded { changed: false, ..first.clone() });
        drop(feedback);

        let feedback = open();
        assert_eq!(feedback.of("v").await.unwrap(), [first.record]);
        // The verdict is no longer known to the caller; what it had said stands in the book.
        let other = feedback.record(word("bob", Some(Mark::Hallucination)), None).await.unwrap();
        assert_eq!(other.record.predicted, Predicted::Hallucination);
        let agreement = feedback.agreement().await.unwrap().verdicts;
        assert_eq!((agreement.labels, agreement.false_positives, agreement.true_positives), (2, 1, 1));
        assert_eq!(feedback.export().await.unwrap().iter().filter(|byte| **byte == b'\n').count(), 2);
    }

    #[tokio::test]
    async fn a_full_file_and_an_unknown_verdict_are_refused_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let feedback = Feedback::open(folder.path(), &Config { max_bytes: ByteSize(400) }).unwrap();
        let unknown = feedback.record(word("ann", Some(Mark::Faithful)), None).await.unwrap_err();
        assert_eq!(unknown, Refused::UnknownVerdict("v".into()));
        feedback.record(word("ann", Some(Mark::Faithful)), verdicted()).await.unwrap();
        let full = feedback.record(word("bob", Some(Mark::Faithful)), verdicted()).await.unwrap_err();
        assert_eq!(full, Refused::Full(ByteSize(400)));
        assert!(full.to_string().contains("feedback.max_bytes (400B)"), "{full}");
        assert_eq!(feedback.of("v").await.unwrap().len(), 1);
    }
}
