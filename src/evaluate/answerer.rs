//! Typed questions to any backend.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Backend, BackendError, OpenError, configure};
use crate::config::Config;
use crate::decide::{self, Desk};
use crate::domain::{Inquiry, Nobody};
use crate::judge::{self, Ask, Judge, Pricing};
use crate::pipeline::{StartError, discreet, discreet_desk};

/// A backend that is loaded, or whose client is made.
pub enum Answerer {
    /// A decision model: answers with probabilities.
    Decider(Desk),
    /// An LLM: picks.
    Judge(Arc<dyn Judge>),
}

/// What was answered to a state's questions.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// One per question, in order.
    pub answers: Vec<Said>,
    /// How long it took.
    pub took: Duration,
    /// What it cost, by the price table; 0 for a model without a price.
    pub cost_usd: f64,
    /// Tokens that were read.
    pub input_tokens: u64,
    /// Why nothing was answered, if the call failed as a whole.
    pub error: Option<String>,
}

/// The answer to one question.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// One probability per label of the question's kind.
    Probabilities(Vec<f64>),
    /// The position of a label.
    Pick(usize),
    /// Nobody answered, and why.
    Nobody(String),
}

impl Answerer {
    /// Loads the model, or makes the client.
    pub fn open(config: Config, backend: &Backend) -> Result<Self, OpenError> {
        let config = configure(config, Some(backend), None)?;
        if backend.is_judge() {
            let judge = judge::build(&config.judge).map_err(StartError::from)?;
            let missing = || BackendError::NoJudge { backend: backend.to_string() };
            let judge = discreet(&config.redact, judge.ok_or_else(missing)?).map_err(StartError::from)?;
            return Ok(Self::Judge(judge));
        }
        let desk = decide::start(&config.decide).map_err(StartError::from)?;
        Ok(Self::Decider(discreet_desk(&config, desk).map_err(StartError::from)?))
    }

    /// Waits until it can answer.
    pub async fn ready(&self) -> Result<(), OpenError> {
        match self {
            Self::Decider(desk) if !desk.ready().await => {
                Err(StartError::Model { model: desk.info().name.clone() }.into())
            }
            _ => Ok(()),
        }
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        match self {
            Self::Decider(desk) => &desk.info().name,
            Self::Judge(judge) => judge.model(),
        }
    }

    /// What its probabilities are calibrated by, if they are.
    pub fn calibration(&self) -> Option<String> {
        match self {
            Self::Decider(desk) => desk.fitted().map(crate::measure::Fitted::name),
            Self::Judge(_) => None,
        }
    }

    /// What its tokens are counted at; none for a decision model.
    pub fn pricing(&self) -> Option<&Pricing> {
        match self {
            Self::Decider(_) => None,
            Self::Judge(judge) => judge.pricing(),
        }
    }

    /// Answers. Cannot fail: what was not answered says why.
    pub async fn answer(&self, inquiry: &Inquiry) -> Answered {
        let started = Instant::now();
        let mut answered = match self {
            Self::Decider(desk) => decided(desk, inquiry).await,
            Self::Judge(judge) => judged(&**judge, inquiry).await,
        };
        answered.took = started.elapsed();
        answered
    }
}

fn failed(inquiry: &Inquiry, error: String) -> Answered {
    Answered {
        answers: inquiry.questions.iter().map(|_| Said::Nobody(error.clone())).collect(),
        took: Duration::ZERO,
        cost_usd: 0.0,
        input_tokens: 0,
        error: Some(error),
    }
}

async fn decided(desk: &Desk, inquiry: &Inquiry) -> Answered {
    let reply = match desk.ask(inquiry.clone()).await {
        Ok(reply) => reply,
        Err(error) => return failed(inquiry, error.to_string()),
    };
    let said = inquiry.questions.iter().zip(reply.decisions).map(|(question, decision)| match decision {
        Ok(decision) if decision.probabilities.len() == question.kind.labels().len() => {
            Said::Probabilities(decision.probabilities)
        }
        Ok(_) => Said::Nobody("the decision does not fit the question".to_owned()),
        Err(Nobody::Failed(why) | Nobody::Refused(why)) => Said::Nobody(why),
        Err(nobody) => Said::Nobody(nobody.reason().to_owned()),
    });
    Answered {
        answers: said.collect(),
        took: Duration::ZERO,
        cost_usd: 0.0,
        input_tokens: reply.input_tokens,
        error: None,
    }
}

async fn judged(judge: &dyn Judge, inquiry: &Inquiry) -> Answered {
    let judgement = match judge.judge(&Ask { inquiries: vec![inquiry.clone()] }).await {
        Ok(judgement) => judgement,
        Err(error) => {
            let usage = error.usage;
            let failed = failed(inquiry, error.to_string());
            return Answered {
                cost_usd: usage.judge_cost_usd,
                input_tokens: usage.judge_input_tokens,
                ..failed
            };
        }
    };
    let said = inquiry.questions.iter().map(|question| {
        let judged = judgement.answers.iter().find(|judged| judged.id == question.id);
        let pick =
            judged.and_then(|judged| question.kind.labels().iter().position(|label| *label == judged.label));
        match (pick, judgement.unanswered.iter().find(|open| open.id == question.id)) {
            (Some(pick), _) => Said::Pick(pick),
            (None, Some(open)) => Said::Nobody(format!("the judge's reply {}", open.why)),
            (None, None) => Said::Nobody("the judge left it open".to_owned()),
        }
    });
    Answered {
        answers: said.collect(),
        took: Duration::ZERO,
        cost_usd: judgement.usage.judge_cost_usd,
        input_tokens: judgement.usage.judge_input_tokens,
        error: None,
    }
}
