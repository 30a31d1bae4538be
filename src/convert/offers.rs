//! What models were told and offered beside the conversation: their instructions and their tools. Model calls repeat both;
//! each is kept once, with the agents that it was for.

use std::collections::{HashMap, HashSet};

use super::declared::{forget_last, instructions, request, schema, tools};
use super::indexed;
use super::talk::{Message, Role, Talk};
use super::text::{decode, is_masked, to_json};
use crate::domain::{Attributes, Instructions, Json, LogRecord, OfferedTool, Span, SpanId, Value};

/// Declarations that are kept.
const MOST_TOOLS: usize = 256;

/// Bytes of one schema; a larger one is left out.
const LARGEST_SCHEMA: usize = 16 << 10;

/// Characters of one description.
const LONGEST_DESCRIPTION: usize = 4_000;

/// Bytes of all declarations together; beyond, schemas are left out.
const LARGEST_TOOLS: usize = 256 << 10;

/// Texts of instructions that are kept, the latest.
const MOST_INSTRUCTIONS: usize = 16;

/// Characters of one text of instructions.
const LONGEST_INSTRUCTIONS: usize = 32_000;

/// Attributes that list the tools of a model or an agent, whole or by name.
const LISTS: [&str; 9] = [
    "gen_ai.tool.definitions",
    "gen_ai.request.tools",
    "gen_ai.agent.tools",
    "ai.prompt.tools",
    "mlflow.chat.tools",
    "haystack.agent.tools",
    "smolagents.tools_names",
    "sk.available_functions",
    "llm.request.tools",
];

/// Attributes that hold instructions and nothing else.
const TEXTS: [&str; 4] = [
    "gen_ai.system_instructions",
    "gen_ai.agent.instructions",
    "gen_ai.agent.system_instructions",
    "gen_ai.system_prompt",
];

/// Attributes that hold a request, or a part of one, with tools and instructions in it.
const REQUESTS: [&str; 7] = [
    "gcp.vertex.agent.llm_request",
    "llm.invocation_parameters",
    "model_request_parameters",
    "haystack.agent.step.llm.input",
    "ai.prompt",
    "request_data",
    "mlflow.spanInputs",
];

/// Words without which a request need not be unpacked.
const TELLTALE: [&str; 4] = ["tools", "system", "instructions", "functions"];

/// The event that tells a system prompt by itself.
const SYSTEM: &str = "gen_ai.system.message";

/// What was found in a trace.
#[derive(Debug, Default)]
pub(super) struct Offers {
    pub(super) tools: Vec<OfferedTool>,
    pub(super) instructions: Vec<Instructions>,
    /// What was cut, in words.
    pub(super) truncated: Vec<String>,
}

#[derive(Default)]
struct Gathering<'a> {
    offers: Offers,
    /// Tools that only their runs tell of.
    runs: Vec<OfferedTool>,
    places: HashMap<String, Vec<usize>>,
    texts: HashMap<String, usize>,
    /// Raw values that were read already, by attribute and agent: model calls repeat them.
    read: HashSet<(&'a str, &'a str, Option<&'a str>)>,
}

/// Reads all spans and records, in their order, then the system messages of the conversations.
pub(super) fn offers(
    spans: &[&Span],
    logs: &HashMap<Option<SpanId>, Vec<&LogRecord>>,
    agents: &[Option<String>],
    talk: &Talk,
) -> Offers {
    let mut gathering = Gathering::default();
    let mut known = HashSet::with_capacity(spans.len());
    for (span, agent) in spans.iter().zip(agents) {
        let agent = agent.as_deref();
        known.insert(Some(span.span_id));
        gathering.attributes(&span.attributes, agent);
        gathering.run(&span.attributes, agent);
        for event in &span.events {
            gathering.attributes(&event.attributes, agent);
            if event.name == SYSTEM {
                gathering.event(&event.attributes, &Value::Null, agent);
            }
        }
        for log in logs.get(&Some(span.span_id)).into_iter().flatten() {
            gathering.log(log, agent);
        }
    }
    let mut orphans: Vec<&Option<SpanId>> = logs.keys().filter(|id| !known.contains(*id)).collect();
    orphans.sort();
    for log in orphans.into_iter().flat_map(|id| &logs[id]) {
        gathering.log(log, None);
    }
    for call in &talk.calls {
        gathering.messages(&call.input, call.agent.as_deref());
    }
    for around in &talk.invocations {
        gathering.messages(&around.input, around.agent.as_deref());
    }
    gathering.finish()
}

impl<'a> Gathering<'a> {
    fn attributes(&mut self, attributes: &'a Attributes, agent: Option<&'a str>) {
        let has = |prefix: &str| attributes.iter().any(|(key, _)| key.starts_with(prefix));
        let indexed_tools = has("llm.tools.");
        // Whoever lists the tools apart has the instructions among the messages: the request need not be unpacked once more.
        let is_listed = indexed_tools || has("mlflow.chat.tools");
        for (key, value) in attributes.iter() {
            if is_listed && matches!(key, "input.value" | "mlflow.spanInputs") {
                continue;
            }
            if self.is_known(key, value, agent) {
                continue;
            }
            if LISTS.contains(&key) || is_raw_list(key) {
                let decoded = decode(value);
                let mut found = tools(&decoded.json);
                if decoded.cut {
                    forget_last(&mut found);
                    self.note_cut(key);
                }
                found.into_iter().for_each(|tool| self.offer(tool, agent));
            } else if TEXTS.contains(&key) {
                self.tell(instructions(&decoded_text(value)), agent);
            } else if REQUESTS.contains(&key) || key == "input.value" && is_model(attributes) {
                self.request(key, value, agent);
            } else if matches!(key, "events" | "all_messages_events") {
                self.listed_events(value, agent);
            }
        }
        if has("llm.request.functions.")
            && let Some(json) = indexed::gather(attributes, "llm.request.functions.")
        {
            tools(&json).into_iter().for_each(|tool| self.offer(tool, agent));
        }
        if indexed_tools && let Some(Json::Array(items)) = indexed::gather(attributes, "llm.tools.") {
            for item in &items {
                self.indexed(item, agent);
            }
        }
    }

    /// Whether this very value was read for this agent.
    fn is_known(&mut self, key: &'a str, value: &'a Value, agent: Option<&'a str>) -> bool {
        value.as_str().is_some_and(|text| {
            text.len() > 64 && offers_something(key) && !self.read.insert((key, text, agent))
        })
    }

    fn note_cut(&mut self, key: &str) {
        let note = format!("tools: {key} was cut by the sender");
        if !self.offers.truncated.contains(&note) {
            self.offers.truncated.push(note);
        }
    }

    /// OpenInference's `llm.tools.N.tool`: the whole declaration in `json_schema`, or the schema with the name beside it.
    fn indexed(&mut self, item: &Json, agent: Option<&str>) {
        let tool = item.get("tool").unwrap_or(item);
        let found = tool.get("json_schema").map(tools).filter(|found| !found.is_empty());
        for tool in found.unwrap_or_else(|| tools(tool)) {
            self.offer(tool, agent);
        }
    }

    fn request(&mut self, key: &str, value: &Value, agent: Option<&str>) {
        let is_idle = value.as_str().is_some_and(|text| !TELLTALE.iter().any(|word| text.contains(word)));
        if is_idle {
            return;
        }
        let decoded = decode(value);
        let (found, told) = request(&decoded.json);
        if decoded.cut && !found.is_empty() {
            self.note_cut(key);
        }
        for mut tool in found {
            // Where in a request the cut fell is not known.
            tool.parameters = tool.parameters.filter(|_| !decoded.cut);
            self.offer(tool, agent);
        }
        for text in told {
            self.tell(Some(text), agent);
        }
    }

    /// pydantic-ai's first version keeps its events in one list.
    fn listed_events(&mut self, value: &Value, agent: Option<&str>) {
        if value.as_str().is_some_and(|text| !text.contains(SYSTEM)) {
            return;
        }
        let Json::Array(items) = decode(value).json else { return };
        for item in items.iter().filter(|item| item.get("event.name").is_some_and(|name| name == SYSTEM)) {
            self.tell(instructions(item), agent);
        }
    }

    fn log(&mut self, log: &'a LogRecord, agent: Option<&'a str>) {
        let agent = log.attributes.text("gen_ai.agent.name").or(agent);
        self.attributes(&log.attributes, agent);
        if log.event_name == SYSTEM {
            self.event(&log.attributes, &log.body, agent);
        }
    }

    fn event(&mut self, attributes: &Attributes, body: &Value, agent: Option<&str>) {
        let content = ["gen_ai.event.content", "content"].iter().find_map(|key| attributes.get(key));
        let told = match (content, body) {
            (Some(content), Value::Null) => instructions(&decoded_text(content)),
            _ => instructions(&decoded_text(body)),
        };
        self.tell(told, agent);
    }

    fn messages(&mut self, messages: &[Message], agent: Option<&str>) {
        for message in messages.iter().filter(|message| message.role == Role::System) {
            let text = message.joined();
            let told = Some(text.trim()).filter(|text| !text.is_empty() && !is_masked(text));
            self.tell(told.map(str::to_owned), agent);
        }
    }

    /// What the span of a tool's run says of the tool.
    fn run(&mut self, attributes: &Attributes, agent: Option<&str>) {
        let text = |keys: &[&str]| keys.iter().find_map(|key| attributes.text(key)).map(str::to_owned);
        let description = text(&["gen_ai.tool.description", "tool.description", "haystack.tool.description"]);
        let declared =
            ["gen_ai.tool.json_schema", "tool.json_schema", "haystack.tool.parameters", "tool.parameters"];
        let parameters = declared.iter().find_map(|key| {
            let decoded = decode(attributes.get(key)?);
            schema(&decoded.json).filter(|_| !decoded.cut)
        });
        if description.is_none() && parameters.is_none() {
            return;
        }
        let Some(name) = text(&["gen_ai.tool.name", "tool.name", "haystack.tool.name"]) else { return };
        let agents = agent.map(str::to_owned).into_iter().collect();
        let tool = OfferedTool { name, description, parameters, agents, unlisted: true };
        if self.runs.len() < MOST_TOOLS && !self.runs.iter().any(|known| known.name == tool.name) {
            self.runs.push(tool);
        }
    }

    fn offer(&mut self, tool: OfferedTool, agent: Option<&str>) {
        let places = self.places.entry(tool.name.clone()).or_default();
        let known = &mut self.offers.tools;
        let same = |at: &usize| {
            let (a, b) = (&known[*at].parameters, &tool.parameters);
            a.is_none() || b.is_none() || a == b || essence(a.as_ref()) == essence(b.as_ref())
        };
        let at = places.iter().copied().find(|at| same(at)).or_else(|| {
            (known.len() < MOST_TOOLS).then(|| {
                known.push(OfferedTool { agents: Vec::new(), ..tool.clone() });
                places.push(known.len() - 1);
                known.len() - 1
            })
        });
        let Some(at) = at else {
            let note = format!("tools: beyond {MOST_TOOLS} declarations");
            if !self.offers.truncated.contains(&note) {
                self.offers.truncated.push(note);
            }
            return;
        };
        let kept = &mut self.offers.tools[at];
        kept.description = kept.description.take().or(tool.description);
        kept.parameters = kept.parameters.take().or(tool.parameters);
        add(&mut kept.agents, agent);
    }

    fn tell(&mut self, text: Option<String>, agent: Option<&str>) {
        let Some(text) = text else { return };
        let all = &mut self.offers.instructions;
        let at = *self.texts.entry(text).or_insert_with_key(|text| {
            all.push(Instructions { agents: Vec::new(), text: text.clone() });
            all.len() - 1
        });
        add(&mut all[at].agents, agent);
    }

    /// Adds what only runs tell, and cuts what is too large.
    fn finish(self) -> Offers {
        let Offers { tools: mut all, instructions: mut told, mut truncated } = self.offers;
        for run in self.runs {
            match self.places.get(&run.name).and_then(|places| places.first()) {
                Some(at) => {
                    let listed = &mut all[*at];
                    listed.description = listed.description.take().or(run.description);
                    listed.parameters = listed.parameters.take().or(run.parameters);
                }
                None => all.push(run),
            }
        }
        let (mut bytes, mut short, mut without) = (0, 0, Vec::new());
        for tool in &mut all {
            short +=
                usize::from(tool.description.as_mut().is_some_and(|text| clip(text, LONGEST_DESCRIPTION)));
            let size = tool.parameters.as_ref().map_or(0, |schema| schema.to_string().len());
            bytes += size + tool.description.as_ref().map_or(0, String::len);
            if size > LARGEST_SCHEMA || bytes > LARGEST_TOOLS && size > 0 {
                bytes -= size;
                tool.parameters = None;
                without.push(tool.name.as_str());
            }
        }
        if short > 0 {
            truncated
                .push(format!("tools: {short} descriptions, beyond {LONGEST_DESCRIPTION} characters each"));
        }
        if let Some(first) = without.first() {
            truncated
                .push(format!("tools: {} schemas, which are too large, the first of {first}", without.len()));
        }
        if told.len() > MOST_INSTRUCTIONS {
            truncated.push(format!("instructions: the last {MOST_INSTRUCTIONS} of {} texts", told.len()));
            told.drain(..told.len() - MOST_INSTRUCTIONS);
        }
        let long = told
            .iter_mut()
            .map(|told| usize::from(clip(&mut told.text, LONGEST_INSTRUCTIONS)))
            .sum::<usize>();
        if long > 0 {
            truncated
                .push(format!("instructions: {long} texts, beyond {LONGEST_INSTRUCTIONS} characters each"));
        }
        Offers { tools: all, instructions: told, truncated }
    }
}

/// LiteLLM's raw requests: `llm.openai.tools`, `llm.anthropic.tools`, ….
fn is_raw_list(key: &str) -> bool {
    let middle = key.strip_prefix("llm.").and_then(|rest| rest.strip_suffix(".tools"));
    middle.is_some_and(|provider| !provider.is_empty() && !provider.contains('.'))
}

fn offers_something(key: &str) -> bool {
    LISTS.contains(&key)
        || TEXTS.contains(&key)
        || REQUESTS.contains(&key)
        || is_raw_list(key)
        || matches!(key, "input.value" | "events" | "all_messages_events")
}

/// Only a model's request has tools in it; an agent's input may have anything.
fn is_model(attributes: &Attributes) -> bool {
    attributes.text("openinference.span.kind").is_some_and(|kind| kind.eq_ignore_ascii_case("llm"))
}

/// A value whose text stays a text: instructions may look like JSON.
fn decoded_text(value: &Value) -> Json {
    to_json(value, 0)
}

fn add(agents: &mut Vec<String>, agent: Option<&str>) {
    if let Some(agent) = agent
        && !agents.iter().any(|known| known == agent)
    {
        agents.push(agent.to_owned());
    }
}

/// Cuts a text to so many characters; whether there was something to cut.
fn clip(text: &mut String, most: usize) -> bool {
    let end = text.char_indices().nth(most).map(|(at, _)| at);
    if let Some(end) = end {
        text.truncate(end);
    }
    end.is_some()
}

/// What two declarations of one tool must have in common: libraries add titles and leave out descriptions.
fn essence(schema: Option<&Json>) -> Json {
    fn strip(json: &Json, names: bool, depth: usize) -> Json {
        match json {
            Json::Object(map) if depth < 32 => {
                let kept = map.iter().filter(|(key, _)| {
                    names
                        || !matches!(
                            key.as_str(),
                            "title"
                                | "description"
                                | "$schema"
                                | "additionalProperties"
                                | "default"
                                | "strict"
                        )
                });
                let mut entries: Vec<(String, Json)> = kept
                    .map(|(key, value)| (key.clone(), strip(value, key == "properties" && !names, depth + 1)))
                    .collect();
                entries.sort_by(|a, b| a.0.cmp(&b.0));
                Json::Object(entries.into_iter().collect())
            }
            Json::Array(items) => {
                Json::Array(items.iter().map(|item| strip(item, false, depth + 1)).collect())
            }
            Json::String(text) => Json::String(text.to_ascii_lowercase()),
            other => other.clone(),
        }
    }
    schema.map_or(Json::Null, |schema| strip(schema, false, 0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::convert::read;
    use crate::domain::{Closed, SpanKind, Story, Time, Trace, TraceId};

    fn trace_id() -> TraceId {
        "0000000000000000000000000000000a".parse().unwrap()
    }

    /// A model call of this agent that was told and offered so.
    fn call(number: u64, agent: &str, told: &str, offered: &str) -> Span {
        let said = |role: &str, text: &str| {
            json!([{"role": role, "parts": [{"type": "text", "content": text}]}]).to_string()
        };
        let attributes = [
            ("gen_ai.operation.name", "chat".to_owned()),
            ("gen_ai.agent.name", agent.to_owned()),
            ("gen_ai.input.messages", said("user", "Where is it?")),
            ("gen_ai.output.messages", said("assistant", &format!("There, says {number}."))),
            ("gen_ai.system_instructions", told.to_owned()),
            ("gen_ai.tool.definitions", offered.to_owned()),
        ];
        let attributes = attributes.map(|(key, text)| (key.to_owned(), Value::String(text)));
        Span {
            name: "chat".to_owned(),
            kind: SpanKind::Client,
            start: Time(1_000 + number),
            end: Time(1_001 + number),
            attributes: attributes.into_iter().collect(),
            ..Span::new(trace_id(), format!("{:016x}", number + 1).parse().unwrap())
        }
    }

    fn told(spans: Vec<Span>) -> Story {
        let trace = Trace {
            spans,
            closed: Closed::Root,
            first_arrival: Time(1),
            closed_at: Time(2),
            ..Trace::new(trace_id())
        };
        read(&trace).unwrap()
    }

    fn declared(name: &str, schema: Json) -> Json {
        json!({"name": name, "description": "Does it.", "parameters": schema})
    }

    #[test]
    fn what_calls_repeat_is_told_once_with_all_its_agents() {
        let tool = json!([declared("look", json!({"type": "object"}))]).to_string();
        let other = json!([declared("look", json!({"type": "object", "required": ["id"]}))]).to_string();
        let story = told(vec![
            call(0, "a", "Be kind.", &tool),
            call(1, "a", "Be kind.", &tool),
            call(2, "b", "Be kind.", &tool),
            call(3, "c", "Be brief.", &other),
        ]);
        let agents: Vec<&[String]> = story.instructions.iter().map(|told| told.agents.as_slice()).collect();
        assert_eq!(agents, [["a".to_owned(), "b".to_owned()].as_slice(), ["c".to_owned()].as_slice()]);
        let agents: Vec<&[String]> = story.tools.iter().map(|tool| tool.agents.as_slice()).collect();
        assert_eq!(agents, [["a".to_owned(), "b".to_owned()].as_slice(), ["c".to_owned()].as_slice()]);
        assert!(story.truncated.is_empty());
    }

    #[test]
    fn a_trace_can_declare_no_more_than_there_is_room_for_and_what_was_cut_is_said() {
        let large = declared("large", json!({"type": "object", "description": "x".repeat(LARGEST_SCHEMA)}));
        let many = (0..300).map(|number| declared(&format!("tool{number}"), json!({"type": "object"})));
        let offered = Json::Array(std::iter::once(large).chain(many).collect()).to_string();
        let calls = (0..20)
            .map(|number| call(number, "a", &format!("Rule {number}. {}", "y".repeat(40_000)), &offered));
        let story = told(calls.collect());
        assert_eq!((story.tools.len(), story.instructions.len()), (MOST_TOOLS, MOST_INSTRUCTIONS));
        assert!(story.tools[0].parameters.is_none() && story.tools[1].parameters.is_some());
        assert!(story.instructions[0].text.starts_with("Rule 4."));
        assert!(story.instructions.iter().all(|told| told.text.chars().count() == LONGEST_INSTRUCTIONS));
        for note in [
            "1 schemas, which are too large, the first of large",
            "beyond 256 declarations",
            "the last 16 of 20 texts",
            "16 texts, beyond 32000 characters each",
        ] {
            assert!(story.truncated.iter().any(|cut| cut.contains(note)), "{note}: {:?}", story.truncated);
        }
    }

    #[test]
    fn masks_and_what_the_sender_cut_off_are_no_declarations() {
        let story =
            told(vec![call(0, "a", "[REDACTED]", "[{\"name\": \"look\", \"parameters\": {\"type\": \"obj")]);
        assert!(story.instructions.is_empty());
        assert!(story.tools.iter().all(|tool| tool.parameters.is_none()), "{:?}", story.tools);
        assert!(
            story.truncated.iter().any(|cut| cut.contains("gen_ai.tool.definitions was cut")),
            "{:?}",
            story.truncated
        );
    }
}
