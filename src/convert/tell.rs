//! Threads become the steps of a story: in causal order, each with its turn and agent.

use std::collections::HashSet;

use super::alike::{same_text, squeeze};
use super::atom::{Atom, What};
use super::ends;
use super::pairing::{Pending, best_text, is_last_word, result_in, starts_later};
use super::pseudo::{is_final, is_interpreter};
use super::talk::{Call, Outcome, Talk};
use super::thread::Thread;
use super::tree::Tree;
use super::weave::Woven;
use super::wrapping::tells_error;
use crate::domain::{Json, Span, Step, StepKind, Story, Time, Trace};

/// A step before its place is fixed.
pub(super) struct Draft {
    pub(super) step: Step,
    /// Whether it belongs to an agent that works for another one.
    pub(super) sub: bool,
    /// The thread that told it.
    pub(super) thread: usize,
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
    let outer = ends::outermost(talk, woven, spans, tree);
    let mut anchors = ends::anchors(&outer);
    if anchors.is_empty() {
        anchors.extend(ends::first_asked(talk, woven));
    }
    let own: Vec<Option<String>> = ends::agent_names(talk, spans);
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
        agents: ends::known_agents(talk),
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
    let answer_of_root = outer.iter().rev().find_map(|around| ends::answered(&around.output));
    ends::narrow_requests(&mut steps, talk, &teller.anchors);
    ends::add_request(&mut steps, &teller.anchors, outer.first().map(|around| around.start));
    ends::add_passes(&mut steps, talk, spans);
    ends::settle_answers(&mut steps, answer_of_root.as_deref(), &outer);
    ends::finish(trace, talk, woven, spans, tree, steps)
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

/// Whether `text` holds `piece`, up to white space at the ends.
fn holds(text: &str, piece: &str) -> bool {
    let piece = piece.trim();
    !piece.is_empty() && text.contains(piece) || same_text(text, piece)
}
