//! Spans under names that no convention here has: read by the shape of their values (message lists, requests and replies of
//! model APIs) and by the words in their keys (`acme.tool.arguments`, `acme_output`, `acme.span.kind`).

use std::collections::BTreeSet;

use super::keys::{Candidate, INS, OTHERS, OUTS, words};
use crate::convert::draft::{Draft, Kind, documents};
use crate::convert::gist;
use crate::convert::indexed;
use crate::convert::message::messages;
use crate::convert::talk::{Message, Part, Role};
use crate::convert::text::{decode, is_masked};
use crate::domain::{Attributes, Json, Span, Value};

/// The name under which a story says that spans were read so.
pub(in crate::convert) const SHAPE: &str = "shape";

/// Reads what a span's unknown attributes tell; the draft may know its kind or model already. `None` if they tell nothing.
pub(super) fn read<'a>(mut draft: Draft<'a>) -> Option<Draft<'a>> {
    let span = draft.span;
    let known = draft.kind.is_some();
    if !known && is_traffic(span) {
        return None;
    }
    let candidates: Vec<Candidate<'a>> = candidates(span);
    if !candidates.is_empty() {
        draft.kind(kind_word(&candidates));
        let kind_said = draft.kind.is_some();
        draft.kind(kind_by_name(&candidates, &span.name));
        match draft.kind {
            Some(Kind::Tool) => tool(&mut draft, &candidates),
            Some(Kind::Model) | None => model(&mut draft, &candidates),
            Some(_) => boxed(&mut draft, &candidates),
        }
        if draft.kind.is_none() && !draft.output.is_empty() {
            draft.kind = Some(Kind::Model);
        }
        // A guess that found nothing is none.
        if !kind_said && !draft.has_content() {
            draft.kind = None;
        }
    }
    if draft.has_content() {
        draft.dialect(SHAPE);
        return Some(draft);
    }
    (known || draft.kind.is_some()).then_some(draft)
}

/// Whether the span is a request on a network or of a database, whatever its owner added to it.
fn is_traffic(span: &Span) -> bool {
    span.attributes.iter().any(|(key, _)| {
        key.starts_with("http.")
            || matches!(key, "db.system" | "db.system.name" | "rpc.system" | "messaging.system" | "url.full")
    })
}

fn candidates(span: &Span) -> Vec<Candidate<'_>> {
    let mut all: Vec<Candidate<'_>> = pairs(&span.attributes, "").collect();
    // Some put what went in and came out on events, each under one payload.
    for event in &span.events {
        let name = words(&event.name);
        let says = name.iter().any(|word| INS.contains(&word.as_str()) || OUTS.contains(&word.as_str()));
        if says {
            all.extend(pairs(&event.attributes, &event.name));
        }
    }
    all
}

fn pairs<'a>(attributes: &'a Attributes, before: &str) -> impl Iterator<Item = Candidate<'a>> {
    let first: Vec<String> = words(before);
    attributes.iter().filter_map(move |(key, value)| {
        let empty = match value {
            Value::String(text) => text.is_empty() || is_masked(text),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Double(_) | Value::Bytes(_) => true,
            Value::List(_) | Value::Map(_) => false,
        };
        let family = key.split(['.', ':', '/']).next().unwrap_or(key);
        if empty || OTHERS.contains(&family) {
            return None;
        }
        let mut all = first.clone();
        all.extend(words(key));
        Some(Candidate { key, words: all, value })
    })
}

/// The kind by an attribute that is there to say it: `acme.span.kind`, `run_type`, `honeyhive_event_type`.
fn kind_word(candidates: &[Candidate<'_>]) -> Option<Kind> {
    let says = |candidate: &&Candidate<'_>| {
        matches!(candidate.words.last().map(String::as_str), Some("kind" | "type"))
            && !candidate.has(&["tool", "mime", "content", "output", "input", "response", "request", "error"])
    };
    candidates.iter().filter(says).find_map(|candidate| strong_kind(candidate.value.as_str()?))
}

/// The kind that a word or a phrase of two names without doubt.
fn strong_kind(text: &str) -> Option<Kind> {
    if text.len() > 40 {
        return None;
    }
    let said = words(text);
    let has = |list: &[&str]| said.iter().any(|word| list.contains(&word.as_str()));
    if said.is_empty() || said.len() > 3 {
        None
    } else if has(&["tool", "tools"]) {
        Some(Kind::Tool)
    } else if has(&["llm", "chat", "completion", "completions", "generation", "generate", "inference"]) {
        Some(Kind::Model)
    } else if has(&["retriever", "retrieval", "retrieve", "rerank", "reranker"]) {
        Some(Kind::Retrieval)
    } else if has(&["agent"]) {
        Some(Kind::Agent)
    } else if has(&["embedding", "embeddings", "guardrail", "evaluator", "evaluation"]) {
        Some(Kind::Ignored)
    } else if has(&["chain", "workflow", "flow"]) {
        Some(Kind::Chain)
    } else if said.len() == 1 && has(&["model"]) {
        Some(Kind::Model)
    } else {
        None
    }
}

/// The kind by what the keys are about, or else by the span's own name, where there is content to be of that kind.
fn kind_by_name(candidates: &[Candidate<'_>], name: &str) -> Option<Kind> {
    let works = candidates.iter().any(|candidate| {
        candidate.has(&["tool", "function"])
            && (candidate.ends(&["arguments"]) || candidate.ends(&["args"]) || candidate.ends(&["result"]))
    });
    let named = candidates.iter().any(is_tool_name);
    if works && named {
        return Some(Kind::Tool);
    }
    let tells = candidates.iter().any(|candidate| candidate.side().is_some());
    strong_kind(name)
        .filter(|kind| tells && matches!(kind, Kind::Tool | Kind::Model | Kind::Agent | Kind::Retrieval))
}

fn is_tool_name(candidate: &Candidate<'_>) -> bool {
    [["tool", "name"], ["function", "name"], ["call", "name"]].iter().any(|tail| candidate.ends(tail))
        && candidate.value.as_str().is_some()
}

/// The value of one side, the one whose key is nearest to the plain word first.
fn side<'a, 'c>(candidates: &'c [Candidate<'a>], role: Role) -> Option<&'c Candidate<'a>> {
    candidates
        .iter()
        .filter(|candidate| candidate.side() == Some(role))
        .min_by_key(|candidate| (candidate.has(&["raw", "original"]), candidate.words.len(), candidate.key))
}

fn tool(draft: &mut Draft<'_>, candidates: &[Candidate<'_>]) {
    if draft.tool.is_none() {
        let told = candidates.iter().find(|candidate| is_tool_name(candidate));
        draft.tool = told
            .and_then(|candidate| candidate.value.as_str())
            .or_else(|| name_in(&draft.span.name))
            .map(str::to_owned);
    }
    if draft.tool_id.is_none() {
        let is_id =
            |candidate: &&Candidate<'_>| candidate.ends(&["call", "id"]) || candidate.ends(&["tool", "id"]);
        let told = candidates.iter().find(is_id);
        draft.tool_id = told.and_then(|candidate| candidate.value.as_str()).map(str::to_owned);
    }
    if let Some(candidate) = side(candidates, Role::User) {
        draft.arguments_from(&[candidate.key]);
        if draft.arguments.is_none() {
            draft.arguments = crate::convert::wrapping::arguments(decode(candidate.value));
        }
    }
    if draft.arguments.is_none() {
        draft.arguments = spread_arguments(draft.span);
    }
    if let Some(candidate) = side(candidates, Role::Assistant)
        && draft.shown.is_none()
    {
        draft.shown = Some(crate::convert::wrapping::result(candidate.value));
    }
}

/// Arguments that have a key each: `acme_inputs.city`.
fn spread_arguments(span: &Span) -> Option<Json> {
    let mut stems = span.attributes.iter().filter_map(|(key, _)| key.rsplit_once('.').map(|(stem, _)| stem));
    let goes_in = |stem: &&str| {
        let last = words(stem).pop();
        matches!(last.as_deref(), Some("input" | "inputs" | "arguments" | "args" | "kwargs"))
    };
    let stem = stems.find(goes_in)?;
    indexed::gather(&span.attributes, &format!("{stem}."))
}

/// The tool that a span's name holds: `execute_tool look`, `tool:look`, `look`.
fn name_in(name: &str) -> Option<&str> {
    let rest = ["execute_tool", "call_tool", "tool_call", "tool"]
        .iter()
        .find_map(|before| name.strip_prefix(before))
        .map(|rest| rest.trim_start_matches([' ', '.', ':', '/', '-', '_']));
    rest.filter(|rest| !rest.is_empty()).or(Some(name).filter(|name| !name.is_empty()))
}

fn model(draft: &mut Draft<'_>, candidates: &[Candidate<'_>]) {
    let certain = draft.kind == Some(Kind::Model);
    let (mut input, mut output) = spread(draft.span);
    let mut sides: Vec<&Candidate<'_>> =
        candidates.iter().filter(|candidate| !candidate.has(&["tools", "schema", "definitions"])).collect();
    sides.sort_by_key(|candidate| (candidate.words.len(), candidate.key));
    for candidate in &sides {
        let comes_out = candidate.side() == Some(Role::Assistant);
        let Some(told) = conversation(candidate.value, comes_out) else { continue };
        let place = if comes_out { &mut output } else { &mut input };
        // The longest telling is the one that leaves nothing out.
        let weight = |messages: &[Message]| messages.iter().map(|message| message.parts.len()).sum::<usize>();
        if weight(&told) > weight(place) {
            *place = told;
        }
    }
    if certain {
        for (place, role) in [(&mut input, Role::User), (&mut output, Role::Assistant)] {
            if place.is_empty()
                && let Some(text) = side(candidates, role).and_then(|candidate| candidate.value.as_str())
                && decode(&Value::from(text)).json.is_string()
            {
                place.push(Message::text(role, text));
            }
        }
        add_calls(&mut output, candidates);
    }
    if !certain && output.is_empty() {
        // A list of messages alone, such as a memory's or a cache's, is no call of a model.
        return;
    }
    draft.input = input;
    draft.output = output;
}

/// Calls that stand apart from a reply's text: `lk.response.function_calls`.
fn add_calls(output: &mut Vec<Message>, candidates: &[Candidate<'_>]) {
    let acts = |message: &Message| message.parts.iter().any(|part| matches!(part, Part::Call(_)));
    if output.iter().any(acts) {
        return;
    }
    let lists = |candidate: &&Candidate<'_>| {
        candidate.ends(&["tool", "calls"]) || candidate.ends(&["function", "calls"])
    };
    let Some(found) = candidates.iter().find(lists) else { return };
    let mut map = serde_json::Map::new();
    map.insert("role".to_owned(), Json::String("assistant".to_owned()));
    map.insert("tool_calls".to_owned(), decode(found.value).json);
    let calls = messages(&Json::Object(map), Role::Assistant).into_iter().flat_map(|message| message.parts);
    match output.last_mut() {
        Some(last) => last.parts.extend(calls),
        None => output.push(Message::new(Role::Assistant, calls.collect())),
    }
}

/// Messages spread over indexed keys: `acme.prompts.0.role`, `acme.output.0.message.content`.
fn spread(span: &Span) -> (Vec<Message>, Vec<Message>) {
    let mut prefixes = BTreeSet::new();
    for (key, _) in span.attributes.iter() {
        let Some(stem) = key.strip_suffix(".role").or_else(|| key.strip_suffix(".content")) else { continue };
        let stem = stem.strip_suffix(".message").unwrap_or(stem);
        let Some((before, index)) = stem.rsplit_once('.') else { continue };
        if !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit()) {
            prefixes.insert(before);
        }
    }
    let (mut input, mut output) = (Vec::new(), Vec::new());
    for before in prefixes {
        let probe = Candidate { key: before, words: words(before), value: &Value::Null };
        let comes_out = probe.side() == Some(Role::Assistant);
        let role = if comes_out { Role::Assistant } else { Role::User };
        let told = indexed::gather(&span.attributes, &format!("{before}."))
            .map(|json| if comes_out { super::gen_ai::with_roles(json) } else { json })
            .map(|json| messages(&json, role))
            .unwrap_or_default();
        let place = if comes_out { &mut output } else { &mut input };
        if place.is_empty() {
            *place = told;
        }
    }
    (input, output)
}

/// The conversation that a value holds beyond doubt; `None` for any other data.
fn conversation(value: &Value, comes_out: bool) -> Option<Vec<Message>> {
    if let Value::String(text) = value
        && !text.trim_start().starts_with(['[', '{', '"'])
    {
        return None;
    }
    let decoded = decode(value);
    if !is_conversation(&decoded.json, 0) {
        return None;
    }
    let role = if comes_out { Role::Assistant } else { Role::User };
    Some(messages(&decoded.json, role)).filter(|told| !told.is_empty())
}

fn is_conversation(json: &Json, depth: usize) -> bool {
    match json {
        Json::Array(items) => !items.is_empty() && items.iter().all(|item| is_conversation(item, depth + 1)),
        Json::Object(map) => {
            let speaks = ["content", "parts", "tool_calls", "toolCalls", "text"]
                .iter()
                .any(|key| map.contains_key(*key));
            let said = map.get("role").is_some_and(Json::is_string) && speaks;
            let kind = map.get("type").and_then(Json::as_str).unwrap_or_default();
            let item =
                matches!(kind, "function_call" | "function_call_output" | "reasoning" | "human" | "ai")
                    || map.contains_key("lc") && map.contains_key("kwargs");
            let holds =
                |key: &str| map.get(key).is_some_and(|inner| depth < 4 && is_conversation(inner, depth + 1));
            said || item
                || ["messages", "contents", "message", "output", "input", "items"]
                    .iter()
                    .any(|key| holds(key))
                || ["choices", "candidates"].iter().any(|key| {
                    let first = map.get(*key).and_then(|list| list.get(0));
                    first
                        .is_some_and(|first| first.get("message").is_some() || first.get("content").is_some())
                })
        }
        _ => false,
    }
}

/// An agent, a chain, a retrieval: one value in, one out.
fn boxed(draft: &mut Draft<'_>, candidates: &[Candidate<'_>]) {
    let (input, output) = (side(candidates, Role::User), side(candidates, Role::Assistant));
    if draft.kind == Some(Kind::Retrieval) {
        if draft.query.is_none() {
            draft.query = input.and_then(|input| gist::input(input.value).last().map(Message::joined));
        }
        if let Some(output) = output.filter(|_| draft.documents.is_empty()) {
            documents(&decode(output.value).json, 0, &mut draft.documents);
        }
        return;
    }
    if let Some(input) = input.filter(|_| draft.input.is_empty()) {
        draft.input = gist::input(input.value);
    }
    if let Some(output) = output.filter(|_| draft.output.is_empty()) {
        draft.output = gist::output(output.value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_without_doubt_name_a_kind() {
        for (word, wanted) in [
            ("LLM", Some(Kind::Model)),
            ("agent_run", Some(Kind::Agent)),
            ("tool_call", Some(Kind::Tool)),
            ("model", Some(Kind::Model)),
            ("CLIENT", None),
            ("application/json", None),
            ("POST /v1/chat/completions", None),
        ] {
            assert_eq!(strong_kind(word), wanted, "{word}");
        }
    }
}
