//! Threads become the steps of a story: in causal order, each with its turn and agent.

use std::collections::HashSet;

use super::pseudo::{is_final, is_interpreter};
use super::talk::{Call, Invocation, Message, Outcome, Talk};
use super::text::tells_error;
use super::thread::{Atom, Thread, What, same_text, same_tool, squeeze};
use super::tree::Tree;
use super::weave::Woven;
use crate::domain::{Json, Span, Step, StepKind, Story, Time, Trace};

/// A step before its place is fixed.
struct Draft {
    step: Step,
    /// Whether it belongs to an agent that works for another one.
    sub: bool,
    thread: usize,
}

struct Teller<'a> {
    spans: &'a [&'a Span],
    woven: &'a Woven,
    agents: Vec<String>,
    above: Vec<Option<String>>,
    anchors: Vec<String>,
    anchored: bool,
    out: Vec<Draft>,
    told: HashSet<usize>,
    /// Who called and who works, for each call that is being told from inside.
    acting: Vec<(Option<String>, Option<String>)>,
}

/// The story of woven threads.
pub(super) fn tell(trace: &Trace, talk: &Talk, woven: &Woven, spans: &[&Span], tree: &Tree) -> Story {
    let outer = outermost(talk, spans, tree);
    let anchors = anchors(&outer);
    let own: Vec<Option<String>> = agent_names(talk, spans);
    let first_requests =
        woven.threads.iter().flat_map(|thread| thread.atoms.iter()).filter_map(|atom| match &atom.what {
            What::Request(text) => Some(text),
            _ => None,
        });
    let anchored =
        first_requests.into_iter().any(|request| anchors.iter().any(|anchor| holds(request, anchor)));
    let mut teller = Teller {
        spans,
        woven,
        agents: known_agents(talk),
        above: tree.nearest(&own),
        anchors,
        anchored,
        out: Vec::new(),
        told: HashSet::new(),
        acting: Vec::new(),
    };
    let mut top: Vec<usize> = (0..woven.threads.len()).filter(|t| !woven.served.contains_key(t)).collect();
    top.sort_by_key(|t| (woven.threads[*t].start, *t));
    for t in top {
        teller.thread(t, false);
    }
    let mut steps = teller.out;
    let answer_of_root = outer.iter().rev().find_map(|around| answered(&around.output));
    narrow_requests(&mut steps, talk, &teller.anchors);
    add_request(&mut steps, &teller.anchors, outer.first().map(|around| around.start));
    add_passes(&mut steps, talk, spans);
    settle_answers(&mut steps, answer_of_root.as_deref(), &outer);
    finish(trace, talk, woven, spans, steps)
}

impl Teller<'_> {
    /// Tells a thread, and before the results of each group of calls the threads that serve it.
    fn thread(&mut self, t: usize, sub: bool) {
        if !self.told.insert(t) {
            return;
        }
        let thread = &self.woven.threads[t];
        let mut group: Vec<(usize, bool)> = Vec::new();
        let mut results = Pending::default();
        for (a, atom) in thread.atoms.iter().enumerate() {
            if atom.shared {
                continue;
            }
            if !matches!(atom.what, What::Call(_)) || starts_later(thread, &group, atom, self.woven) {
                self.close(t, &mut group, &mut results, sub);
            }
            match &atom.what {
                What::Request(text) => self.request(t, thread, a, text, sub),
                What::Thought(text) => self.said(StepKind::Thought, t, atom, text, sub),
                What::Text(text) => {
                    let kind = if is_last_word(thread, a) { StepKind::Answer } else { StepKind::Thought };
                    self.said(kind, t, atom, text, sub);
                }
                What::Call(call) => {
                    let has_result = result_in(thread, a, call);
                    self.call(t, atom, call, sub);
                    group.push((a, has_result));
                    results.open.push(a);
                }
                What::Result(outcome) => self.result(t, thread, atom, outcome, &mut results, sub),
                What::Document(name, text) => {
                    let mut step = self.step(StepKind::Observation, atom);
                    step.text = Some(text.clone());
                    step.tool.clone_from(name);
                    self.push(step, sub, t);
                }
            }
        }
        self.close(t, &mut group, &mut results, sub);
    }

    /// Ends a group of calls: tells who worked for them, then the results that only the runs know.
    fn close(&mut self, t: usize, group: &mut Vec<(usize, bool)>, results: &mut Pending, sub: bool) {
        let closed = std::mem::take(group);
        for (a, _) in &closed {
            let mut servants: Vec<usize> = self
                .woven
                .served
                .iter()
                .filter(|(_, place)| **place == (t, *a))
                .map(|(servant, _)| *servant)
                .collect();
            servants.sort_by_key(|servant| (self.woven.threads[*servant].start, *servant));
            if servants.is_empty() {
                continue;
            }
            let thread = &self.woven.threads[t];
            let atom = &thread.atoms[*a];
            let caller = self.agent_of(atom);
            let target = match &atom.what {
                What::Call(call) => self.target(t, atom, call, caller.as_deref()),
                _ => None,
            };
            self.acting.push((caller, target));
            for servant in servants {
                self.thread(servant, true);
            }
            self.acting.pop();
        }
        for (a, has_result) in closed {
            let thread = &self.woven.threads[t];
            let atom = &thread.atoms[a];
            let (What::Call(call), Some(run)) = (&atom.what, atom.run) else { continue };
            if has_result {
                continue;
            }
            let run = &self.woven.runs[run];
            let text = run.result.clone().or_else(|| run.error.clone());
            let Some(text) = text else { continue };
            results.open.retain(|open| *open != a);
            let outcome =
                Outcome { id: call.id.clone(), tool: Some(call.name.clone()), text, failed: run.failed };
            self.observe(t, atom, Some(a), &outcome, run.end, sub);
        }
    }

    fn request(&mut self, t: usize, thread: &Thread, a: usize, text: &str, sub: bool) {
        let atom = &thread.atoms[a];
        if sub {
            return;
        }
        let is_anchor = self.anchors.iter().any(|anchor| holds(text, anchor));
        let first = !thread.atoms[..a].iter().any(|before| matches!(before.what, What::Request(_)));
        if self.anchored && !is_anchor {
            let after_work = a > 0 && matches!(thread.atoms[a - 1].what, What::Call(_) | What::Result(_));
            let opens_pipeline_step =
                first && self.out.iter().any(|draft| draft.step.kind == StepKind::Request);
            if opens_pipeline_step {
                return;
            }
            if after_work {
                let mut step = self.step(StepKind::Observation, atom);
                step.text = Some(text.to_owned());
                self.push(step, sub, t);
                return;
            }
        }
        // Another thread of the same turn begins with the same words.
        let last = self.out.iter().rev().find(|draft| draft.step.kind == StepKind::Request);
        if first
            && last.is_some_and(|draft| {
                draft.thread != t && draft.step.text.as_deref().is_some_and(|said| same_text(said, text))
            })
        {
            return;
        }
        let mut step = self.step(StepKind::Request, atom);
        step.text = Some(text.to_owned());
        step.agent = None;
        self.push(step, sub, t);
    }

    fn said(&mut self, kind: StepKind, t: usize, atom: &Atom, text: &str, sub: bool) {
        let mut step = self.step(kind, atom);
        step.text = Some(text.trim().to_owned());
        self.push(step, sub, t);
    }

    fn call(&mut self, t: usize, atom: &Atom, call: &Call, sub: bool) {
        if is_final(&call.name) || is_interpreter(&call.name) {
            return;
        }
        let mut step = self.step(StepKind::ToolCall, atom);
        if let Some(target) = self.target(t, atom, call, step.agent.as_deref()) {
            step.kind = StepKind::Handoff;
            step.tool = Some(target);
            step.arguments.clone_from(&call.arguments);
            step.call_id.clone_from(&call.id);
            self.push(step, sub, t);
            return;
        }
        let run = atom.run.map(|run| &self.woven.runs[run]);
        let arguments = match &call.arguments {
            Some(arguments @ Json::Object(_)) => Some(arguments),
            other => run
                .and_then(|run| run.arguments.as_ref())
                .filter(|arguments| arguments.is_object())
                .or(other.as_ref()),
        };
        // A call whose arguments the export does not hold shows in its result alone.
        let Some(arguments) = arguments else { return };
        step.tool = Some(call.name.clone());
        step.arguments = Some(arguments.clone());
        step.call_id.clone_from(&call.id);
        if let Some(run) = run {
            step.time = Some(run.start).filter(|time| time.is_known());
        }
        self.push(step, sub, t);
    }

    /// The agent that a call passes on to; `None` for an ordinary tool.
    fn target(&self, t: usize, atom: &Atom, call: &Call, caller: Option<&str>) -> Option<String> {
        let name = call.name.as_str();
        let argument = |keys: &[&str]| {
            let map = call.arguments.as_ref()?.as_object()?;
            keys.iter().find_map(|key| map.get(*key)?.as_str()).map(str::to_owned)
        };
        for prefix in ["transfer_to_", "handoff_to_", "hand_off_to_", "delegate_to_", "transfer_back_to_"] {
            if let Some(rest) = name.strip_prefix(prefix).filter(|rest| !rest.is_empty()) {
                let named = argument(&["agent_name", "to_agent", "agent"])
                    .filter(|_| matches!(rest, "agent" | "an_agent"));
                return Some(named.unwrap_or_else(|| rest.to_owned()));
            }
        }
        let lower = name.to_ascii_lowercase();
        if matches!(lower.as_str(), "handoff" | "handoff_to_agent" | "transfer" | "delegate")
            || lower.contains("coworker")
        {
            return argument(&[
                "to_agent",
                "agent_name",
                "agent",
                "coworker",
                "target",
                "recipient",
                "assistant",
            ])
            .or_else(|| Some(name.to_owned()));
        }
        let squeezed = squeeze(name);
        let is_other = |agent: &&String| caller != Some(agent.as_str());
        let called = self.agents.iter().filter(is_other).find(|agent| {
            let agent = squeeze(agent);
            agent.len() >= 4 && squeezed.contains(&agent)
        });
        if called.is_some() {
            return called.cloned();
        }
        // An agent that worked inside this call, under any name.
        let a = self.woven.threads[t].atoms.iter().position(|other| std::ptr::eq(other, atom))?;
        let servant = self
            .woven
            .served
            .iter()
            .filter(|(_, place)| **place == (t, a))
            .map(|(servant, _)| *servant)
            .min()?;
        let thread = &self.woven.threads[servant];
        let spoke = thread.atoms.iter().find(|atom| matches!(atom.what, What::Text(_) | What::Thought(_)))?;
        let agent = spoke.agent.clone().or_else(|| self.above.get(spoke.span).cloned().flatten());
        Some(agent.filter(|agent| Some(agent.as_str()) != caller).unwrap_or_else(|| name.to_owned()))
    }

    fn result(
        &mut self,
        t: usize,
        thread: &Thread,
        atom: &Atom,
        outcome: &Outcome,
        results: &mut Pending,
        sub: bool,
    ) {
        let place = results.take(thread, outcome);
        self.observe(t, atom, place, outcome, atom.time, sub);
    }

    /// Tells what a tool gave back, joined with what its run knows.
    fn observe(
        &mut self,
        t: usize,
        atom: &Atom,
        place: Option<usize>,
        outcome: &Outcome,
        time: Time,
        sub: bool,
    ) {
        let thread = &self.woven.threads[t];
        let asked = place.map(|a| &thread.atoms[a]);
        let call = asked.and_then(|asked| match &asked.what {
            What::Call(call) => Some(call),
            _ => None,
        });
        let run = asked.and_then(|asked| asked.run).map(|run| &self.woven.runs[run]);
        let name = call.map(|call| call.name.clone()).or_else(|| outcome.tool.clone());
        if name.as_deref().is_some_and(is_final) {
            return;
        }
        let shown = best_text(outcome, run);
        if call.is_none() && self.repeats_a_run(&shown, outcome) {
            return;
        }
        let failed = outcome.failed.or(run.and_then(|run| run.failed)).unwrap_or(false)
            || run.is_some_and(|run| run.failed == Some(true))
            || tells_error(&shown);
        if let (Some(call), Some(asked)) = (call, asked)
            && self.target(t, asked, call, self.agent_of(asked).as_deref()).is_some()
            && self.is_empty_pass(&shown, call)
        {
            return;
        }
        if shown.is_empty()
            && run.is_none_or(|run| run.result.is_none())
            && outcome.text.is_empty()
            && outcome.id.is_none()
        {
            return;
        }
        let mut step = self.step(StepKind::Observation, atom);
        step.agent = asked.and_then(|asked| self.agent_of(asked)).or(step.agent);
        step.text = Some(shown);
        step.tool = name;
        step.call_id = outcome.id.clone().or_else(|| call.and_then(|call| call.id.clone()));
        step.is_error = Some(failed);
        if let Some(run) = run {
            step.span_id = self.spans.get(run.span).map(|span| span.span_id);
            step.time = Some(run.end).filter(|time| time.is_known());
        } else {
            step.time = Some(time).filter(|time| time.is_known());
        }
        self.push(step, sub, t);
    }

    /// The print-out of a program whose tools have told their results themselves.
    fn repeats_a_run(&self, shown: &str, outcome: &Outcome) -> bool {
        let has_tool = outcome.id.is_some();
        !has_tool
            && self.woven.runs.iter().any(|run| {
                run.result
                    .as_deref()
                    .is_some_and(|result| !result.trim().is_empty() && shown.contains(result.trim()))
            })
    }

    /// Whether the result of a hand-over only says that it took place, or repeats the other agent's answer.
    fn is_empty_pass(&self, shown: &str, call: &Call) -> bool {
        let repeated = self.out.iter().rev().take(200).any(|draft| {
            draft.step.kind == StepKind::Answer
                && draft.sub
                && draft
                    .step
                    .text
                    .as_deref()
                    .is_some_and(|said| same_text(said, shown) || shown.contains(said.trim()))
        });
        let name = call.name.to_ascii_lowercase();
        let passes =
            name.starts_with("transfer") || name.starts_with("hand") || name.starts_with("delegate_to");
        repeated || passes
    }

    fn agent_of(&self, atom: &Atom) -> Option<String> {
        let named = atom.agent.clone().or_else(|| self.above.get(atom.span).cloned().flatten());
        // Work inside a hand-over is the other agent's, also where the spans know only the one that called.
        match self.acting.last() {
            Some((caller, Some(target))) if named == *caller => Some(target.clone()),
            _ => named,
        }
    }

    fn step(&self, kind: StepKind, atom: &Atom) -> Step {
        let mut step = Step::new(kind);
        step.agent = self.agent_of(atom);
        step.span_id = self.spans.get(atom.span).map(|span| span.span_id);
        step.time = Some(atom.time).filter(|time| time.is_known());
        step
    }

    fn push(&mut self, step: Step, sub: bool, thread: usize) {
        self.out.push(Draft { step, sub, thread });
    }
}

/// Calls that wait for their results.
#[derive(Default)]
struct Pending {
    open: Vec<usize>,
}

impl Pending {
    /// The call that a result answers: by id, by name, or the one that waits longest.
    fn take(&mut self, thread: &Thread, outcome: &Outcome) -> Option<usize> {
        let call = |a: &usize| match &thread.atoms[*a].what {
            What::Call(call) => Some(call),
            _ => None,
        };
        let by_id = outcome.id.as_ref().and_then(|id| {
            thread.atoms.iter().position(|atom| matches!(&atom.what, What::Call(call) if call.is(id)))
        });
        let place = match (by_id, &outcome.id, &outcome.tool) {
            (Some(place), _, _) => Some(place),
            (None, Some(_), tool) => {
                let fits = |a: &&usize| {
                    call(a).is_some_and(|call| tool.as_ref().is_none_or(|tool| same_tool(&call.name, tool)))
                };
                let nameless = |a: &&usize| call(a).is_some_and(|call| call.is_nameless());
                self.open.iter().filter(fits).find(nameless).or_else(|| self.open.iter().find(fits)).copied()
            }
            (None, None, Some(tool)) => {
                self.open.iter().copied().find(|a| call(a).is_some_and(|call| same_tool(&call.name, tool)))
            }
            (None, None, None) => self.open.first().copied(),
        };
        if let Some(place) = place {
            self.open.retain(|open| *open != place);
        }
        place
    }
}

/// Whether a run began after every run of the group had ended, so that it was not asked for together with them.
fn starts_later(thread: &Thread, group: &[(usize, bool)], atom: &Atom, woven: &Woven) -> bool {
    let Some(run) = atom.run.map(|run| &woven.runs[run]) else { return false };
    let loose = |atom: &Atom| atom.run.is_some_and(|run| woven.runs[run].span == atom.span);
    !group.is_empty()
        && loose(atom)
        && group.iter().all(|(a, _)| {
            let other = &thread.atoms[*a];
            loose(other) && other.run.is_some_and(|other| woven.runs[other].end <= run.start)
        })
}

/// Whether the thread holds the result of its call at `a`.
fn result_in(thread: &Thread, a: usize, call: &Call) -> bool {
    let mut unnamed = 0usize;
    for atom in &thread.atoms[a + 1..] {
        match &atom.what {
            What::Result(outcome) => match (&outcome.id, &call.id) {
                (Some(id), Some(_)) if call.is(id) => return true,
                (Some(id), Some(_)) if knows(thread, id) => {}
                _ if outcome
                    .tool
                    .as_deref()
                    .is_none_or(|tool| same_tool(tool, &call.name) || is_interpreter(tool)) =>
                {
                    if unnamed == 0 {
                        return true;
                    }
                    unnamed -= 1;
                }
                _ => {}
            },
            What::Call(other) if call.id.is_none() && same_tool(&other.name, &call.name) => unnamed += 1,
            _ => {}
        }
    }
    // Earlier calls of the same name without an id take the first results.
    false
}

/// Whether any call of the thread has this id.
fn knows(thread: &Thread, id: &str) -> bool {
    thread.atoms.iter().any(|atom| matches!(&atom.what, What::Call(call) if call.is(id)))
}

/// Whether a text is the last that the agent says in its turn.
fn is_last_word(thread: &Thread, a: usize) -> bool {
    if thread.atoms[a].beside {
        return false;
    }
    for atom in &thread.atoms[a + 1..] {
        match &atom.what {
            What::Request(_) => return true,
            What::Text(_) | What::Thought(_) | What::Result(_) | What::Document(..) => return false,
            What::Call(call) if is_final(&call.name) => {}
            What::Call(_) => return false,
        }
    }
    true
}

/// What a tool said: as the model was shown it, or, where the framework wrapped the tool's error in words of its own, the
/// error itself.
fn best_text(outcome: &Outcome, run: Option<&super::talk::ToolRun>) -> String {
    let shown = outcome.text.trim();
    let Some(run) = run else { return shown.to_owned() };
    if let Some(error) = run.error.as_deref().map(str::trim).filter(|error| !error.is_empty())
        && shown.contains(error)
    {
        return error.to_owned();
    }
    let result = run.result.as_deref().map(str::trim).unwrap_or_default();
    if shown.is_empty() || result.len() > shown.len() && result.starts_with(shown) {
        return if result.is_empty() { run.error.clone().unwrap_or_default() } else { result.to_owned() };
    }
    shown.to_owned()
}

/// Whether `text` holds `piece`, up to white space at the ends.
fn holds(text: &str, piece: &str) -> bool {
    let piece = piece.trim();
    !piece.is_empty() && text.contains(piece) || same_text(text, piece)
}

/// Spans around the whole: those with input or output that have no such span above them.
fn outermost<'a>(talk: &'a Talk, spans: &[&Span], tree: &Tree) -> Vec<&'a Invocation> {
    let mut own: Vec<Option<()>> = vec![None; spans.len()];
    let speaking: Vec<&Invocation> = talk
        .invocations
        .iter()
        .filter(|around| !around.input.is_empty() || !around.output.is_empty())
        .collect();
    for around in &speaking {
        own[around.span] = Some(());
    }
    for run in talk.runs.iter() {
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
fn anchors(outer: &[&Invocation]) -> Vec<String> {
    let mut asked: Vec<String> = outer.iter().filter_map(|around| asked(&around.input)).collect();
    let mut seen = HashSet::new();
    asked.retain(|text| seen.insert(text.clone()));
    asked.split_off(asked.len().saturating_sub(MOST_ANCHORS))
}

/// The last thing that a user asks in these messages.
fn asked(messages: &[Message]) -> Option<String> {
    let said =
        messages.iter().rev().filter(|message| message.role == super::talk::Role::User).map(Message::joined);
    said.into_iter().find(|text| !text.trim().is_empty()).map(|text| text.trim().to_owned())
}

/// The last thing that an agent says in these messages.
fn answered(messages: &[Message]) -> Option<String> {
    let said = messages
        .iter()
        .rev()
        .filter(|message| message.role == super::talk::Role::Assistant)
        .map(Message::joined);
    said.into_iter().find(|text| !text.trim().is_empty()).map(|text| text.trim().to_owned())
}

fn agent_names(talk: &Talk, spans: &[&Span]) -> Vec<Option<String>> {
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

fn known_agents(talk: &Talk) -> Vec<String> {
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
fn narrow_requests(steps: &mut Vec<Draft>, talk: &Talk, anchors: &[String]) {
    let queries = talk
        .retrievals
        .iter()
        .filter_map(|retrieval| retrieval.query.as_deref())
        .filter(|query| query.len() >= 12)
        .take(MOST_ANCHORS);
    let words: Vec<&str> = anchors.iter().map(String::as_str).chain(queries).collect();
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
fn add_request(steps: &mut Vec<Draft>, anchors: &[String], start: Option<Time>) {
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
fn add_passes(steps: &mut Vec<Draft>, talk: &Talk, spans: &[&Span]) {
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
fn settle_answers(steps: &mut Vec<Draft>, root: Option<&str>, outer: &[&Invocation]) {
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

fn finish(trace: &Trace, talk: &Talk, woven: &Woven, spans: &[&Span], drafts: Vec<Draft>) -> Story {
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
    let service = answered_by
        .and_then(|at| spans[at].resource.service())
        .or_else(|| woven.threads.first().and_then(|thread| spans.get(thread.span)?.resource.service()))
        .or_else(|| spans.iter().find_map(|span| span.resource.service()))
        .or_else(|| trace.logs.iter().find_map(|log| log.resource.service()));
    let model = woven.threads.iter().rev().find_map(|thread| thread.model.clone());
    let mut truncated = talk.truncated.clone();
    truncated.extend(trace.truncated.iter().cloned());
    Story {
        trace_id: Some(trace.trace_id),
        session_id: talk.session.clone(),
        service: service.map(str::to_owned),
        agents,
        request,
        steps: steps.into_iter().map(|(step, _)| step).collect(),
        answer,
        dialects: talk.dialects.iter().map(|name| (*name).to_owned()).collect(),
        truncated,
        warnings: talk.warnings.clone(),
        model,
    }
}
