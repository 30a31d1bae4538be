//! Evaluators on recorded traces: which questions and states come out, and what a verdict makes of the answers.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use assayd::config::{self, Config};
use assayd::convert;
use assayd::decide::{self, Capabilities, DecideError, Desk, Reply, Scripted};
use assayd::domain::{Decision, Inquiry, Nobody, Question, Subject, Trace, Verdict};
use assayd::judge::{Ask, Judge, JudgeError, Judged, Judgement};
use assayd::pipeline::{Asking, Assayer};
use assayd::receive::read_files;
use futures::future::{BoxFuture, FutureExt};
use serde_json::{Value, json};

const ALL: &str = "evaluate: { use: [context_relevance, tool_choice, tool_arguments, tool_result_use, scope, goal_completion, step_progress, plan_adherence, \
    loop, tool_risk, prompt_injection, indirect_injection, jailbreak, system_prompt_leak, excessive_agency, secrets, pii, toxicity, answer_relevance, \
    completeness, instruction_following, coherence, refusal] }";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn traces(name: &str) -> Vec<Trace> {
    let found = read_files(&[fixture(&format!("traces/{name}.otlp.pb"))]);
    assert!(found.errors.is_empty(), "{:?}", found.errors);
    convert::join_runs(found.traces)
}

fn parsed(yaml: &str) -> Config {
    config::parse(yaml, "test").unwrap()
}

/// What is asked about a trace, as data.
fn asked(asking: &Asking, trace: &Trace) -> Value {
    let (questions, selections) = match asking.explain(trace) {
        Ok(asked) => asked,
        Err(skip) => return json!({ "skipped": skip.reason() }),
    };
    let fates: serde_json::Map<String, Value> = selections
        .iter()
        .map(|selection| (selection.evaluator.to_string(), json!(selection.fate.to_string())))
        .collect();
    let inquiries: Vec<Value> = questions
        .inquiries
        .iter()
        .map(|inquiry| {
            let ids: Vec<&str> = inquiry.questions.iter().map(|question| question.id.as_str()).collect();
            json!({ "state": *inquiry.state, "questions": ids })
        })
        .collect();
    let ruled: serde_json::Map<String, Value> = questions
        .ruled
        .iter()
        .map(|(question, ruling)| (question.id.clone(), json!([ruling.label, ruling.reasoning])))
        .collect();
    json!({ "fates": fates, "inquiries": inquiries, "ruled": ruled, "truncated": questions.truncated })
}

/// To write the files anew: `ASSAYD_WRITE=1 cargo test --test evaluators`.
#[test]
fn the_questions_and_states_of_recorded_stories_are_what_they_were() {
    let asking = Asking::new(&parsed(ALL));
    for name in [
        "openinference-langchain/s02",
        "pydantic-ai-v6/s08",
        "strands-latest/s09",
        "otel-openai-v2-attrs/s05",
    ] {
        let mut found = traces(name);
        found.sort_by_key(|trace| trace.trace_id);
        let told: Vec<Value> = found.iter().map(|trace| asked(&asking, trace)).collect();
        let text = format!("{}\n", serde_json::to_string_pretty(&told).unwrap());
        let path = fixture(&format!("evaluators/{}.json", name.replace('/', "-")));
        if std::env::var_os("ASSAYD_WRITE").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == text, "{} is not what is asked now:\n{text}", path.display());
    }
}

#[test]
fn every_recorded_story_can_be_asked_about_within_its_budget() {
    let config = parsed(&format!("{ALL}\nask: {{ evidence_chars: 4000 }}"));
    let asking = Asking::new(&config);
    let found = read_files(&[
        fixture("traces/openinference-langchain"),
        fixture("traces/edge-cases"),
        fixture("traces/strands"),
    ]);
    let mut stories = 0;
    for trace in convert::join_runs(found.traces) {
        let Ok((questions, selections)) = asking.explain(&trace) else { continue };
        stories += 1;
        assert_eq!(selections.len(), 24);
        for inquiry in &questions.inquiries {
            let length = inquiry.state.to_string().chars().count();
            assert!(length < 12_000, "{length} characters: {:?}", inquiry.questions[0].id);
        }
    }
    assert!(stories > 10, "{stories}");
}

fn picks(question: &Question, label: &str, sure: f64) -> Result<Decision, Nobody> {
    let labels = question.kind.labels();
    let rest = (1.0 - sure) / (labels.len() - 1) as f64;
    assert!(labels.iter().any(|known| known == label), "{label}: {labels:?}");
    let probabilities = labels.iter().map(|known| if known == label { sure } else { rest }).collect();
    Ok(Decision { probabilities, tokens: 1 })
}

/// Sure of the first label of everything, but for the second tool call, whose choice is wrong; unsure of tone.
fn model(inquiry: &Inquiry) -> Result<Reply, DecideError> {
    let mut calls = 0;
    let decide = |question: &Question| {
        let first = match &question.subject {
            Subject::Relevance { .. } => "true".to_owned(),
            _ => question.kind.labels()[0].clone(),
        };
        if question.id.starts_with("tool_choice") {
            calls += 1;
            return picks(question, if calls == 2 { "wrong" } else { "right" }, 0.95);
        }
        picks(question, &first, if question.id.starts_with("tone") { 0.5 } else { 0.99 })
    };
    Ok(Reply { decisions: inquiry.questions.iter().map(decide).collect(), input_tokens: 1, truncated: false })
}

fn desk() -> Desk {
    decide::start_with(Scripted::new(model), &decide::Config::default()).unwrap()
}

/// Picks each question's last label.
#[derive(Default)]
struct Strict(Mutex<Vec<Vec<String>>>);

impl Judge for Strict {
    fn judge<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Judgement, JudgeError>> {
        async move {
            let questions: Vec<&Question> =
                ask.inquiries.iter().flat_map(|inquiry| &inquiry.questions).collect();
            self.0.lock().unwrap().push(questions.iter().map(|question| question.id.clone()).collect());
            let judged = |question: &&Question| Judged {
                id: question.id.clone(),
                label: question.kind.labels().pop().unwrap(),
                reasoning: Some("strictly speaking".to_owned()),
            };
            let answers = questions.iter().map(judged).collect();
            Ok(Judgement { answers, ..Judgement::default() })
        }
        .boxed()
    }

    fn model(&self) -> &str {
        "strict"
    }
}

async fn assayed(yaml: &str, desk: Desk, judge: Option<Arc<Strict>>, name: &str) -> (Vec<Verdict>, Value) {
    let judge = judge.map(|judge| judge as Arc<dyn Judge>);
    let assayer = Assayer::new(&parsed(yaml), desk, judge).unwrap();
    let mut verdicts = Vec::new();
    for trace in traces(name) {
        verdicts.push(assayer.assay(&trace).await);
    }
    (verdicts, assayer.status())
}

#[tokio::test]
async fn answers_land_in_the_verdict_under_their_evaluators_names() {
    let yaml = "evaluate: { use: [toxicity, tool_choice, loop, pii, context_relevance] }";
    let (verdicts, status) = assayed(yaml, desk(), None, "openinference-langchain/s02").await;
    let answers = &verdicts[0].answers;
    assert_eq!(answers["toxicity"].label.as_deref(), Some("non-toxic"));
    assert_eq!((answers["toxicity"].by.as_str(), answers["toxicity"].pass), ("local", Some(true)));
    assert!(answers["toxicity"].probabilities["toxic"] < 0.02);
    assert_eq!(answers["context_relevance"].label.as_deref(), Some("true"));
    assert_eq!((answers["loop"].by.as_str(), answers["loop"].label.as_deref()), ("rule", Some("none")));
    assert_eq!(answers["pii"].by, "rule");

    let steps: Vec<&String> = answers.keys().filter(|id| id.starts_with("tool_choice:")).collect();
    assert_eq!(steps.len(), 2);
    let worst = &answers["tool_choice"];
    assert_eq!((worst.label.as_deref(), worst.pass), (Some("wrong"), Some(false)));
    assert!(worst.reasoning.as_deref().unwrap().starts_with("the worst of 2 steps is step "), "{worst:?}");

    let of = |name: &str| status["evaluators"][name].clone();
    assert_eq!((&of("toxicity")["status"], &of("toxicity")["passed"]), (&json!("healthy"), &json!(1)));
    assert_eq!((&of("tool_choice")["flagged"], &of("grounding")["evaluated"]), (&json!(1), &json!(1)));
    assert_eq!(status["decider"]["name"], "scripted");
    assert_eq!(status["judge"], Value::Null);
}

#[tokio::test]
async fn each_evaluator_has_its_own_threshold_and_its_own_way_to_the_judge() {
    let own = |name: &str, extra: &str| {
        format!(
            "{name}: {{ type: choice, instructions: Which?, criteria: {{ a: one, b: other }}, fail: [b]{extra} }}"
        )
    };
    let yaml = format!(
        "evaluate: {{ evaluators: {{ {}, {}, {}, {} }} }}",
        own("tone_asks", ""),
        own("tone_easy", ", min_confidence: 0.0"),
        own("tone_home", ", escalate: false"),
        own("tone_poor", ", escalations_per_hour: 1"),
    );
    let judge = Arc::new(Strict::default());
    let assayer = Assayer::new(&parsed(&yaml), desk(), Some(Arc::clone(&judge) as Arc<dyn Judge>)).unwrap();
    let trace = traces("openinference-langchain/s02").remove(0);
    let (first, second) = (assayer.assay(&trace).await, assayer.assay(&trace).await);
    assert_eq!(*judge.0.lock().unwrap(), [vec!["tone_asks", "tone_poor"], vec!["tone_asks"]]);
    let by = |verdict: &Verdict, id: &str| (verdict.answers[id].by.clone(), verdict.answers[id].pass);
    assert_eq!(by(&first, "tone_asks"), ("judge".to_owned(), Some(false)));
    assert_eq!(by(&first, "tone_easy"), ("local".to_owned(), Some(true)));
    assert_eq!(by(&first, "tone_home"), ("local".to_owned(), Some(true)));
    assert_eq!((by(&first, "tone_poor").0.as_str(), by(&second, "tone_poor").0.as_str()), ("judge", "local"));
    assert!(second.answers["tone_poor"].reasoning.as_deref().unwrap().contains("escalations_per_hour"));
    assert!(second.degraded && !first.degraded);
}

#[tokio::test]
async fn a_model_that_cannot_answer_leaves_the_question_to_the_judge_or_to_nobody() {
    let capabilities = Capabilities { general: false, ..Capabilities::ALL };
    let script = |inquiry: &Inquiry| {
        let decide = |question: &Question| match question.subject {
            Subject::General => Err(Nobody::Unsupported),
            _ => picks(question, &question.kind.labels()[0], 0.99),
        };
        Ok(Reply {
            decisions: inquiry.questions.iter().map(decide).collect(),
            input_tokens: 1,
            truncated: false,
        })
    };
    let desk = || {
        let model = Scripted::new(script).with_capabilities(capabilities);
        decide::start_with(model, &decide::Config::default()).unwrap()
    };
    let yaml = "evaluate: { use: [toxicity] }";
    let (verdicts, status) = assayed(yaml, desk(), None, "openinference-langchain/s02").await;
    let answer = &verdicts[0].answers["toxicity"];
    assert_eq!((answer.by.as_str(), answer.label.as_deref(), answer.pass), ("nobody", None, None));
    assert_eq!(answer.reasoning.as_deref(), Some("unsupported"));
    assert_eq!(status["evaluators"]["toxicity"]["status"], "failing");
    assert_eq!(status["evaluators"]["toxicity"]["unanswered"], 1);
    assert_eq!(status["evaluators"]["grounding"]["status"], "healthy");

    let judge = Arc::new(Strict::default());
    let (verdicts, status) = assayed(yaml, desk(), Some(judge), "openinference-langchain/s02").await;
    let answer = &verdicts[0].answers["toxicity"];
    assert_eq!((answer.by.as_str(), answer.pass, answer.escalated), ("judge", Some(false), true));
    assert_eq!(status["evaluators"]["toxicity"]["status"], "healthy");
    assert_eq!((&status["judge"]["status"], &status["judge"]["asked"]), (&json!("healthy"), &json!(1)));
}

#[tokio::test]
async fn what_finders_found_stands_unless_a_model_is_sure_that_it_is_nothing() {
    let text = "Their card is 4539 1488 0343 6467.";
    let request = |response: &str| {
        serde_json::from_value(json!({ "context": "none", "query": "Which card?", "response": response }))
            .unwrap()
    };
    let yaml = "evaluate: { grounding: false, use: [pii] }";
    let sure = Assayer::new(&parsed(yaml), desk(), None).unwrap().check(&request(text)).await;
    assert_eq!(
        (sure.answers["pii"].by.as_str(), sure.answers["pii"].label.as_deref()),
        ("local", Some("none"))
    );
    let unsure = |inquiry: &Inquiry| {
        let decisions = inquiry.questions.iter().map(|question| picks(question, "none", 0.7)).collect();
        Ok(Reply { decisions, input_tokens: 1, truncated: false })
    };
    let unsure = decide::start_with(Scripted::new(unsure), &decide::Config::default()).unwrap();
    let found = Assayer::new(&parsed(yaml), unsure, None).unwrap().check(&request(text)).await;
    let answer = &found.answers["pii"];
    assert_eq!(
        (answer.by.as_str(), answer.label.as_deref(), answer.pass),
        ("rule", Some("exposed"), Some(false))
    );
    assert_eq!(answer.reasoning.as_deref(), Some("found 1 card"));
    // No claims were asked about: there is no score, and the verdict counts as no hallucination.
    assert_eq!((found.label, found.grounding), (None, None));
    assert_eq!(found.outcome.as_str(), "scored");
}
