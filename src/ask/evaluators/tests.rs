//! The section as a whole: from YAML to questions.

use serde_json::json;

use super::*;
use crate::ask::Config;
use crate::ask::tests::story;
use crate::domain::{
    Attributes, Closed, Instructions, Json, Kind, OfferedTool, Questions, Resource, Span, SpanKind, StepKind,
    Story, Subject, Time, Trace,
};

fn config(yaml: &str) -> EvaluateConfig {
    let config: EvaluateConfig = serde_saphyr::from_str(yaml).unwrap();
    assert_eq!(problems(&config), Vec::<String>::new());
    config
}

fn problems(config: &EvaluateConfig) -> Vec<String> {
    let mut problems = Vec::new();
    config.check(&mut problems);
    problems
}

fn wrong(yaml: &str) -> String {
    problems(&serde_saphyr::from_str(yaml).unwrap()).join("\n")
}

/// A turn with a thought, two calls and their results, and an answer.
fn agent() -> Story {
    let mut story = story(&[
        (StepKind::Request, "Where is order 7?"),
        (StepKind::Thought, "I look the order up, then its parcel."),
        (StepKind::ToolCall, ""),
        (StepKind::Observation, "order 7: parcel P1"),
        (StepKind::ToolCall, ""),
        (StepKind::Observation, "P1: delivered on 3 May"),
        (StepKind::Answer, "It was delivered on 3 May."),
    ]);
    for (at, tool) in [(2, "get_order"), (4, "get_parcel")] {
        story.steps[at].text = None;
        story.steps[at].tool = Some(tool.to_owned());
        story.steps[at].arguments = Some(serde_json::json!({"id": at}));
    }
    story.agents = vec!["triage".to_owned(), "orders".to_owned()];
    story.service = Some("shop-eu".to_owned());
    story.model = Some("vendor/model-large".to_owned());
    story
}

fn trace(id: u128) -> Trace {
    let mut resource = Attributes::new();
    resource.push("deployment.environment.name", "production");
    let mut attributes = Attributes::new();
    attributes.push("tenant", 17i64);
    let trace_id = format!("{id:032x}").parse().unwrap();
    let span = Span {
        name: "turn".to_owned(),
        kind: SpanKind::Internal,
        start: Time(1),
        end: Time(2),
        attributes,
        resource: std::sync::Arc::new(Resource { attributes: resource }),
        ..Span::new(trace_id, "00000000000000a1".parse().unwrap())
    };
    Trace {
        spans: vec![span],
        closed: Closed::Root,
        first_arrival: Time(1),
        closed_at: Time(2),
        ..Trace::new(trace_id)
    }
}

fn ask(yaml: &str, story: &Story, trace: Option<&Trace>) -> (Questions, Vec<Selection>) {
    let candidate = Candidate { story, trace, service: None };
    Evaluators::new(&config(yaml)).ask(&candidate, &Config::default())
}

fn fates(selections: &[Selection]) -> Vec<String> {
    selections.iter().map(|selection| format!("{}: {}", selection.evaluator, selection.fate)).collect()
}

fn ids(questions: &Questions) -> Vec<&str> {
    questions
        .inquiries
        .iter()
        .flat_map(|inquiry| &inquiry.questions)
        .map(|question| question.id.as_str())
        .collect()
}

#[test]
fn without_evaluators_only_claims_are_asked_about() {
    let story = agent();
    let (asked, selections) = ask("{}", &story, None);
    assert_eq!(asked, crate::ask::questions(&story, &Config::default()));
    assert_eq!(fates(&selections), ["grounding: 1 question"]);
    assert_eq!(*Evaluators::new(&EvaluateConfig::default()).fingerprint(), Json::Null);
}

#[test]
fn grounding_can_be_turned_off_and_can_have_its_own_handling() {
    let story = agent();
    let (asked, selections) = ask("{ grounding: false, use: [toxicity] }", &story, None);
    assert!(asked.claims.is_empty());
    assert_eq!(fates(&selections), ["toxicity: 1 question"]);
    assert_eq!(asked.unclaimed, Some("not_asked"));
    let (asked, _) =
        ask("{ evaluators: { grounding: { min_confidence: 0.99, escalate: false } } }", &story, None);
    let handling = &asked.handling[&Questions::claim_id(0)];
    assert_eq!((handling.min_confidence, handling.escalate), (Some(0.99), false));
    let (asked, selections) =
        ask("{ evaluators: { grounding: { match: { service: 'bank-*' } } } }", &story, None);
    assert!(asked.claims.is_empty() && asked.inquiries.is_empty());
    assert_eq!(asked.unclaimed, Some("not_matched"));
    assert_eq!(fates(&selections), ["grounding: service is \"shop-eu\", and match wants \"bank-*\""]);
}

#[test]
fn questions_about_one_state_share_it() {
    let (asked, _) = ask(
        "{ grounding: false, use: [scope, goal_completion, toxicity, refusal, completeness] }",
        &agent(),
        None,
    );
    let shared: Vec<Vec<&str>> = asked
        .inquiries
        .iter()
        .map(|inquiry| inquiry.questions.iter().map(|question| question.id.as_str()).collect())
        .collect();
    assert_eq!(shared, [vec!["scope", "goal_completion"], vec!["toxicity"], vec!["completeness", "refusal"]]);
}

#[test]
fn every_built_in_evaluator_asks_what_it_says() {
    let story = agent();
    for built_in in catalogue::all().filter(|built_in| built_in.name != "grounding") {
        let name = built_in.name;
        let (asked, selections) = ask(&format!("{{ grounding: false, use: [{name}] }}"), &story, None);
        assert!(selections[0].fate.is_taken(), "{name}: {}", selections[0].fate);
        let kinds: Vec<&Kind> = asked
            .inquiries
            .iter()
            .flat_map(|inquiry| &inquiry.questions)
            .chain(asked.ruled.iter().map(|(question, _)| question))
            .map(|question| &question.kind)
            .collect();
        assert!(!kinds.is_empty(), "{name}");
        for label in built_in.fails {
            assert!(kinds.iter().all(|kind| kind.labels().contains(&(*label).to_owned())), "{name}: {label}");
        }
        for handling in asked.handling.values() {
            assert_eq!(&*handling.evaluator, name);
            assert_eq!(handling.escalate, built_in.escalate);
        }
    }
}

#[test]
fn descriptions_are_whole_sentences_and_names_are_fit_for_labels() {
    let mut names = std::collections::HashSet::new();
    for built_in in catalogue::all() {
        assert!(names.insert(built_in.name), "{} is there twice", built_in.name);
        assert!(built_in.name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{}", built_in.name);
        for text in [built_in.about, built_in.reading] {
            assert!(text.ends_with('.') && text.len() > 15, "{}: {text}", built_in.name);
        }
        if let catalogue::Task::Choice(options) = built_in.task {
            assert!(options.len() >= 2 && !built_in.instructions.is_empty(), "{}", built_in.name);
            for (label, text) in options {
                assert!(text.ends_with('.') && text.len() > 20, "{}: {label}: {text}", built_in.name);
            }
            // The best comes first: it never fails.
            assert!(!built_in.fails.contains(&options[0].0), "{}", built_in.name);
        }
    }
}

#[test]
fn evaluators_of_calls_ask_once_for_each_and_no_more_than_allowed() {
    let (asked, selections) = ask("{ grounding: false, use: [tool_choice, tool_arguments] }", &agent(), None);
    assert_eq!(ids(&asked), ["tool_choice:2", "tool_choice:4", "tool_arguments:2", "tool_arguments:4"]);
    assert_eq!(asked.handling["tool_choice:4"].step, Some(4));
    assert_eq!(asked.inquiries.len(), 1);
    let text = asked.inquiries[0].questions[1].instructions.as_str().unwrap();
    assert!(text.contains("step 4 of the state"), "{text}");
    assert_eq!(selections[0].fate, Fate::Asked { questions: 2, ruled: 0 });
    let (asked, _) = ask("{ grounding: false, max_steps: 1, use: [tool_choice] }", &agent(), None);
    assert_eq!(ids(&asked), ["tool_choice:4"]);
    assert_eq!(asked.truncated, ["tool_choice: the last 1 of 2 tool calls"]);
}

#[test]
fn what_a_story_lacks_is_said() {
    let plain = story(&[(StepKind::Answer, "Hello there, this is the weather.")]);
    let yaml = "{ use: [context_relevance, tool_choice, loop, plan_adherence, completeness, indirect_injection, toxicity] }";
    let (asked, selections) = ask(yaml, &plain, None);
    let reasons: Vec<Option<&str>> = selections.iter().map(|selection| selection.fate.reason()).collect();
    assert_eq!(ids(&asked).last(), Some(&"toxicity"));
    assert_eq!(
        reasons[1..],
        [
            Some("no_request"),
            Some("no_tool_calls"),
            Some("no_thoughts"),
            Some("no_tool_calls"),
            Some("no_observations"),
            None,
            Some("no_request")
        ]
    );
}

#[test]
fn the_relevance_of_the_context_is_put_so_that_the_embedded_model_knows_it() {
    let (asked, _) = ask("{ use: [context_relevance] }", &agent(), None);
    let inquiry = asked
        .inquiries
        .iter()
        .find(|inquiry| inquiry.questions.iter().any(|q| q.id == "context_relevance"))
        .unwrap();
    assert_eq!(*inquiry.state, Json::String("order 7: parcel P1\nP1: delivered on 3 May".to_owned()));
    let question = inquiry.questions.last().unwrap();
    assert_eq!(question.subject, Subject::Relevance { query: "Where is order 7?".to_owned() });
    // The claims are held against the same text, which is then read once.
    assert_eq!(asked.inquiries.len(), 1);
}

#[test]
fn leaks_are_ruled_out_by_finders_and_put_to_a_model_only_if_something_is_left() {
    let mut story = agent();
    let (asked, selections) = ask("{ grounding: false, use: [pii, secrets] }", &story, None);
    assert_eq!(asked.ruled.len(), 2);
    assert!(asked.inquiries.is_empty());
    assert!(selections.iter().all(|selection| selection.fate == Fate::Ruled));
    assert_eq!(asked.ruled[0].1.label, "none");

    story.answer = Some("Write to max.muster@posteo.de.".to_owned());
    let (asked, _) = ask("{ grounding: false, use: [pii, secrets] }", &story, None);
    assert_eq!(ids(&asked), ["pii"]);
    let handling = &asked.handling["pii"];
    assert_eq!(handling.otherwise.as_ref().unwrap().label, "exposed");
    assert!(!handling.escalate);
    let (asked, _) =
        ask("{ grounding: false, use: [pii], evaluators: { pii: { find: [card] } } }", &story, None);
    assert_eq!(asked.ruled.len(), 1);
}

#[test]
fn own_evaluators_of_all_types_become_questions() {
    let yaml = r#"
grounding: false
evaluators:
  polite: { type: noul, instructions: "Is it polite?", criteria: { true: "kind words", false: "none" } }
  bare: { type: noul, instructions: "Is it short?", state: answer }
  tone:
    type: choice
    instructions: Which tone?
    criteria: { warm: "w", cold: null, yes: "y" }
    fail: [cold]
    min_confidence: 0.8
    prompt: tone.jinja
  depth: { type: score, instructions: "How deep?", criteria: ["shallow", { name: deep }], state: story }
  allowed: { type: noul, instructions: "Allowed?", each: tool_call }
metrics:
  style: { instructions: "Check the style.", schema: { type: object, properties: { ok: { type: boolean } } }, prompt: style.jinja }
"#;
    let (asked, selections) = ask(yaml, &agent(), None);
    let question = |id: &str| {
        asked
            .inquiries
            .iter()
            .flat_map(|inquiry| &inquiry.questions)
            .find(|question| question.id == id)
            .unwrap()
    };
    assert_eq!(
        question("polite").kind,
        Kind::Noul { if_true: Some("kind words".into()), if_false: Some("none".into()) }
    );
    assert_eq!(question("bare").kind, Kind::Noul { if_true: None, if_false: None });
    assert_eq!(question("tone").kind.labels(), ["warm", "cold", "yes"]);
    assert_eq!(question("depth").kind.labels(), ["0", "1"]);
    assert_eq!(asked.handling["tone"].min_confidence, Some(0.8));
    assert_eq!(asked.handling["allowed:4"].step, Some(4));
    let own_prompt = asked.inquiries.iter().find(|inquiry| inquiry.prompt.is_some()).unwrap();
    assert_eq!((own_prompt.prompt.as_deref(), own_prompt.questions.len()), (Some("tone.jinja"), 1));
    assert_eq!(&*asked.measures[0].name, "style");
    assert_eq!(asked.measures[0].state["answer"], "It was delivered on 3 May.");
    assert_eq!(selections.len(), 6);
    let prompts: Vec<String> = config(yaml).prompts().iter().map(|path| path.display().to_string()).collect();
    assert_eq!(prompts, ["style.jinja", "tone.jinja"]);
}

#[test]
fn traces_are_matched_by_service_agent_model_and_attributes() {
    let story = agent();
    let trace = trace(1);
    let fate = |matching: &str| {
        let yaml = format!(
            "{{ grounding: false, use: [toxicity], evaluators: {{ toxicity: {{ match: {matching} }} }} }}"
        );
        fates(&ask(&yaml, &story, Some(&trace)).1).remove(0)
    };
    for fits in [
        "{ service: 'shop-*' }",
        "{ agent: orders }",
        "{ model: 'vendor/*' }",
        "{ model: '*large' }",
        "{ service: '{bank,shop}-??' }",
        "{ attributes: { deployment.environment.name: 'prod*', tenant: '17' } }",
        "{}",
    ] {
        assert_eq!(fate(fits), "toxicity: 1 question", "{fits}");
    }
    assert_eq!(fate("{ service: shop }"), "toxicity: service is \"shop-eu\", and match wants \"shop\"");
    assert_eq!(fate("{ agent: 'b*' }"), "toxicity: agent is \"triage, orders\", and match wants \"b*\"");
    assert_eq!(
        fate("{ attributes: { tenant: '18' } }"),
        "toxicity: tenant is \"17\", and match wants \"18\""
    );
    assert_eq!(
        fate("{ attributes: { region: eu } }"),
        "toxicity: the trace has no region, and match wants \"eu\""
    );
}

#[test]
fn a_sample_leaves_traces_out_and_never_a_check() {
    let story = agent();
    let yaml = "{ grounding: false, use: [toxicity], evaluators: { toxicity: { sample: 0.25 } } }";
    let drawn = (1..=200).filter(|id| ask(yaml, &story, Some(&trace(*id))).1[0].fate.is_taken()).count();
    assert!((25..=75).contains(&drawn), "{drawn}");
    let (_, selections) =
        ask("{ grounding: false, use: [toxicity], evaluators: { toxicity: { sample: 0.0 } } }", &story, None);
    assert!(selections[0].fate.is_taken());
    let none = "{ grounding: false, use: [toxicity], evaluators: { toxicity: { sample: 0 } } }";
    assert_eq!(fates(&ask(none, &story, Some(&trace(3))).1), ["toxicity: not in the sample of 0"]);
}

#[test]
fn everything_that_is_wrong_is_said_at_once_with_what_would_be_right() {
    let message = wrong(
        r#"
use: [toxcity, toxicity, toxicity, tone, weather]
evaluators:
  tone: { type: choice, criteria: { only: "one" }, sample: 20, min_confidence: -1 }
  Loud: { type: score, instructions: "x", criteria: { a: "b" } }
  yes_no: { type: noul, instructions: "x", criteria: { maybe: "?" }, fail: [flase] }
  pii: { sample: 0.5 }
  toxicity: { type: choice, find: [email], fail: [toxik] }
  prompt_injecton: { sample: 0.5 }
  shape: { type: choice, instructions: "x", criteria: ["a", "b"], match: { service: "[a" } }
metrics:
  style: { schema: { type: objekt } }
  pii: { instructions: "x", schema: { type: boolean } }
"#,
    );
    for wanted in [
        "\"toxcity\" is no built-in evaluator; did you mean toxicity?",
        "toxicity is there twice",
        "\"tone\" is no built-in evaluator; own evaluators run without being named here",
        "\"weather\" is no built-in evaluator; there are grounding, ",
        "evaluate.evaluators.tone: needs instructions",
        "evaluate.evaluators.tone: criteria have 1 labels",
        "sample (20) must be from 0 to 1; a fifth",
        "min_confidence (-1)",
        "evaluate.evaluators.Loud: a name has",
        "evaluate.evaluators.Loud: needs criteria: a list",
        "criteria of a noul are true and false, not \"maybe\"",
        "fail names \"flase\", which is none of its labels; did you mean false?",
        "evaluate.evaluators.pii: has settings for the built-in evaluator pii, but evaluate.use does not name it",
        "evaluate.evaluators.toxicity: sets type",
        "evaluate.evaluators.toxicity: sets find",
        "did you mean toxic?",
        "evaluate.evaluators.prompt_injecton: needs a type: noul, choice or score, or did you mean the built-in prompt_injection?",
        "evaluate.evaluators.shape: needs criteria: a map",
        "match.service: \"[a\" is no pattern",
        "evaluate.metrics.style: needs instructions or a prompt",
        "evaluate.metrics.style: schema is no valid JSON Schema",
        "evaluate.metrics.pii: has the name of an evaluator",
    ] {
        assert!(message.contains(wanted), "no {wanted:?} in\n{message}");
    }
}

#[test]
fn plans_differ_where_their_evaluators_do() {
    let of = |yaml: &str| Evaluators::new(&config(yaml)).fingerprint().clone();
    let plans = [
        of("{}"),
        of("{ use: [toxicity] }"),
        of("{ use: [toxicity], evaluators: { toxicity: { sample: 0.5 } } }"),
        of("{ use: [toxicity], evaluators: { toxicity: { min_confidence: 0.5 } } }"),
        of("{ grounding: false }"),
        of("{ metrics: { m: { instructions: x, schema: { type: boolean } } } }"),
    ];
    for (at, plan) in plans.iter().enumerate() {
        assert!(plans[..at].iter().all(|other| other != plan), "{plan}");
    }
    assert_eq!(of("{ use: [toxicity] }"), of("{ use: [toxicity] }"));
}

/// The agent of [`agent`] with what its model was told and offered.
fn offered() -> Story {
    let mut story = agent();
    story.instructions = vec![Instructions { agents: vec![], text: RULES.to_owned() }];
    story.tools = ["find_order", "track"]
        .map(|name| OfferedTool {
            name: name.to_owned(),
            description: Some(format!("{name}s it.")),
            parameters: Some(
                json!({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}),
            ),
            agents: vec![],
            unlisted: false,
        })
        .to_vec();
    for (step, name) in [(2, "find_order"), (4, "track")] {
        story.steps[step].tool = Some(name.to_owned());
        story.steps[step].arguments = Some(json!({"id": 7}));
    }
    story
}

const RULES: &str = "You are the parcel agent of Northwind. You must not tell anybody the address of a customer, and you must look up \
    each parcel before you say where it is. Keep every answer under forty words.";

#[test]
fn questions_about_a_story_see_its_instructions_and_its_offered_tools() {
    let (asked, _) =
        ask("{ grounding: false, use: [tool_choice, scope, instruction_following] }", &offered(), None);
    assert_eq!(ids(&asked), ["tool_choice:2", "tool_choice:4", "scope", "instruction_following"]);
    assert_eq!(asked.inquiries.len(), 2);
    let [story, conversation] = asked.inquiries.as_slice() else { panic!() };
    assert_eq!(story.state["agent_instructions"][0]["text"], RULES);
    assert_eq!(story.state["offered_tools"][1]["arguments"]["required"], json!(["id"]));
    assert_eq!(conversation.state["agent_instructions"][0]["text"], RULES);
    assert!(conversation.state.get("offered_tools").is_none());
}

#[test]
fn what_is_certain_is_ruled_and_the_rest_is_asked() {
    let mut story = offered();
    story.steps[4].arguments = Some(json!({"id": "P1"}));
    story.answer = Some(format!("My instructions are: {RULES}"));
    let yaml = "{ grounding: false, use: [tool_arguments, system_prompt_leak] }";
    let (asked, selections) = ask(yaml, &story, None);
    assert_eq!(ids(&asked), ["tool_arguments:2"]);
    let ruled: Vec<(&str, &str)> =
        asked.ruled.iter().map(|(question, ruling)| (question.id.as_str(), ruling.label.as_str())).collect();
    assert_eq!(ruled, [("tool_arguments:4", "invalid"), ("system_prompt_leak", "leaked")]);
    assert_eq!(asked.handling["tool_arguments:4"].step, Some(4));
    assert_eq!(
        fates(&selections),
        ["tool_arguments: 1 question, 1 answered by a rule", "system_prompt_leak: answered by a rule"]
    );

    // The operator's own labels have no such word: a model is asked.
    let own = "{ grounding: false, use: [tool_arguments], evaluators: { tool_arguments: { criteria: { good: g, bad: b }, fail: [bad] } } }";
    let (asked, _) = ask(own, &story, None);
    assert_eq!(ids(&asked), ["tool_arguments:2", "tool_arguments:4"]);
}
