//! Dialects that say a span's kind and keep one value for what went in and one for what came out: OpenLLMetry's decorators,
//! LangSmith, MLflow, and the span formats of other products.

use crate::convert::draft::{Draft, Kind};
use crate::domain::Json;

/// One such dialect: where it keeps what.
struct Keys {
    dialect: &'static str,
    prefix: &'static str,
    kind: &'static [&'static str],
    input: &'static [&'static str],
    output: &'static [&'static str],
    name: &'static [&'static str],
    session: &'static [&'static str],
}

static DIALECTS: [Keys; 12] = [
    Keys {
        dialect: "openllmetry",
        prefix: "traceloop.",
        kind: &["traceloop.span.kind"],
        input: &["traceloop.entity.input", "gen_ai.task.input"],
        output: &["traceloop.entity.output", "gen_ai.task.output"],
        name: &["traceloop.entity.name"],
        session: &[
            "traceloop.association.properties.session_id",
            "traceloop.association.properties.conversation_id",
            "traceloop.association.properties.thread_id",
            "traceloop.association.properties.chat_id",
        ],
    },
    Keys {
        dialect: "langsmith",
        prefix: "langsmith.",
        kind: &["langsmith.span.kind"],
        input: &["gen_ai.prompt", "input.value", "inputs"],
        output: &["gen_ai.completion", "output.value", "outputs"],
        name: &["gen_ai.tool.name", "langsmith.trace.name"],
        session: &[
            "langsmith.metadata.session_id",
            "langsmith.metadata.thread_id",
            "langsmith.metadata.conversation_id",
        ],
    },
    Keys {
        dialect: "mlflow",
        prefix: "mlflow.",
        kind: &["mlflow.spanType"],
        input: &["mlflow.spanInputs"],
        output: &["mlflow.spanOutputs"],
        name: &["mlflow.spanFunctionName"],
        session: &["mlflow.trace.session"],
    },
    Keys {
        dialect: "langfuse",
        prefix: "langfuse.",
        kind: &["langfuse.observation.type"],
        input: &["langfuse.observation.input", "langfuse.trace.input"],
        output: &["langfuse.observation.output", "langfuse.trace.output"],
        name: &["langfuse.observation.name"],
        session: &["langfuse.session.id", "session.id"],
    },
    Keys {
        dialect: "genkit",
        prefix: "genkit:",
        kind: &["genkit:metadata:subtype"],
        input: &["genkit:input"],
        output: &["genkit:output"],
        name: &["genkit:name"],
        session: &["genkit:sessionId"],
    },
    Keys {
        dialect: "laminar",
        prefix: "lmnr.",
        kind: &["lmnr.span.type"],
        input: &["lmnr.span.input"],
        output: &["lmnr.span.output"],
        name: &["lmnr.span.name"],
        session: &["lmnr.association.properties.session_id"],
    },
    Keys {
        dialect: "langwatch",
        prefix: "langwatch.",
        kind: &["langwatch.span.type"],
        input: &["langwatch.input"],
        output: &["langwatch.output"],
        name: &["langwatch.span.name"],
        session: &["langwatch.thread.id"],
    },
    Keys {
        dialect: "braintrust",
        prefix: "braintrust.",
        kind: &["braintrust.span_attributes.type", "braintrust.span_attributes"],
        input: &["braintrust.input_json", "braintrust.input"],
        output: &["braintrust.output_json", "braintrust.output"],
        name: &["braintrust.span_attributes.name"],
        session: &["braintrust.metadata.session_id"],
    },
    Keys {
        dialect: "mastra",
        prefix: "mastra.",
        kind: &["mastra.span.type", "mastra.type"],
        input: &["mastra.input", "mastra.span.input", "input"],
        output: &["mastra.output", "mastra.span.output", "output"],
        name: &["mastra.tool.name", "mastra.span.name"],
        session: &["mastra.thread.id", "mastra.metadata.threadId"],
    },
    Keys {
        dialect: "weave",
        prefix: "wandb.",
        kind: &["wandb.span.kind", "weave.span.kind"],
        input: &["weave.input", "wandb.input", "input.value"],
        output: &["weave.output", "wandb.output", "output.value"],
        name: &["weave.op_name"],
        session: &["wandb.thread_id"],
    },
    Keys {
        dialect: "opik",
        prefix: "opik.",
        kind: &["opik.span.type", "opik.type"],
        input: &["opik.input", "opik.span.input"],
        output: &["opik.output", "opik.span.output"],
        name: &["opik.name"],
        session: &["opik.thread_id", "thread_id"],
    },
    Keys {
        dialect: "plain",
        prefix: "inputs",
        kind: &["span.kind", "span_type", "span.type"],
        input: &["inputs"],
        output: &["outputs", "output"],
        name: &["tool.name", "name"],
        session: &["session.id", "thread_id"],
    },
];

pub(super) fn knows(key: &str) -> bool {
    DIALECTS.iter().any(|dialect| key.starts_with(dialect.prefix))
}

fn spoken(draft: &Draft) -> Vec<&'static Keys> {
    let attributes = &draft.span.attributes;
    DIALECTS
        .iter()
        .filter(|dialect| attributes.iter().any(|(key, _)| key.starts_with(dialect.prefix)))
        .collect()
}

pub(super) fn kinds(draft: &mut Draft) {
    for dialect in spoken(draft) {
        let word = draft.text(dialect.kind).map(kind_word);
        draft.kind(word.as_deref().and_then(Kind::of));
        if draft.session.is_none() {
            draft.session = draft.text(dialect.session).map(|id| id.trim_matches('"').to_owned());
        }
        if word.is_some() {
            draft.dialect(dialect.dialect);
        }
    }
    // LlamaIndex' steps are named after the class that works.
    if draft.kind == Some(Kind::Chain)
        && let Some((class, "task" | "workflow")) =
            draft.text(&["traceloop.entity.name"]).and_then(|name| name.rsplit_once('.'))
    {
        let ends = |list: &[&str]| list.iter().any(|end| class.ends_with(end));
        if ends(&["Retriever"]) {
            draft.kind = Some(Kind::Retrieval);
        } else if ends(&["Splitter", "NodeParser", "Embedding"]) {
            draft.kind = Some(Kind::Ignored);
        }
    }
    // A step of a workflow that names a tool and its arguments is that tool's run.
    if draft.kind == Some(Kind::Chain)
        && let Some(name) = draft.text(&["tool.name"])
        && draft.value(&["tool.arguments", "tool.input"]).is_some()
    {
        draft.kind = Some(Kind::Tool);
        draft.tool = Some(name.to_owned());
        draft.arguments_from(&["tool.arguments", "tool.input"]);
    }
    if draft.agent.is_none() {
        draft.agent = draft
            .text(&["langsmith.metadata.lc_agent_name", "traceloop.association.properties.lc_agent_name"])
            .map(str::to_owned);
    }
    if draft.agent.is_none() && draft.text(&["traceloop.span.kind"]) == Some("agent") {
        draft.agent = draft.text(&["traceloop.entity.name"]).map(str::to_owned);
    }
}

/// Braintrust keeps the word in a JSON object, MLflow in a JSON string.
fn kind_word(text: &str) -> String {
    if text.starts_with('{')
        && let Ok(Json::Object(map)) = serde_json::from_str(text)
        && let Some(Json::String(word)) = map.get("type")
    {
        return word.clone();
    }
    text.trim_matches('"').to_owned()
}

pub(super) fn read(draft: &mut Draft) {
    for dialect in spoken(draft) {
        if draft.kind.is_none()
            && draft.value(dialect.input).is_some()
            && draft.value(dialect.output).is_some()
        {
            draft.kind = Some(Kind::Chain);
            draft.dialect(dialect.dialect);
        }
        draft.boxed(dialect.input, dialect.output, dialect.name);
    }
    if draft.kind == Some(Kind::Model) && draft.model.is_none() {
        draft.model = draft
            .text(&[
                "mlflow.llm.model",
                "langfuse.observation.model.name",
                "langsmith.metadata.ls_model_name",
            ])
            .map(|name| name.trim_matches('"').to_owned());
    }
    // A tool of LangSmith or MLflow has its error in the result's place.
    if draft.kind == Some(Kind::Tool) && draft.tool_id.is_none() {
        draft.tool_id = draft.text(&["gen_ai.tool.call.id"]).map(str::to_owned);
    }
}
