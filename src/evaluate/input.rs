//! What is evaluated.

use serde_json::Map;

use crate::domain::{Json, Kind, Question, Subject};

/// A response, what it answers, what it must be supported by, and questions of your own about it.
///
/// ```
/// use assayd::evaluate::Input;
///
/// let input = Input::new("You have 90 days.")
///     .query("How long can I return shoes?")
///     .context("Footwear may be returned within 30 days.")
///     .noul("polite", "Is the response polite?")
///     .choice("topic", "What is it about?", ["returns", "payment", "other"])
///     .score("clarity", "How clear is it?", ["muddled", "clear", "very clear"]);
/// assert_eq!(input.questions.len(), 3);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// The response.
    pub response: String,
    /// What was asked.
    pub query: Option<String>,
    /// The evidence: text or any JSON; null if there is none.
    pub context: Json,
    /// Typed questions about query, context and response.
    pub questions: Vec<Question>,
}

impl Input {
    /// A bare response.
    pub fn new(response: impl Into<String>) -> Self {
        Self { response: response.into(), query: None, context: Json::Null, questions: Vec::new() }
    }

    /// What was asked.
    pub fn query(self, query: impl Into<String>) -> Self {
        Self { query: Some(query.into()), ..self }
    }

    /// What the response must be supported by.
    pub fn context(self, context: impl Into<Json>) -> Self {
        Self { context: context.into(), ..self }
    }

    /// A question of any form.
    pub fn question(mut self, question: Question) -> Self {
        self.questions.push(question);
        self
    }

    /// A question of yes or no.
    pub fn noul(self, id: &str, instructions: &str) -> Self {
        self.asked(id, instructions, Kind::Noul { if_true: None, if_false: None })
    }

    /// A question with options. Options with a description are asked with [`Input::question`]; descriptions help a model.
    pub fn choice<'a>(
        self,
        id: &str,
        instructions: &str,
        options: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let options = options.into_iter().map(|option| (option.to_owned(), Json::Null)).collect();
        self.asked(id, instructions, Kind::Choice { options })
    }

    /// A question with levels, the lowest first.
    pub fn score<'a>(self, id: &str, instructions: &str, levels: impl IntoIterator<Item = &'a str>) -> Self {
        let levels = levels.into_iter().map(Json::from).collect();
        self.asked(id, instructions, Kind::Score { levels })
    }

    fn asked(self, id: &str, instructions: &str, kind: Kind) -> Self {
        let instructions = Json::from(instructions);
        self.question(Question { id: id.to_owned(), kind, instructions, subject: Subject::General })
    }

    /// What the questions are about.
    pub(super) fn state(&self) -> Json {
        let mut state = Map::new();
        if let Some(query) = &self.query {
            state.insert("query".to_owned(), query.as_str().into());
        }
        if !self.context.is_null() {
            state.insert("context".to_owned(), self.context.clone());
        }
        state.insert("response".to_owned(), self.response.as_str().into());
        Json::Object(state)
    }
}
