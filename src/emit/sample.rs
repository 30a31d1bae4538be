//! Verdicts for tests.

use std::collections::BTreeMap;

use crate::domain::{
    AssayedClaim, Closed, Counts, DecisionStatus, Ended, EvidenceRef, EvidenceType, Grounding, JudgeMetric,
    JudgeView, Label, LocalView, Outcome, Placed, Provenance, RoundSummary, Standing, Step, StepKind, Story,
    TaskAnswer, Tier, Time, Times, Trajectory, Turn, Usage, Verdict, Views,
};

/// Every field is set, every kind of value occurs.
pub(crate) fn full() -> Verdict {
    Verdict {
        schema: 1,
        verdict_id: "b1946ac92492d234".into(),
        revision: 2,
        trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".parse().unwrap()),
        session_id: Some("session-7".into()),
        traces: vec!["4bf92f3577b34da6a3ce929d0e0e4736".parse().unwrap()],
        span_ids: vec!["00f067aa0ba902b7".parse().unwrap(), "53995c3f42cd8ad8".parse().unwrap()],
        evaluated_span_id: Some("53995c3f42cd8ad8".parse().unwrap()),
        response_id: Some("chatcmpl-7".into()),
        service: Some("support-bot".into()),
        agent: Some("refunds".into()),
        model: Some("model-large".into()),
        service_version: Some("2.4.1".into()),
        prompt_version: Some("refunds@12".into()),
        outcome: Outcome::Scored,
        reason: None,
        label: Some(Label::Hallucination),
        hallucination_probability: Some(0.875),
        grounding: Some(Grounding {
            score: 0.625,
            tier: Tier::Replan,
            degraded: true,
            counts: Counts { grounded: 1, ungrounded: 0, contradicted: 1, complementary: 0 },
            claims: vec![
                claim("Order 7 was shipped on 3 May.", Some(Standing::Grounded), EvidenceType::ToolMatch),
                claim(
                    "It arrives tomorrow. Überraschung: 日本",
                    Some(Standing::Contradicted),
                    EvidenceType::Inference,
                ),
                claim("You will like it.", None, EvidenceType::Unknown),
            ],
            views: Some(views()),
        }),
        answers: BTreeMap::from([(
            "toxicity".to_owned(),
            TaskAnswer {
                kind: "choice".into(),
                label: Some("non-toxic".into()),
                probabilities: BTreeMap::from([
                    ("non-toxic".to_owned(), 0.9921875),
                    ("toxic".to_owned(), 0.0078125),
                ]),
                confidence: Some(0.984375),
                by: "local".into(),
                escalated: true,
                reasoning: Some("the judge timed out".into()),
                pass: Some(true),
            },
        )]),
        metrics: BTreeMap::from([
            (
                "tone".to_owned(),
                JudgeMetric {
                    value: Some(serde_json::json!({"compliant": true, "words": ["a", "b"], "share": 0.25})),
                    error: None,
                },
            ),
            ("reach".to_owned(), JudgeMetric { value: None, error: Some("budget".into()) }),
        ]),
        closed: Some(Closed::Root),
        truncated: vec!["evidence: 3 of 9 pieces".into()],
        degraded: true,
        judge_error: Some("timeout".into()),
        provenance: Provenance {
            decider: "assayd-starter".into(),
            judge: Some("judge-large".into()),
            plan: "0f343b0931126a20".into(),
            thresholds: BTreeMap::from([("min_confidence".to_owned(), 0.9), ("proceed".to_owned(), 0.8)]),
            calibration: Some("calibrated:0f343b0931126a20".into()),
            prompts: Some("9f2c0b11".into()),
            version: "0.1.0".into(),
        },
        usage: Usage {
            decider_tokens: 812,
            judge_input_tokens: 1_024,
            judge_output_tokens: 96,
            judge_cost_usd: 0.001953125,
        },
        times: Times {
            first_span: Some(Time(1_796_025_600_123_456_789)),
            closed: Some(Time(1_796_025_602_000_000_000)),
            emitted: Time(1_796_025_602_250_000_001),
        },
        run: None,
    }
}

/// The verdict on a run of GSAR's loop.
pub(crate) fn run() -> Verdict {
    let round = |number, turn, decision| RoundSummary {
        number,
        turn,
        decision,
        score: 0.5,
        counts: Counts { grounded: 1, ungrounded: 2, contradicted: 3, complementary: 4 },
        synthesis: "Überraschung".into(),
        explanation: "why".into(),
        verdict_id: format!("round-{number}"),
        at: Time(1_796_025_602_250_000_001),
    };
    Verdict {
        run: Some(Trajectory {
            run_id: "0199".into(),
            ended: Ended::ReplansSpent,
            degraded: true,
            replans: 2,
            rounds: vec![
                round(1, Turn::Opened, Tier::Regenerate),
                round(2, Turn::Regenerated, Tier::Replan),
                round(3, Turn::Replanned, Tier::Abstain),
            ],
        }),
        ..check()
    }
}

fn views() -> Views {
    let counts = Counts { grounded: 1, ungrounded: 1, contradicted: 0, complementary: 0 };
    let placed = |claim, standing| Placed {
        claim,
        standing,
        evidence_type: EvidenceType::SpecificData,
        refs: vec!["shipped on 3 May".into()],
        reasoning: Some("it says so".into()),
    };
    Views {
        local: LocalView {
            score: 0.5,
            tier: Tier::Replan,
            counts,
            standings: vec![Some(Standing::Grounded), Some(Standing::Ungrounded), None],
        },
        judge: JudgeView {
            score: 0.625,
            tier: Tier::Replan,
            counts: Counts { contradicted: 1, ..counts },
            decision_status: DecisionStatus::Resolved,
            decision_reason: Some("the evidence speaks of both".into()),
            reported_score: Some(0.75),
            is_grounded: Some(false),
            claims: vec![placed(0, Standing::Grounded), placed(1, Standing::Contradicted)],
            gaps: vec!["no date of arrival".into()],
            contradictions: vec!["tomorrow, next week".into()],
            verification_needed: true,
            verification_reason: Some("a date is promised".into()),
            explanation: Some("one of two is borne out".into()),
            repairs: vec!["claim 1 was listed twice as contradicted: taken once".into()],
        },
    }
}

/// A trace that was skipped.
pub(crate) fn skipped() -> Verdict {
    Verdict {
        outcome: Outcome::Skipped,
        reason: Some("no_answer".into()),
        label: None,
        hallucination_probability: None,
        grounding: None,
        answers: BTreeMap::new(),
        metrics: BTreeMap::new(),
        closed: Some(Closed::Idle),
        truncated: Vec::new(),
        degraded: false,
        judge_error: None,
        usage: Usage::default(),
        ..full()
    }
}

/// The verdict of a check, which has no trace.
pub(crate) fn check() -> Verdict {
    Verdict {
        trace_id: None,
        session_id: None,
        traces: Vec::new(),
        span_ids: Vec::new(),
        evaluated_span_id: None,
        response_id: None,
        service: None,
        agent: None,
        model: None,
        service_version: None,
        prompt_version: None,
        label: Some(Label::Faithful),
        closed: None,
        times: Times { first_span: None, closed: None, emitted: Time(1) },
        ..full()
    }
}

/// A faithful verdict of another trace; equal numbers give equal verdicts.
pub(crate) fn numbered(number: u64) -> Verdict {
    Verdict {
        verdict_id: format!("verdict-{number}"),
        trace_id: Some(format!("{:032x}", u128::from(number) + 1).parse().unwrap()),
        label: Some(Label::Faithful),
        traces: Vec::new(),
        ..full()
    }
}

/// The story of [`full`], in short.
pub(crate) fn story() -> Story {
    let step = |index, kind, text: &str| Step { index, text: Some(text.to_owned()), ..Step::new(kind) };
    Story {
        trace_id: full().trace_id,
        session_id: Some("session-7".into()),
        service: Some("support-bot".into()),
        agents: vec!["refunds".into()],
        request: Some("Where is order 7?".into()),
        steps: vec![
            step(0, StepKind::Request, "Where is order 7?"),
            step(1, StepKind::Observation, "shipped on 3 May"),
            step(2, StepKind::Answer, "Order 7 was shipped on 3 May."),
        ],
        answer: Some("Order 7 was shipped on 3 May.".into()),
        dialects: vec!["gen_ai".into()],
        ..Story::default()
    }
}

fn claim(text: &str, standing: Option<Standing>, evidence_type: EvidenceType) -> AssayedClaim {
    AssayedClaim {
        text: text.into(),
        range: [4, 4 + text.chars().count()],
        standing,
        evidence_type,
        weight: 0.5,
        probabilities: BTreeMap::from([("grounded".to_owned(), 0.125), ("ungrounded".to_owned(), 0.875)]),
        confidence: standing.map(|_| 0.75),
        by: if standing.is_some() { "judge" } else { "nobody" }.into(),
        evidence: vec![
            EvidenceRef { step: 3, span_id: Some("00f067aa0ba902b7".parse().unwrap()), range: [120, 188] },
            EvidenceRef { step: 5, span_id: None, range: [0, 9] },
        ],
        derived: vec!["42 + 7 = 49.".into()],
        reasoning: Some("the tool says so".into()),
    }
}
