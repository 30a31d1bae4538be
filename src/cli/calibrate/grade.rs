//! What a decision model says of labelled records.

use std::collections::BTreeMap;

use futures::StreamExt;

use super::super::progress::Progress;
use crate::domain::{Nobody, Standing};
use crate::evaluate::{Feedback, Item, Labelled, Record};
use crate::measure::{Seen, SeenClaim, key};
use crate::pipeline::Assayer;
use crate::serve::CheckRequest;

/// Records that are asked about at the same time.
const TOGETHER: usize = 16;

/// A record with what was said of it.
pub struct Graded {
    /// What was said, and what is right.
    pub seen: Seen,
    /// Records of one group are about the same evidence.
    pub group: String,
    /// Where a person finds it.
    pub place: String,
    /// The beginning of its text.
    pub text: String,
}

/// Grades all records; those of which nothing was said are counted by why.
pub async fn all(assayer: &Assayer, labelled: Vec<Labelled>) -> (Vec<Graded>, BTreeMap<String, usize>) {
    let mut progress = Progress::over(labelled.len(), "records");
    let mut graded = Vec::new();
    let mut open: BTreeMap<String, usize> = BTreeMap::new();
    let asked = futures::stream::iter(labelled).map(|labelled| one(assayer, labelled));
    let mut answers = asked.buffered(TOGETHER);
    while let Some((found, why)) = answers.next().await {
        graded.extend(found);
        for why in why {
            *open.entry(why).or_default() += 1;
        }
        progress.step();
    }
    (graded, open)
}

async fn one(assayer: &Assayer, labelled: Labelled) -> (Vec<Graded>, Vec<String>) {
    let place = format!("line {}", labelled.line);
    match labelled.record {
        Record::Check { request, is_hallucination } => {
            match answer(assayer, request, is_hallucination, place).await {
                Ok(graded) => (vec![graded], Vec::new()),
                Err(why) => (Vec::new(), vec![why]),
            }
        }
        Record::Item(item) => questions(assayer, &item, &place).await,
        Record::Feedback(feedback) => match given(feedback, place) {
            Some(graded) => (vec![graded], Vec::new()),
            None => (Vec::new(), vec!["the verdict had no probability".to_owned()]),
        },
    }
}

async fn answer(
    assayer: &Assayer,
    request: CheckRequest,
    is_bad: bool,
    place: String,
) -> Result<Graded, String> {
    let verdict = assayer.check(&request).await;
    let grounding = verdict
        .grounding
        .ok_or_else(|| verdict.reason.unwrap_or_else(|| verdict.outcome.as_str().to_owned()))?;
    let claims: Vec<SeenClaim> = grounding
        .claims
        .iter()
        .filter(|claim| !claim.probabilities.is_empty())
        .map(|claim| SeenClaim {
            probabilities: claim.probabilities.values().copied().collect(),
            supports: claim.probabilities.keys().map(|label| supports(label)).collect(),
            evidence_type: claim.evidence_type.as_str(),
        })
        .collect();
    if claims.is_empty() {
        return Err("no claim has probabilities".to_owned());
    }
    Ok(Graded {
        seen: Seen::Answer { claims, is_bad },
        group: request.context.to_string(),
        place,
        text: request.response,
    })
}

fn supports(label: &str) -> bool {
    matches!(Standing::parse(label), Some(Standing::Grounded | Standing::Complementary))
}

async fn questions(assayer: &Assayer, item: &Item, place: &str) -> (Vec<Graded>, Vec<String>) {
    let reply = match assayer.desk().ask(item.inquiry.clone()).await {
        Ok(reply) => reply,
        Err(error) => return (Vec::new(), vec![error.to_string()]),
    };
    let (mut graded, mut open) = (Vec::new(), Vec::new());
    for ((question, truth), decision) in item.inquiry.questions.iter().zip(&item.truths).zip(reply.decisions)
    {
        let Some(truth) = *truth else { continue };
        match decision {
            Ok(decision) if decision.probabilities.len() == question.kind.labels().len() => {
                graded.push(Graded {
                    seen: Seen::Question {
                        id: question.id.clone(),
                        key: key(question),
                        kind: question.kind.clone(),
                        probabilities: decision.probabilities,
                        truth,
                    },
                    group: item.inquiry.state.to_string(),
                    place: format!("{place}, {}", question.id),
                    text: question.instructions.as_str().unwrap_or_default().to_owned(),
                })
            }
            Ok(_) => open.push("the decision does not fit the question".to_owned()),
            Err(Nobody::Failed(why) | Nobody::Refused(why)) => open.push(why),
            Err(nobody) => {
                open.push(format!("the model does not answer such questions ({})", nobody.reason()))
            }
        }
    }
    (graded, open)
}

fn given(feedback: Feedback, place: String) -> Option<Graded> {
    if feedback.p.is_none() && feedback.confidence.is_none() {
        return None;
    }
    let group = feedback.trace_id.clone().unwrap_or_else(|| feedback.verdict_id.clone());
    let of_claim = feedback.claim.map(|claim| format!(", claim {claim}")).unwrap_or_default();
    Some(Graded {
        seen: Seen::Given {
            is_claim: feedback.claim.is_some(),
            p: feedback.p,
            confidence: feedback.confidence,
            said: feedback.said,
            is_bad: feedback.is_hallucination,
        },
        place: format!("{place}, trace {group}{of_claim}"),
        group,
        text: String::new(),
    })
}
