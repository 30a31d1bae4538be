//! LangSmith's run exports, as its client returns them: nested `child_runs`, or flat lists. Each run becomes a span of the
//! LangSmith dialect.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Map;

use super::text::{pick, pick_str};
use crate::domain::{
    Attributes, Event, Json, Resource, Scope, Span, SpanId, SpanKind, Status, Time, Trace, TraceId,
};

/// Nesting of runs beyond this is not followed.
const DEEPEST: usize = 200;

/// Why JSON is no run export.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is no LangSmith run: it has no id, run_type and start_time")]
pub struct NotRuns;

/// The traces of run exports: each value a run (with its children or without) or a list of runs. In order of appearance.
///
/// # Errors
/// [`NotRuns`] if a value is neither.
pub fn traces_of_runs(values: &[Json]) -> Result<Vec<Trace>, NotRuns> {
    let mut spans = Vec::new();
    for value in values {
        match value {
            Json::Array(runs) => {
                for run in runs {
                    gather(run, None, None, 0, &mut spans)?;
                }
            }
            run => gather(run, None, None, 0, &mut spans)?,
        }
    }
    let mut order: Vec<TraceId> = Vec::new();
    let mut by_trace: HashMap<TraceId, Vec<Span>> = HashMap::new();
    for span in spans {
        let slot = by_trace.entry(span.trace_id).or_insert_with(|| {
            order.push(span.trace_id);
            Vec::new()
        });
        slot.push(span);
    }
    let trace =
        |trace_id: TraceId| Some(Trace { spans: by_trace.remove(&trace_id)?, ..Trace::new(trace_id) });
    Ok(order.into_iter().filter_map(trace).collect())
}

fn gather(
    run: &Json,
    parent: Option<SpanId>,
    trace: Option<TraceId>,
    depth: usize,
    out: &mut Vec<Span>,
) -> Result<(), NotRuns> {
    let map = run.as_object().ok_or(NotRuns)?;
    let span = span(map, parent, trace).ok_or(NotRuns)?;
    let (id, trace_id) = (span.span_id, span.trace_id);
    out.push(span);
    if depth < DEEPEST
        && let Some(Json::Array(children)) = map.get("child_runs")
    {
        for child in children {
            gather(child, Some(id), Some(trace_id), depth + 1, out)?;
        }
    }
    Ok(())
}

fn span(run: &Map<String, Json>, parent: Option<SpanId>, trace: Option<TraceId>) -> Option<Span> {
    let id = pick_str(run, &["id"])?;
    let kind = pick_str(run, &["run_type"])?.to_ascii_lowercase();
    let start = time(pick_str(run, &["start_time"])?)?;
    let trace_id = pick_str(run, &["trace_id"]).and_then(trace_of).or(trace).or_else(|| trace_of(id))?;
    let last_parent =
        run.get("parent_run_ids").and_then(Json::as_array).and_then(|ids| ids.last()).and_then(Json::as_str);
    let parent_id = pick_str(run, &["parent_run_id"]).or(last_parent).and_then(span_of).or(parent);
    let name = pick_str(run, &["name"]).unwrap_or_default();
    let mut attributes = Attributes::new();
    attributes.push("langsmith.span.kind", kind.as_str());
    attributes.push("langsmith.trace.name", name);
    for (field, key) in [("inputs", "gen_ai.prompt"), ("outputs", "gen_ai.completion")] {
        if let Some(value) = pick(run, &[field]).filter(|value| says_something(value)) {
            attributes.push(key, value.to_string());
        }
    }
    metadata(run, &kind, name, &mut attributes);
    let error = pick_str(run, &["error"]);
    let status = match error {
        Some(_) => Status::Error(first_lines(error.unwrap_or_default())),
        None => Status::Ok,
    };
    let events = error.map(|text| raised(text, start)).into_iter().collect();
    let service = run
        .get("extra")
        .and_then(|extra| extra.get("metadata"))
        .and_then(|metadata| metadata.get("LANGSMITH_PROJECT"));
    let mut resource = Resource::default();
    if let Some(project) = service.and_then(Json::as_str) {
        resource.attributes.push("service.name", project);
    }
    Some(Span {
        trace_id,
        span_id: span_of(id)?,
        parent_id,
        name: name.to_owned(),
        kind: SpanKind::Internal,
        start,
        end: pick_str(run, &["end_time"]).and_then(time).unwrap_or(start),
        status,
        attributes,
        events,
        links: Vec::new(),
        dropped_attributes: 0,
        resource: Arc::new(resource),
        scope: Arc::new(Scope { name: "langsmith".to_owned(), ..Scope::default() }),
    })
}

/// `{}` and `{"output": null}` are how an absent output is written.
fn says_something(value: &Json) -> bool {
    !value.as_object().is_some_and(|map| map.values().all(Json::is_null))
}

fn metadata(run: &Map<String, Json>, kind: &str, name: &str, attributes: &mut Attributes) {
    let extra = run.get("extra").and_then(Json::as_object);
    let metadata = extra
        .and_then(|extra| extra.get("metadata"))
        .or_else(|| run.get("metadata"))
        .and_then(Json::as_object);
    if kind == "tool" {
        attributes.push("gen_ai.tool.name", name);
        if let Some(id) = extra.and_then(|extra| pick_str(extra, &["tool_call_id"])) {
            attributes.push("gen_ai.tool.call.id", id);
        }
    }
    let offered = extra.and_then(|extra| extra.get("invocation_params")?.get("tools"));
    if let Some(tools) = offered.filter(|tools| tools.is_array()) {
        attributes.push("gen_ai.tool.definitions", tools.to_string());
    }
    // A run's own `session_id` is its project; a conversation is named in its metadata.
    let thread = metadata
        .and_then(|metadata| pick_str(metadata, &["session_id", "thread_id", "conversation_id"]))
        .or_else(|| pick_str(run, &["thread_id"]));
    if let Some(thread) = thread {
        attributes.push("langsmith.metadata.thread_id", thread);
    }
    if let Some(metadata) = metadata {
        if let Some(agent) = pick_str(metadata, &["lc_agent_name"]) {
            attributes.push("langsmith.metadata.lc_agent_name", agent);
        }
        if let Some(model) = pick_str(metadata, &["ls_model_name"]) {
            attributes.push("gen_ai.request.model", model);
        }
    }
}

/// The error's own words, without its traceback.
fn first_lines(error: &str) -> String {
    error.split("\n\nTraceback").next().unwrap_or(error).trim().to_owned()
}

/// An error is the exception's repr, a blank line and the traceback, whose last line is type and message.
fn raised(error: &str, time: Time) -> Event {
    let last = error.trim_end().lines().last().unwrap_or_default();
    let message = match (error.contains("\n\nTraceback"), last.split_once(": ")) {
        (true, Some((class, message))) if !class.contains(' ') => message.to_owned(),
        _ => first_lines(error),
    };
    let mut attributes = Attributes::new();
    attributes.push("exception.message", message);
    Event { name: "exception".to_owned(), time, attributes, dropped_attributes: 0 }
}

fn hex_of(id: &str) -> String {
    id.chars().filter(|c| *c != '-').collect()
}

fn trace_of(id: &str) -> Option<TraceId> {
    hex_of(id).parse().ok()
}

/// The last half of a UUID is its random part.
fn span_of(id: &str) -> Option<SpanId> {
    hex_of(id).get(16..)?.parse().ok()
}

/// With `T` or a space, with an offset or, then in UTC, without.
fn time(text: &str) -> Option<Time> {
    let text = text.trim();
    let instant = text.parse::<jiff::Timestamp>().ok().or_else(|| {
        let civil: jiff::civil::DateTime = text.parse().ok()?;
        jiff::tz::TimeZone::UTC.to_timestamp(civil).ok()
    })?;
    u64::try_from(instant.as_nanosecond()).ok().map(Time)
}
