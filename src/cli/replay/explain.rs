//! `assayd replay --explain`: which evaluators would be asked about each trace, by the code that asks them.

use std::fmt::Write;

use serde_json::{Map, json};

use crate::config::Config;
use crate::domain::{Json, Trace};
use crate::pipeline::Asking;

/// Prints one object a trace and line, or, for people, a paragraph a trace.
pub fn explain(config: &Config, traces: &[Trace], for_people: bool) -> anyhow::Result<()> {
    let asking = Asking::new(config);
    for trace in traces {
        let text =
            if for_people { paragraph(&asking, trace) } else { format!("{}\n", object(&asking, trace)) };
        crate::cli::print(&text)?;
    }
    Ok(())
}

fn object(asking: &Asking, trace: &Trace) -> Json {
    let (questions, selections) = match asking.explain(trace) {
        Ok(asked) => asked,
        Err(skip) => {
            return json!({ "trace_id": trace.trace_id, "skipped": skip.reason(), "why": skip.to_string() });
        }
    };
    let evaluators: Map<String, Json> = selections
        .iter()
        .map(|selection| {
            let fate = &selection.fate;
            let view = json!({ "asked": fate.is_taken(), "reason": fate.reason(), "why": fate.to_string() });
            (selection.evaluator.to_string(), view)
        })
        .collect();
    json!({ "trace_id": trace.trace_id, "skipped": null, "evaluators": evaluators, "truncated": questions.truncated })
}

fn paragraph(asking: &Asking, trace: &Trace) -> String {
    let mut text = format!("trace {}\n", trace.trace_id);
    // Writing to a string cannot fail.
    match asking.explain(trace) {
        Ok((questions, selections)) => {
            for selection in &selections {
                let mark = if selection.fate.is_taken() { "+" } else { "-" };
                writeln!(text, "  {mark} {:<24} {}", selection.evaluator, selection.fate).ok();
            }
            for cut in &questions.truncated {
                writeln!(text, "  ! {cut}").ok();
            }
        }
        Err(skip) => {
            writeln!(text, "  no evaluator is asked: {skip}").ok();
        }
    }
    // What a trace says of itself must not steer the terminal.
    text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()
}
