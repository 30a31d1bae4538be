//! Model calls become threads; tool runs find their calls; what nobody's history tells is put where its time says.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::alike::{bare, same_text};
use super::atom::{Teller, What, atoms};
use super::runs::{match_runs, merge_runs, place_documents, place_runs};
use super::talk::{Invocation, Message, ModelCall, Part, Role, Talk, ToolRun};
use super::thread::Thread;
use super::tree::Tree;
use crate::domain::{Json, Span};

/// Threads and tool runs of a trace, joined.
pub(super) struct Woven {
    pub(super) threads: Vec<Thread>,
    pub(super) runs: Vec<ToolRun>,
    /// For every thread the run inside which it was held, or the call that it serves, as (thread, atom).
    pub(super) served: HashMap<usize, (usize, usize)>,
}

/// Joins everything.
pub(super) fn weave(talk: &mut Talk, spans: &[&Span], tree: &Tree) -> Woven {
    let (runs, canon) = merge_runs(std::mem::take(&mut talk.runs), spans, tree);
    let mut own: Vec<Option<usize>> = vec![None; spans.len()];
    for (at, place) in &canon {
        if let Some(slot) = own.get_mut(*at) {
            *slot = Some(*place);
        }
    }
    let inside = tree.above(&own);
    let mut calls = std::mem::take(&mut talk.calls);
    calls.extend(spoken_invocations(&mut talk.invocations, &calls, spans, tree));
    calls.sort_by_key(|call| (call.start, call.end, call.span));
    let mut threads = thread_calls(calls, &inside);
    if threads.is_empty() && (!runs.is_empty() || !talk.retrievals.is_empty()) {
        let start = runs.first().map(|run| run.start).unwrap_or_default();
        threads.push(Thread { start, span: usize::MAX, ..Thread::default() });
    }
    let mut runs = runs;
    match_runs(&mut threads, &mut runs);
    place_runs(&mut threads, &runs, &inside);
    place_documents(&mut threads, talk, &runs, &inside);
    let served = serve(&threads);
    Woven { threads, runs, served }
}

/// Agents and chains that hold a conversation which no model call below them tells.
fn spoken_invocations(
    all: &mut [Invocation],
    calls: &[ModelCall],
    spans: &[&Span],
    tree: &Tree,
) -> Vec<ModelCall> {
    let mut around: Vec<Option<usize>> = vec![None; spans.len()];
    for (at, invocation) in all.iter().enumerate() {
        around[invocation.span] = Some(at);
    }
    let above = tree.above(&around);
    let mut tells = vec![true; all.len()];
    // Whatever tells itself silences everything above it.
    let silence = |from: Option<usize>, tells: &mut Vec<bool>| {
        let mut at = from;
        while let Some(index) = at {
            if !tells[index] {
                break;
            }
            tells[index] = false;
            at = above[all[index].span];
        }
    };
    for call in calls.iter().filter(|call| !call.input.is_empty() || !call.output.is_empty()) {
        silence(above.get(call.span).copied().flatten(), &mut tells);
        if let Some(Some(index)) = around.get(call.span) {
            silence(Some(*index), &mut tells);
        }
    }
    let speaks = |invocation: &Invocation| {
        let all = || invocation.input.iter().chain(&invocation.output);
        let acts = |message: &Message| {
            message.parts.iter().any(|part| matches!(part, Part::Call(_) | Part::Result(_)))
        };
        all().any(acts) && all().any(|message| message.role == Role::Assistant && !message.parts.is_empty())
    };
    let known: HashSet<&str> =
        calls.iter().flat_map(|call| call.input.iter().chain(&call.output)).flat_map(ids_of).collect();
    // An agent that only carries out what others' model calls asked for adds nothing to them.
    let repeats = |invocation: &Invocation| {
        let mut ids = invocation.input.iter().chain(&invocation.output).flat_map(ids_of).peekable();
        ids.peek().is_some() && ids.all(|id| known.contains(id))
    };
    let order: Vec<usize> = (0..all.len()).rev().collect();
    let mut told = Vec::new();
    for index in order {
        if !tells[index] || !speaks(&all[index]) || repeats(&all[index]) {
            continue;
        }
        silence(above[all[index].span], &mut tells);
        let invocation = &all[index];
        told.push(ModelCall {
            span: invocation.span,
            start: invocation.start,
            end: invocation.end,
            model: None,
            agent: invocation.agent.clone(),
            input: invocation.input.clone(),
            output: invocation.output.clone(),
        });
    }
    told
}

/// The ids of the calls that a message holds.
fn ids_of(message: &Message) -> impl Iterator<Item = &str> {
    message.parts.iter().filter_map(|part| match part {
        Part::Call(call) => call.id.as_deref(),
        _ => None,
    })
}

fn key(what: &What) -> u64 {
    let mut hasher = DefaultHasher::new();
    let text = |text: &str, hasher: &mut DefaultHasher| {
        text.bytes().filter(|b| !b.is_ascii_whitespace()).take(400).for_each(|b| b.hash(hasher));
    };
    match what {
        What::Request(words) => {
            0u8.hash(&mut hasher);
            text(words, &mut hasher);
        }
        What::Text(words) | What::Thought(words) => {
            1u8.hash(&mut hasher);
            text(words, &mut hasher);
        }
        What::Call(call) => match &call.id {
            Some(id) => (2u8, id).hash(&mut hasher),
            None => (3u8, bare(&call.name), call.arguments.as_ref().map(Json::to_string)).hash(&mut hasher),
        },
        // The answer to a call belongs where the call is.
        What::Result(outcome) => match &outcome.id {
            Some(id) => (2u8, id).hash(&mut hasher),
            None => {
                4u8.hash(&mut hasher);
                text(&outcome.text, &mut hasher);
            }
        },
        What::Document(..) => 5u8.hash(&mut hasher),
    }
    hasher.finish()
}

fn thread_calls(calls: Vec<ModelCall>, inside: &[Option<usize>]) -> Vec<Thread> {
    let mut threads: Vec<Thread> = Vec::new();
    let mut known: HashMap<u64, Vec<usize>> = HashMap::new();
    for mut call in calls {
        let scope = inside.get(call.span).copied().flatten();
        let teller = Teller { span: call.span, start: call.start, time: call.end, agent: call.agent.take() };
        let input = atoms(&mut call.input, &teller, false);
        let output = atoms(&mut call.output, &teller, true);
        if input.is_empty() && output.is_empty() {
            continue;
        }
        let keys: Vec<u64> = input.iter().chain(&output).map(|atom| key(&atom.what)).collect();
        let place = elect(&keys, input.len(), scope, &threads, &known).unwrap_or_else(|| {
            threads.push(Thread { scope, start: call.start, span: call.span, ..Thread::default() });
            threads.len() - 1
        });
        let other = threads[place].tell(input, output);
        let place = match other {
            None => place,
            Some(atoms) => {
                for atom in atoms.iter().filter(|atom| atom.shared) {
                    remember(&mut known, key(&atom.what), threads.len());
                }
                threads.push(Thread {
                    atoms,
                    scope,
                    start: call.start,
                    span: call.span,
                    ..Thread::default()
                });
                threads.len() - 1
            }
        };
        let thread = &mut threads[place];
        thread.end = thread.end.max(call.end);
        if call.model.is_some() {
            thread.model = call.model;
        }
        for key in keys {
            remember(&mut known, key, place);
        }
    }
    threads
}

fn remember(known: &mut HashMap<u64, Vec<usize>>, key: u64, place: usize) {
    let places = known.entry(key).or_default();
    if !places.contains(&place) && places.len() < 64 {
        places.push(place);
    }
}

/// The thread that a call goes on with: the one that knows most of what the call tells.
fn elect(
    keys: &[u64],
    inputs: usize,
    scope: Option<usize>,
    threads: &[Thread],
    known: &HashMap<u64, Vec<usize>>,
) -> Option<usize> {
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (index, key) in keys.iter().enumerate() {
        for place in known.get(key).into_iter().flatten() {
            // A reply alone, without common history, joins nothing: different agents may say the same.
            if threads[*place].scope == scope && (index < inputs || inputs == 0) {
                *votes.entry(*place).or_default() += 1;
            }
        }
    }
    votes.into_iter().max_by_key(|(place, count)| (*count, *place)).map(|(place, _)| place)
}

/// For threads of agents that work for others: the call that they serve.
fn serve(threads: &[Thread]) -> HashMap<usize, (usize, usize)> {
    let mut served = HashMap::new();
    let mut call_of_run: HashMap<usize, (usize, usize)> = HashMap::new();
    for (t, thread) in threads.iter().enumerate() {
        for (a, atom) in thread.atoms.iter().enumerate() {
            if let Some(run) = atom.run {
                call_of_run.insert(run, (t, a));
            }
        }
    }
    for (t, thread) in threads.iter().enumerate() {
        if let Some(scope) = thread.scope {
            if let Some(place) = call_of_run.get(&scope).filter(|place| place.0 != t) {
                served.insert(t, *place);
            }
            continue;
        }
        if let Some(place) = delegated(t, thread, threads) {
            served.insert(t, place);
        }
    }
    // A thread that would serve itself over others serves nobody.
    let circles: Vec<usize> = served.keys().copied().filter(|t| leads_back(*t, &served)).collect();
    circles.iter().for_each(|t| {
        served.remove(t);
    });
    served
}

fn leads_back(start: usize, served: &HashMap<usize, (usize, usize)>) -> bool {
    let mut at = start;
    for _ in 0..=served.len() {
        match served.get(&at) {
            Some((next, _)) if *next == start => return true,
            Some((next, _)) => at = *next,
            None => return false,
        }
    }
    true
}

/// How many threads are searched for the call that another one serves.
const MOST_CALLERS: usize = 64;

/// The call whose arguments hold a thread's first request, if it was made before in another thread.
fn delegated(t: usize, thread: &Thread, threads: &[Thread]) -> Option<(usize, usize)> {
    let first = thread.atoms.iter().find(|atom| !atom.shared)?;
    let What::Request(request) = &first.what else { return None };
    for (other, from) in threads.iter().enumerate().take(MOST_CALLERS) {
        if other == t || from.start > thread.start {
            continue;
        }
        for (a, atom) in from.atoms.iter().enumerate().filter(|(_, atom)| !atom.shared) {
            let What::Call(call) = &atom.what else { continue };
            let texts = call.arguments.iter().flat_map(|arguments| match arguments {
                Json::Object(map) => map.values().filter_map(Json::as_str).collect::<Vec<_>>(),
                Json::String(text) => vec![text.as_str()],
                _ => Vec::new(),
            });
            let is_task =
                |text: &str| text.len() >= 16 && (request.contains(text) || same_text(request, text));
            if texts.into_iter().any(is_task) {
                return Some((other, a));
            }
        }
    }
    None
}
