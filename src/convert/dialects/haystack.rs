//! Haystack's own tracing: `haystack.agent.*` and `haystack.component.*`.

use crate::convert::draft::{Draft, Kind};

pub(super) fn read(draft: &mut Draft) {
    draft.dialect("haystack");
    let name = draft.span.name.as_str();
    let component = draft.text(&["haystack.component.type", "haystack.component.name"]).unwrap_or_default();
    let (kind, input, output): (Kind, &[&str], &[&str]) = match name {
        "haystack.agent.step.llm" => {
            (Kind::Model, &["haystack.agent.step.llm.input"], &["haystack.agent.step.llm.output"])
        }
        "haystack.agent.step.tool" => {
            (Kind::Tool, &["haystack.agent.step.tool.input"], &["haystack.agent.step.tool.output"])
        }
        "haystack.agent.run" => (Kind::Agent, &["haystack.agent.input"], &["haystack.agent.output"]),
        "haystack.pipeline.run" | "haystack.async_pipeline.run" => {
            (Kind::Chain, &["haystack.pipeline.input_data"], &["haystack.pipeline.output_data"])
        }
        _ => (component_kind(component), &["haystack.component.input"], &["haystack.component.output"]),
    };
    draft.kind(Some(kind));
    draft.boxed(input, output, &["haystack.tool.name"]);
    if let Some((_, crate::domain::Value::Bool(true))) = draft.value(&["haystack.tool.error"]) {
        draft.failed = Some(true);
    }
}

fn component_kind(component: &str) -> Kind {
    if component.contains("Generator") || component == "llm" {
        Kind::Model
    } else if component.contains("etriever") || component.contains("Ranker") {
        Kind::Retrieval
    } else if component.contains("mbedder") {
        Kind::Ignored
    } else if component == "Agent" {
        Kind::Agent
    } else {
        Kind::Chain
    }
}
