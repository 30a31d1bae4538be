//! Tool runs: each once, beside the call that asked for it, or where its time says; and what retrievers found.

use std::collections::{HashMap, HashSet};

use super::alike::{bare, squeeze};
use super::atom::{Atom, What};
use super::talk::{Call, Talk, ToolRun};
use super::text::plain;
use super::thread::Thread;
use super::tree::Tree;
use crate::domain::{Json, Span, Time};

/// One run that two instrumentations tell, or a client and a server, is one run. Gives the runs and, by span, their place.
pub(super) fn merge_runs(
    mut all: Vec<ToolRun>,
    spans: &[&Span],
    tree: &Tree,
) -> (Vec<ToolRun>, HashMap<usize, usize>) {
    all.sort_by(|a, b| {
        (a.start, std::cmp::Reverse(a.end), a.span).cmp(&(b.start, std::cmp::Reverse(b.end), b.span))
    });
    let mut own: Vec<Option<usize>> = vec![None; spans.len()];
    let mut kept: Vec<ToolRun> = Vec::with_capacity(all.len());
    let mut canon = HashMap::new();
    let mut by_id: HashMap<String, usize> = HashMap::new();
    for (at, run) in all.iter().enumerate() {
        own[run.span] = Some(at);
    }
    let above = tree.above(&own);
    let mut place_of: Vec<usize> = Vec::with_capacity(all.len());
    for run in all {
        let by_same_id =
            run.id.as_ref().and_then(|id| by_id.get(id)).copied().filter(|place| fits(&kept[*place], &run));
        let nested = above[run.span]
            .and_then(|at| place_of.get(at))
            .copied()
            .filter(|place| fits(&kept[*place], &run));
        // Two instrumentations side by side: same work, at the same time, from another library.
        let beside = kept.iter().enumerate().rev().take(8).find(|(_, other)| {
            run.arguments.is_some()
                && other.arguments == run.arguments
                && fits(other, &run)
                && spans[other.span].scope.name != spans[run.span].scope.name
                && other.start <= run.end
                && run.start <= other.end
        });
        let place = by_same_id.or(nested).or(beside.map(|(place, _)| place));
        let place = match place {
            Some(place) => {
                absorb(&mut kept[place], &run);
                place
            }
            None => {
                kept.push(run);
                kept.len() - 1
            }
        };
        let span = kept[place].span;
        if let Some(id) = &kept[place].id {
            by_id.entry(id.clone()).or_insert(place);
        }
        place_of.push(place);
        canon.insert(span, place);
    }
    // Spans of absorbed runs lead to the run that took them in.
    for (at, place) in own.iter().enumerate().filter_map(|(span, at)| at.map(|at| (span, place_of[at]))) {
        canon.insert(at, place);
    }
    (kept, canon)
}

fn fits(there: &ToolRun, run: &ToolRun) -> bool {
    let names = match (&there.name, &run.name) {
        (Some(a), Some(b)) => bare(a) == bare(b),
        _ => true,
    };
    let ids = there.id.is_none() || run.id.is_none() || there.id == run.id;
    let arguments = match (&there.arguments, &run.arguments) {
        (Some(a @ Json::Object(_)), Some(b @ Json::Object(_))) => a == b,
        _ => true,
    };
    names && ids && arguments
}

fn absorb(there: &mut ToolRun, run: &ToolRun) {
    if there.arguments.as_ref().is_none_or(|arguments| !arguments.is_object()) && run.arguments.is_some() {
        there.arguments.clone_from(&run.arguments);
    }
    if there.result.is_none() {
        there.result.clone_from(&run.result);
    }
    if there.name.is_none() {
        there.name.clone_from(&run.name);
    }
    if there.id.is_none() {
        there.id.clone_from(&run.id);
    }
    if there.error.is_none() {
        there.error.clone_from(&run.error);
    }
    there.failed = match (there.failed, run.failed) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (known, other) => known.or(other),
    };
}

/// Finds for each run the call that asked for it: by id, else by name and arguments, else by name and order.
pub(super) fn match_runs(threads: &mut [Thread], runs: &mut [ToolRun]) {
    let mut by_id: HashMap<String, (usize, usize)> = HashMap::new();
    let mut by_name: HashMap<String, Vec<(usize, usize)>> = HashMap::new();
    for (t, thread) in threads.iter().enumerate() {
        for (a, atom) in thread.atoms.iter().enumerate().filter(|(_, atom)| !atom.shared) {
            if let What::Call(call) = &atom.what {
                for id in call.id.iter().chain(&call.also) {
                    by_id.entry(id.clone()).or_insert((t, a));
                }
                by_name.entry(squeeze(bare(&call.name))).or_default().push((t, a));
            }
        }
    }
    for (index, run) in runs.iter_mut().enumerate() {
        let found = run.id.as_ref().and_then(|id| by_id.get(id)).copied().or_else(|| {
            let name = run.name.as_deref().map(|name| squeeze(bare(name)))?;
            let open = |place: &&(usize, usize)| {
                let atom = &threads[place.0].atoms[place.1];
                let What::Call(call) = &atom.what else { return false };
                atom.run.is_none() && (run.id.is_none() || call.id.is_none() || run.id == call.id)
            };
            let candidates = by_name.get(&name)?;
            let equal = candidates
                .iter()
                .filter(open)
                .find(|place| arguments_of(threads, place) == run.arguments.as_ref());
            let vague = |place: &&(usize, usize)| {
                let told = arguments_of(threads, place);
                let is_vague =
                    |arguments: Option<&Json>| arguments.is_none_or(|arguments| !arguments.is_object());
                is_vague(told) || is_vague(run.arguments.as_ref())
            };
            // A tool of one argument may be told without the argument's name.
            let unnamed = |place: &&(usize, usize)| match (arguments_of(threads, place), &run.arguments) {
                (Some(Json::Object(named)), Some(given)) => {
                    named.len() == 1 && named.values().all(|value| plain(value) == plain(given))
                }
                _ => false,
            };
            let equal = equal.or_else(|| candidates.iter().filter(open).find(unnamed));
            equal.or_else(|| candidates.iter().filter(open).find(vague)).copied()
        });
        let Some((t, a)) = found else { continue };
        let atom = &mut threads[t].atoms[a];
        if atom.run.is_some() {
            continue;
        }
        atom.run = Some(index);
        if let What::Call(call) = &mut atom.what {
            if call.arguments.is_none() {
                call.arguments.clone_from(&run.arguments);
            }
            if run.id.is_none() {
                run.id.clone_from(&call.id);
            }
        }
    }
}

fn arguments_of<'a>(threads: &'a [Thread], place: &(usize, usize)) -> Option<&'a Json> {
    match &threads[place.0].atoms[place.1].what {
        What::Call(call) => call.arguments.as_ref(),
        _ => None,
    }
}

/// Runs that no message tells are put where their time says.
pub(super) fn place_runs(threads: &mut Vec<Thread>, runs: &[ToolRun], inside: &[Option<usize>]) {
    let mut matched = vec![false; runs.len()];
    for thread in threads.iter() {
        thread.atoms.iter().filter_map(|atom| atom.run).for_each(|run| matched[run] = true);
    }
    let mut loose: Vec<usize> =
        (0..runs.len()).filter(|index| !matched[*index] && is_told(&runs[*index])).collect();
    loose.sort_by_key(|index| (runs[*index].start, *index));
    let mut groups: Vec<(usize, Vec<usize>, Time)> = Vec::new();
    for index in loose {
        let scope = inside.get(runs[index].span).copied().flatten();
        let place = home(threads, scope, runs[index].start);
        // Runs that overlap were asked for together.
        match groups.last_mut() {
            Some((thread, group, end)) if *thread == place && runs[index].start < *end => {
                group.push(index);
                *end = (*end).max(runs[index].end);
            }
            _ => groups.push((place, vec![index], runs[index].end)),
        }
    }
    for (place, group, _) in groups {
        let Some(first) = group.first().map(|index| &runs[*index]) else { continue };
        let thread = &mut threads[place];
        let at = place_at(thread, first.start);
        let calls: Vec<Atom> = group.iter().map(|index| run_atom(*index, &runs[*index])).collect();
        thread.atoms.splice(at..at, calls);
    }
}

/// Where something belongs that happened at a time: before the next reply of a model, behind the request that it serves.
fn place_at(thread: &Thread, time: Time) -> usize {
    let next = thread.atoms.iter().position(|atom| !atom.shared && atom.reply && atom.told >= time);
    let mut at = next.unwrap_or(thread.atoms.len());
    while at > 0 {
        let before = &thread.atoms[at - 1];
        let is_later_result = matches!(before.what, What::Result(_)) && !before.reply && before.told >= time;
        if !is_later_result {
            break;
        }
        at -= 1;
    }
    at
}

/// Whether a run tells more than that it took place.
fn is_told(run: &ToolRun) -> bool {
    run.arguments.is_some() || run.result.is_some() || run.error.is_some()
}

fn run_atom(index: usize, run: &ToolRun) -> Atom {
    let call = Call {
        id: run.id.clone(),
        also: Vec::new(),
        name: run.name.clone().unwrap_or_else(|| "tool".to_owned()),
        arguments: run.arguments.clone(),
    };
    Atom {
        what: What::Call(call),
        span: run.span,
        time: run.start,
        told: run.start,
        agent: None,
        beside: true,
        shared: false,
        reply: false,
        run: Some(index),
    }
}

/// The thread of a scope that was going on at a time; a new one if the scope has none.
fn home(threads: &mut Vec<Thread>, scope: Option<usize>, time: Time) -> usize {
    let of_scope = |thread: &&(usize, &Thread)| thread.1.scope == scope;
    let numbered: Vec<(usize, &Thread)> = threads.iter().enumerate().collect();
    let going = numbered
        .iter()
        .filter(of_scope)
        .filter(|(_, thread)| thread.start <= time)
        .max_by_key(|(_, thread)| thread.start);
    let going = going.or_else(|| numbered.iter().filter(of_scope).min_by_key(|(_, thread)| thread.start));
    if let Some((place, _)) = going {
        return *place;
    }
    threads.push(Thread { scope, start: time, end: time, span: usize::MAX, ..Thread::default() });
    threads.len() - 1
}

/// Documents that a retriever found, each once, unless the tool around the retriever shows them.
pub(super) fn place_documents(
    threads: &mut Vec<Thread>,
    talk: &mut Talk,
    runs: &[ToolRun],
    inside: &[Option<usize>],
) {
    let mut seen: HashSet<String> = HashSet::new();
    let mut retrievals = std::mem::take(&mut talk.retrievals);
    retrievals.sort_by_key(|retrieval| (retrieval.start, retrieval.span));
    for retrieval in &retrievals {
        let around = inside.get(retrieval.span).copied().flatten();
        let shown = around.and_then(|run| runs[run].result.as_deref()).unwrap_or_default();
        let fresh: Vec<&String> = retrieval
            .documents
            .iter()
            .filter(|document| !shows(shown, document) && seen.insert((*document).clone()))
            .collect();
        if fresh.is_empty() {
            continue;
        }
        let place = home(threads, around, retrieval.start);
        let thread = &mut threads[place];
        let at = place_at(thread, retrieval.start);
        let atoms: Vec<Atom> = fresh
            .into_iter()
            .map(|document| Atom {
                what: What::Document(retrieval.name.clone(), document.clone()),
                span: retrieval.span,
                time: retrieval.start,
                told: retrieval.start,
                agent: None,
                beside: false,
                shared: false,
                reply: false,
                run: None,
            })
            .collect();
        thread.atoms.splice(at..at, atoms);
    }
    talk.retrievals = retrievals;
}

/// Whether a tool's result holds a document, plain or as a JSON string.
fn shows(result: &str, document: &str) -> bool {
    if result.is_empty() {
        return false;
    }
    if result.contains(document) {
        return true;
    }
    let quoted = Json::String(document.to_owned()).to_string();
    result.contains(&quoted[1..quoted.len() - 1])
}
