//! From backends to an assayer.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;

use super::{Backend, BackendError};
use crate::config::Config;
use crate::decide::{self, Calibration, Capabilities, DecideError, Desk, Health, ModelInfo, Reply};
use crate::domain::{Inquiry, Nobody};
use crate::judge;
use crate::pipeline::{Assayer, StartError};

/// Why an evaluation cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A backend cannot be used so.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// A model cannot be loaded, or a judge's client not made.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// `config` with these backends in it. An LLM as the model takes the judge's place, and the configured judge's with it.
pub fn configure(
    mut config: Config,
    model: Option<&Backend>,
    judge: Option<&Backend>,
) -> Result<Config, BackendError> {
    match model {
        Some(model) if model.is_judge() => {
            if judge.is_some() {
                return Err(BackendError::JudgeTwice { backend: model.to_string() });
            }
            model.judge(&mut config)?;
        }
        Some(model) => model.decide(&mut config)?,
        None => {}
    }
    if let Some(judge) = judge {
        judge.judge(&mut config)?;
    }
    Ok(config)
}

/// An assayer by these backends; what is not given is as `config` says. Loads the model: takes as long as that takes.
pub fn open(config: Config, model: Option<&Backend>, judge: Option<&Backend>) -> Result<Assayer, OpenError> {
    let config = configure(config, model, judge)?;
    if model.is_some_and(Backend::is_judge) {
        let judge = judge::build_with(&config.judge, &config.evaluate.prompts()).map_err(StartError::from)?;
        return Ok(Assayer::new(&config, nobody(), judge).map_err(StartError::from)?);
    }
    Ok(Assayer::start(&config)?)
}

/// A desk where nobody sits: every question goes to the judge.
fn nobody() -> Desk {
    let info = ModelInfo {
        name: "none".to_owned(),
        revision: String::new(),
        calibration: Calibration::Uncalibrated,
        capabilities: Capabilities {
            general: false,
            grounding: false,
            relevance: false,
            noul: false,
            choice: false,
            score: false,
        },
        max_tokens: None,
        facts: serde_json::Map::new(),
    };
    let (_, health) = watch::channel(Health::Ready);
    Desk::new(info, health, Arc::new(Empty))
}

struct Empty;

impl decide::Backend for Empty {
    fn ask(&self, inquiry: Inquiry) -> BoxFuture<'_, Result<Reply, DecideError>> {
        let decisions = inquiry.questions.iter().map(|_| Err(Nobody::Unsupported)).collect();
        std::future::ready(Ok(Reply { decisions, input_tokens: 0, truncated: false })).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_desk_where_nobody_sits_is_ready_and_leaves_all_to_the_judge() {
        let desk = nobody();
        assert!(desk.ready().await);
        let reply = desk.ask(Inquiry::new(Arc::new("x".into()), vec![])).await.unwrap();
        assert!(reply.decisions.is_empty());
    }

    #[test]
    fn an_llm_as_the_model_leaves_no_room_for_a_judge() {
        let large: Backend = "openai:large@http://judge/v1".parse().unwrap();
        assert!(configure(Config::default(), Some(&large), Some(&large)).is_err());
        let config = configure(Config::default(), Some(&large), None).unwrap();
        assert_eq!(config.judge.model(), Some("large"));
        assert!(configure(Config::default(), None, Some(&Backend::Embedded)).is_err());
    }
}
