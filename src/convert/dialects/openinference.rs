//! OpenInference: `openinference.span.kind`, indexed `llm.*_messages`, `input.value` and `output.value`; and the raw
//! requests that LiteLLM keeps under `llm.<provider>.*`.

use crate::convert::draft::{Draft, Kind};
use crate::convert::indexed;
use crate::convert::message::{messages, messages_of};
use crate::convert::talk::{Call, Message, Part, Role};
use crate::convert::text::{decode_str, pick_str, plain};
use crate::domain::{Json, Value};

pub(super) fn kinds(draft: &mut Draft) {
    let Some(word) = draft.text(&["openinference.span.kind"]) else { return };
    let kind = if word.eq_ignore_ascii_case("tool")
        && draft.span.name.starts_with("handoff")
        && !names_tool(draft)
    {
        Some(Kind::Pass)
    } else {
        Kind::of(word)
    };
    // This word is about the span itself; an operation name may be inherited from an inner instrumentation.
    draft.kind = kind.or(draft.kind);
    if draft.model.is_none() {
        draft.model = draft.text(&["llm.model_name", "llm.response.model_name"]).map(str::to_owned);
    }
    let is_agent = draft.kind == Some(Kind::Agent);
    if draft.agent.is_none() {
        draft.agent = draft
            .text(&["agent.name"])
            .or_else(|| if is_agent { draft.text(&["graph.node.id"]) } else { None })
            .map(str::to_owned);
    }
    if is_agent && draft.agent.is_none() {
        draft.agent = agent_of_name(&draft.span.name);
    }
    if draft.session.is_none() {
        draft.session = draft.text(&["session.id"]).map(str::to_owned);
    }
    // LangChain's instrumentation copies the run's metadata.
    let metadata =
        draft.text(&["metadata"]).filter(|text| text.contains("\"lc_agent_name\"") || text.contains("_id\""));
    if let Some(Json::Object(map)) = metadata.map(|text| decode_str(text).json) {
        if draft.agent.is_none() {
            draft.agent = pick_str(&map, &["lc_agent_name"]).map(str::to_owned);
        }
        if draft.session.is_none() {
            draft.session =
                pick_str(&map, &["session_id", "thread_id", "conversation_id"]).map(str::to_owned);
        }
    }
}

fn names_tool(draft: &Draft) -> bool {
    draft.text(&["tool.name"]).is_some()
}

/// `agent_run [triage]`, `triage._execute_core`, `triage.run`
fn agent_of_name(name: &str) -> Option<String> {
    if let Some((_, rest)) = name.split_once('[') {
        return rest.strip_suffix(']').map(str::to_owned);
    }
    let stem = name.strip_suffix("._execute_core").or_else(|| name.strip_suffix(".run"))?;
    (!stem.is_empty()).then(|| stem.to_owned())
}

pub(super) fn read(draft: &mut Draft) {
    if draft.text(&["openinference.span.kind"]).is_some() {
        draft.dialect("openinference");
    }
    let attributes = &draft.span.attributes;
    let has = |prefix: &str| attributes.iter().any(|(key, _)| key.starts_with(prefix));
    if draft.input.is_empty() && has("llm.input_messages.") {
        draft.input = indexed_messages(draft, "llm.input_messages.", Role::User);
    }
    if draft.output.is_empty() && has("llm.output_messages.") {
        draft.output = indexed_messages(draft, "llm.output_messages.", Role::Assistant);
    }
    match draft.kind {
        Some(Kind::Model) => read_model(draft),
        Some(Kind::Tool) => read_tool(draft),
        Some(Kind::Retrieval) => read_documents(draft),
        Some(Kind::Pass) => {
            draft.pass.0 = draft.text(&["input.value"]).map(str::to_owned).or(draft.pass.0.take());
            let target = draft.span.name.strip_prefix("handoff to ");
            draft.pass.1 =
                draft.text(&["output.value"]).or(target).map(str::to_owned).or(draft.pass.1.take());
        }
        Some(Kind::Agent | Kind::Chain) => {
            // The indexed messages of an agent or chain are often only the first; the whole is in the value.
            let told = std::mem::take(&mut draft.input);
            draft.boxed(&["input.value"], &["output.value"], &[]);
            if draft.input.is_empty() {
                draft.input = told;
            }
            if draft.input.is_empty() {
                draft.input = crew_task(draft);
            }
        }
        Some(Kind::Ignored) => {}
        None => {
            if draft.output.is_empty() {
                read_plain(draft);
            }
            if !draft.output.is_empty() {
                draft.kind = Some(Kind::Model);
            } else if attributes.get("input.value").is_some() || attributes.get("output.value").is_some() {
                draft.kind = Some(Kind::Chain);
                draft.boxed(&["input.value"], &["output.value"], &[]);
            }
        }
    }
}

/// CrewAI names what was asked only in its tasks, those of the crew or the one that an agent reports on.
fn crew_task(draft: &Draft) -> Vec<Message> {
    let report = draft.text(&["output.value"]).filter(|text| text.contains("\"expected_output\""));
    let Some(text) = draft.text(&["crew_tasks"]).or(report) else { return Vec::new() };
    let json = decode_str(text).json;
    let task = match &json {
        Json::Array(tasks) => tasks.first(),
        other => Some(other),
    };
    let description = task.and_then(|task| task.get("description")).and_then(Json::as_str);
    description.map(|text| vec![Message::text(Role::User, text)]).unwrap_or_default()
}

fn indexed_messages(draft: &Draft, prefix: &str, role: Role) -> Vec<Message> {
    let Some(json) = indexed::gather(&draft.span.attributes, prefix) else { return Vec::new() };
    let Json::Array(items) = json else { return Vec::new() };
    items.iter().flat_map(|item| indexed_message(item, role)).collect()
}

fn indexed_message(item: &Json, role: Role) -> Vec<Message> {
    let inner = item.get("message").unwrap_or(item);
    let mut told = messages(inner, role);
    let Some(map) = inner.as_object() else { return told };
    if told.is_empty() {
        // A message without a role, or one that has nothing but a role.
        let mut with_role = map.clone();
        let word = if role == Role::Assistant { "assistant" } else { "user" };
        with_role.insert("role".to_owned(), Json::String(word.to_owned()));
        told = messages(&Json::Object(with_role), role);
    }
    autogen_extras(item, &mut told);
    if let (Some(last), Some(Json::String(name))) = (told.last_mut(), map.get("function_call_name")) {
        let raw = map.get("function_call_arguments_json").map(plain).unwrap_or_default();
        let arguments = crate::convert::wrapping::arguments(decode_str(&raw));
        last.parts.push(Part::Call(Call { id: None, also: Vec::new(), name: name.clone(), arguments }));
    }
    told
}

/// AutoGen's instrumentation keeps thoughts and results beside the message: `N.thought`, `N.function.M`.
fn autogen_extras(item: &Json, told: &mut Vec<Message>) {
    if let Some(Json::String(thought)) = item.get("thought")
        && let Some(first) = told.first_mut()
    {
        first.parts.insert(0, Part::Text(thought.clone()));
    }
    if let Some(Json::Array(results)) = item.get("function") {
        told.retain(|message| !message.parts.is_empty());
        for result in results {
            let decoded = decode_str(&plain(result)).json;
            let Json::Object(mut map) = decoded else { continue };
            map.insert("role".to_owned(), Json::String("tool".to_owned()));
            told.extend(messages(&Json::Object(map), Role::Tool));
        }
    }
}

fn read_model(draft: &mut Draft) {
    add_thought(draft);
    add_reasoning(draft);
    if draft.input.is_empty() && draft.output.is_empty() {
        read_plain(draft);
    }
    if draft.input_has_gaps()
        && let Some((key, value)) = draft.value(&["input.value"])
    {
        let decoded = draft.decode(key, value);
        let whole = messages_of(&decoded, Role::User);
        if whole.len() >= draft.input.len() {
            draft.input = whole;
        }
    }
    // Prose beside a model's messages is only another print of them.
    let is_structured = |value: &Value| !matches!(value, Value::String(t) if !t.starts_with(['{', '[']));
    if draft.input.is_empty() && draft.output.is_empty() {
        let printed = draft.value(&["input.value"]).is_some_and(|(_, value)| is_structured(value));
        if printed {
            draft.input_from(&["input.value"]);
            draft.output_from(&["output.value"]);
        } else {
            draft.boxed(&["input.value"], &["output.value"], &[]);
        }
    } else if draft.output.is_empty() {
        draft.output_from(&["output.value"]);
    } else if draft.input.is_empty() {
        draft.input_from(&["input.value"]);
    }
}

/// Models that take plain text, and the first generation of OpenLLMetry, which kept messages under the same prefix.
fn read_plain(draft: &mut Draft) {
    let gathered = |prefix: &str| indexed::gather(&draft.span.attributes, prefix);
    let (prompts, choices) = (gathered("llm.prompts."), gathered("llm.choices."));
    let completions = gathered("llm.completions.");
    if let Some(json) = prompts {
        draft.input = messages(&json, Role::User);
        if draft.input.is_empty() {
            draft.input = texts(&json, Role::User);
        }
    }
    if let Some(json) = completions.map(super::gen_ai::with_roles).or(choices) {
        draft.output = messages(&json, Role::Assistant);
        if draft.output.is_empty() {
            draft.output = texts(&json, Role::Assistant);
        }
    }
}

/// AutoGen's instrumentation leaves the text beside a call to `output.value`.
fn add_thought(draft: &mut Draft) {
    let [message] = draft.output.as_mut_slice() else { return };
    if message.parts.is_empty()
        || message.parts.iter().any(|part| matches!(part, Part::Text(_) | Part::Thought(_)))
    {
        return;
    }
    let Some(Value::String(text)) = draft.span.attributes.get("output.value") else { return };
    if text.contains("\"thought\"")
        && let Json::Object(map) = decode_str(text).json
        && let Some(Json::String(thought)) = map.get("thought")
    {
        message.parts.insert(0, Part::Text(thought.clone()));
    }
}

/// The OpenAI instrumentation leaves `reasoning_content` to the raw response in `output.value`.
fn add_reasoning(draft: &mut Draft) {
    let reasons = |message: &Message| message.parts.iter().any(|part| matches!(part, Part::Thought(_)));
    let Some(Value::String(text)) = draft.span.attributes.get("output.value") else { return };
    if draft.output.is_empty() || draft.output.iter().any(reasons) {
        return;
    }
    if !["\"reasoning_content\":", "\"reasoning\":", "\"thinking\""].iter().any(|key| text.contains(key)) {
        return;
    }
    let told = messages(&decode_str(text).json, Role::Assistant);
    let thoughts: Vec<Part> = told
        .into_iter()
        .flat_map(|message| message.parts)
        .filter(|part| matches!(part, Part::Thought(_)))
        .collect();
    draft.output[0].parts.splice(0..0, thoughts);
}

/// Prompts and completions of models that take plain text.
fn texts(json: &Json, role: Role) -> Vec<Message> {
    let items = json.as_array().cloned().unwrap_or_default();
    items
        .iter()
        .filter_map(|item| {
            let text = ["prompt", "completion"]
                .iter()
                .find_map(|key| item.get(*key)?.get("text")?.as_str())
                .or(item.as_str());
            text.map(|text| Message::text(role, text))
        })
        .collect()
}

fn read_tool(draft: &mut Draft) {
    if draft.tool.is_none() {
        draft.tool = draft
            .text(&["tool.name", "tool_call.function.name"])
            .or_else(|| {
                let name = draft.span.name.as_str();
                [".__call__", ".run", ".acall", ".call"]
                    .iter()
                    .find_map(|end| name.strip_suffix(end))
                    .or(Some(name))
            })
            .map(str::to_owned);
    }
    if draft.tool_id.is_none() {
        draft.tool_id = draft.text(&["tool_call.id", "tool.id", "tool.call_id"]).map(str::to_owned);
    }
    draft.arguments_from(&["input.value", "tool_call.function.arguments"]);
    if draft.arguments.as_ref().is_none_or(|arguments| !arguments.is_object())
        && let Some((_, Value::String(text))) = draft.value(&["tool.parameters"])
    {
        let decoded = decode_str(text);
        if decoded.json.is_object() && !is_schema(&decoded.json) {
            draft.arguments = crate::convert::wrapping::arguments(decoded);
        }
    }
    draft.result_from(&["output.value"]);
}

/// Whether `tool.parameters` describes the parameters instead of giving them.
fn is_schema(json: &Json) -> bool {
    let Some(map) = json.as_object() else { return false };
    let describes = map.contains_key("properties")
        || map.contains_key("$schema")
        || map.contains_key("additionalProperties");
    describes
        || (!map.is_empty()
            && map.values().all(|value| value.get("type").is_some() || value.get("description").is_some()))
}

fn read_documents(draft: &mut Draft) {
    for prefix in ["retrieval.documents.", "reranker.output_documents."] {
        if draft.documents.is_empty()
            && let Some(Json::Array(items)) = indexed::gather(&draft.span.attributes, prefix)
        {
            let text = |item: &Json| item.get("document").unwrap_or(item).get("content").map(plain);
            draft.documents.extend(items.iter().filter_map(text).filter(|text| !text.is_empty()));
        }
    }
    draft.boxed(&["input.value", "reranker.query"], &["output.value"], &[]);
}

/// LiteLLM's raw request: `llm.openai.messages`, `llm.openai.choices`, as Python prints them.
pub(super) fn read_raw(draft: &mut Draft) {
    let raw = |ends: &[&str]| {
        let mut found = draft.span.attributes.iter().filter(|(key, _)| key.starts_with("llm."));
        found.find(|(key, _)| ends.iter().any(|end| key.ends_with(end) && key.matches('.').count() == 2))
    };
    let input = raw(&[".messages", ".contents"]);
    let output = raw(&[".choices", ".candidates", ".output"]).or_else(|| raw(&[".content"]));
    if draft.input.is_empty()
        && let Some((key, value)) = input
    {
        let decoded = draft.decode(key, value);
        draft.input = messages_of(&decoded, Role::User);
    }
    if draft.output.is_empty()
        && let Some((key, value)) = output
    {
        let decoded = draft.decode(key, value);
        let first = match &decoded.json {
            Json::Array(items) if !key.ends_with(".output") => items.first().cloned().unwrap_or_default(),
            other => other.clone(),
        };
        draft.output = messages(&first, Role::Assistant);
    }
    if !draft.input.is_empty() {
        draft.dialect("litellm");
        draft.kind(Some(Kind::Model));
        // The span's own name for its operation ("raw_gen_ai_request") is none that is known.
    }
}
