use std::sync::Mutex;

use futures::future::{BoxFuture, FutureExt};

use super::*;
use crate::decide::{Config, Scripted, start_with};
use crate::domain::{Json, Kind, Measure, Subject, Usage};
use crate::judge::{BadReply, Flaw, JudgeError, JudgeErrorKind, Judged, Measured, Unanswered};

fn question(id: &str) -> Question {
    let options =
        ["grounded", "ungrounded", "contradicted"].map(|name| (name.to_owned(), Json::Null)).to_vec();
    Question {
        id: id.to_owned(),
        kind: Kind::Choice { options },
        instructions: Json::Null,
        subject: Subject::Grounding { claim: id.to_owned() },
    }
}

fn questions(ids: &[&[&str]]) -> Questions {
    let inquiries = ids.iter().enumerate().map(|(index, ids)| {
        let state = Arc::new(Json::String(format!("state {index}")));
        Inquiry::new(state, ids.iter().map(|id| question(id)).collect())
    });
    Questions { inquiries: inquiries.collect(), ..Questions::default() }
}

/// What the model says to a question, by its id: how sure it is of `grounded`, or a word for what goes wrong.
fn scripted() -> Desk {
    let script = |inquiry: &Inquiry| {
        if inquiry.questions.iter().any(|question| question.id == "crash") {
            return Err(DecideError::NotFinite);
        }
        let decide = |question: &Question| match question.id.as_str() {
            "unsupported" => Err(Nobody::Unsupported),
            "no evidence" => Err(Nobody::NoEvidence),
            "two only" => Ok(Decision { probabilities: vec![0.5, 0.5], tokens: 1 }),
            "not a number" => Ok(Decision { probabilities: vec![f64::NAN, 0.5, 0.5], tokens: 1 }),
            id => {
                let sure = if id.starts_with("sure") { 0.98 } else { 0.5 };
                let rest = (1.0 - sure) / 2.0;
                Ok(Decision { probabilities: vec![sure, rest, rest], tokens: 1 })
            }
        };
        let decisions = inquiry.questions.iter().map(decide).collect();
        Ok(Reply { decisions, input_tokens: 10, truncated: inquiry.questions.len() > 3 })
    };
    start_with(Scripted::new(script), &Config::default()).unwrap()
}

/// A judge that notes its asks and calls every claim contradicted, but for those it skips.
#[derive(Default)]
struct Script {
    asks: Mutex<Vec<Ask>>,
    fails: bool,
    skips: Option<&'static str>,
    invents: Option<&'static str>,
    malformed: bool,
}

impl Judge for Script {
    fn judge<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Judgement, JudgeError>> {
        self.asks.lock().unwrap().push(ask.clone());
        let usage = Usage {
            judge_input_tokens: 100,
            judge_output_tokens: 7,
            judge_cost_usd: 0.01,
            ..Usage::default()
        };
        async move {
            if self.fails {
                return Err(JudgeError {
                    kind: JudgeErrorKind::Auth { status: 401, message: "no".to_owned() },
                    usage,
                });
            }
            let ids = ask
                .inquiries
                .iter()
                .flat_map(|inquiry| &inquiry.questions)
                .map(|question| question.id.clone());
            let (skipped, answered): (Vec<String>, Vec<String>) =
                ids.partition(|id| Some(id.as_str()) == self.skips);
            let label = self.invents.unwrap_or("contradicted");
            let judged =
                |id| Judged { id, label: label.to_owned(), reasoning: Some("it says 30".to_owned()) };
            let unanswered = skipped.into_iter().map(|id| Unanswered { id, why: Flaw::Missing }).collect();
            Ok(Judgement {
                answers: answered.into_iter().map(judged).collect(),
                unanswered,
                usage,
                ..Judgement::default()
            })
        }
        .boxed()
    }

    fn partition<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Judgement, JudgeError>> {
        async move {
            let questions = ask.inquiries.iter().flat_map(|inquiry| &inquiry.questions);
            let asked: Vec<usize> =
                questions.filter_map(|question| Questions::claim_of(&question.id)).collect();
            if self.malformed {
                self.asks.lock().unwrap().push(ask.clone());
                let kind = JudgeErrorKind::Invalid { tries: 2, reply: BadReply::Empty };
                return Err(JudgeError { kind, usage: Usage::default() });
            }
            let mut judgement = self.judge(ask).await?;
            judgement.partition = Some(JudgedPartition { asked, ..JudgedPartition::default() });
            judgement.truncated = vec!["evidence for the judge: cut".to_owned()];
            Ok(judgement)
        }
        .boxed()
    }

    fn measure<'a>(&'a self, measure: &'a Measure) -> BoxFuture<'a, Result<Measured, JudgeError>> {
        async move {
            let usage = Usage { judge_input_tokens: 10, ..Usage::default() };
            if &*measure.name == "broken" {
                let kind = JudgeErrorKind::Invalid { tries: 2, reply: BadReply::Empty };
                return Err(JudgeError { kind, usage });
            }
            Ok(Measured { value: Json::Bool(true), usage, cached: false, truncated: Vec::new() })
        }
        .boxed()
    }

    fn model(&self) -> &str {
        "large"
    }
}

async fn answer(judge: Option<Script>, questions: &Questions) -> (Answers, Vec<Ask>) {
    answer_with(Partitioning::Off, judge, questions).await
}

async fn answer_with(
    partitioning: Partitioning,
    judge: Option<Script>,
    questions: &Questions,
) -> (Answers, Vec<Ask>) {
    let judge = judge.map(Arc::new);
    let dynamic = judge.clone().map(|judge| judge as Arc<dyn Judge>);
    let cascade = Cascade::new(scripted(), dynamic, 0.9).with_partitioning(partitioning);
    let answers = cascade.answer(questions).await;
    let asks = judge.map(|judge| judge.asks.lock().unwrap().clone()).unwrap_or_default();
    (answers, asks)
}

fn asked(ask: &Ask) -> Vec<Vec<&str>> {
    ask.inquiries
        .iter()
        .map(|inquiry| inquiry.questions.iter().map(|question| question.id.as_str()).collect())
        .collect()
}

#[tokio::test]
async fn sure_answers_stay_and_only_the_rest_goes_to_the_judge_in_one_call() {
    let all = questions(&[&["sure 1", "unsure 1", "unsupported"], &["sure 2"], &["unsure 2"]]);
    let (answers, asks) = answer(Some(Script::default()), &all).await;
    assert_eq!(asks.len(), 1);
    assert_eq!(asked(&asks[0]), [vec!["unsure 1", "unsupported"], vec!["unsure 2"]]);
    assert!(Arc::ptr_eq(&asks[0].inquiries[1].state, &all.inquiries[2].state));

    let sure = answers.response("sure 1").unwrap();
    assert_eq!(
        (&sure.by, sure.label.as_deref(), sure.escalated),
        (&AnswerBy::Local, Some("grounded"), false)
    );
    let judged = answers.response("unsure 1").unwrap();
    assert_eq!(
        (&judged.by, judged.label.as_deref(), judged.escalated),
        (&AnswerBy::Judge, Some("contradicted"), true)
    );
    assert_eq!(judged.reasoning.as_deref(), Some("it says 30"));
    assert_eq!(judged.decision.as_ref().unwrap().probabilities[0], 0.5);
    let new = answers.response("unsupported").unwrap();
    assert_eq!((&new.by, &new.decision, new.confidence), (&AnswerBy::Judge, &None, None));

    assert_eq!(answers.judge.as_deref(), Some("large"));
    assert_eq!((answers.judge_error.as_deref(), answers.degraded), (None, false));
    let usage = answers.usage;
    assert_eq!((usage.decider_tokens, usage.judge_input_tokens, usage.judge_output_tokens), (30, 100, 7));
}

#[tokio::test]
async fn a_judge_is_not_asked_when_all_is_sure() {
    let (answers, asks) = answer(Some(Script::default()), &questions(&[&["sure 1", "sure 2"]])).await;
    assert!(asks.is_empty());
    assert_eq!(answers.judge, None);
}

#[tokio::test]
async fn without_a_judge_the_decision_model_has_the_last_word() {
    let (answers, _) = answer(None, &questions(&[&["unsure", "unsupported"]])).await;
    let unsure = answers.response("unsure").unwrap();
    assert_eq!((&unsure.by, unsure.escalated), (&AnswerBy::Local, false));
    assert!((unsure.confidence.unwrap() - 0.25).abs() < 1e-9);
    assert_eq!(answers.response("unsupported").unwrap().by, AnswerBy::Nobody(Nobody::Unsupported));
    assert!(!answers.degraded);
}

#[tokio::test]
async fn a_judge_that_fails_leaves_the_decision_models_answers_and_its_bill() {
    let judge = Script { fails: true, ..Script::default() };
    let (answers, _) = answer(Some(judge), &questions(&[&["sure", "unsure"]])).await;
    let unsure = answers.response("unsure").unwrap();
    assert_eq!(
        (&unsure.by, unsure.label.as_deref(), unsure.escalated),
        (&AnswerBy::Local, Some("grounded"), true)
    );
    assert!(answers.judge_error.unwrap().contains("refuses the key"));
    assert!(answers.degraded);
    assert_eq!(answers.usage.judge_cost_usd, 0.01);
}

#[tokio::test]
async fn a_question_that_the_judge_leaves_open_keeps_its_answer() {
    let judge = Script { skips: Some("unsure 2"), ..Script::default() };
    let (answers, _) = answer(Some(judge), &questions(&[&["unsure 1", "unsure 2"]])).await;
    assert_eq!(answers.response("unsure 1").unwrap().by, AnswerBy::Judge);
    assert_eq!(answers.response("unsure 2").unwrap().by, AnswerBy::Local);
    assert_eq!(
        answers.judge_error.as_deref(),
        Some("the judge left 1 of 2 questions open: one has no answer")
    );
    assert!(answers.degraded);
}

#[tokio::test]
async fn a_label_that_was_not_offered_is_no_answer() {
    let judge = Script { invents: Some("excellent"), ..Script::default() };
    let (answers, _) = answer(Some(judge), &questions(&[&["unsure"]])).await;
    assert_eq!(answers.response("unsure").unwrap().label.as_deref(), Some("grounded"));
    assert!(answers.degraded);
}

#[tokio::test]
async fn what_a_failed_model_leaves_goes_to_the_judge() {
    let (answers, asks) =
        answer(Some(Script::default()), &questions(&[&["crash", "sure 1"], &["sure 2"]])).await;
    assert_eq!(asked(&asks[0]), [["crash", "sure 1"]]);
    assert_eq!(answers.response("crash").unwrap().by, AnswerBy::Judge);
    assert_eq!(answers.response("sure 2").unwrap().by, AnswerBy::Local);
    assert!(answers.degraded);
}

#[tokio::test]
async fn what_a_failed_model_leaves_is_recorded_where_there_is_no_judge() {
    let (answers, _) = answer(None, &questions(&[&["crash"]])).await;
    let AnswerBy::Nobody(Nobody::Failed(how)) = &answers.responses[0].by else { panic!("{answers:?}") };
    assert!(how.contains("not finite"));
    assert!(answers.degraded);
}

#[tokio::test]
async fn a_decision_that_does_not_fit_its_question_is_no_answer() {
    let (answers, _) = answer(None, &questions(&[&["two only", "not a number"]])).await;
    assert!(
        answers.responses.iter().all(|response| matches!(response.by, AnswerBy::Nobody(Nobody::Failed(_))))
    );
}

#[tokio::test]
async fn without_evidence_the_judge_is_not_asked_either() {
    let mut all = questions(&[&["no evidence"]]);
    all.unasked.push(("claim:7".to_owned(), Nobody::NoEvidence));
    let (answers, asks) = answer(Some(Script::default()), &all).await;
    assert!(asks.is_empty());
    let by: Vec<&AnswerBy> = answers.responses.iter().map(|response| &response.by).collect();
    assert_eq!(by, [&AnswerBy::Nobody(Nobody::NoEvidence), &AnswerBy::Nobody(Nobody::NoEvidence)]);
    assert_eq!(answers.responses[1].id, "claim:7");
}

#[tokio::test]
async fn a_state_that_the_model_read_in_part_is_said_once() {
    let many = ["sure 1", "sure 2", "sure 3", "sure 4"];
    let others = ["sure 5", "sure 6", "sure 7", "sure 8"];
    let (answers, _) = answer(None, &questions(&[&many, &others])).await;
    assert_eq!(answers.truncated.len(), 1);
}

#[tokio::test]
async fn no_questions_need_no_model() {
    let (answers, asks) = answer(Some(Script::default()), &Questions::default()).await;
    assert_eq!(answers, Answers::default());
    assert!(asks.is_empty());
}

/// Claims of which the model is sure and unsure, beside a question.
fn claims() -> Questions {
    // The script answers by id: "claim:…" is an unsure one.
    let mut all = questions(&[&["claim:0", "claim:1"], &["sure of tone", "unsure of tone"]]);
    all.unasked.push(("claim:2".to_owned(), Nobody::NoEvidence));
    all
}

#[tokio::test]
async fn unsure_claims_are_partitioned_in_the_one_call_and_the_judges_view_is_kept() {
    let judge = Script { invents: Some("complementary"), ..Script::default() };
    let (answers, asks) = answer_with(Partitioning::Escalated, Some(judge), &claims()).await;
    assert_eq!(asks.len(), 1);
    assert_eq!(asked(&asks[0]), [vec!["claim:0", "claim:1"], vec!["unsure of tone"]]);
    assert_eq!(answers.partition.as_ref().unwrap().asked, [0, 1]);
    // A fourth standing is one for claims, and none for other questions.
    assert_eq!(answers.response("claim:0").unwrap().label.as_deref(), Some("complementary"));
    assert_eq!(answers.response("unsure of tone").unwrap().by, AnswerBy::Local);
    assert!(answers.truncated.contains(&"evidence for the judge: cut".to_owned()));
}

#[tokio::test]
async fn all_claims_with_evidence_go_to_a_judge_that_partitions_always() {
    let sure = questions(&[&["sure 1"]]);
    let (_, asks) = answer_with(Partitioning::Always, Some(Script::default()), &sure).await;
    assert!(asks.is_empty(), "what is no claim is asked as before");
    let mut all = claims();
    let options = all.inquiries[0].questions[0].clone();
    all.inquiries[0].questions = vec![Question { id: "claim:0".into(), ..options }];
    let (answers, asks) = answer_with(Partitioning::Always, Some(Script::default()), &all).await;
    assert_eq!(asked(&asks[0])[0], ["claim:0"]);
    assert_eq!(answers.response("claim:2").unwrap().by, AnswerBy::Nobody(Nobody::NoEvidence));
}

#[tokio::test]
async fn a_malformed_partition_is_the_safe_default_and_the_models_answers_stay() {
    let judge = Script { malformed: true, ..Script::default() };
    let (answers, _) = answer_with(Partitioning::Escalated, Some(judge), &claims()).await;
    let partition = answers.partition.as_ref().unwrap();
    assert_eq!((partition.asked.as_slice(), partition.placed.len()), ([0, 1].as_slice(), 0));
    assert!(partition.reason.as_ref().unwrap().starts_with("malformed: "));
    assert_eq!(answers.response("claim:0").unwrap().by, AnswerBy::Local);
    assert!(answers.degraded && answers.judge_error.is_some());
    let unreachable = Script { fails: true, ..Script::default() };
    let (answers, _) = answer_with(Partitioning::Off, Some(unreachable), &claims()).await;
    assert_eq!(answers.partition, None);
}

fn measure(name: &str) -> Measure {
    let (state, schema) = (Arc::new(Json::Null), Arc::new(Json::Bool(true)));
    Measure { name: Arc::from(name), state, instructions: Json::Null, prompt: None, schema }
}

#[tokio::test]
async fn metrics_are_measured_and_their_errors_are_recorded_beside_the_bill() {
    let mut all = questions(&[&["sure 1"]]);
    all.measures = vec![measure("tone"), measure("broken")];
    let (answers, asks) = answer(Some(Script::default()), &all).await;
    assert!(asks.is_empty());
    assert_eq!(answers.metrics["tone"].value, Some(Json::Bool(true)));
    assert_eq!(answers.metrics["broken"].value, None);
    assert!(answers.metrics["broken"].error.as_ref().unwrap().contains("invalid"));
    assert_eq!((answers.usage.judge_input_tokens, answers.judge.as_deref()), (20, Some("large")));
    assert!(answers.degraded);
    let (answers, _) = answer(None, &all).await;
    assert_eq!(answers.metrics["tone"].error.as_deref(), Some("there is no judge"));
}
