//! What a remote model says it can do. A question outside is refused before it is sent.

use super::{RemoteConfig, RemoteKind};
use crate::decide::Capabilities;
use crate::domain::{Json, Kind, Nobody, Question};

/// Bytes that a token has, about.
const BYTES_A_TOKEN: usize = 4;

/// The declared limits.
#[derive(Debug, Clone)]
pub struct Limits {
    kinds: Vec<RemoteKind>,
    options: usize,
    levels: usize,
    window: Option<usize>,
}

impl Limits {
    /// As configured.
    pub fn new(config: &RemoteConfig) -> Self {
        Self {
            kinds: config.kinds.clone(),
            options: config.max_options.get(),
            levels: config.max_levels.get(),
            window: config.window.map(|tokens| tokens.get() as usize),
        }
    }

    /// The same for those who ask what can be asked.
    pub fn capabilities(&self) -> Capabilities {
        let has = |kind| self.kinds.contains(&kind);
        Capabilities {
            noul: has(RemoteKind::Noul),
            choice: has(RemoteKind::Choice),
            score: has(RemoteKind::Score),
            ..Capabilities::ALL
        }
    }

    /// The most tokens of state and question.
    pub fn window(&self) -> Option<usize> {
        self.window
    }

    /// Why a question about a state of so many bytes is not sent.
    pub fn refuse(&self, state: usize, question: &Question) -> Option<Nobody> {
        if !self.kinds.contains(&RemoteKind::of(&question.kind)) {
            return Some(Nobody::Unsupported);
        }
        let refused = |text: String| Some(Nobody::Refused(text));
        match &question.kind {
            Kind::Choice { options } if options.len() > self.options => {
                return refused(format!(
                    "a choice of {} options: the model takes {}",
                    options.len(),
                    self.options
                ));
            }
            Kind::Score { levels } if levels.len() > self.levels => {
                return refused(format!(
                    "a score of {} levels: the model takes {}",
                    levels.len(),
                    self.levels
                ));
            }
            _ => {}
        }
        let tokens = (state + weight(question)) / BYTES_A_TOKEN;
        match self.window {
            Some(window) if tokens > window => refused(format!(
                "prompt of about {tokens} tokens exceeds the context window of {window} tokens"
            )),
            _ => None,
        }
    }
}

/// Bytes of a value's text, about.
pub fn bytes(json: &Json) -> usize {
    match json {
        Json::String(text) => text.len(),
        Json::Null => 0,
        other => other.to_string().len(),
    }
}

fn weight(question: &Question) -> usize {
    let options = match &question.kind {
        Kind::Noul { if_true, if_false } => [if_true, if_false].into_iter().flatten().map(bytes).sum(),
        Kind::Choice { options } => options.iter().map(|(name, told)| name.len() + bytes(told)).sum(),
        Kind::Score { levels } => levels.iter().map(bytes).sum::<usize>(),
    };
    bytes(&question.instructions) + options
}
