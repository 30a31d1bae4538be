//! The words that people give, and the line that is kept of each.

use serde::{Deserialize, Serialize};

use crate::domain::{Label, Standing, Time, TraceId, Verdict};

/// What a person says is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// Of an answer: all of it stands.
    Faithful,
    /// Of an answer: something in it does not stand.
    Hallucination,
    /// Of a claim: the evidence supports it.
    Grounded,
    /// Of a claim: the evidence does not speak of it.
    Ungrounded,
    /// Of a claim: the evidence says otherwise.
    Contradicted,
    /// Of a claim: not from the evidence, but consistent with it and of use.
    Complementary,
}

impl Mark {
    /// The marks of whole answers.
    pub const OF_ANSWERS: [Mark; 2] = [Mark::Faithful, Mark::Hallucination];
    /// The marks of claims.
    pub const OF_CLAIMS: [Mark; 4] =
        [Mark::Grounded, Mark::Ungrounded, Mark::Contradicted, Mark::Complementary];

    /// The word that metrics and files use.
    pub fn as_str(self) -> &'static str {
        match self {
            Mark::Faithful => "faithful",
            Mark::Hallucination => "hallucination",
            Mark::Grounded => "grounded",
            Mark::Ungrounded => "ungrounded",
            Mark::Contradicted => "contradicted",
            Mark::Complementary => "complementary",
        }
    }

    /// Whether it can be said of a claim (else of an answer).
    pub fn is_of_claims(self) -> bool {
        Self::OF_CLAIMS.contains(&self)
    }

    /// Whether it says that something does not stand.
    pub fn is_bad(self) -> bool {
        matches!(self, Mark::Hallucination | Mark::Ungrounded | Mark::Contradicted)
    }
}

/// What assayd had said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Predicted {
    /// Of an answer.
    Faithful,
    /// Of an answer.
    Hallucination,
    /// Of an answer: neither with confidence.
    Unsure,
    /// Of a claim.
    Grounded,
    /// Of a claim.
    Ungrounded,
    /// Of a claim.
    Contradicted,
    /// Of a claim.
    Complementary,
    /// Of a claim: nobody could say.
    None,
}

impl Predicted {
    /// What can be said of whole answers.
    pub const OF_ANSWERS: [Predicted; 3] = [Predicted::Faithful, Predicted::Hallucination, Predicted::Unsure];
    /// What can be said of claims.
    pub const OF_CLAIMS: [Predicted; 5] = [
        Predicted::Grounded,
        Predicted::Ungrounded,
        Predicted::Contradicted,
        Predicted::Complementary,
        Predicted::None,
    ];

    /// The word that metrics and files use.
    pub fn as_str(self) -> &'static str {
        match self {
            Predicted::Faithful => "faithful",
            Predicted::Hallucination => "hallucination",
            Predicted::Unsure => "unsure",
            Predicted::Grounded => "grounded",
            Predicted::Ungrounded => "ungrounded",
            Predicted::Contradicted => "contradicted",
            Predicted::Complementary => "complementary",
            Predicted::None => "none",
        }
    }

    /// Whether it said that something does not stand; none where it did not decide.
    pub fn is_bad(self) -> Option<bool> {
        match self {
            Predicted::Faithful | Predicted::Grounded | Predicted::Complementary => Some(false),
            Predicted::Hallucination | Predicted::Ungrounded | Predicted::Contradicted => Some(true),
            Predicted::Unsure | Predicted::None => None,
        }
    }
}

impl From<Label> for Predicted {
    fn from(label: Label) -> Self {
        match label {
            Label::Faithful => Predicted::Faithful,
            Label::Hallucination => Predicted::Hallucination,
            Label::Unsure => Predicted::Unsure,
        }
    }
}

impl From<Option<Standing>> for Predicted {
    fn from(standing: Option<Standing>) -> Self {
        match standing {
            Some(Standing::Grounded) => Predicted::Grounded,
            Some(Standing::Ungrounded) => Predicted::Ungrounded,
            Some(Standing::Contradicted) => Predicted::Contradicted,
            Some(Standing::Complementary) => Predicted::Complementary,
            None => Predicted::None,
        }
    }
}

/// Who labels. Only people, as yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Labeler {
    /// A person.
    #[default]
    Human,
}

/// What a verdict had said of the thing that is marked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Verdicted {
    /// The trace.
    pub trace_id: Option<TraceId>,
    /// The label or standing.
    pub predicted: Predicted,
    /// Of the answer, or of the claim alone; none without probabilities.
    pub hallucination_probability: Option<f64>,
    /// The decision model's in the claim; of an answer |2p − 1| with its hallucination probability p.
    pub confidence: Option<f64>,
}

impl Verdicted {
    /// Of an answer as a whole; none if it was not scored.
    pub fn of_answer(verdict: &Verdict) -> Option<Self> {
        Some(Self {
            trace_id: verdict.trace_id,
            predicted: verdict.label?.into(),
            hallucination_probability: verdict.hallucination_probability,
            confidence: verdict.hallucination_probability.map(|p| (2.0 * p - 1.0).abs()),
        })
    }

    /// Of one of its claims; none if there is no such claim.
    pub fn of_claim(verdict: &Verdict, claim: usize) -> Option<Self> {
        let found = verdict.grounding.as_ref()?.claims.get(claim)?;
        let of = |standing: Standing| found.probabilities.get(standing.as_str()).copied().unwrap_or(0.0);
        let supported = of(Standing::Grounded) + of(Standing::Complementary);
        Some(Self {
            trace_id: verdict.trace_id,
            predicted: found.standing.into(),
            hallucination_probability: (!found.probabilities.is_empty())
                .then(|| (1.0 - supported).clamp(0.0, 1.0)),
            confidence: found.confidence,
        })
    }
}

/// What a person says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// Of which verdict.
    pub verdict_id: String,
    /// Of which of its claims; none means of the answer as a whole.
    pub claim: Option<u32>,
    /// What is right; none takes back what this person said before.
    pub label: Option<Mark>,
    /// Who says it; all who do not give a name are one person.
    pub by: Option<String>,
    /// Why.
    pub note: Option<String>,
}

/// One line of the file and of the export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Of which verdict.
    pub verdict_id: String,
    /// Its trace.
    pub trace_id: Option<TraceId>,
    /// Of which of its claims, from 0; none means of the answer as a whole.
    pub claim: Option<u32>,
    /// What is right; none, in the file only, takes back an earlier line.
    pub label: Option<Mark>,
    /// What assayd had said.
    pub predicted: Predicted,
    /// See [`Verdicted`].
    pub hallucination_probability: Option<f64>,
    /// See [`Verdicted`].
    pub confidence: Option<f64>,
    /// A person.
    pub labeled_by: Labeler,
    /// Who.
    pub by: Option<String>,
    /// Why.
    pub note: Option<String>,
    /// When it was said, by this machine's clock.
    pub time: Time,
}

impl Record {
    /// What `word` says of what a verdict had said.
    pub fn new(word: Word, verdicted: &Verdicted, time: Time) -> Self {
        Self {
            verdict_id: word.verdict_id,
            trace_id: verdicted.trace_id,
            claim: word.claim,
            label: word.label,
            predicted: verdicted.predicted,
            hallucination_probability: verdicted.hallucination_probability,
            confidence: verdicted.confidence,
            labeled_by: Labeler::Human,
            by: word.by,
            note: word.note,
            time,
        }
    }

    /// What the verdict had said, as far as this line knows.
    pub(super) fn verdicted(&self) -> Verdicted {
        Verdicted {
            trace_id: self.trace_id,
            predicted: self.predicted,
            hallucination_probability: self.hallucination_probability,
            confidence: self.confidence,
        }
    }

    /// As a line of JSON with its line break.
    pub(super) fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("a record has text keys only, so it is always JSON");
        line.push(b'\n');
        line
    }
}
