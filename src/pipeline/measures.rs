//! The operator's own metrics: put to the judge, each in a call of its own, beside the leftover questions.

use std::sync::Arc;

use futures::future::join_all;

use crate::domain::{Answers, JudgeMetric, Measure};
use crate::judge::{Judge, JudgeError, Measured};

/// What became of all metrics.
pub(super) struct Outcomes {
    /// The judge's model, if it was asked.
    model: Option<String>,
    all: Vec<Outcome>,
}

struct Outcome {
    name: Arc<str>,
    /// None: there is no judge.
    result: Option<Result<Measured, JudgeError>>,
}

/// Asks for all metrics at once. Without a judge nobody is asked.
pub(super) async fn ask(judge: Option<&dyn Judge>, measures: &[Measure]) -> Outcomes {
    let outcomes = measures.iter().map(|measure| async move {
        let result = match judge {
            Some(judge) => Some(judge.measure(measure).await),
            None => None,
        };
        Outcome { name: Arc::clone(&measure.name), result }
    });
    let model = judge.filter(|_| !measures.is_empty()).map(|judge| judge.model().to_owned());
    Outcomes { model, all: join_all(outcomes).await }
}

/// Puts values, errors and what they cost into the answers. An error never becomes a value.
pub(super) fn note(outcomes: Outcomes, answers: &mut Answers) {
    answers.judge = answers.judge.take().or(outcomes.model);
    for Outcome { name, result } in outcomes.all {
        let metric = match result {
            Some(Ok(measured)) => {
                answers.usage += measured.usage;
                answers.truncated.extend(measured.truncated);
                JudgeMetric { value: Some(measured.value), error: None }
            }
            Some(Err(error)) => {
                tracing::warn!(metric = &*name, result = error.result(), %error, "the judge did not measure");
                answers.usage += error.usage;
                failed(error.to_string(), answers)
            }
            None => failed("there is no judge".to_owned(), answers),
        };
        answers.metrics.insert(name.to_string(), metric);
    }
}

fn failed(error: String, answers: &mut Answers) -> JudgeMetric {
    answers.degraded = true;
    JudgeMetric { value: None, error: Some(error) }
}
