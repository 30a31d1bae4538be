//! What each evaluator did since the start: for `GET /v1/status` and for metrics, from the same events.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::ask::{Fate, Selection};
use crate::domain::{AnswerBy, Answers, Nobody, Questions, Response, Verdict};
use crate::metrics;

/// Counters by evaluator. A lock each, held for a few additions.
#[derive(Debug)]
pub(super) struct Tally {
    rows: Vec<(Arc<str>, Mutex<Row>)>,
    judge: Mutex<JudgeRow>,
}

/// What the judge did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct JudgeRow {
    /// Stories that it was asked about.
    pub asked: u64,
    /// Stories of which it left a question open.
    pub failed: u64,
    /// What was wrong the last time; none if it answered.
    pub trouble: Option<String>,
}

/// What one evaluator did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Row {
    /// Stories that it was offered.
    pub seen: u64,
    /// Stories that it waits for an answer about.
    pub in_flight: u64,
    /// Stories about which somebody answered: a model, the judge, or a rule.
    pub evaluated: u64,
    /// Stories about which nobody can answer.
    pub unanswered: u64,
    /// Stories about which the answer failed.
    pub failed: u64,
    /// Stories that were not asked about, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
    /// Answers without a failing label.
    pub passed: u64,
    /// Answers with a failing label.
    pub flagged: u64,
    /// What is wrong, if the last story did not get an answer.
    pub trouble: Option<String>,
}

impl Row {
    /// `healthy`, `failing`, `queued` or `never_ran`. A question that is asked again is queued, not failed.
    pub fn status(&self) -> &'static str {
        match self {
            Row { trouble: Some(_), .. } => "failing",
            Row { evaluated: 1.., .. } => "healthy",
            Row { in_flight: 1.., .. } => "queued",
            _ => "never_ran",
        }
    }

    /// Stories that it is for, whether drawn or not.
    pub fn matched(&self) -> u64 {
        self.seen - self.skipped.get("not_matched").copied().unwrap_or_default()
    }

    /// Stories that it is for and that were drawn.
    pub fn sampled(&self) -> u64 {
        self.matched() - self.skipped.get("not_sampled").copied().unwrap_or_default()
    }
}

/// One story on its way. Dropped without an end, by a panic or a stopping daemon, it counts as failed.
pub(super) struct Underway<'a> {
    tally: &'a Tally,
    selections: Vec<Selection>,
    is_open: bool,
}

impl Tally {
    /// Of these evaluators, in the order of their selections.
    pub fn new(names: Vec<Arc<str>>) -> Self {
        let rows = names.into_iter().map(|name| (name, Mutex::default())).collect();
        Self { rows, judge: Mutex::default() }
    }

    /// What the judge did.
    pub fn judge(&self) -> JudgeRow {
        locked(&self.judge).clone()
    }

    /// A story was offered to all.
    pub fn begin(&self, selections: Vec<Selection>) -> Underway<'_> {
        for Selection { evaluator, fate } in &selections {
            let Some(mut row) = self.row(evaluator) else { continue };
            row.seen += 1;
            match fate.reason() {
                Some(reason) => {
                    *row.skipped.entry(reason).or_default() += 1;
                    metrics::evaluate_trace(evaluator, reason);
                }
                None => row.in_flight += 1,
            }
        }
        Underway { tally: self, selections, is_open: true }
    }

    /// All rows, in order.
    pub fn rows(&self) -> Vec<(Arc<str>, Row)> {
        self.rows.iter().map(|(name, row)| (Arc::clone(name), locked(row).clone())).collect()
    }

    fn row(&self, evaluator: &str) -> Option<MutexGuard<'_, Row>> {
        self.rows.iter().find(|(name, _)| &**name == evaluator).map(|(_, row)| locked(row))
    }

    fn end(&self, evaluator: &str, end: End) {
        let Some(mut row) = self.row(evaluator) else { return };
        row.in_flight = row.in_flight.saturating_sub(1);
        let result = match end {
            End::Evaluated => {
                row.evaluated += 1;
                row.trouble = None;
                "evaluated"
            }
            End::Unanswered(why) => {
                row.unanswered += 1;
                row.trouble = Some(why);
                "unanswered"
            }
            End::Failed(why) => {
                row.failed += 1;
                row.trouble = Some(why);
                "failed"
            }
        };
        metrics::evaluate_trace(evaluator, result);
    }
}

enum End {
    Evaluated,
    Unanswered(String),
    Failed(String),
}

impl Underway<'_> {
    /// The story has its verdict.
    pub fn end(mut self, questions: &Questions, answers: &Answers, verdict: &Verdict) {
        self.is_open = false;
        if answers.judge.is_some() {
            let mut judge = locked(&self.tally.judge);
            judge.asked += 1;
            judge.failed += u64::from(answers.judge_error.is_some());
            judge.trouble.clone_from(&answers.judge_error);
        }
        for Selection { evaluator, fate } in
            self.selections.iter().filter(|selection| selection.fate.is_taken())
        {
            self.tally.end(evaluator, end(evaluator, fate, questions, answers));
            let Some(pass) = verdict.answers.get(&**evaluator).and_then(|answer| answer.pass) else {
                continue;
            };
            metrics::evaluate_result(evaluator, pass);
            if let Some(mut row) = self.tally.row(evaluator) {
                *(if pass { &mut row.passed } else { &mut row.flagged }) += 1;
            }
        }
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        let open = self.selections.iter().filter(|selection| self.is_open && selection.fate.is_taken());
        for selection in open {
            self.tally.end(&selection.evaluator, End::Failed("the evaluation was broken off".to_owned()));
        }
    }
}

fn end(evaluator: &str, fate: &Fate, questions: &Questions, answers: &Answers) -> End {
    if *fate == Fate::Ruled {
        return End::Evaluated;
    }
    if questions.measures.iter().any(|measure| &*measure.name == evaluator) {
        return match answers.metrics.get(evaluator) {
            Some(metric) if metric.value.is_some() => End::Evaluated,
            Some(metric) if answers.judge.is_none() => {
                End::Unanswered(metric.error.clone().unwrap_or_default())
            }
            Some(metric) => End::Failed(metric.error.clone().unwrap_or_default()),
            None => End::Unanswered("there is no judge, and own metrics have no other answerer".to_owned()),
        };
    }
    let is_own = |response: &&Response| match questions.handling.get(&response.id) {
        Some(handling) => &*handling.evaluator == evaluator,
        None => Questions::label(&response.id) == evaluator,
    };
    let mut trouble = None;
    for response in answers.responses.iter().filter(is_own) {
        match &response.by {
            AnswerBy::Local | AnswerBy::Judge | AnswerBy::Rule => return End::Evaluated,
            AnswerBy::Nobody(why) => trouble = Some(why),
        }
    }
    match trouble {
        Some(Nobody::Failed(how)) => End::Failed(how.clone()),
        Some(Nobody::Unsupported) => End::Unanswered(match &answers.judge_error {
            Some(error) => {
                format!("the decision model does not answer such questions, and the judge: {error}")
            }
            None => "the decision model does not answer such questions, and no judge was asked".to_owned(),
        }),
        Some(Nobody::Refused(why)) => End::Unanswered(why.clone()),
        // That there is no evidence is an answer about the story and no trouble of the evaluator.
        Some(Nobody::NoEvidence) | None => End::Evaluated,
    }
}

fn locked<T>(row: &Mutex<T>) -> MutexGuard<'_, T> {
    row.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::Need;
    use crate::domain::Handling;

    fn asked(evaluator: &str) -> Questions {
        let mut questions = Questions::default();
        let handling = Handling { evaluator: evaluator.into(), ..Handling::default() };
        questions.handling.insert(evaluator.to_owned(), handling);
        questions
    }

    fn answered(evaluator: &str, by: AnswerBy) -> Answers {
        let response = Response {
            id: evaluator.to_owned(),
            by,
            label: None,
            decision: None,
            confidence: None,
            reasoning: None,
            escalated: false,
        };
        Answers { responses: vec![response], ..Answers::default() }
    }

    fn select(evaluator: &str, fate: Fate) -> Vec<Selection> {
        vec![Selection { evaluator: evaluator.into(), fate }]
    }

    fn row(tally: &Tally) -> Row {
        tally.rows()[0].1.clone()
    }

    #[test]
    fn a_status_goes_from_never_ran_over_queued_to_healthy_and_failing() {
        let tally = Tally::new(vec!["tone".into()]);
        assert_eq!(row(&tally).status(), "never_ran");
        drop(tally.begin(select("tone", Fate::NotSampled { share: 0.1 })));
        assert_eq!(row(&tally).status(), "never_ran");
        let (questions, verdict) = (asked("tone"), crate::emit::sample::full());
        let one = tally.begin(select("tone", Fate::Asked { questions: 1, ruled: 0 }));
        assert_eq!(row(&tally).status(), "queued");
        one.end(&questions, &answered("tone", AnswerBy::Local), &verdict);
        assert_eq!((row(&tally).status(), row(&tally).evaluated, row(&tally).in_flight), ("healthy", 1, 0));
        let two = tally.begin(select("tone", Fate::Asked { questions: 1, ruled: 0 }));
        let broken = answered("tone", AnswerBy::Nobody(Nobody::Failed("out of memory".to_owned())));
        two.end(&questions, &broken, &verdict);
        assert_eq!(
            (row(&tally).status(), row(&tally).trouble),
            ("failing", Some("out of memory".to_owned()))
        );
        let three = tally.begin(select("tone", Fate::Asked { questions: 1, ruled: 0 }));
        three.end(&questions, &answered("tone", AnswerBy::Judge), &verdict);
        assert_eq!(row(&tally).status(), "healthy");
    }

    #[test]
    fn what_is_not_asked_counts_by_reason() {
        let tally = Tally::new(vec!["tone".into()]);
        let wanted = || "x".to_owned();
        let fates = [
            Fate::NotMatched { what: wanted(), wanted: wanted(), found: None },
            Fate::NotSampled { share: 0.5 },
            Fate::Lacks(Need::ToolCalls),
            Fate::Lacks(Need::ToolCalls),
        ];
        for fate in fates {
            drop(tally.begin(select("tone", fate)));
        }
        let row = row(&tally);
        assert_eq!((row.seen, row.matched(), row.sampled(), row.in_flight, row.failed), (4, 3, 2, 0, 0));
        assert_eq!(row.skipped["no_tool_calls"], 2);
    }

    #[test]
    fn a_story_that_is_broken_off_counts_as_failed() {
        let tally = Tally::new(vec!["tone".into()]);
        drop(tally.begin(select("tone", Fate::Asked { questions: 3, ruled: 0 })));
        assert_eq!((row(&tally).failed, row(&tally).in_flight), (1, 0));
    }

    #[test]
    fn questions_that_nobody_answers_say_so() {
        let tally = Tally::new(vec!["tone".into()]);
        let story = tally.begin(select("tone", Fate::Asked { questions: 1, ruled: 0 }));
        let nobody = answered("tone", AnswerBy::Nobody(Nobody::Unsupported));
        story.end(&asked("tone"), &nobody, &crate::emit::sample::full());
        assert_eq!((row(&tally).status(), row(&tally).unanswered), ("failing", 1));
        assert!(row(&tally).trouble.unwrap().contains("no judge"));
    }
}
