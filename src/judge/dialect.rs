//! How a provider is spoken to: one file for each, behind one trait. Connections, keys and retries are the same for all.

use std::time::Duration;

use super::BadReply;
use super::attempt::{Completion, Failure, Said};
use super::manners::{Feature, Rung, Style};
use super::prompt::Prompt;
use super::reply::shorten;
use super::told::{self, Told};
use crate::domain::Json;

/// Name of the tool, and of the schema, by which the reply's shape is asked for.
pub(super) const NAME: &str = "submit_answers";
/// What the tool does.
pub(super) const DESCRIPTION: &str = "Submits the answers.";

/// The settings of a request that do not depend on the ask.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    /// The model's name.
    pub model: String,
    /// Tokens that the reply may have.
    pub max_output_tokens: u32,
    /// The sampling temperature.
    pub temperature: Option<f64>,
}

/// The shape of the reply that is asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shape {
    /// Its JSON Schema.
    pub schema: Json,
    /// Whether the schema keeps to what strict structured outputs allow.
    pub strict: bool,
    /// Which shapes are of one kind: an endpoint may take one kind and refuse another.
    pub kind: u64,
}

/// The body of a success as JSON.
pub(super) fn parsed(body: &[u8]) -> Result<Json, Failure> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(Failure::BadBody(BadReply::Empty));
    }
    serde_json::from_slice(body).map_err(|_| malformed("no JSON"))
}

/// The body of a success that is none.
pub(super) fn malformed(message: &str) -> Failure {
    Failure::BadBody(BadReply::NotACompletion { message: message.to_owned() })
}

/// What is said where a model declines: its words, or that it has none.
pub(super) fn declined(words: &str) -> Said {
    let message = shorten(words, told::MAX_MESSAGE);
    Said::Declined { message: if message.is_empty() { "refusal".to_owned() } else { message } }
}

/// A provider's requests, replies and errors in its own words. Pure.
pub(super) trait Dialect: Send + Sync {
    /// The ways of asking for the reply's shape that the provider has, best first; the last is [`Rung::Plain`].
    fn rungs(&self) -> &'static [Rung];

    /// A request body.
    fn request(&self, settings: &Settings, style: Style, prompt: &Prompt, shape: &Shape) -> Json;

    /// Reads the body of a success. Some gateways answer 200 with an error inside.
    fn completion(&self, body: &[u8]) -> Result<Completion, Failure>;

    /// Which part of a request in the style `sent` an error is about, if the endpoint says that it does not take that part.
    fn refused(&self, status: u16, told: &Told, sent: Style) -> Option<Feature> {
        told::refused(status, told, sent)
    }

    /// What an error means, once it is clear that no refused feature is behind it.
    fn failure(&self, status: u16, told: &Told, retry_after: Option<Duration>) -> Failure {
        told::failure(status, told, retry_after)
    }
}
