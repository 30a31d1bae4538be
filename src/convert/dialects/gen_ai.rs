//! OpenTelemetry's GenAI conventions on span attributes, latest and older: `gen_ai.input.messages`, the indexed
//! `gen_ai.prompt.N` of OpenLLMetry, `gen_ai.prompt` as one JSON value, and `gen_ai.tool.*`.

use crate::convert::draft::{Draft, Kind};
use crate::convert::indexed;
use crate::convert::message::messages;
use crate::convert::talk::{Message, Part, Role};
use crate::convert::text::is_masked;
use crate::domain::Span;

pub(super) fn kinds(draft: &mut Draft) {
    let operation = draft.text(&["gen_ai.operation.name"]);
    draft.kind(operation.and_then(Kind::of).filter(|kind| {
        // LangSmith says "embeddings" of retrievers and "chain" of anything; its own word, read later, says more.
        !(draft.text(&["langsmith.span.kind"]).is_some() && matches!(kind, Kind::Ignored | Kind::Chain))
    }));
    draft.model = draft.text(&["gen_ai.response.model", "gen_ai.request.model"]).map(str::to_owned);
    draft.agent = draft.text(&["gen_ai.agent.name"]).filter(|name| !is_nobody(name)).map(str::to_owned);
    draft.session = draft.text(&["gen_ai.conversation.id"]).map(str::to_owned);
    draft.dialect("gen_ai");
}

/// What libraries put where an agent has no name, or where they do not know it.
fn is_nobody(name: &str) -> bool {
    ["agent", "openai agent", "unknown", "unnamed", "default"]
        .iter()
        .any(|word| name.eq_ignore_ascii_case(word))
}

pub(super) fn read(draft: &mut Draft) {
    draft.input_from(&["gen_ai.input.messages", "gen_ai.request.messages", "gen_ai.input.message"]);
    draft.output_from(&["gen_ai.output.messages", "gen_ai.response.messages", "gen_ai.output.message"]);
    join_chunks(&mut draft.output);
    read_indexed(draft);
    read_tool(draft);
    draft.pass = (
        draft.text(&["gen_ai.handoff.from_agent"]).map(str::to_owned),
        draft.text(&["gen_ai.handoff.to_agent"]).map(str::to_owned),
    );
    if draft.kind == Some(Kind::Retrieval) || draft.kind.is_none() {
        if let Some((key, value)) = draft.value(&["gen_ai.retrieval.documents"]) {
            let decoded = draft.decode(key, value);
            crate::convert::draft::documents(&decoded.json, 0, &mut draft.documents);
            draft.kind(Some(Kind::Retrieval));
        }
        draft.query =
            draft.text(&["gen_ai.retrieval.query.text", "gen_ai.retrieval.query"]).map(str::to_owned);
    }
    if draft.text(&["langsmith.span.kind"]).is_none() && matches!(draft.kind, Some(Kind::Model) | None) {
        // One JSON value or a list of texts, as OpenLIT, Spring AI and older libraries write it.
        let speaks = draft.value(&["gen_ai.completion", "gen_ai.prompt"]).is_some();
        if speaks {
            draft.kind(Some(Kind::Model));
            draft.boxed(&["gen_ai.prompt"], &["gen_ai.completion"], &[]);
        }
    }
    add_reasoning(draft.span, &mut draft.output);
    // A span that names a model and a conversation, whatever it calls its operation.
    let is_call = draft.model.is_some() && !draft.output.is_empty();
    draft.kind(is_call.then_some(Kind::Model));
}

/// Some keep a model's reasoning apart from its messages: `gen_ai.content.reasoning`, `gen_ai.output.reasoning`.
pub(in crate::convert) fn add_reasoning(span: &Span, output: &mut [Message]) {
    let reasons = |message: &Message| message.parts.iter().any(|part| matches!(part, Part::Thought(_)));
    if output.is_empty() || output.iter().any(reasons) {
        return;
    }
    let tells = |key: &str| {
        key.starts_with("gen_ai.")
            && !key.starts_with("gen_ai.request.")
            && !key.starts_with("gen_ai.usage.")
            && [".reasoning", ".reasoning_content", ".thinking"].iter().any(|end| key.ends_with(end))
    };
    let mut found = span.attributes.iter().filter(|(key, _)| tells(key));
    let Some(text) = found.find_map(|(_, value)| value.as_str()) else { return };
    let said = output.iter().any(|message| message.joined() == text);
    if !said && !text.trim().is_empty() && !is_masked(text) {
        output[0].parts.insert(0, Part::Thought(text.to_owned()));
    }
}

/// OpenLLMetry's `gen_ai.prompt.N.*` and `gen_ai.completion.N.*`; LiteLLM puts only its calls there.
fn read_indexed(draft: &mut Draft) {
    let attributes = &draft.span.attributes;
    let mut has_prompt = false;
    let mut has_completion = false;
    for (key, _) in attributes.iter() {
        has_prompt |= key.starts_with("gen_ai.prompt.");
        has_completion |= key.starts_with("gen_ai.completion.");
    }
    if !has_prompt && !has_completion {
        return;
    }
    draft.dialect("openllmetry");
    if has_prompt
        && draft.input.is_empty()
        && let Some(json) = indexed::gather(attributes, "gen_ai.prompt.")
    {
        draft.input = messages(&json, Role::User);
    }
    if has_completion && let Some(json) = indexed::gather(attributes, "gen_ai.completion.") {
        let mut told = messages(&with_roles(json), Role::Assistant);
        if draft.output.is_empty() {
            draft.output = told;
        } else if !calls(&draft.output) && calls(&told) {
            told.iter_mut().for_each(|message| message.parts.retain(|part| matches!(part, Part::Call(_))));
            let added: Vec<Part> = told.into_iter().flat_map(|message| message.parts).collect();
            if let Some(last) = draft.output.last_mut() {
                last.parts.extend(added);
            }
        }
    }
    draft.kind((has_prompt || has_completion).then_some(Kind::Model));
}

/// Completions may come without their role.
pub(super) fn with_roles(json: crate::domain::Json) -> crate::domain::Json {
    use crate::domain::Json;
    let Json::Array(items) = json else { return json };
    Json::Array(
        items
            .into_iter()
            .map(|item| match item {
                Json::Object(mut map) => {
                    map.entry("role").or_insert_with(|| Json::String("assistant".to_owned()));
                    Json::Object(map)
                }
                other => other,
            })
            .collect(),
    )
}

fn calls(messages: &[Message]) -> bool {
    messages.iter().any(|message| message.parts.iter().any(|part| matches!(part, Part::Call(_))))
}

fn read_tool(draft: &mut Draft) {
    let name = draft.text(&["gen_ai.tool.name"]);
    if draft.kind != Some(Kind::Tool) && (draft.kind.is_some() || name.is_none()) {
        return;
    }
    draft.tool = name.map(str::to_owned).or_else(|| {
        let told = draft
            .span
            .name
            .strip_prefix("execute_tool ")
            .or_else(|| draft.span.name.strip_prefix("tools/call "));
        told.map(str::to_owned)
    });
    draft.tool_id =
        draft.text(&["gen_ai.tool.call.id", "gen_ai.tool.call_id", "gen_ai.tool_call.id"]).map(str::to_owned);
    draft.arguments_from(&[
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.arguments",
        "gen_ai.tool.input",
        "gen_ai.tool.args",
        "gen_ai.tool.parameters",
        "gen_ai.tool.call.input",
        "tool_arguments",
    ]);
    draft.result_from(&[
        "gen_ai.tool.call.result",
        "gen_ai.tool.result",
        "gen_ai.tool.output",
        "gen_ai.tool.response",
        "gen_ai.tool.message",
        "gen_ai.tool.call.output",
        "tool_response",
    ]);
    if draft.text(&["gen_ai.tool.status"]).is_some_and(|status| status == "error") {
        draft.failed = Some(true);
    }
    let works = draft.arguments.is_some() || draft.shown.is_some();
    draft.kind(works.then_some(Kind::Tool));
}

/// A streamed answer that was exported chunk by chunk: many messages of one text part each.
pub(super) fn join_chunks(output: &mut Vec<Message>) {
    let is_chunk = |message: &Message| {
        message.role == Role::Assistant
            && matches!(message.parts.as_slice(), [] | [Part::Text(_) | Part::Thought(_)])
    };
    if output.len() < 3 || output.iter().filter(|message| is_chunk(message)).count() + 1 < output.len() {
        return;
    }
    let mut joined: Vec<Part> = Vec::new();
    for part in std::mem::take(output).into_iter().flat_map(|message| message.parts) {
        match (joined.last_mut(), part) {
            // The whole text, sent once more after its chunks.
            (Some(Part::Text(all)), Part::Text(next)) if *all == next && next.len() > 40 => {}
            (Some(Part::Text(all)), Part::Text(next)) => all.push_str(&next),
            (Some(Part::Thought(all)), Part::Thought(next)) => all.push_str(&next),
            (_, part) => joined.push(part),
        }
    }
    *output = vec![Message::new(Role::Assistant, joined)];
}
