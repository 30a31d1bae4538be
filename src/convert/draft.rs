//! What is known of one span while its dialects are read. Several dialects may describe one span: the first one that
//! knows a thing is believed.

use super::gist;
use super::message::messages_of;
use super::talk::{Message, Part, Role};
use super::text::{Decoded, decode, is_masked, pick, pick_str};
use super::wrapping::{Shown, arguments, result};
use crate::domain::{Json, Span, Value};

/// What a span is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Model,
    Tool,
    Retrieval,
    Agent,
    Chain,
    /// One agent hands over to another.
    Pass,
    /// Known, and no part of a story: embeddings, guardrails, parsers, the making of an agent.
    Ignored,
}

impl Kind {
    /// The kind by the word that a dialect uses for it.
    pub(super) fn of(word: &str) -> Option<Kind> {
        let word = word.trim_matches('"').to_ascii_lowercase();
        Some(match word.as_str() {
            "chat" | "llm" | "chat_model" | "generation" | "generate_content" | "text_completion"
            | "completion" | "model" | "generate" | "inference" | "call_llm" | "model_generation"
            | "messages" | "responses" | "response" => Kind::Model,
            "tool" | "execute_tool" | "tool_call" | "function" | "action" | "mcp_tool_call" | "mcp_tool"
            | "tool_execution" => Kind::Tool,
            "retriever" | "retrieval" | "reranker" | "rerank" | "search" | "retrieve" | "vector_search" => {
                Kind::Retrieval
            }
            "agent" | "invoke_agent" | "agent_run" | "agent_execution" => Kind::Agent,
            "handoff" | "agent_handoff" => Kind::Pass,
            "embedding" | "embeddings" | "guardrail" | "evaluator" | "evaluation" | "prompt" | "parser"
            | "create_agent" | "create_memory" | "update_memory" | "upsert_memory" | "delete_memory"
            | "score" => Kind::Ignored,
            "chain"
            | "workflow"
            | "task"
            | "invoke_workflow"
            | "agent_step"
            | "execute_task"
            | "flow"
            | "step"
            | "plan"
            | "span"
            | "default"
            | "unknown"
            | "execute_event_loop_cycle"
            | "memory"
            | "workflow_run"
            | "conversation"
            | "search_memory" => Kind::Chain,
            _ => return None,
        })
    }
}

/// What is known of one span.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) span: &'a Span,
    pub(super) kind: Option<Kind>,
    pub(super) dialects: Vec<&'static str>,
    pub(super) model: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) session: Option<String>,
    pub(super) input: Vec<Message>,
    pub(super) output: Vec<Message>,
    pub(super) tool: Option<String>,
    pub(super) tool_id: Option<String>,
    pub(super) arguments: Option<Json>,
    pub(super) shown: Option<Shown>,
    pub(super) failed: Option<bool>,
    pub(super) query: Option<String>,
    pub(super) documents: Vec<String>,
    pub(super) pass: (Option<String>, Option<String>),
    /// Attributes whose value the sender's limits cut.
    pub(super) cut: Vec<String>,
    /// Events of AutoGen's runtime.
    pub(super) events: Vec<Json>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(span: &'a Span) -> Self {
        Self {
            span,
            kind: None,
            dialects: Vec::new(),
            model: None,
            agent: None,
            session: None,
            input: Vec::new(),
            output: Vec::new(),
            tool: None,
            tool_id: None,
            arguments: None,
            shown: None,
            failed: None,
            query: None,
            documents: Vec::new(),
            pass: (None, None),
            cut: Vec::new(),
            events: Vec::new(),
        }
    }

    /// The value of the first of `keys` that the span has and that is not a mask.
    pub(super) fn value(&self, keys: &[&str]) -> Option<(&'a str, &'a Value)> {
        for key in keys {
            let found = self.span.attributes.iter().find(|(name, _)| name == key);
            if let Some((name, value)) = found
                && !matches!(value, Value::Null)
                && !value.as_str().is_some_and(|text| text.is_empty() || is_masked(text))
            {
                return Some((name, value));
            }
        }
        None
    }

    /// The first of `keys` that the span has as a non-empty string.
    pub(super) fn text(&self, keys: &[&str]) -> Option<&'a str> {
        self.value(keys).and_then(|(_, value)| value.as_str())
    }

    pub(super) fn dialect(&mut self, name: &'static str) {
        if !self.dialects.contains(&name) {
            self.dialects.push(name);
        }
    }

    pub(super) fn kind(&mut self, kind: Option<Kind>) {
        if self.kind.is_none() {
            self.kind = kind;
        }
    }

    pub(super) fn decode(&mut self, key: &str, value: &Value) -> Decoded {
        let decoded = decode(value);
        if decoded.cut {
            self.cut.push(key.to_owned());
        }
        decoded
    }

    /// Takes the messages of the first of `keys` that is there as those that went in.
    pub(super) fn input_from(&mut self, keys: &[&str]) {
        if self.input.is_empty()
            && let Some((key, value)) = self.value(keys)
        {
            let decoded = self.decode(key, value);
            self.input = messages_of(&decoded, Role::User);
        }
    }

    /// Takes the messages of the first of `keys` that is there as those that came out.
    pub(super) fn output_from(&mut self, keys: &[&str]) {
        if self.output.is_empty()
            && let Some((key, value)) = self.value(keys)
        {
            let decoded = self.decode(key, value);
            self.output = messages_of(&decoded, Role::Assistant);
        }
    }

    pub(super) fn arguments_from(&mut self, keys: &[&str]) {
        if self.arguments.is_none()
            && let Some((key, value)) = self.value(keys)
        {
            let decoded = self.decode(key, value);
            // LangChain's callbacks hold the call's id beside the arguments.
            if self.tool_id.is_none()
                && let Json::Object(map) = &decoded.json
            {
                let nested = map.get("kwargs").and_then(Json::as_object);
                let id = pick_str(map, &["tool_call_id"])
                    .or(nested.and_then(|kwargs| pick_str(kwargs, &["tool_call_id"])));
                self.tool_id = id.map(str::to_owned);
            }
            self.arguments = arguments(decoded);
        }
    }

    pub(super) fn result_from(&mut self, keys: &[&str]) {
        if self.shown.is_none()
            && let Some((_, value)) = self.value(keys)
        {
            self.shown = Some(result(value));
        }
    }

    /// Reads a span that says its kind and keeps one value for what went in and one for what came out.
    pub(super) fn boxed(&mut self, input: &[&str], output: &[&str], name: &[&str]) {
        match self.kind {
            Some(Kind::Model) => self.boxed_model(input, output),
            Some(Kind::Tool) => {
                if self.tool.is_none() {
                    let own = Some(self.span.name.as_str()).filter(|name| !name.is_empty());
                    self.tool = self.text(name).or(own).map(|name| name.trim_matches('"').to_owned());
                }
                self.arguments_from(input);
                self.result_from(output);
            }
            Some(Kind::Retrieval) => {
                if self.query.is_none()
                    && let Some((_, value)) = self.value(input)
                {
                    self.query = gist::input(value).last().map(Message::joined);
                }
                if self.documents.is_empty()
                    && let Some((key, value)) = self.value(output)
                {
                    let decoded = self.decode(key, value);
                    documents(&decoded.json, 0, &mut self.documents);
                }
            }
            Some(Kind::Agent | Kind::Chain) => {
                if self.input.is_empty()
                    && let Some((_, value)) = self.value(input)
                {
                    self.input = gist::input(value);
                }
                if self.output.is_empty()
                    && let Some((_, value)) = self.value(output)
                {
                    self.output = gist::output(value);
                }
                // A step that only prepares what the next one is asked.
                let prepares = |message: &Message| matches!(message.role, Role::User | Role::System);
                if self.input.is_empty() && self.output.iter().all(prepares) {
                    self.input = std::mem::take(&mut self.output);
                }
            }
            Some(Kind::Pass | Kind::Ignored) | None => {}
        }
    }

    fn boxed_model(&mut self, input: &[&str], output: &[&str]) {
        if self.input.is_empty()
            && let Some((key, value)) = self.value(input)
        {
            let decoded = self.decode(key, value);
            self.input = match &decoded.json {
                Json::String(text) => vec![Message::text(Role::User, text.clone())],
                _ => messages_of(&decoded, Role::User),
            };
        }
        if self.output.is_empty()
            && let Some((key, value)) = self.value(output)
        {
            let decoded = self.decode(key, value);
            self.output = match &decoded.json {
                Json::String(text) => vec![Message::text(Role::Assistant, text.clone())],
                _ => messages_of(&decoded, Role::Assistant),
            };
        }
    }

    /// Whether any content is known.
    pub(super) fn has_content(&self) -> bool {
        let speaks = |messages: &[Message]| messages.iter().any(|message| !message.parts.is_empty());
        speaks(&self.input)
            || speaks(&self.output)
            || self.arguments.is_some()
            || self.shown.is_some()
            || !self.documents.is_empty()
    }

    /// Whether a message of the input was told without its content.
    pub(super) fn input_has_gaps(&self) -> bool {
        self.input.iter().any(|message| match message.role {
            Role::Tool => {
                message.parts.iter().all(|part| matches!(part, Part::Result(o) if o.text.is_empty()))
            }
            Role::Assistant => message.parts.is_empty(),
            Role::System | Role::User => false,
        })
    }
}

/// The texts of retrieved documents, however they are listed.
pub(super) fn documents(json: &Json, depth: usize, out: &mut Vec<String>) {
    if depth > 6 {
        return;
    }
    match json {
        Json::Array(items) => items.iter().for_each(|item| documents(item, depth + 1, out)),
        Json::Object(map) => {
            for key in ["document", "node", "kwargs", "Document"] {
                if let Some(inner @ Json::Object(_)) = map.get(key) {
                    return documents(inner, depth + 1, out);
                }
            }
            for key in ["documents", "nodes", "results", "output", "outputs", "chunks", "passages", "matches"]
            {
                if let Some(inner @ Json::Array(_)) = map.get(key) {
                    return documents(inner, depth + 1, out);
                }
            }
            let text = pick(map, &["page_content", "content", "text", "body", "snippet", "passage", "chunk"]);
            match text {
                Some(Json::String(text)) if !text.is_empty() && !is_masked(text) => out.push(text.clone()),
                Some(Json::Array(parts)) => {
                    out.extend(
                        parts
                            .iter()
                            .filter_map(|part| part.get("text").and_then(Json::as_str))
                            .map(str::to_owned),
                    );
                }
                _ => {}
            }
        }
        // The print of a Python object says nothing of its content.
        Json::String(text) if text.starts_with('<') && text.ends_with('>') => {}
        Json::String(text) if depth > 0 && !text.is_empty() => match super::parse::parse(text) {
            Some(parsed) if parsed.json.is_object() => documents(&parsed.json, depth + 1, out),
            _ => out.push(text.clone()),
        },
        _ => {}
    }
}
