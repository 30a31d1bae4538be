//! Whether the house still evaluates: on a timer, an answer that is known to be true and one that is known to be false go
//! through questions, decision model and score. The judge is not asked, and no verdict comes of it but numbers for alerts.

use std::convert::Infallible;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::Assayer;
use super::panic::caught;
use crate::domain::{Json, Outcome, Period, Verdict};
use crate::metrics;
use crate::serve::CheckRequest;

const EVIDENCE: &str = "Order 4711 was shipped on 3 May 2026 from the warehouse in Rotterdam. \
                        Its parcel weighs 12 kilograms. Returns are accepted within 30 days of delivery.";
const QUERY: &str = "When was order 4711 shipped?";
const TRUE_ANSWER: &str = "Order 4711 was shipped on 3 May 2026 from the warehouse in Rotterdam.";
const FALSE_ANSWER: &str = "Order 4711 was shipped on 17 August 2026 from the warehouse in Lisbon.";

/// What a self-check came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finding {
    /// Both answers were evaluated, and the false one is the less probable.
    Right,
    /// Both were evaluated, and they were taken for each other.
    Wrong,
    /// Not both were evaluated.
    Failed,
}

impl Finding {
    fn as_str(self) -> &'static str {
        match self {
            Finding::Right => "ok",
            Finding::Wrong => "wrong",
            Finding::Failed => "failed",
        }
    }
}

/// Checks every `period`, the first time at once, until it is dropped; never if there is no period.
pub(super) async fn run(assayer: &Assayer, period: Option<Period>) -> Infallible {
    metrics::self_check_interval(period.map_or(0.0, |period| period.0.as_secs_f64()));
    let Some(period) = period else { return std::future::pending().await };
    let mut ticks = tokio::time::interval(period.0);
    // After a check that took long, the next one comes a whole period later and not at once.
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut last = Finding::Right;
    loop {
        ticks.tick().await;
        let began = Instant::now();
        let finding = caught(once(assayer)).await.unwrap_or(Finding::Failed);
        metrics::self_check(finding.as_str(), began.elapsed());
        if finding != Finding::Failed {
            metrics::self_check_succeeded(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        }
        if finding != last {
            told(finding);
        }
        last = finding;
    }
}

/// A change is a line in the log; what stays as it was is not.
fn told(finding: Finding) {
    match finding {
        Finding::Right => tracing::info!("the self-check is right again"),
        Finding::Wrong => {
            tracing::warn!(
                "the self-check's false answer looks no worse to the decision model than its true one"
            );
        }
        Finding::Failed => tracing::error!("the self-check was not evaluated; traces will not be either"),
    }
}

async fn once(assayer: &Assayer) -> Finding {
    let request = |response: &str| CheckRequest {
        context: Json::String(EVIDENCE.to_owned()),
        query: Some(QUERY.to_owned()),
        response: response.to_owned(),
        service: None,
    };
    let (right, wrong) = (request(TRUE_ANSWER), request(FALSE_ANSWER));
    let (right, wrong) = tokio::join!(assayer.rehearse(&right), assayer.rehearse(&wrong));
    compare(&right, &wrong)
}

fn compare(right: &Verdict, wrong: &Verdict) -> Finding {
    let doubt = |verdict: &Verdict| match verdict.outcome {
        Outcome::Scored => verdict.hallucination_probability,
        Outcome::Skipped | Outcome::Failed => None,
    };
    match (doubt(right), doubt(wrong)) {
        (Some(right), Some(wrong)) if right < wrong => Finding::Right,
        (Some(_), Some(_)) => Finding::Wrong,
        _ => Finding::Failed,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Config;
    use crate::decide::{self, DecideError, Desk, Reply, Scripted};
    use crate::domain::{Decision, Inquiry};

    /// How probable a model holds each label of a claim that names `August`, and of one that does not.
    fn model(script: fn(&Inquiry) -> Result<Reply, DecideError>) -> Assayer {
        let desk: Desk = decide::start_with(Scripted::new(script), &decide::Config::default()).unwrap();
        Assayer::new(&Config::default(), desk, None).unwrap()
    }

    fn reply(inquiry: &Inquiry, doubt: fn(bool) -> f64) -> Result<Reply, DecideError> {
        let decisions = inquiry.questions.iter().map(|question| {
            let is_false = question.instructions.to_string().contains("August")
                || format!("{:?}", question.subject).contains("August");
            let labels = question.kind.labels();
            let rest = doubt(is_false) / (labels.len() - 1) as f64;
            let of = |label: &String| if label == "grounded" { 1.0 - doubt(is_false) } else { rest };
            Ok(Decision { probabilities: labels.iter().map(of).collect(), tokens: 1 })
        });
        Ok(Reply { decisions: decisions.collect(), input_tokens: 9, truncated: false })
    }

    #[tokio::test]
    async fn a_model_that_tells_true_from_false_is_right() {
        let assayer = model(|inquiry| reply(inquiry, |is_false| if is_false { 0.9 } else { 0.1 }));
        assert_eq!(once(&assayer).await, Finding::Right);
    }

    #[tokio::test]
    async fn a_model_that_says_yes_to_all_is_wrong_and_not_failed() {
        let assayer = model(|inquiry| reply(inquiry, |_| 0.1));
        assert_eq!(once(&assayer).await, Finding::Wrong);
    }

    #[tokio::test]
    async fn a_model_that_does_not_answer_has_failed() {
        let assayer = model(|_| Ok(Reply { decisions: Vec::new(), input_tokens: 0, truncated: false }));
        assert_eq!(once(&assayer).await, Finding::Failed);
    }

    #[tokio::test]
    async fn without_a_period_it_never_checks() {
        let assayer = model(|inquiry| reply(inquiry, |_| 0.1));
        let checks = tokio::time::timeout(Duration::from_millis(50), run(&assayer, None));
        assert!(checks.await.is_err(), "it waits until it is dropped");
    }
}
