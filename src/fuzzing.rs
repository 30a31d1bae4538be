//! Laws that hold for any bytes. Each function takes what a stranger could send and panics if a law is broken; `tests/fuzz.rs` tries
//! them on mutated recordings, and `fuzz/` gives them to libFuzzer.

use std::collections::{BTreeMap, BTreeSet};

use crate::assemble::{self, Assembler};
use crate::domain::{StepKind, Story, Time, Trace};
use crate::otlp::{self, Encoding, Signal};
use crate::receive::ledger;
use crate::ticket::Outcome;
use crate::transcript::{HookInput, Session};
use crate::{ask, config, convert, decide, judge};

/// Spans or log records in protobuf: what can be read can be assembled, told and asked about.
pub fn otlp_protobuf(bytes: &[u8]) {
    otlp(Encoding::Protobuf, bytes);
}

/// The same in JSON.
pub fn otlp_json(bytes: &[u8]) {
    otlp(Encoding::Json, bytes);
}

/// A configuration: it is taken, or refused with words.
pub fn configuration(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match config::parse(text, "fuzz.yaml") {
        Ok(config) => drop(config.problems()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A coding agent's transcript: it is read whatever is in it, and the evidence keeps to its limit.
pub fn transcript(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for side in [false, true] {
        let session = Session::read(&text, side);
        let answer = session.answer().unwrap_or_else(|| "nothing".to_owned());
        let limit = 500;
        let story = session.told(&answer, limit).story;
        let observed: usize = story
            .steps
            .iter()
            .filter(|step| step.kind == StepKind::Observation)
            .filter_map(|step| step.text.as_deref())
            .map(|text| text.chars().count())
            .sum();
        assert!(observed <= limit, "{observed} characters of evidence");
    }
}

/// What a Stop hook gets on its standard input.
pub fn hook_input(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(input) = HookInput::read(&text) {
        let _ = (input.is_subagent(), input.path(), input.answer());
    }
}

/// What a judge's endpoint sends: it is read as answers that were offered, or as an error.
pub fn judge_reply(bytes: &[u8]) {
    judge::hold_laws(bytes);
}

/// What a remote decision model's server sends: it is read as distributions over what was asked, or as an error.
pub fn decider_reply(bytes: &[u8]) {
    decide::hold_laws(bytes);
}

/// Operations on the ledger of Kafka's offsets: nothing is committed beyond a record that is open.
pub fn offsets(bytes: &[u8]) {
    let mut book = ledger::Ledger::new(ledger::Patience::default());
    let places = [ledger::Place::new("spans", 0), ledger::Place::new("spans", 1)];
    // What is open by the book-keeping of this function: offsets that were delivered and not settled as done.
    let mut open: BTreeMap<usize, BTreeSet<i64>> = BTreeMap::new();
    let mut receipts: Vec<(usize, ledger::Receipt)> = Vec::new();
    let mut next = [0_i64; 2];
    let mut now = Time(1);
    for operation in bytes.chunks_exact(2) {
        let (which, value) = (usize::from(operation[0] & 1), operation[1]);
        let place = &places[which];
        now = Time(now.0 + u64::from(value) * 50_000_000);
        match operation[0] >> 1 & 7 {
            0 => {
                book.assigned(place.clone());
                open.insert(which, BTreeSet::new());
                next[which] = i64::from(value);
            }
            1 => {
                let commit = book.revoked(place);
                // It comes back, sometimes with a note that nobody can read.
                if let Some(commit) = commit {
                    no_further(&open, which, commit.offset);
                    let note: String = commit.note.chars().skip(usize::from(value == 7)).collect();
                    book.inherited(place.clone(), commit.offset, &note, now);
                    next[which] = commit.offset;
                }
                open.remove(&which);
            }
            2..=4 => {
                let offset = next[which];
                next[which] += 1 + i64::from(value == 0);
                if let ledger::Opening::Deliver(receipt) | ledger::Opening::SetAside(receipt) =
                    book.open(place, offset, now)
                {
                    open.entry(which).or_default().insert(offset);
                    receipts.push((which, receipt));
                }
                // Records that the log has lost meanwhile count as over.
                for (place, gone) in book.take_vanished() {
                    open.entry(usize::from(place == places[1])).or_default().remove(&gone);
                }
            }
            5 | 6 if !receipts.is_empty() => {
                let (which, receipt) = receipts.swap_remove(usize::from(value) % receipts.len());
                let outcome = if operation[0] & 16 == 0 { Outcome::Done } else { Outcome::Retry };
                let counted = book.settled(&receipt, outcome, now) == ledger::Settled::Counted;
                if counted && outcome == Outcome::Done {
                    open.entry(which).or_default().remove(&receipt.offset());
                }
            }
            _ => {
                for step in book.steps(now) {
                    if let ledger::Step::Rewind { place, offset } = step {
                        next[usize::from(place == places[1])] = offset;
                    }
                }
            }
        }
        for (place, commit) in book.commits() {
            no_further(&open, usize::from(place == places[1]), commit.offset);
        }
    }
}

fn no_further(open: &BTreeMap<usize, BTreeSet<i64>>, which: usize, offset: i64) {
    let lowest = open.get(&which).and_then(BTreeSet::first);
    assert!(lowest.is_none_or(|lowest| offset <= *lowest), "{offset} is committed, and {lowest:?} is open");
}

fn otlp(encoding: Encoding, bytes: &[u8]) {
    if let Ok(decoded) = otlp::decode(Signal::Logs, encoding, bytes) {
        evaluated(decoded);
    }
    if let Ok(decoded) = otlp::decode(Signal::Traces, encoding, bytes) {
        evaluated(decoded);
    }
}

fn evaluated(decoded: otlp::Decoded) {
    let mut assembler = Assembler::new(assemble::Config::default());
    assembler.push(Time(1), decoded.spans, decoded.logs, |_, _| ());
    assembler.close_all();
    while let Some(closed) = assembler.pop(Time(2)) {
        told(&closed.trace);
    }
}

fn told(trace: &Trace) {
    let Ok(story) = convert::story(trace) else { return };
    assert_eq!(convert::story(trace).as_ref(), Ok(&story), "the same trace tells the same story");
    assert!(story.steps.iter().enumerate().all(|(index, step)| step.index == index), "steps are numbered");
    asked(&story);
}

fn asked(story: &Story) {
    let asked = ask::questions(story, &ask::Config::default());
    let answer: Vec<char> = story.answer.as_deref().unwrap_or_default().chars().collect();
    for claim in &asked.claims {
        let [from, to] = claim.range;
        let cited: Option<String> = answer.get(from..to).map(|chars| chars.iter().collect());
        assert_eq!(cited.as_ref(), Some(&claim.text), "a claim stands where it says");
        for evidence in &claim.evidence {
            let step = story.steps.iter().find(|step| step.index == evidence.step);
            let text = step.and_then(|step| step.text.as_deref()).unwrap_or_default();
            let [from, to] = evidence.range;
            assert!(from <= to && to <= text.chars().count(), "evidence lies in its step");
        }
    }
    ruled(story);
}

/// Whatever needs no model: rules over the calls, schemas and instructions that the sender chose, finders.
fn ruled(story: &Story) {
    let names = ["tool_choice", "tool_arguments", "system_prompt_leak", "loop", "secrets", "pii", "scope"];
    let built_in = names.map(str::to_owned).to_vec();
    let config = ask::EvaluateConfig { grounding: false, built_in, ..ask::EvaluateConfig::default() };
    let candidate = ask::Candidate { story, trace: None, service: None };
    let (asked, _) = ask::Evaluators::new(&config).ask(&candidate, &ask::Config::default());
    for (question, ruling) in &asked.ruled {
        assert!(question.kind.labels().contains(&ruling.label), "a ruling is one of the question's labels");
    }
}
