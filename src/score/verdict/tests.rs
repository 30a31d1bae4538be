use super::*;
use crate::domain::{
    Decision, EvidenceRef, EvidenceType, Handling, Inquiry, Json, Kind, Label, Step, Subject,
};
use crate::score::Config;

const NOW: Time = Time(1_796_025_600_000_000_000);

fn plan() -> Plan {
    Plan::new(Config::default(), &Json::Null, "embedded", Some("large".to_owned()), 0.9)
}

fn origin() -> Origin {
    Origin {
        trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".parse().unwrap()),
        service: Some("gateway".to_owned()),
        root: "00000000000000ff".parse().ok(),
        response_ids: HashMap::from([("00000000000000a1".parse().unwrap(), "chatcmpl-1".to_owned())]),
        closed: Some(Closed::Root),
        truncated: vec!["spans: 2 beyond the limit of 10".to_owned()],
        first_span: Some(Time(5)),
        closed_at: Some(Time(9)),
        ..Origin::default()
    }
}

fn story() -> Story {
    let step = |kind, agent: &str, span: &str| Step {
        agent: Some(agent.to_owned()),
        span_id: span.parse().ok(),
        ..Step::new(kind)
    };
    Story {
        session_id: Some("s-1".to_owned()),
        service: Some("support-bot".to_owned()),
        agents: vec!["triage".to_owned(), "refunds".to_owned()],
        request: Some("?".to_owned()),
        steps: vec![
            step(StepKind::Request, "triage", "00000000000000a1"),
            step(StepKind::Observation, "refunds", "00000000000000b2"),
            step(StepKind::Answer, "refunds", "00000000000000a1"),
        ],
        answer: Some("x".to_owned()),
        truncated: vec!["request: cut by the sender".to_owned()],
        model: Some("gpt-6".to_owned()),
        service_version: Some("2.4.1".to_owned()),
        prompt_version: Some("refunds@12".to_owned()),
        ..Story::default()
    }
}

fn claim(text: &str, kind: EvidenceType) -> Claim {
    let evidence = vec![EvidenceRef { step: 1, span_id: "00000000000000b2".parse().ok(), range: [3, 9] }];
    Claim {
        text: text.to_owned(),
        range: [0, text.len()],
        evidence_type: kind,
        evidence,
        derived: Vec::new(),
    }
}

fn asked(kinds: &[EvidenceType]) -> Questions {
    let options =
        ["grounded", "ungrounded", "contradicted"].map(|name| (name.to_owned(), Json::Null)).to_vec();
    let question = |index| Question {
        id: Questions::claim_id(index),
        kind: Kind::Choice { options: options.clone() },
        instructions: Json::Null,
        subject: Subject::General,
    };
    let questions = (0..kinds.len()).map(question).collect();
    Questions {
        claims: kinds.iter().map(|kind| claim("It is so.", *kind)).collect(),
        inquiries: vec![Inquiry::new(std::sync::Arc::new(Json::Null), questions)],
        ..Questions::default()
    }
}

fn local(index: usize, p: [f64; 3]) -> Response {
    let decision = Decision { probabilities: p.to_vec(), tokens: 1 };
    Response {
        id: Questions::claim_id(index),
        by: AnswerBy::Local,
        label: Some(["grounded", "ungrounded", "contradicted"][decision.pick()].to_owned()),
        confidence: Some(0.5),
        decision: Some(decision),
        reasoning: None,
        escalated: false,
    }
}

fn nobody(index: usize, why: Nobody) -> Response {
    Response {
        by: AnswerBy::Nobody(why),
        label: None,
        decision: None,
        confidence: None,
        ..local(index, [1.0, 0.0, 0.0])
    }
}

fn answers(responses: Vec<Response>) -> Answers {
    Answers { responses, ..Answers::default() }
}

fn of(questions: &Questions, answers: &Answers) -> Verdict {
    verdict(&origin(), &story(), questions, answers, &plan(), NOW)
}

use EvidenceType::{SpecificData, ToolMatch};

#[test]
fn a_verdict_holds_all_that_its_readers_are_promised() {
    let mut judged = local(1, [0.5, 0.1, 0.4]);
    judged.by = AnswerBy::Judge;
    judged.label = Some("contradicted".to_owned());
    judged.reasoning = Some("it says 30".to_owned());
    judged.escalated = true;
    let mut questions = asked(&[ToolMatch, SpecificData]);
    questions.truncated.push("evidence: 10 of 20 characters".to_owned());
    questions.inquiries[0].questions.push(Question {
        id: "toxic".to_owned(),
        kind: Kind::Noul { if_true: None, if_false: None },
        instructions: Json::Null,
        subject: Subject::General,
    });
    let toxic = Response {
        id: "toxic".to_owned(),
        label: Some("false".to_owned()),
        decision: Some(Decision { probabilities: vec![0.75, 0.25], tokens: 1 }),
        ..local(0, [1.0, 0.0, 0.0])
    };
    let mut answers = answers(vec![local(0, [0.9, 0.05, 0.05]), judged, toxic]);
    answers.judge = Some("large".to_owned());
    let json = serde_json::to_value(of(&questions, &answers)).unwrap();
    let expected = serde_json::json!({
        "schema": 1, "verdict_id": json["verdict_id"], "revision": 0, "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
        "session_id": "s-1", "span_ids": ["00000000000000a1", "00000000000000b2"],
        "evaluated_span_id": "00000000000000a1", "response_id": "chatcmpl-1", "service": "support-bot",
        "agent": "refunds", "model": "gpt-6", "service_version": "2.4.1",
        "prompt_version": "refunds@12", "outcome": "scored", "reason": null, "label": "hallucination",
        "hallucination_probability": 0.5,
        "grounding": {
            "score": 1.0 / 1.475, "tier": "regenerate", "degraded": false,
            "counts": {"grounded": 1, "ungrounded": 0, "contradicted": 1, "complementary": 0},
            "claims": [
                {"text": "It is so.", "range": [0, 9], "standing": "grounded", "evidence_type": "tool_match", "weight": 1.0,
                 "probabilities": {"grounded": 0.9, "ungrounded": 0.05, "contradicted": 0.05}, "confidence": 0.5, "by": "local",
                 "evidence": [{"step": 1, "span_id": "00000000000000b2", "range": [3, 9]}], "reasoning": null},
                {"text": "It is so.", "range": [0, 9], "standing": "contradicted", "evidence_type": "specific_data", "weight": 0.95,
                 "probabilities": {"grounded": 0.5, "ungrounded": 0.1, "contradicted": 0.4}, "confidence": 0.5, "by": "judge",
                 "evidence": [{"step": 1, "span_id": "00000000000000b2", "range": [3, 9]}], "reasoning": "it says 30"},
            ],
        },
        "answers": {"toxic": {"type": "noul", "label": "false", "probabilities": {"false": 0.75, "true": 0.25},
                    "confidence": 0.5, "by": "local", "escalated": false}},
        "closed": "root",
        "truncated": ["spans: 2 beyond the limit of 10", "request: cut by the sender", "evidence: 10 of 20 characters"],
        "degraded": false, "judge_error": null,
        "provenance": {"decider": "embedded", "judge": "large", "plan": plan().hash,
            "thresholds": serde_json::to_value(plan().provenance(None).thresholds).unwrap(), "version": env!("CARGO_PKG_VERSION")},
        "usage": {"decider_tokens": 0, "judge_input_tokens": 0, "judge_output_tokens": 0, "judge_cost_usd": 0.0},
        "times": {"first_span": "1970-01-01T00:00:00.000000005Z", "closed": "1970-01-01T00:00:00.000000009Z",
                  "emitted": "2026-11-30T08:00:00.000000000Z"},
    });
    assert_eq!(json, expected);
}

#[test]
fn equal_knowledge_of_a_trace_and_equal_plans_have_one_id_whatever_happened() {
    let questions = asked(&[ToolMatch]);
    let scored = of(&questions, &answers(vec![local(0, [0.9, 0.05, 0.05])]));
    let later = verdict(&origin(), &story(), &questions, &answers(vec![]), &plan(), Time(NOW.0 + 1));
    assert_eq!(scored.verdict_id, later.verdict_id);
    assert_eq!(scored.verdict_id, failed(&origin(), "panicked", &plan(), NOW).verdict_id);
    let again = Origin { revision: 1, ..origin() };
    assert_eq!(scored.verdict_id, skipped(&again, &Skip::NoAnswer, &plan(), NOW).verdict_id);
    let revised = Origin { revision: 1, known: "more".to_owned(), ..origin() };
    assert_ne!(scored.verdict_id, skipped(&revised, &Skip::NoAnswer, &plan(), NOW).verdict_id);
    let other = Plan::new(Config::default(), &Json::Null, "another", None, 0.9);
    assert_ne!(scored.verdict_id, skipped(&origin(), &Skip::NoAnswer, &other, NOW).verdict_id);
}

#[test]
fn a_text_without_a_trace_has_the_id_of_its_content() {
    let id = |story: &Story| {
        let questions = asked(&[ToolMatch]);
        verdict(&Origin::default(), story, &questions, &answers(vec![]), &plan(), NOW).verdict_id
    };
    let other = Story { answer: Some("y".to_owned()), ..story() };
    assert_eq!(id(&story()), id(&story()));
    assert_ne!(id(&story()), id(&other));
}

#[test]
fn a_skip_and_a_failure_say_why_and_score_nothing() {
    let skip = skipped(&origin(), &Skip::NoAnswer, &plan(), NOW);
    assert_eq!(
        (skip.outcome, skip.reason.as_deref(), skip.degraded),
        (Outcome::Skipped, Some("no_answer"), false)
    );
    assert_eq!((skip.label, &skip.grounding, skip.service.as_deref()), (None, &None, Some("gateway")));
    let fail = failed(&origin(), "panicked", &plan(), NOW);
    assert_eq!(
        (fail.outcome, fail.reason.as_deref(), fail.degraded),
        (Outcome::Failed, Some("panicked"), true)
    );
}

#[test]
fn an_answer_without_claims_is_skipped() {
    let verdict = of(&Questions::default(), &Answers::default());
    assert_eq!((verdict.outcome, verdict.reason.as_deref()), (Outcome::Skipped, Some("no_claims")));
    assert_eq!(verdict.label, None);
}

#[test]
fn a_skip_says_whether_claims_were_not_asked_about_or_nobody_answered_the_rest() {
    let refused = Questions { unclaimed: Some("not_sampled"), ..Questions::default() };
    assert_eq!(of(&refused, &Answers::default()).reason.as_deref(), Some("not_sampled"));
    let mut other = Questions { unclaimed: Some("not_asked"), ..asked(&[ToolMatch]) };
    other.claims.clear();
    other.inquiries[0].questions[0].id = "tone".to_owned();
    let nobody = Response { id: "tone".to_owned(), ..nobody(0, Nobody::Unsupported) };
    let verdict = of(&other, &answers(vec![nobody]));
    assert_eq!((verdict.outcome, verdict.reason.as_deref()), (Outcome::Skipped, Some("unanswered")));
    assert_eq!(verdict.answers["tone"].reasoning.as_deref(), Some("unsupported"));
}

#[test]
fn of_single_steps_the_worst_stands_for_the_evaluator() {
    let mut questions = asked(&[]);
    let options = ["right", "unneeded", "wrong"].map(|label| (label.to_owned(), Json::Null)).to_vec();
    let mut responses = Vec::new();
    let mut ask = |step: usize, response: Response, fails: &[&str]| {
        let id = Questions::step_id("tool_choice", step);
        let kind = Kind::Choice { options: options.clone() };
        let question = Question { id: id.clone(), kind, instructions: Json::Null, subject: Subject::General };
        questions.inquiries[0].questions.push(question);
        let fails: Vec<String> = fails.iter().map(|label| (*label).to_owned()).collect();
        let handling = Handling {
            evaluator: "tool_choice".into(),
            step: Some(step),
            fails: fails.into(),
            ..Handling::default()
        };
        questions.handling.insert(id.clone(), handling);
        responses.push(Response { id, ..response });
    };
    let says = |p: [f64; 3]| {
        let decision = Decision { probabilities: p.to_vec(), tokens: 1 };
        let label = ["right", "unneeded", "wrong"][decision.pick()].to_owned();
        Response { label: Some(label), decision: Some(decision), ..local(0, [1.0, 0.0, 0.0]) }
    };
    ask(2, says([0.9, 0.05, 0.05]), &["wrong"]);
    ask(4, says([0.5, 0.1, 0.4]), &["wrong"]);
    ask(6, says([0.2, 0.8, 0.0]), &["wrong"]);
    let passed = of(&questions, &answers(responses.clone())).answers;
    // By the probability of failing, not by the label.
    assert_eq!(passed["tool_choice"].reasoning.as_deref(), Some("the worst of 3 steps is step 4"));
    assert_eq!((passed["tool_choice"].pass, passed.len()), (Some(true), 4));

    responses[0] = Response { id: responses[0].id.clone(), ..nobody(0, Nobody::Unsupported) };
    let unknown = of(&questions, &answers(responses.clone())).answers;
    assert_eq!(unknown["tool_choice"].pass, None);
    assert!(unknown["tool_choice"].reasoning.as_deref().unwrap().contains("1 without an answer"));

    responses[2].by = AnswerBy::Judge;
    responses[2].label = Some("wrong".to_owned());
    let failed = of(&questions, &answers(responses)).answers;
    assert_eq!((failed["tool_choice"].pass, failed["tool_choice"].by.as_str()), (Some(false), "judge"));
    assert_eq!(failed["tool_choice:6"].pass, Some(false));
}

#[test]
fn claims_without_evidence_are_an_abstention() {
    let questions = asked(&[ToolMatch]);
    let verdict = of(&questions, &answers(vec![nobody(0, Nobody::NoEvidence)]));
    let grounding = verdict.grounding.unwrap();
    assert_eq!((verdict.outcome, verdict.label), (Outcome::Scored, Some(Label::Unsure)));
    assert_eq!((grounding.tier, grounding.score, grounding.degraded), (Tier::Abstain, 0.5, true));
    assert_eq!(verdict.hallucination_probability, None);
    let claim = &grounding.claims[0];
    assert_eq!(
        (claim.by.as_str(), claim.standing, claim.reasoning.as_deref()),
        ("nobody", None, Some("no_evidence"))
    );
}

#[test]
fn a_model_that_failed_is_a_failure_and_no_score() {
    let questions = asked(&[ToolMatch]);
    let verdict = of(&questions, &answers(vec![nobody(0, Nobody::Failed("broken".to_owned()))]));
    assert_eq!((verdict.outcome, verdict.reason.as_deref()), (Outcome::Failed, Some("decider_failed")));
    assert_eq!((verdict.grounding, verdict.label, verdict.degraded), (None, None, true));
}

#[test]
fn too_few_answered_claims_are_an_abstention_and_some_unanswered_are_degraded() {
    let good = || [0.9, 0.05, 0.05];
    let questions = asked(&[ToolMatch; 3]);
    let failed = |index| nobody(index, Nobody::Failed("broken".to_owned()));
    let few = of(&questions, &answers(vec![local(0, good()), failed(1), failed(2)])).grounding.unwrap();
    assert_eq!((few.tier, few.score), (Tier::Abstain, 1.0));
    let most = of(&questions, &answers(vec![local(0, good()), local(1, good()), failed(2)]));
    assert_eq!(most.grounding.as_ref().unwrap().tier, Tier::Proceed);
    assert_eq!((most.label, most.degraded), (Some(Label::Unsure), true));
}

#[test]
fn dropping_the_contradicted_claim_would_have_let_the_answer_pass() {
    let questions = asked(&[ToolMatch, ToolMatch]);
    let both = answers(vec![local(0, [0.9, 0.05, 0.05]), local(1, [0.05, 0.05, 0.9])]);
    let with = of(&questions, &both).grounding.unwrap();
    assert_eq!(with.tier, Tier::Regenerate);
    assert!((with.score - 1.0 / 1.5).abs() < 1e-12);
    let without = of(&asked(&[ToolMatch]), &answers(vec![local(0, [0.9, 0.05, 0.05])])).grounding.unwrap();
    assert_eq!(without.tier, Tier::Proceed);
}

#[test]
fn a_judge_that_did_not_answer_is_said_and_changes_no_score() {
    let questions = asked(&[ToolMatch]);
    let fine = answers(vec![local(0, [0.6, 0.2, 0.2])]);
    let broken = Answers { judge_error: Some("refused".to_owned()), degraded: true, ..fine.clone() };
    let (fine, broken) = (of(&questions, &fine), of(&questions, &broken));
    assert_eq!(broken.judge_error.as_deref(), Some("refused"));
    assert!(broken.degraded && !fine.degraded);
    assert_eq!(broken.grounding.unwrap().score, fine.grounding.unwrap().score);
}

#[test]
fn a_verdict_belongs_to_the_span_that_answered_else_to_the_topmost_one() {
    let answers = answers(vec![local(0, [0.9, 0.05, 0.05])]);
    let questions = asked(&[ToolMatch]);
    let told = of(&questions, &answers);
    assert_eq!(told.evaluated_span_id, "00000000000000a1".parse().ok());
    let mut nameless = story();
    nameless.steps.iter_mut().for_each(|step| step.span_id = None);
    let untold = verdict(&origin(), &nameless, &questions, &answers, &plan(), NOW);
    assert_eq!((untold.evaluated_span_id, untold.response_id), (origin().root, None));
    assert_eq!(skipped(&origin(), &Skip::NoAnswer, &plan(), NOW).evaluated_span_id, origin().root);
}

#[test]
fn a_service_is_scored_by_its_own_thresholds_and_the_verdict_says_which() {
    let config: Config =
        serde_saphyr::from_str("services: { 'support-*': { proceed: 0.99, regenerate: 0.1 } }").unwrap();
    let plan = Plan::new(config, &Json::Null, "embedded", None, 0.9);
    let questions = asked(&[EvidenceType::ToolMatch, EvidenceType::ToolMatch]);
    let answers = Answers {
        responses: vec![local(0, [0.9, 0.05, 0.05]), local(1, [0.05, 0.9, 0.05])],
        ..Answers::default()
    };
    let own = verdict(&origin(), &story(), &questions, &answers, &plan, NOW);
    assert_eq!(own.grounding.as_ref().unwrap().tier, Tier::Regenerate);
    assert_eq!(own.provenance.thresholds["proceed"], 0.99);
    let elsewhere = Story { service: Some("billing".to_owned()), ..story() };
    let usual = verdict(&origin(), &elsewhere, &questions, &answers, &plan, NOW);
    assert_eq!(usual.grounding.as_ref().unwrap().tier, Tier::Replan);
    assert_eq!(usual.provenance.thresholds["proceed"], 0.8);
    assert_eq!(own.provenance.plan, usual.provenance.plan);
}

#[test]
fn both_views_stand_beside_the_score_where_the_judge_partitioned() {
    use crate::domain::{DecisionStatus, JudgedPartition, Placed};
    let questions = asked(&[EvidenceType::ToolMatch, EvidenceType::Inference]);
    let placed = Placed {
        claim: 1,
        standing: Standing::Complementary,
        evidence_type: EvidenceType::ComplementaryFinding,
        refs: Vec::new(),
        reasoning: None,
    };
    let partition = JudgedPartition {
        asked: vec![1],
        placed: vec![placed],
        status: DecisionStatus::Resolved,
        ..JudgedPartition::default()
    };
    let mut second = local(1, [0.4, 0.5, 0.1]);
    second.by = AnswerBy::Judge;
    second.label = Some("complementary".to_owned());
    let answers = Answers {
        responses: vec![local(0, [0.9, 0.05, 0.05]), second],
        partition: Some(partition),
        ..Answers::default()
    };
    let grounding = verdict(&origin(), &story(), &questions, &answers, &plan(), NOW).grounding.unwrap();
    assert_eq!((grounding.score, grounding.tier), (1.0, Tier::Proceed));
    let views = grounding.views.unwrap();
    assert_eq!(views.local.standings, [Some(Standing::Grounded), Some(Standing::Ungrounded)]);
    assert!((views.local.score - 1.0 / 1.6).abs() < 1e-9);
    assert_eq!((views.judge.claims.len(), views.judge.score), (1, 1.0));
}
