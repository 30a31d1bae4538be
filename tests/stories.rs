//! Every run of the trace corpus becomes the story that its manifest expects: what is in the export is told, in order, and
//! nothing is told that did not happen or told twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use assayd::ask::{Candidate, Config, EvaluateConfig, Evaluators};
use assayd::convert::{join_runs, read};
use assayd::domain::{Json, Step, StepKind, Story};
use assayd::receive::read_files;
use serde_json::json;

fn corpus(part: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/traces").join(part)
}

fn manifest(folder: &Path) -> Vec<Json> {
    let text = fs::read_to_string(folder.join("MANIFEST.jsonl")).unwrap();
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn stories(files: &[PathBuf]) -> Vec<Story> {
    let found = read_files(files);
    assert!(found.errors.is_empty(), "{:?}", found.errors);
    join_runs(found.traces).iter().filter_map(|trace| read(trace).ok()).collect()
}

/// Values compare equal up to white space and JSON spelling.
fn norm(value: &Json) -> Json {
    match value {
        Json::String(text) => match serde_json::from_str::<Json>(text.trim()) {
            Ok(inner @ (Json::Object(_) | Json::Array(_))) => norm(&inner),
            Ok(Json::String(inner)) if inner != *text => norm(&Json::String(inner)),
            _ => Json::String(text.split_whitespace().collect::<Vec<_>>().join(" ")),
        },
        Json::Array(items) => match items.as_slice() {
            [Json::Object(map)]
                if map.contains_key("text") && map.keys().all(|key| key == "text" || key == "type") =>
            {
                norm(&map["text"])
            }
            _ => Json::Array(items.iter().map(norm).collect()),
        },
        Json::Object(map) => Json::Object(
            map.iter()
                .map(|(key, value)| (key.clone(), norm(value)))
                .collect::<BTreeMap<_, _>>()
                .into_iter()
                .collect(),
        ),
        // JavaScript writes 49.0 as 49: one number, two spellings.
        Json::Number(number) => number.as_f64().map_or(Json::Null, |number| json!(number)),
        other => other.clone(),
    }
}

fn key(value: &Json) -> String {
    norm(value).to_string()
}

fn text_key(text: &str) -> String {
    key(&json!(text))
}

/// A tool's name without server or plugin.
fn tool(name: &str) -> String {
    let name =
        name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")).map_or(name, |(_, tool)| tool);
    let name = match name.split_once(['-', '.', ':']) {
        Some((head, tail)) if !tail.is_empty() && head.chars().all(|c| c.is_alphanumeric() || c == '_') => {
            tail
        }
        _ => name,
    };
    name.to_lowercase()
}

fn called(step: &Step) -> (String, String) {
    (tool(step.tool.as_deref().unwrap_or_default()), key(step.arguments.as_ref().unwrap_or(&Json::Null)))
}

fn steps(stories: &[Story], kind: StepKind) -> Vec<&Step> {
    stories.iter().flat_map(|story| &story.steps).filter(|step| step.kind == kind).collect()
}

fn said(expected: &Json, folder: &Path) -> String {
    match expected["text_file"].as_str() {
        Some(file) => fs::read_to_string(folder.join(file)).unwrap(),
        None => expected["text"].as_str().unwrap_or_default().to_owned(),
    }
}

/// What is wrong with the stories of one run; and how many thoughts are told of how many the export holds.
fn check(row: &Json, stories: &[Story], folder: &Path) -> (Vec<String>, usize, usize) {
    let mut wrong = Vec::new();
    let observations: BTreeSet<String> = steps(stories, StepKind::Observation)
        .iter()
        .map(|step| text_key(step.text.as_deref().unwrap_or_default()))
        .collect();
    let raw: Vec<&str> =
        steps(stories, StepKind::Observation).iter().filter_map(|step| step.text.as_deref()).collect();
    let calls: Vec<(String, String)> = steps(stories, StepKind::ToolCall).into_iter().map(called).collect();
    let answers: Vec<String> = steps(stories, StepKind::Answer)
        .iter()
        .filter_map(|step| step.text.as_deref())
        .chain(stories.iter().filter_map(|story| story.answer.as_deref()))
        .map(text_key)
        .collect();
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let thoughts: Vec<String> = steps(stories, StepKind::Thought)
        .iter()
        .filter_map(|step| step.text.as_deref())
        .map(squeeze)
        .collect();
    let (mut in_export, mut told) = (0, 0);
    let mut wanted_calls: Vec<(String, String)> = Vec::new();
    for expected in row["expected"]["steps"].as_array().unwrap() {
        let text = said(expected, folder);
        let seen = expected["seen"].as_str();
        let is_seen = !matches!(seen, Some("no") | None);
        match expected["kind"].as_str().unwrap() {
            "thought" if is_seen => {
                in_export += 1;
                told += usize::from(thoughts.iter().any(|thought| thought.contains(&squeeze(&text))));
            }
            "tool_call" => {
                let call = (tool(expected["tool"].as_str().unwrap()), key(&expected["arguments"]));
                if !matches!(expected["seen_arguments"].as_str(), Some("no") | None) && !calls.contains(&call)
                {
                    wrong.push(format!("missing call {call:?}"));
                }
                wanted_calls.push(call);
            }
            kind @ ("observation" | "retrieval") if !matches!(seen, Some("no" | "truncated")) => {
                let inside = matches!(seen, Some("substring" | "escaped substring" | "split over parts"))
                    || kind == "retrieval";
                let head: String = text.trim().chars().take(80).collect();
                let found = observations.contains(&text_key(&text))
                    || inside && raw.iter().any(|text| text.contains(&head));
                if !found {
                    wrong.push(format!("missing observation {head:?}"));
                }
            }
            "answer" if !matches!(seen, Some("no" | "truncated")) && !answers.contains(&text_key(&text)) => {
                wrong.push(format!("missing answer {text:?}"));
            }
            "handoff" => {
                let name = tool(expected["tool"].as_str().unwrap_or_default());
                let by_call = calls.iter().any(|(called, _)| *called == name);
                if steps(stories, StepKind::Handoff).is_empty() && !by_call {
                    wrong.push("missing handoff".to_owned());
                }
            }
            _ => {}
        }
    }
    for story in stories {
        precise(story, &wanted_calls, &mut wrong);
    }
    ends(row, stories, &mut wrong);
    (wrong, told, in_export)
}

/// No call that is not expected, none more often than expected, and all in their order.
fn precise(story: &Story, wanted: &[(String, String)], wrong: &mut Vec<String>) {
    const PASSES: [&str; 6] =
        ["transfer", "handoff", "delegate", "ask_question", "billing_specialist", "finish"];
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut told = Vec::new();
    for step in story.steps.iter().filter(|step| step.kind == StepKind::ToolCall) {
        let call = called(step);
        if !wanted.contains(&call) && !PASSES.iter().any(|pass| call.0.contains(pass)) {
            wrong.push(format!("unexpected call {call:?}"));
        }
        *counts.entry(call.clone()).or_default() += 1;
        told.push(call);
    }
    for (call, count) in counts {
        let times = wanted.iter().filter(|other| **other == call).count().max(1);
        if count > times {
            wrong.push(format!("{count} times {call:?}"));
        }
    }
    let known: Vec<_> = told.into_iter().filter(|call| wanted.contains(call)).collect();
    let order: Vec<_> = wanted.iter().filter(|call| known.contains(call)).cloned().collect();
    let parallel = order.windows(2).all(|pair| pair[0].0 == pair[1].0);
    if known != order && !parallel {
        wrong.push(format!("calls out of order: {known:?}"));
    }
}

/// Some story has the last request as its request and the final answer as its answer.
fn ends(row: &Json, stories: &[Story], wrong: &mut Vec<String>) {
    let expected = &row["expected"];
    let Some(answer) = expected["final_answer"].as_str() else {
        if expected["final_answer_seen"].is_null()
            && stories.iter().any(|story| story.answer.is_some())
            && row["scenario"] == "s11"
        {
            wrong.push("an answer where there is none".to_owned());
        }
        return;
    };
    if matches!(expected["final_answer_seen"].as_str(), Some("no" | "truncated")) {
        return;
    }
    let requests = expected["user_requests"].as_array().unwrap();
    let request: String =
        requests.last().and_then(Json::as_str).unwrap_or_default().chars().take(40).collect();
    let joined = stories.iter().any(|story| {
        story.answer.as_deref().map(text_key) == Some(text_key(answer))
            && story.request.as_deref().unwrap_or_default().contains(&request)
    });
    if !joined {
        wrong.push("no story joins the last request and the final answer".to_owned());
    }
}

fn files_of(row: &Json, folder: &Path, wire: &str) -> Vec<PathBuf> {
    let own = folder.join(row["emitter"].as_str().unwrap());
    let folder = if own.is_dir() { own } else { folder.to_owned() };
    if let Some(order) = row["delivery_order"].as_array() {
        return order
            .iter()
            .map(|stem| folder.join(format!("{}.otlp.{wire}", stem.as_str().unwrap())))
            .collect();
    }
    match &row["files"][wire] {
        Json::String(name) => vec![folder.join(name)],
        Json::Array(names) => names.iter().map(|name| folder.join(name.as_str().unwrap())).collect(),
        other => panic!("no files for {wire}: {other}"),
    }
}

fn all_right(part: &str, wire: &str) {
    let folder = corpus(part);
    let (mut problems, mut told, mut in_export) = (Vec::new(), 0, 0);
    for row in manifest(&folder) {
        let (wrong, thoughts, of) = check(&row, &stories(&files_of(&row, &folder, wire)), &folder);
        told += thoughts;
        in_export += of;
        if !wrong.is_empty() {
            problems.push(format!("{}/{}: {}", row["emitter"], row["scenario"], wrong.join("; ")));
        }
    }
    assert!(problems.is_empty(), "{} runs are wrong:\n{}", problems.len(), problems.join("\n"));
    assert_eq!(told, in_export, "thoughts told, of those that the exports hold");
}

#[test]
fn every_run_in_protobuf_becomes_its_story() {
    all_right("", "pb");
}

#[test]
fn every_run_in_json_becomes_its_story() {
    all_right("", "json");
}

#[test]
fn transport_and_configuration_traps_do_no_harm() {
    all_right("edge-cases", "pb");
    all_right("edge-cases", "json");
}

#[test]
fn run_exports_become_the_same_stories_nested_and_flat() {
    all_right("langsmith-runs", "nested");
    all_right("langsmith-runs", "flat");
}

#[test]
fn traces_without_content_or_without_an_agent_are_skipped_with_the_reason() {
    for (name, reason) in [
        ("content-off-openinference", "no_content"),
        ("content-off-traceloop", "no_content"),
        ("not-an-llm-trace", "no_agent"),
    ] {
        let found = read_files(&[corpus("edge-cases").join(format!("{name}.otlp.pb"))]);
        assert_eq!(read(&found.traces[0]).unwrap_err().reason(), reason, "{name}");
    }
}

/// What most agents of the corpus were told, and the tools that they had.
const TOLD: &str = "You are the customer support agent of Northwind Outdoor.";
const OFFERED: [&str; 2] = ["get_order", "search_policy"];

/// Emitters that list the tools of a request with the schemas of their arguments.
const WITH_SCHEMAS: [&str; 33] = [
    "google-adk",
    "google-adk-1x",
    "google-adk-latest",
    "haystack",
    "langsmith-otel",
    "litellm-otel",
    "mlflow",
    "openinference-google-adk",
    "openinference-haystack",
    "openinference-langchain",
    "openinference-llama-index",
    "openinference-openai",
    "openinference-openai-js",
    "openinference-openai-responses",
    "openinference-smolagents",
    "pydantic-ai-logs-v1",
    "pydantic-ai-v1",
    "pydantic-ai-v2",
    "pydantic-ai-v3",
    "pydantic-ai-v5",
    "pydantic-ai-v6",
    "semantic-kernel",
    "strands",
    "strands-latest",
    "traceloop-anthropic",
    "traceloop-anthropic-legacy",
    "traceloop-langchain",
    "traceloop-openai",
    "traceloop-openai-js",
    "traceloop-openai-legacy",
    "traceloop-openai-workflow",
    "vercel-ai-sdk",
    "vercel-ai-sdk-v7",
];

/// Emitters whose export holds the instructions in no request: CrewAI keeps them as an agent's backstory.
const TOLD_ELSEWHERE: [&str; 1] = ["openinference-crewai"];

/// The runs of these scenarios: emitter, scenario, the export as it is, the stories.
fn runs(scenarios: &[&str]) -> Vec<(String, Vec<u8>, Vec<Story>)> {
    let folder = corpus("");
    let is_wanted = |row: &Json| scenarios.iter().any(|scenario| row["scenario"] == **scenario);
    let rows = manifest(&folder).into_iter().filter(is_wanted);
    rows.map(|row| {
        let files = files_of(&row, &folder, "json");
        let raw = files.iter().flat_map(|file| fs::read(file).unwrap()).collect();
        let name = format!("{} {}", row["emitter"].as_str().unwrap(), row["scenario"].as_str().unwrap());
        (name, raw, stories(&files))
    })
    .collect()
}

#[test]
fn instructions_that_an_export_holds_are_told_once() {
    let mut found = 0;
    for (run, raw, stories) in runs(&["s01", "s02", "s05", "s07", "s08"]) {
        for story in &stories {
            let texts: BTreeSet<&str> = story.instructions.iter().map(|told| told.text.as_str()).collect();
            assert_eq!(texts.len(), story.instructions.len(), "{run}: {:?}", story.instructions);
        }
        let is_there = String::from_utf8_lossy(&raw).contains(TOLD);
        if !is_there || TOLD_ELSEWHERE.iter().any(|emitter| run.starts_with(emitter)) {
            continue;
        }
        let told = stories.iter().flat_map(|story| &story.instructions);
        assert!(told.into_iter().any(|told| told.text.contains(TOLD)), "{run}");
        found += 1;
    }
    assert!(found >= 40, "{found}");
}

#[test]
fn offered_tools_are_told_once_with_the_schemas_of_their_arguments() {
    let mut found = BTreeSet::new();
    for (run, _, stories) in runs(&["s01", "s02"]) {
        for story in &stories {
            let mut names: Vec<String> = story.tools.iter().map(|offered| tool(&offered.name)).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), story.tools.len(), "{run}: a tool is there twice: {:?}", story.tools);
            let has_schema = |wanted: &str| {
                story.tools.iter().any(|offered| {
                    let properties =
                        offered.parameters.as_ref().and_then(|schema| schema["properties"].as_object());
                    !offered.unlisted
                        && tool(&offered.name) == wanted
                        && properties.is_some_and(|map| map.len() == 1)
                })
            };
            if OFFERED.iter().all(|wanted| has_schema(wanted)) {
                found.insert(run.split(' ').next().unwrap().to_owned());
            }
        }
    }
    let missing: Vec<&&str> = WITH_SCHEMAS.iter().filter(|emitter| !found.contains(**emitter)).collect();
    assert!(missing.is_empty(), "{missing:?} of {found:?}");
}

#[test]
fn each_agent_has_its_own_instructions_and_tools() {
    let mut found = 0;
    for (run, _, stories) in runs(&["s06"]) {
        // LlamaIndex names no agent on its calls; smolagents wraps the text; CrewAI keeps it elsewhere.
        let is_odd = ["llama-index", "smolagents", "crewai"].iter().any(|odd| run.contains(odd));
        for story in stories.iter().filter(|_| !is_odd) {
            for told in &story.instructions {
                let (start, agent) = match told.text.contains("You are the triage agent") {
                    true => ("triage", "triage_agent"),
                    false => ("billing", "billing_specialist"),
                };
                assert_eq!(told.agents, [agent], "{run}: {start}: {}", told.text);
                found += 1;
            }
            for tool in
                story.tools.iter().filter(|tool| matches!(tool.name.as_str(), "get_charges" | "issue_refund"))
            {
                assert_eq!(tool.agents, ["billing_specialist"], "{run}: {}", tool.name);
            }
        }
    }
    assert!(found >= 20, "{found}");
}

/// What is ruled on as certain must be: every call of the corpus keeps to its tool's schema, every tool was offered, and no
/// answer recites its instructions.
#[test]
fn no_run_of_the_corpus_breaks_a_rule() {
    let config: EvaluateConfig = serde_json::from_value(
        json!({ "grounding": false, "use": ["tool_choice", "tool_arguments", "system_prompt_leak"] }),
    )
    .unwrap();
    let evaluators = Evaluators::new(&config);
    let mut asked = 0;
    for part in ["", "edge-cases", "langsmith-runs"] {
        let folder = corpus(part);
        for row in manifest(&folder) {
            let wire = if part == "langsmith-runs" { "nested" } else { "pb" };
            for story in stories(&files_of(&row, &folder, wire)) {
                let candidate = Candidate { story: &story, trace: None, service: None };
                let (questions, _) = evaluators.ask(&candidate, &Config::default());
                asked += questions.inquiries.iter().map(|inquiry| inquiry.questions.len()).sum::<usize>();
                let ruled: Vec<_> =
                    questions.ruled.iter().map(|(question, ruling)| (&question.id, ruling)).collect();
                assert!(
                    ruled.is_empty(),
                    "{}/{}: {ruled:?}\n{:?}",
                    row["emitter"],
                    row["scenario"],
                    story.tools
                );
            }
        }
    }
    assert!(asked > 500, "{asked}");
}
