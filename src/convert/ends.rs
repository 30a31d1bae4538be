//! The ends of a story: what was asked, as the outermost spans know it, and which of the things said is the answer.

use std::collections::HashSet;

use super::alike::{same_text, squeeze};
use super::atom::{Atom, What};
use super::media;
use super::prompts;
use super::talk::{Invocation, Message, Role, Talk};
use super::tell::Draft;
use super::tree::Tree;
use super::weave::Woven;
use crate::domain::{Span, Step, StepKind, Story, Time, Trace};

/// Spans around the whole: those with input or output that have no such span above them.
pub(super) fn outermost<'a>(
    talk: &'a Talk,
    woven: &Woven,
    spans: &[&Span],
    tree: &Tree,
) -> Vec<&'a Invocation> {
    let mut own: Vec<Option<()>> = vec![None; spans.len()];
    let speaking: Vec<&Invocation> = talk
        .invocations
        .iter()
        .filter(|around| !around.input.is_empty() || !around.output.is_empty())
        .collect();
    for around in &speaking {
        own[around.span] = Some(());
    }
    for run in &woven.runs {
        own[run.span] = Some(());
    }
    let above = tree.above(&own);
    let mut outer: Vec<&Invocation> =
        speaking.into_iter().filter(|around| above[around.span].is_none()).collect();
    outer.sort_by_key(|around| (around.start, around.span));
    outer
}

/// How many of the outermost spans' inputs are looked for in prompts.
const MOST_ANCHORS: usize = 64;

/// What the outermost spans were asked, each once; of very many the last.
pub(super) fn anchors(outer: &[&Invocation]) -> Vec<String> {
    let mut asked: Vec<String> = outer.iter().filter_map(|around| asked(&around.input)).collect();
    let mut seen = HashSet::new();
    asked.retain(|text| seen.insert(text.clone()));
    asked.split_off(asked.len().saturating_sub(MOST_ANCHORS))
}

/// What the first step was asked, where neither the whole nor any model call says what it was.
pub(super) fn first_asked(talk: &Talk, woven: &Woven) -> Option<String> {
    let asks = |atom: &Atom| matches!(atom.what, What::Request(_));
    if woven.threads.iter().any(|thread| thread.atoms.iter().any(asks)) {
        return None;
    }
    let at_work =
        |around: &Invocation| woven.runs.iter().any(|run| run.start <= around.start && around.end <= run.end);
    let steps = talk.invocations.iter().filter(|around| !at_work(around));
    let told = steps.filter_map(|around| Some(((around.start, around.span), asked(&around.input)?)));
    told.min_by_key(|(place, _)| *place).map(|(_, text)| text)
}

/// The last thing that a user asks in these messages.
fn asked(messages: &[Message]) -> Option<String> {
    let said = messages.iter().rev().filter(|message| message.role == Role::User).map(Message::joined);
    said.into_iter().find(|text| !text.trim().is_empty()).map(|text| text.trim().to_owned())
}

/// The last thing that an agent says in these messages.
pub(super) fn answered(messages: &[Message]) -> Option<String> {
    let said = messages.iter().rev().filter(|message| message.role == Role::Assistant).map(Message::joined);
    said.into_iter().find(|text| !text.trim().is_empty()).map(|text| text.trim().to_owned())
}

pub(super) fn agent_names(talk: &Talk, spans: &[&Span]) -> Vec<Option<String>> {
    let mut own = vec![None; spans.len()];
    for around in talk.invocations.iter().filter(|around| around.is_agent || around.agent.is_some()) {
        own[around.span].clone_from(&around.agent);
    }
    for (index, span) in spans.iter().enumerate() {
        if own[index].is_none()
            && let Some(name) = span.name.strip_prefix("agent_run [").and_then(|rest| rest.strip_suffix(']'))
        {
            own[index] = Some(name.to_owned());
        }
    }
    own
}

pub(super) fn known_agents(talk: &Talk) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let told =
        talk.invocations.iter().filter(|around| around.is_agent).filter_map(|around| around.agent.as_ref());
    for name in told.chain(talk.calls.iter().filter_map(|call| call.agent.as_ref())) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// A prompt that was built around the user's words is cut down to them, where some span tells them alone.
pub(super) fn narrow_requests(steps: &mut Vec<Draft>, talk: &Talk, anchors: &[String]) {
    let queries = talk
        .retrievals
        .iter()
        .filter_map(|retrieval| retrieval.query.as_deref())
        .filter(|query| query.len() >= 12)
        .take(MOST_ANCHORS);
    let words: Vec<&str> = anchors.iter().map(String::as_str).chain(queries).collect();
    // Where nothing else shows what the answer rests on, the prompt may be all that does.
    let words =
        if steps.iter().any(|draft| draft.step.kind == StepKind::Observation) { words } else { Vec::new() };
    for draft in steps.iter_mut().filter(|draft| draft.step.kind == StepKind::Request) {
        let Some(text) = &draft.step.text else { continue };
        let narrower = words
            .iter()
            .filter(|piece| piece.len() < text.len() && text.contains(piece.trim()))
            .max_by_key(|piece| piece.len());
        if let Some(piece) = narrower {
            draft.step.text = Some(piece.trim().to_owned());
        }
    }
    // Prompts of one turn that were built around the same words are one request.
    let mut last: Option<String> = None;
    steps.retain(|draft| match draft.step.kind {
        StepKind::Request => {
            let text = draft.step.text.clone().unwrap_or_default();
            let again = last.as_deref().is_some_and(|said| same_text(said, &text));
            last = Some(text);
            !again
        }
        StepKind::Observation => true,
        _ => {
            last = None;
            true
        }
    });
}

/// A story that no message opens is opened by what the outermost span was given.
pub(super) fn add_request(steps: &mut Vec<Draft>, anchors: &[String], start: Option<Time>) {
    if steps.iter().any(|draft| draft.step.kind == StepKind::Request) {
        return;
    }
    let Some(anchor) = anchors.last() else { return };
    let mut step = Step::new(StepKind::Request);
    step.text = Some(anchor.clone());
    step.time = start.filter(|time| time.is_known());
    steps.insert(0, Draft { step, sub: false, thread: 0 });
}

/// Hand-overs that only a span of their own tells.
pub(super) fn add_passes(steps: &mut Vec<Draft>, talk: &Talk, spans: &[&Span]) {
    for pass in &talk.passes {
        let target = pass.to.as_deref().filter(|target| *target != "unknown");
        let known = steps.iter().any(|draft| {
            draft.step.kind == StepKind::Handoff
                && (target.is_none()
                    || draft
                        .step
                        .tool
                        .as_deref()
                        .is_some_and(|tool| Some(squeeze(tool)) == target.map(squeeze)))
        });
        if known {
            continue;
        }
        let mut step = Step::new(StepKind::Handoff);
        step.agent.clone_from(&pass.from);
        step.tool = target.map(str::to_owned);
        step.span_id = spans.get(pass.span).map(|span| span.span_id);
        step.time = Some(pass.start).filter(|time| time.is_known());
        let at = steps
            .iter()
            .position(|draft| draft.step.time.is_some_and(|time| time > pass.start))
            .unwrap_or(steps.len());
        steps.insert(at, Draft { step, sub: false, thread: usize::MAX });
    }
}

/// In each turn one answer is the answer; what was said before it is thought. The last turn's is the root's, if it tells one.
pub(super) fn settle_answers(steps: &mut Vec<Draft>, root: Option<&str>, outer: &[&Invocation]) {
    let last_request = steps.iter().rposition(|draft| draft.step.kind == StepKind::Request).unwrap_or(0);
    let is_answer = |draft: &Draft| draft.step.kind == StepKind::Answer && !draft.sub;
    let candidates: Vec<usize> = (last_request..steps.len()).filter(|at| is_answer(&steps[*at])).collect();
    let equal = root.and_then(|root| {
        candidates
            .iter()
            .rev()
            .copied()
            .find(|at| steps[*at].step.text.as_deref().is_some_and(|text| same_text(text, root)))
    });
    match (equal.or(candidates.last().copied()), root) {
        (Some(chosen), _) => {
            let chosen = chosen + add_preamble(steps, last_request, chosen, root);
            // The last turn's other answers were on the way to this one.
            let candidates: Vec<usize> =
                (last_request..steps.len()).filter(|at| is_answer(&steps[*at])).collect();
            for at in candidates {
                if at != chosen {
                    steps[at].step.kind = StepKind::Thought;
                }
            }
            if chosen + 1 != steps.len()
                && !steps[chosen + 1..].iter().any(|draft| draft.step.kind != StepKind::Thought)
            {
                let answer = steps.remove(chosen);
                steps.push(answer);
            }
        }
        (None, Some(root)) => promote(steps, root, outer),
        (None, None) => {}
    }
    let mut turn_answers: Option<usize> = None;
    for at in 0..steps.len() {
        match steps[at].step.kind {
            StepKind::Request => turn_answers = None,
            StepKind::Answer if !steps[at].sub => {
                if let Some(earlier) = turn_answers {
                    steps[earlier].step.kind = StepKind::Thought;
                }
                turn_answers = Some(at);
            }
            _ => {}
        }
    }
}

/// A streamed run is told as one text: what stands in it before the answer is a thought that nothing else tells. Gives how
/// many steps were put in before the answer.
fn add_preamble(steps: &mut Vec<Draft>, request: usize, answer: usize, root: Option<&str>) -> usize {
    let said = steps[answer].step.text.clone().unwrap_or_default();
    let Some(preamble) = root.and_then(|root| root.trim().strip_suffix(said.trim())).map(str::trim) else {
        return 0;
    };
    let told = |draft: &Draft| {
        draft.step.kind == StepKind::Thought
            && draft.step.text.as_deref().is_some_and(|text| preamble.contains(text.trim()))
    };
    if preamble.is_empty() || said.trim().is_empty() || steps.iter().any(told) {
        return 0;
    }
    let mut step = Step::new(StepKind::Thought);
    step.text = Some(preamble.to_owned());
    step.agent.clone_from(&steps[answer].step.agent);
    let is_request = steps.get(request).is_some_and(|draft| draft.step.kind == StepKind::Request);
    let at = request + usize::from(is_request);
    steps.insert(at, Draft { step, sub: false, thread: usize::MAX });
    1
}

/// The outermost span tells an answer that no message of the last turn is.
fn promote(steps: &mut Vec<Draft>, root: &str, outer: &[&Invocation]) {
    let said = steps.iter().rposition(|draft| {
        matches!(draft.step.kind, StepKind::Thought)
            && draft.step.text.as_deref().is_some_and(|text| same_text(text, root))
    });
    if let Some(at) = said {
        let mut draft = steps.remove(at);
        draft.step.kind = StepKind::Answer;
        draft.sub = false;
        steps.push(draft);
        return;
    }
    // What merely repeats a request or a tool's result is no answer.
    let repeats = steps.iter().any(|draft| {
        matches!(draft.step.kind, StepKind::Request)
            && draft.step.text.as_deref().is_some_and(|text| same_text(text, root))
    });
    if repeats {
        return;
    }
    let mut step = Step::new(StepKind::Answer);
    step.text = Some(root.to_owned());
    if let Some(around) = outer.last() {
        step.agent.clone_from(&around.agent);
        step.time = Some(around.end).filter(|time| time.is_known());
    }
    steps.push(Draft { step, sub: false, thread: usize::MAX });
}

pub(super) fn finish(
    trace: &Trace,
    talk: &Talk,
    woven: &Woven,
    spans: &[&Span],
    tree: &Tree,
    drafts: Vec<Draft>,
) -> Story {
    let mut agents: Vec<String> = Vec::new();
    let mut turn = 1;
    let mut acted = false;
    let mut steps = Vec::with_capacity(drafts.len());
    for (index, draft) in drafts.into_iter().enumerate() {
        let mut step = draft.step;
        if step.kind == StepKind::Request {
            if acted {
                turn += 1;
            }
            acted = false;
        } else {
            acted = true;
        }
        step.index = index;
        step.turn = turn;
        let handed = if step.kind == StepKind::Handoff { step.tool.clone() } else { None };
        for name in step.agent.iter().chain(handed.iter()) {
            if !agents.contains(name) {
                agents.push(name.clone());
            }
        }
        steps.push((step, draft.sub));
    }
    let request = steps
        .iter()
        .rev()
        .find(|(step, _)| step.kind == StepKind::Request)
        .and_then(|(step, _)| step.text.clone());
    let last =
        steps.iter().rev().find(|(step, sub)| step.kind == StepKind::Answer && !sub && step.turn == turn);
    let answer = last.and_then(|(step, _)| step.text.clone());
    let answered_by = last
        .and_then(|(step, _)| step.span_id)
        .and_then(|id| spans.iter().position(|span| span.span_id == id));
    let opened_by = woven.threads.first().map(|thread| thread.span);
    let senders = [answered_by, opened_by].into_iter().flatten().filter_map(|at| spans.get(at).copied());
    let sender = senders
        .chain(spans.iter().copied())
        .map(|span| &span.resource)
        .chain(trace.logs.iter().map(|log| &log.resource))
        .find(|resource| resource.service().is_some());
    let model = woven.threads.iter().rev().find_map(|thread| thread.model.clone());
    let mut truncated = talk.truncated.clone();
    truncated.extend(talk.offers.truncated.iter().cloned());
    truncated.extend(trace.truncated.iter().cloned());
    let mut story = Story {
        trace_id: Some(trace.trace_id),
        session_id: talk.session.clone(),
        service: sender.and_then(|resource| resource.service()).map(str::to_owned),
        agents,
        instructions: talk.offers.instructions.clone(),
        tools: talk.offers.tools.clone(),
        request,
        steps: steps.into_iter().map(|(step, _)| step).collect(),
        answer,
        dialects: talk.dialects.iter().map(|name| (*name).to_owned()).collect(),
        truncated,
        warnings: talk.warnings.clone(),
        model,
        service_version: sender.and_then(|resource| resource.service_version()).map(str::to_owned),
        prompt_version: prompts::version(spans, tree, answered_by),
    };
    media::without_bytes(&mut story);
    story
}
