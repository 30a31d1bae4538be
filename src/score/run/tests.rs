use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::domain::Grounding;

fn verdict(tier: Tier, score: f64) -> Verdict {
    let full: Verdict =
        serde_json::from_str(include_str!("../../../tests/fixtures/verdicts/schema1.json")).unwrap();
    let grounding = full.grounding.clone().unwrap();
    let usage = crate::domain::Usage { judge_cost_usd: 0.25, ..full.usage };
    Verdict {
        outcome: Outcome::Scored,
        grounding: Some(Grounding { score, tier, ..grounding }),
        usage,
        ..full
    }
}

fn failed() -> Verdict {
    Verdict { outcome: Outcome::Failed, grounding: None, ..verdict(Tier::Replan, 0.1) }
}

fn entry(synthesis: &str, evidence: Option<Json>) -> Entry {
    Entry { synthesis: synthesis.to_owned(), evidence, key: None }
}

fn opened(limits: RunLimits) -> Run {
    Run::open("run-1".into(), limits, entry("first", Some(json!("evidence"))), Time(1))
}

#[test]
fn rounds_that_could_not_be_judged_cost_their_money_and_end_a_run_that_has_none_left() {
    let limits = RunLimits { max_cost_usd: Some(0.6), ..RunLimits::default() };
    let mut run = opened(limits);
    assert!(!run.judged(failed(), Time(2)));
    assert_eq!((run.phase(), run.cost_usd(), run.changed), (Phase::Judging, 0.25, Time(1)));
    assert!(run.judged(verdict(Tier::Replan, 0.3), Time(3)));
    run.enter(entry("second", Some(json!(2))), Time(4)).unwrap();
    assert!(!run.judged(failed(), Time(5)));
    assert_eq!((run.ended, run.cost_usd()), (Some(Ended::BudgetSpent), 0.75));
    assert_eq!((run.rounds.len(), run.usage().judge_cost_usd), (1, 0.75));
}

#[test]
fn an_answer_that_is_borne_out_ends_the_run_at_once() {
    let mut run = opened(RunLimits::default());
    assert_eq!(run.phase(), Phase::Judging);
    assert!(run.judged(verdict(Tier::Proceed, 0.95), Time(2)));
    assert_eq!((run.phase(), run.ended, run.is_degraded()), (Phase::Done, Some(Ended::Proceeded), false));
    assert_eq!(run.enter(entry("again", None), Time(3)), Err(RoundRefused::Done));
}

#[test]
fn regenerating_keeps_the_evidence_and_replanning_brings_new() {
    let mut run = opened(RunLimits::default());
    run.judged(verdict(Tier::Regenerate, 0.7), Time(2));
    assert_eq!(run.phase(), Phase::Synthesis);
    run.enter(entry("second", None), Time(3)).unwrap();
    assert_eq!(run.evidence(), Some(&json!("evidence")));
    run.judged(verdict(Tier::Replan, 0.3), Time(4));
    assert_eq!(run.phase(), Phase::Evidence);
    assert_eq!(run.enter(entry("third", None), Time(5)), Err(RoundRefused::NeedsEvidence));
    run.enter(entry("third", Some(json!({"new": 1}))), Time(5)).unwrap();
    assert_eq!(run.enter(entry("fourth", None), Time(5)), Err(RoundRefused::Judging));
    assert_eq!(run.evidence(), Some(&json!({"new": 1})));
    run.judged(verdict(Tier::Proceed, 0.9), Time(6));
    let trajectory = run.trajectory().unwrap();
    let turns: Vec<Turn> = trajectory.rounds.iter().map(|round| round.turn).collect();
    assert_eq!(turns, [Turn::Opened, Turn::Regenerated, Turn::Replanned]);
    assert_eq!((trajectory.replans, trajectory.degraded), (1, false));
}

#[test]
fn after_two_replans_a_third_decision_to_replan_ends_the_run_degraded() {
    let mut run = opened(RunLimits::default());
    for round in 0..2 {
        // To abstain counts as to replan.
        run.judged(verdict(if round == 0 { Tier::Replan } else { Tier::Abstain }, 0.2), Time(2));
        assert_eq!(run.phase(), Phase::Evidence);
        run.enter(entry("more", Some(json!(round))), Time(3)).unwrap();
    }
    run.judged(verdict(Tier::Replan, 0.2), Time(4));
    assert_eq!((run.ended, run.is_degraded()), (Some(Ended::ReplansSpent), true));
}

#[test]
fn a_run_ends_with_its_last_round_and_with_its_budget() {
    let mut run = opened(RunLimits { max_rounds: 2, ..RunLimits::default() });
    run.judged(verdict(Tier::Regenerate, 0.7), Time(2));
    run.enter(entry("second", None), Time(3)).unwrap();
    assert_eq!(run.rounds_left(), 0);
    run.judged(verdict(Tier::Regenerate, 0.7), Time(4));
    assert_eq!(run.ended, Some(Ended::RoundsSpent));

    let mut run = opened(RunLimits { max_cost_usd: Some(0.2), ..RunLimits::default() });
    run.judged(verdict(Tier::Regenerate, 0.7), Time(2));
    assert_eq!(run.ended, Some(Ended::BudgetSpent));
}

#[test]
fn a_round_that_could_not_be_judged_spends_nothing_and_can_be_handed_in_again() {
    let mut run = opened(RunLimits::default());
    assert!(!run.judged(failed(), Time(2)));
    assert_eq!((run.phase(), run.rounds.len()), (Phase::Judging, 0));
    run.judged(verdict(Tier::Replan, 0.1), Time(3));
    run.enter(entry("more", Some(json!("more"))), Time(4)).unwrap();
    assert_eq!(run.replans_left(), 1);
    assert!(!run.judged(failed(), Time(5)));
    assert_eq!((run.phase(), run.replans_left(), run.rounds.len()), (Phase::Evidence, 2, 1));
    run.enter(entry("more", Some(json!("more"))), Time(6)).unwrap();
    assert!(run.judged(verdict(Tier::Proceed, 0.9), Time(7)));
}

#[test]
fn an_answer_without_claims_is_abstained_from_at_one_half() {
    let mut run = opened(RunLimits::default());
    let skipped = Verdict { outcome: Outcome::Skipped, grounding: None, ..verdict(Tier::Proceed, 1.0) };
    run.judged(skipped, Time(2));
    assert_eq!((run.rounds[0].decision, run.rounds[0].score), (Tier::Abstain, 0.5));
    assert_eq!(run.phase(), Phase::Evidence);
}

#[test]
fn a_request_that_comes_twice_is_known_by_its_key() {
    let first = Entry { key: Some("a".into()), ..entry("first", Some(json!(1))) };
    let mut run = Run::open("run-1".into(), RunLimits::default(), first, Time(1));
    assert_eq!((run.known("a"), run.known("b")), (Some(1), None));
    run.judged(verdict(Tier::Regenerate, 0.7), Time(2));
    run.enter(Entry { key: Some("b".into()), ..entry("second", None) }, Time(3)).unwrap();
    assert_eq!((run.known("a"), run.known("b")), (Some(1), Some(2)));
}

#[test]
fn a_run_survives_json() {
    let mut run = opened(RunLimits::default());
    run.judged(verdict(Tier::Regenerate, 0.7), Time(2));
    run.enter(entry("second", None), Time(3)).unwrap();
    let text = serde_json::to_string(&run).unwrap();
    assert_eq!(serde_json::from_str::<Run>(&text).unwrap(), run);
}

#[derive(Debug, Clone)]
enum Move {
    Enter { evidence: bool },
    Judge(usize),
    Fail,
    End,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        4 => any::<bool>().prop_map(|evidence| Move::Enter { evidence }),
        4 => (0..4usize).prop_map(Move::Judge),
        1 => Just(Move::Fail),
        1 => Just(Move::End),
    ];
    prop::collection::vec(one, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_order_of_events_breaks_the_limits(moves in moves(), max_replans in 0..4u32, max_rounds in 1..6u32) {
        let limits = RunLimits { max_replans, max_rounds, max_cost_usd: None };
        let mut run = opened(limits);
        let tiers = [Tier::Proceed, Tier::Regenerate, Tier::Replan, Tier::Abstain];
        for event in moves {
            let was_over = run.ended;
            let rounds = run.rounds.len();
            match event {
                Move::Enter { evidence } => {
                    let entered = run.enter(entry("next", evidence.then(|| json!(1))), Time(2));
                    prop_assert_eq!(entered.is_ok(), run.phase() == Phase::Judging && entered.is_ok());
                }
                Move::Judge(tier) => {
                    let waited = run.phase() == Phase::Judging;
                    prop_assert_eq!(run.judged(verdict(tiers[tier], 0.5), Time(3)), waited);
                    prop_assert_eq!(run.rounds.len(), rounds + usize::from(waited));
                }
                Move::Fail => prop_assert!(!run.judged(failed(), Time(3))),
                Move::End => { run.end(Ended::Cancelled, Time(4)); }
            }
            prop_assert!(run.replans <= max_replans);
            prop_assert!(run.rounds.len() <= max_rounds as usize);
            prop_assert!(was_over.is_none() || run.ended == was_over, "an end is an end");
            prop_assert!(run.ended.is_none() || run.pending.is_none());
            let replanned = run.rounds.iter().filter(|round| round.turn == Turn::Replanned).count();
            prop_assert!(replanned <= max_replans as usize);
            // A run that waits for the agent has a round left for it.
            prop_assert!(run.phase() == Phase::Done || run.phase() == Phase::Judging || run.rounds_left() > 0);
        }
    }
}
