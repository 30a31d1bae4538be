//! Which version of a prompt an answer was written with, in the words of those who manage prompts.

use super::parse::parse;
use super::tree::Tree;
use crate::domain::{Json, Span, Value};

/// Longest name and longest version, in characters.
const MAX_CHARS: usize = 100;

/// Where a prompt's version stands, and where its name does.
const KEYS: [(&str, &[&str]); 10] = [
    ("gen_ai.prompt.version", &["gen_ai.prompt.name"]),
    ("langfuse.observation.prompt.version", &["langfuse.observation.prompt.name"]),
    ("traceloop.prompt.version", &["traceloop.prompt.key"]),
    ("llm.prompt_template.version", &["llm.prompt_template.name"]),
    ("langwatch.prompt.version.number", &["langwatch.prompt.handle", "langwatch.prompt.id"]),
    ("langwatch.prompt.version.id", &["langwatch.prompt.handle", "langwatch.prompt.id"]),
    ("langsmith.metadata.lc_hub_commit_hash", &["langsmith.metadata.lc_hub_repo"]),
    ("mlflow.prompt.version", &["mlflow.prompt.name"]),
    ("prompt.version", &["prompt.name", "prompt.id"]),
    ("prompt_version", &["prompt_name"]),
];

/// MLflow's list of the prompts that a trace used.
const LINKED: [&str; 2] = ["mlflow.linkedPrompts", "mlflow.traceTag.mlflow.linkedPrompts"];

/// The version that the answering span or the nearest span above it tells, else the last one that any span tells: most
/// instrumentations put it at the model's call, some at the template's, and some at the whole.
pub(super) fn version(spans: &[&Span], tree: &Tree, answered_by: Option<usize>) -> Option<String> {
    let own: Vec<Option<String>> = spans.iter().map(|span| told(span)).collect();
    let last = own.iter().rposition(Option::is_some)?;
    let nearest = answered_by.and_then(|at| tree.nearest(&own).swap_remove(at));
    nearest.or_else(|| own[last].clone())
}

fn told(span: &Span) -> Option<String> {
    let text = |key: &str| span.attributes.get(key).and_then(word);
    let listed = KEYS.iter().find_map(|(version, names)| {
        let version = text(version)?;
        Some(joined(names.iter().find_map(|name| text(name)), version))
    });
    listed.or_else(|| LINKED.iter().find_map(|key| linked(span.attributes.text(key)?)))
}

/// The last of MLflow's list: later prompts are nearer to the answer.
fn linked(list: &str) -> Option<String> {
    let parsed = parse(list)?;
    let prompt = parsed.json.as_array()?.iter().rev().find(|prompt| !prompt["version"].is_null())?;
    let text = |value: &Json| match value {
        Json::String(text) => short(text),
        Json::Number(number) => Some(number.to_string()),
        _ => None,
    };
    Some(joined(text(&prompt["name"]), text(&prompt["version"])?))
}

fn joined(name: Option<String>, version: String) -> String {
    match name {
        Some(name) => format!("{name}@{version}"),
        None => version,
    }
}

fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => short(text),
        Value::Int(number) => Some(number.to_string()),
        Value::Double(number) => Some(number.to_string()),
        _ => None,
    }
}

fn short(text: &str) -> Option<String> {
    let trimmed = text.trim();
    (!trimmed.is_empty()).then(|| trimmed.chars().take(MAX_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{SpanId, TraceId};

    fn span(number: u8, parent: Option<u8>, pairs: &[(&str, Value)]) -> Span {
        let id = |number: u8| SpanId::try_from(&[number; 8][..]).unwrap();
        Span {
            parent_id: parent.map(id),
            attributes: pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
            ..Span::new(TraceId::try_from(&[1; 16][..]).unwrap(), id(number))
        }
    }

    fn found(spans: &[Span], answered_by: Option<usize>) -> Option<String> {
        let spans: Vec<&Span> = spans.iter().collect();
        version(&spans, &Tree::new(&spans), answered_by)
    }

    #[test]
    fn every_manager_of_prompts_is_understood() {
        let cases: [(&[(&str, Value)], &str); 9] = [
            (
                &[("gen_ai.prompt.name", "refunds".into()), ("gen_ai.prompt.version", "v3".into())],
                "refunds@v3",
            ),
            (
                &[
                    ("langfuse.observation.prompt.name", "refunds".into()),
                    ("langfuse.observation.prompt.version", Value::Int(12)),
                ],
                "refunds@12",
            ),
            (&[("traceloop.prompt.key", "k".into()), ("traceloop.prompt.version", Value::Int(2))], "k@2"),
            (&[("llm.prompt_template.version", "v1.0".into())], "v1.0"),
            (
                &[
                    ("langwatch.prompt.handle", "router".into()),
                    ("langwatch.prompt.version.number", Value::Int(6)),
                ],
                "router@6",
            ),
            (
                &[
                    ("langsmith.metadata.lc_hub_repo", "rag".into()),
                    ("langsmith.metadata.lc_hub_commit_hash", "50442af1".into()),
                ],
                "rag@50442af1",
            ),
            (
                &[(
                    "mlflow.linkedPrompts",
                    r#"[{"name":"a","version":"1"},{"name":"b","version":4}]"#.into(),
                )],
                "b@4",
            ),
            (&[("prompt.id", "p".into()), ("prompt.version", " 7 ".into())], "p@7"),
            (&[("prompt_version", "2026-11-30".into())], "2026-11-30"),
        ];
        for (pairs, wanted) in cases {
            assert_eq!(found(&[span(1, None, pairs)], Some(0)).as_deref(), Some(wanted), "{pairs:?}");
        }
    }

    #[test]
    fn a_name_without_a_version_and_a_broken_list_say_nothing() {
        for pairs in [
            [("gen_ai.prompt.name", Value::from("refunds"))],
            [("gen_ai.prompt.version", Value::from("  "))],
            [("gen_ai.prompt.version", Value::Bool(true))],
            [("mlflow.linkedPrompts", Value::from("[{"))],
            [("mlflow.linkedPrompts", Value::from(r#"{"name": "a"}"#))],
        ] {
            assert_eq!(found(&[span(1, None, &pairs)], Some(0)), None, "{pairs:?}");
        }
        let long = [("prompt_version", Value::from("é".repeat(5_000)))];
        assert_eq!(found(&[span(1, None, &long)], None).unwrap().chars().count(), MAX_CHARS);
    }

    #[test]
    fn the_answering_call_is_believed_before_what_is_above_it_and_that_before_the_rest() {
        let version = |text: &str| [("gen_ai.prompt.version", Value::from(text))];
        let spans = [
            span(1, None, &version("whole")),
            span(2, Some(1), &version("triage")),
            span(3, Some(1), &version("refunds")),
            span(4, Some(1), &[]),
        ];
        assert_eq!(found(&spans, Some(1)).as_deref(), Some("triage"));
        assert_eq!(found(&spans, Some(3)).as_deref(), Some("whole"));
        assert_eq!(found(&spans[1..], Some(2)).as_deref(), Some("refunds"), "its parent never came");
        assert_eq!(found(&spans[1..], None).as_deref(), Some("refunds"));
        assert_eq!(found(&spans[3..], Some(0)), None);
    }
}
