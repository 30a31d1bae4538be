//! A choice whose options do not fit into the model's window together is asked in rounds. The contract promises 255 options,
//! and a list of them is longer than many a window.
//!
//! The options are split into groups that fit; then the groups' winners are asked about. An option's probability is that of
//! its group's winner in the last round times its own within the group, so the whole still sums to 1.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};

use crate::decide::{DecideError, Desk, Reply};
use crate::domain::{Decision, Inquiry, Json, Kind, Nobody, Question};

/// Asks all questions, and those choices that the model refuses as they are in rounds.
pub(super) async fn ask(desk: &Desk, inquiry: Inquiry) -> Result<Reply, DecideError> {
    let (state, questions) = (Arc::clone(&inquiry.state), inquiry.questions.clone());
    let mut reply = desk.ask(inquiry).await?;
    for (question, decision) in questions.iter().zip(&mut reply.decisions) {
        let Kind::Choice { options } = &question.kind else { continue };
        if options.len() < 3 || !matches!(decision, Err(Nobody::Refused(_))) {
            continue;
        }
        match in_rounds(desk, &state, question, options).await? {
            Ok(decided) => {
                *decision = Ok(decided.decision);
                reply.input_tokens += decided.tokens;
            }
            // The model's words about the question as it was asked say more than those about a part of it.
            Err(_) => continue,
        }
    }
    Ok(reply)
}

/// What came of rounds.
struct Decided {
    decision: Decision,
    /// Tokens that were read for it.
    tokens: u64,
}

/// A decision, or why there is none.
fn in_rounds<'a>(
    desk: &'a Desk,
    state: &'a Arc<Json>,
    question: &'a Question,
    options: &'a [(String, Json)],
) -> BoxFuture<'a, Result<Result<Decided, Nobody>, DecideError>> {
    async move {
        let most = options.len().div_ceil(2);
        let mut groups = 2;
        let (shares, mut tokens) = loop {
            match in_groups(desk, state, question, options, groups).await? {
                Ok(decided) => break decided,
                Err(Nobody::Refused(_)) if groups < most => groups = (groups * 2).min(most),
                Err(nobody) => return Ok(Err(nobody)),
            }
        };
        let split = split(options.len(), groups);
        let winners: Vec<(String, Json)> = split
            .iter()
            .zip(&shares)
            .map(|(range, decision)| options[range.start + decision.pick()].clone())
            .collect();
        let asked = vec![about(question, &winners)];
        let reply = desk.ask(Inquiry::new(Arc::clone(state), asked)).await?;
        tokens += reply.input_tokens;
        let last = match reply.decisions.into_iter().next() {
            Some(Ok(last)) => last,
            Some(Err(Nobody::Refused(_))) if winners.len() > 2 => {
                match in_rounds(desk, state, question, &winners).await? {
                    Ok(last) => {
                        tokens += last.tokens;
                        last.decision
                    }
                    Err(nobody) => return Ok(Err(nobody)),
                }
            }
            Some(Err(nobody)) => return Ok(Err(nobody)),
            None => return Err(DecideError::Miscounted { wanted: 1, found: 0 }),
        };
        Ok(Ok(Decided { decision: together(&shares, &last), tokens }))
    }
    .boxed()
}

/// A decision for each of so many groups of the options, and the tokens that were read.
async fn in_groups(
    desk: &Desk,
    state: &Arc<Json>,
    question: &Question,
    options: &[(String, Json)],
    groups: usize,
) -> Result<Result<(Vec<Decision>, u64), Nobody>, DecideError> {
    let split = split(options.len(), groups);
    // An option that is a group of its own needs no question.
    let asked = split.iter().filter(|range| range.len() > 1);
    let asked = asked.map(|range| about(question, &options[range.clone()])).collect();
    let reply = desk.ask(Inquiry::new(Arc::clone(state), asked)).await?;
    let mut decisions = reply.decisions.into_iter();
    let mut shares = Vec::with_capacity(split.len());
    for range in &split {
        if range.len() == 1 {
            shares.push(Decision { probabilities: vec![1.0], tokens: 0 });
            continue;
        }
        match decisions.next() {
            Some(Ok(decision)) => shares.push(decision),
            Some(Err(nobody)) => return Ok(Err(nobody)),
            None => return Err(DecideError::Miscounted { wanted: groups, found: shares.len() }),
        }
    }
    Ok(Ok((shares, reply.input_tokens)))
}

/// The question about some of its options.
fn about(question: &Question, options: &[(String, Json)]) -> Question {
    Question { kind: Kind::Choice { options: options.to_vec() }, ..question.clone() }
}

/// Ranges of `count` options in so many groups whose sizes differ by one at most.
fn split(count: usize, groups: usize) -> Vec<std::ops::Range<usize>> {
    (0..groups).map(|group| group * count / groups..(group + 1) * count / groups).collect()
}

fn together(shares: &[Decision], last: &Decision) -> Decision {
    let probabilities = shares
        .iter()
        .zip(&last.probabilities)
        .flat_map(|(share, group)| share.probabilities.iter().map(move |p| p * group))
        .collect();
    let tokens = shares.iter().map(|share| share.tokens).sum::<u32>() + last.tokens;
    Decision { probabilities, tokens }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decide::{Config, Scripted, start_with};
    use crate::domain::Subject;

    /// Takes so many options at most; an option's weight is the number in its name.
    fn narrow(most: usize) -> Desk {
        let script = move |inquiry: &Inquiry| {
            let decisions = inquiry.questions.iter().map(|question| {
                let labels = question.kind.labels();
                if labels.len() > most {
                    return Err(Nobody::Refused(format!("{} options", labels.len())));
                }
                let weights: Vec<f64> = labels.iter().map(|label| label.parse().unwrap()).collect();
                let sum: f64 = weights.iter().sum();
                Ok(Decision { probabilities: weights.iter().map(|weight| weight / sum).collect(), tokens: 1 })
            });
            Ok(Reply { decisions: decisions.collect(), input_tokens: 10, truncated: false })
        };
        start_with(Scripted::new(script), &Config::default()).unwrap()
    }

    fn inquiry(options: usize) -> Inquiry {
        let options = (1..=options).map(|option| (option.to_string(), Json::Null)).collect();
        let kind = Kind::Choice { options };
        let question = Question { id: "q".into(), kind, instructions: Json::Null, subject: Subject::General };
        Inquiry::new(Arc::new(json!("s")), vec![question])
    }

    #[tokio::test]
    async fn a_long_list_is_decided_in_rounds_and_sums_to_one() {
        for (options, most) in [(255, 20), (255, 4), (26, 25), (3, 2), (7, 2)] {
            let reply = ask(&narrow(most), inquiry(options)).await.unwrap();
            let decision = reply.decisions[0].as_ref().unwrap();
            assert_eq!(decision.probabilities.len(), options);
            assert!((decision.probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            assert_eq!(decision.pick(), options - 1, "{options} options, {most} at a time");
            assert!(reply.input_tokens > 10);
        }
    }

    #[tokio::test]
    async fn what_fits_is_asked_once_and_what_never_fits_keeps_its_refusal() {
        let reply = ask(&narrow(20), inquiry(20)).await.unwrap();
        assert_eq!((reply.decisions[0].is_ok(), reply.input_tokens), (true, 10));
        let reply = ask(&narrow(1), inquiry(9)).await.unwrap();
        assert_eq!(reply.decisions[0], Err(Nobody::Refused("9 options".into())));
    }
}
