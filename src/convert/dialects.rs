//! One file per dialect: each reads what it knows of a span into the span's draft.

mod adk;
mod autogen;
mod boxed;
mod events;
mod foreign;
mod gen_ai;
mod haystack;
mod keys;
mod openinference;
mod pydantic;
mod vercel;

use super::draft::{Draft, Kind};
use crate::domain::{LogRecord, Span};

pub(super) use events::{Told, detail, tell};
pub(super) use foreign::SHAPE;
pub(super) use gen_ai::add_reasoning;

/// Prefixes of the attributes by which a span is known to some dialect. A span without any of them costs one look at its keys.
#[derive(Debug, Clone, Copy, Default)]
struct Families {
    gen_ai: bool,
    openinference: bool,
    vercel: bool,
    adk: bool,
    haystack: bool,
    pydantic: bool,
    autogen: bool,
    boxed: bool,
    raw: bool,
}

impl Families {
    fn any(self) -> bool {
        self.gen_ai
            || self.openinference
            || self.vercel
            || self.adk
            || self.haystack
            || self.pydantic
            || self.autogen
            || self.boxed
            || self.raw
    }

    fn of(span: &Span) -> Self {
        let mut families = Self::default();
        for (key, _) in span.attributes.iter() {
            match key.as_bytes().first() {
                Some(b'g') if key.starts_with("gen_ai.") => families.gen_ai = true,
                Some(b'g') if key.starts_with("gcp.vertex.agent.") => families.adk = true,
                Some(b'l') if key.starts_with("llm.") => {
                    families.openinference = true;
                    families.raw |= key.ends_with(".messages") || key.ends_with(".contents");
                }
                Some(b'o') if key.starts_with("openinference.") => families.openinference = true,
                Some(b'i') if key == "input.value" => families.openinference = true,
                Some(b'o') if key == "output.value" => families.openinference = true,
                Some(b'r') if key.starts_with("retrieval.documents.") => families.openinference = true,
                Some(b'a') if key.starts_with("ai.") => families.vercel = true,
                Some(b'h') if key.starts_with("haystack.") => families.haystack = true,
                Some(b'm') if key == "message" => families.autogen = true,
                _ => {}
            }
            families.pydantic |= pydantic::knows(key);
            families.boxed |= boxed::knows(key);
        }
        families.gen_ai |= span.events.iter().any(|event| event.name.starts_with("gen_ai."));
        families
    }
}

/// What the dialects know of a span and of the log records that belong to it; `None` if no dialect knows it.
pub(super) fn read<'a>(span: &'a Span, logs: &[&LogRecord]) -> Option<Draft<'a>> {
    let families = Families::of(span);
    let told_by_logs = logs.iter().any(|log| events::is_told(log));
    if !families.any() && !told_by_logs {
        return foreign::read(Draft::new(span));
    }
    let mut draft = Draft::new(span);
    if families.gen_ai {
        gen_ai::kinds(&mut draft);
    }
    if families.boxed {
        boxed::kinds(&mut draft);
    }
    if families.openinference {
        openinference::kinds(&mut draft);
    }
    // A span whose whole conversation is in log records is not read twice.
    let details = logs.iter().any(|log| events::is_details(log));
    if families.vercel {
        vercel::read(&mut draft);
    }
    if families.adk {
        adk::read(&mut draft);
    }
    if !details || draft.kind != Some(Kind::Model) {
        if families.gen_ai {
            gen_ai::read(&mut draft);
        }
        if families.pydantic {
            pydantic::read(&mut draft);
        }
        if families.openinference {
            openinference::read(&mut draft);
        }
        if families.haystack {
            haystack::read(&mut draft);
        }
        if families.boxed {
            boxed::read(&mut draft);
        }
        if families.autogen {
            autogen::read(&mut draft);
        }
        if families.raw {
            openinference::read_raw(&mut draft);
        }
    }
    if span.events.iter().any(|event| event.name.starts_with("gen_ai.")) {
        let told: Vec<Told> = span.events.iter().filter_map(Told::of_event).collect();
        tell(&told, &mut draft);
    }
    if told_by_logs && !details {
        let told: Vec<Told> = logs.iter().filter_map(|log| Told::of_log(log)).collect();
        tell(&told, &mut draft);
    }
    if draft.kind.is_none() {
        let speaks = !draft.input.is_empty() && !draft.output.is_empty();
        let works = draft.tool.is_some() && (draft.arguments.is_some() || draft.shown.is_some());
        draft.kind = match (works, speaks || !draft.output.is_empty()) {
            (true, _) => Some(Kind::Tool),
            (false, true) => Some(Kind::Model),
            _ => None,
        };
    }
    // What the conventions know of a span may be its kind or its model alone, with the content under a product's own names.
    if !draft.has_content() && !details && !matches!(draft.kind, Some(Kind::Ignored | Kind::Pass)) {
        return foreign::read(draft);
    }
    (draft.kind.is_some() || draft.has_content()).then_some(draft)
}

/// Calls of a model that are told whole by log records of their own.
pub(super) fn details<'a>(logs: &[&'a LogRecord]) -> Vec<&'a LogRecord> {
    logs.iter().copied().filter(|log| events::is_details(log)).collect()
}
