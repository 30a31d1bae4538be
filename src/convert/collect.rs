//! A trace's spans and records, each read by its dialects, as one [`Talk`].

use std::collections::{HashMap, HashSet};

use super::dialects::{self, Told, tell};
use super::draft::{Draft, Kind};
use super::gist;
use super::message::messages;
use super::offers::offers;
use super::pseudo::rewrite;
use super::talk::{Invocation, Message, ModelCall, Part, Pass, Retrieval, Role, Talk, ToolRun};
use super::tree::Tree;
use super::wrapping::tells_error;
use crate::domain::{Json, LogRecord, Span, SpanId, Status, Time, Trace, Value};

/// The spans of a trace in order of time, once each.
pub(super) fn ordered(trace: &Trace) -> Vec<&Span> {
    let mut spans: Vec<&Span> = trace.spans.iter().collect();
    spans.sort_by(|a, b| {
        let key = |span: &Span| (span.start, span.end, span.span_id);
        key(a).cmp(&key(b)).then_with(|| b.attributes.len().cmp(&a.attributes.len()))
    });
    let mut seen = std::collections::HashSet::with_capacity(spans.len());
    spans.retain(|span| seen.insert(span.span_id));
    spans
}

/// Reads every span and record.
pub(super) fn collect(trace: &Trace, spans: &[&Span], tree: &Tree) -> Talk {
    let mut logs: HashMap<Option<SpanId>, Vec<&LogRecord>> = HashMap::new();
    for log in &trace.logs {
        logs.entry(log.span_id).or_default().push(log);
    }
    for group in logs.values_mut() {
        once(group);
    }
    let mut talk = Talk::default();
    let mut agents: Vec<Option<String>> = vec![None; spans.len()];
    let no_logs = Vec::new();
    for (index, span) in spans.iter().enumerate() {
        let own = logs.get(&Some(span.span_id)).unwrap_or(&no_logs);
        if let Some(agent) = agent_of_bare_span(span) {
            agents[index] = Some(agent);
        }
        let Some(draft) = dialects::read(span, own) else { continue };
        if draft.agent.is_some() && draft.kind != Some(Kind::Ignored) {
            agents[index].clone_from(&draft.agent);
        }
        file(draft, own, index, &mut talk);
    }
    orphans(&logs, spans, tree, &mut talk);
    converse(&mut talk);
    programs(&mut talk, spans, tree);
    let nearest = tree.nearest(&agents);
    for call in &mut talk.calls {
        if call.agent.is_none() {
            call.agent = nearest.get(call.span).cloned().flatten();
        }
        call.input = rewrite(std::mem::take(&mut call.input));
        call.output = rewrite(std::mem::take(&mut call.output));
    }
    for invocation in &mut talk.invocations {
        if invocation.agent.is_none() {
            invocation.agent = nearest.get(invocation.span).cloned().flatten();
        }
        invocation.input = rewrite(std::mem::take(&mut invocation.input));
        invocation.output = rewrite(std::mem::take(&mut invocation.output));
    }
    talk.calls.sort_by_key(|call| (call.start, call.end, call.span));
    talk.offers = offers(spans, &logs, &nearest, &talk);
    talk
}

/// Records in order of time; one that was delivered twice counts once.
fn once(group: &mut Vec<&LogRecord>) {
    group.sort_by_key(|log| log.time);
    let mut kept: Vec<&LogRecord> = Vec::with_capacity(group.len());
    for log in group.drain(..) {
        let again = kept.iter().rev().take_while(|other| other.time == log.time).any(|other| {
            other.event_name == log.event_name && other.body == log.body && other.attributes == log.attributes
        });
        if !again || !log.time.is_known() {
            kept.push(log);
        }
    }
    *group = kept;
}

/// ADK 1.x names an agent by nothing but its span's name, Logfire in the turns of OpenAI's agents.
fn agent_of_bare_span(span: &Span) -> Option<String> {
    if let Some(name) = span.attributes.text("agent_name").filter(|name| !name.is_empty()) {
        return Some(name.to_owned());
    }
    let inside = span.name.strip_prefix("agent_run [").and_then(|rest| rest.strip_suffix(']'));
    inside.filter(|name| !name.is_empty()).map(str::to_owned)
}

/// Puts a draft where it belongs.
fn file(mut draft: Draft, logs: &[&LogRecord], index: usize, talk: &mut Talk) {
    if !draft.events.is_empty() {
        talk.saw_agent = true;
        talk.events.append(&mut draft.events);
    }
    let span = draft.span;
    let kind = draft.kind;
    if let Some(kind) = kind {
        talk.saw_agent |= matches!(kind, Kind::Model | Kind::Tool | Kind::Agent | Kind::Retrieval);
    }
    if draft.dialects.contains(&dialects::SHAPE) && talk.warnings.is_empty() {
        talk.warnings.push(format!(
            "no convention has the names of span {}'s attributes: it and others like it were read by their shape",
            span.span_id
        ));
    }
    if kind.is_some_and(|kind| kind != Kind::Ignored) {
        talk.dialects.extend(draft.dialects.iter().copied());
    }
    if talk.session.is_none() && kind != Some(Kind::Ignored) {
        talk.session.clone_from(&draft.session);
    }
    for attribute in &draft.cut {
        talk.truncated.push(format!("{attribute} of span {} was cut by the sender", span.span_id));
    }
    if span.dropped_attributes > 0 && kind.is_some() {
        talk.truncated.push(format!(
            "{} attributes of span {} were dropped by the sender",
            span.dropped_attributes, span.span_id
        ));
    }
    match kind {
        Some(Kind::Model) => file_model(draft, logs, index, talk),
        Some(Kind::Tool) => file_tool(draft, index, talk),
        Some(Kind::Retrieval) => {
            talk.retrievals.push(Retrieval {
                span: index,
                start: span.start,
                name: Some(span.name.clone()).filter(|name| !name.is_empty()),
                query: draft.query,
                documents: draft.documents,
            });
        }
        Some(Kind::Agent | Kind::Chain) => {
            // Where an agent failed, some put the failure in the answer's place.
            let error = error_of(span).filter(|_| matches!(span.status, Status::Error(_)));
            if let Some(error) = error {
                draft.output.retain(|message| !message.joined().contains(error.trim()));
            }
            talk.invocations.push(Invocation {
                span: index,
                start: span.start,
                end: span.end,
                is_agent: kind == Some(Kind::Agent),
                agent: draft.agent,
                input: draft.input,
                output: draft.output,
            });
        }
        Some(Kind::Pass) => {
            talk.passes.push(Pass {
                span: index,
                start: span.start,
                from: draft.pass.0.or(draft.agent),
                to: draft.pass.1,
            });
        }
        Some(Kind::Ignored) | None => {}
    }
}

fn file_model(mut draft: Draft, logs: &[&LogRecord], index: usize, talk: &mut Talk) {
    let span = draft.span;
    // What a model gives back is its own words: a request printed once more is none.
    if draft.output.iter().any(|message| matches!(message.role, Role::User | Role::System)) {
        draft.output.clear();
    }
    let told_apart = dialects::details(logs);
    if told_apart.is_empty() {
        talk.calls.push(ModelCall {
            span: index,
            start: span.start,
            end: span.end,
            model: draft.model,
            agent: draft.agent,
            input: draft.input,
            output: draft.output,
        });
        return;
    }
    talk.dialects.insert("gen_ai_events");
    let several = told_apart.len() > 1;
    for log in told_apart {
        let mut call = told_call(log);
        call.span = index;
        if !several {
            dialects::add_reasoning(span, &mut call.output);
        }
        // A span can hold several calls; then only the record's own time tells their order.
        if !several || !call.start.is_known() {
            call.start = span.start;
            call.end = span.end;
        }
        call.model = call.model.or_else(|| draft.model.clone());
        call.agent = call.agent.or_else(|| draft.agent.clone());
        talk.calls.push(call);
    }
}

fn told_call(log: &LogRecord) -> ModelCall {
    let text = |key: &str| log.attributes.text(key).map(str::to_owned);
    ModelCall {
        span: usize::MAX,
        start: log.time,
        end: log.time,
        model: text("gen_ai.response.model").or_else(|| text("gen_ai.request.model")),
        agent: text("gen_ai.agent.name"),
        input: dialects::detail(log, "gen_ai.input.messages", Role::User),
        output: dialects::detail(log, "gen_ai.output.messages", Role::Assistant),
    }
}

fn file_tool(draft: Draft, index: usize, talk: &mut Talk) {
    let span = draft.span;
    let error = error_of(span);
    let shown = draft.shown.unwrap_or_default();
    let text = Some(shown.text).filter(|text| !text.is_empty());
    let failed = draft
        .failed
        .or(shown.failed)
        .or_else(|| error.is_some().then_some(true))
        .or_else(|| matches!(span.status, Status::Error(_)).then_some(true))
        .or_else(|| text.as_deref().is_some_and(tells_error).then_some(true));
    talk.runs.push(ToolRun {
        span: index,
        start: span.start,
        end: span.end,
        name: draft.tool.or(shown.tool),
        id: draft.tool_id.or(shown.id),
        arguments: draft.arguments,
        result: text,
        failed,
        error,
    });
}

/// What went wrong in a span, by its exception event or its status.
pub(super) fn error_of(span: &Span) -> Option<String> {
    let raised = span.events.iter().filter(|event| event.name == "exception");
    let message =
        raised.filter_map(|event| event.attributes.text("exception.message")).find(|text| !text.is_empty());
    let described = match &span.status {
        Status::Error(text) if !text.is_empty() => Some(text.as_str()),
        _ => None,
    };
    message.or(described).map(str::to_owned)
}

/// A function around everything that its library marks as a tool, although nobody called it and models work inside it, is the
/// program itself.
fn programs(talk: &mut Talk, spans: &[&Span], tree: &Tree) {
    let mut known: Vec<Option<()>> = vec![None; spans.len()];
    let told =
        talk.calls.iter().map(|call| call.span).chain(talk.invocations.iter().map(|around| around.span));
    for at in told.chain(talk.runs.iter().map(|run| run.span)) {
        if let Some(slot) = known.get_mut(at) {
            *slot = Some(());
        }
    }
    let above = tree.above(&known);
    let mut top: Vec<Option<usize>> = vec![None; spans.len()];
    for run in talk.runs.iter().filter(|run| run.id.is_none() && above[run.span].is_none()) {
        top[run.span] = Some(run.span);
    }
    let around = tree.above(&top);
    let holding: HashSet<usize> =
        talk.calls.iter().filter_map(|call| around.get(call.span).copied().flatten()).collect();
    let (outer, runs): (Vec<ToolRun>, Vec<ToolRun>) =
        std::mem::take(&mut talk.runs).into_iter().partition(|run| holding.contains(&run.span));
    talk.runs = runs;
    talk.invocations.extend(outer.into_iter().map(|run| Invocation {
        span: run.span,
        start: run.start,
        end: run.end,
        agent: None,
        is_agent: false,
        input: run.arguments.map(|given| gist::input(&Value::from(given.to_string()))).unwrap_or_default(),
        output: run.result.map(|text| gist::output(&Value::from(text))).unwrap_or_default(),
    }));
}

/// Events of AutoGen's runtime, each told by every span that it passed, as one conversation in order of their making.
fn converse(talk: &mut Talk) {
    let text = |event: &Json, key: &str| event.get(key).and_then(Json::as_str).map(str::to_owned);
    let mut seen = HashSet::new();
    let mut events = std::mem::take(&mut talk.events);
    events.retain(|event| text(event, "id").is_none_or(|id| seen.insert(id)));
    events
        .sort_by_key(|event| text(event, "created_at").and_then(|made| made.parse::<jiff::Timestamp>().ok()));
    let input: Vec<Message> = events.iter().flat_map(|event| messages(event, Role::Assistant)).collect();
    if input.is_empty() {
        return;
    }
    let made = |event: Option<&Json>| {
        let made = event
            .and_then(|event| text(event, "created_at"))
            .and_then(|made| made.parse::<jiff::Timestamp>().ok());
        made.and_then(|made| u64::try_from(made.as_nanosecond()).ok()).map(Time).unwrap_or_default()
    };
    let (start, end) = (made(events.first()), made(events.last()));
    talk.calls.push(ModelCall {
        span: usize::MAX,
        start,
        end,
        model: None,
        agent: None,
        input,
        output: Vec::new(),
    });
}

/// Records whose span never arrived, or that belong to no span, still tell of a call.
fn orphans(logs: &HashMap<Option<SpanId>, Vec<&LogRecord>>, spans: &[&Span], tree: &Tree, talk: &mut Talk) {
    let mut keys: Vec<&Option<SpanId>> = logs
        .keys()
        .filter(|id| id.is_none_or(|id| tree.find(id).is_none_or(|at| at >= spans.len())))
        .collect();
    keys.sort();
    for key in keys {
        let records = &logs[key];
        for log in dialects::details(records) {
            talk.saw_agent = true;
            talk.dialects.insert("gen_ai_events");
            talk.calls.push(told_call(log));
        }
        let told: Vec<Told> = records.iter().filter_map(|log| Told::of_log(log)).collect();
        let Some(first) =
            records.first().filter(|_| !told.is_empty() && dialects::details(records).is_empty())
        else {
            continue;
        };
        let stand_in = stand_in(first);
        let mut draft = Draft::new(&stand_in);
        tell(&told, &mut draft);
        talk.saw_agent = true;
        talk.dialects.insert("gen_ai_events");
        talk.calls.push(ModelCall {
            span: usize::MAX,
            start: first.time,
            end: records.last().map_or(first.time, |log| log.time),
            model: None,
            agent: None,
            input: draft.input,
            output: draft.output,
        });
    }
}

/// A span for records that have none.
fn stand_in(log: &LogRecord) -> Span {
    // It is never shown: the call has no span.
    let span_id = SpanId::try_from(&[0xff; 8][..]).expect("eight bytes that are not all zero");
    Span {
        start: log.time,
        end: log.time,
        attributes: [("gen_ai.operation.name".to_owned(), Value::from("chat"))].into_iter().collect(),
        resource: std::sync::Arc::clone(&log.resource),
        scope: std::sync::Arc::clone(&log.scope),
        ..Span::new(log.trace_id, span_id)
    }
}

/// Whether any message of the talk says anything.
pub(super) fn has_content(talk: &Talk) -> bool {
    let speaks = |messages: &[super::talk::Message]| {
        messages.iter().any(|message| {
            message.role != Role::System
                && message.parts.iter().any(|part| match part {
                    Part::Text(text) | Part::Thought(text) => !text.is_empty(),
                    Part::Call(_) => true,
                    Part::Result(outcome) => !outcome.text.is_empty(),
                })
        })
    };
    talk.calls.iter().any(|call| speaks(&call.input) || speaks(&call.output))
        || talk.runs.iter().any(|run| run.arguments.is_some() || run.result.is_some())
        || talk.retrievals.iter().any(|retrieval| !retrieval.documents.is_empty())
        || talk.invocations.iter().any(|around| speaks(&around.input) || speaks(&around.output))
}
