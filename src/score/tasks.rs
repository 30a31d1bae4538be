//! Answers to the questions that are not about claims: one entry each, and one for all steps of an evaluator together.

use std::collections::BTreeMap;

use super::verdict::{Lookup, by_word, reasoning};
use crate::domain::{Answers, Handling, Kind, Question, Questions, TaskAnswer};

/// One answer of an evaluator that asks about single steps.
struct Step<'a> {
    step: usize,
    question: &'a Question,
    handling: &'a Handling,
    answer: TaskAnswer,
}

/// All answers by id. An evaluator that asks about single steps has one entry a step, `name:step`, and under its name the
/// worst of them: a chain is as good as its weakest link.
pub(super) fn task_answers(
    by_id: &Lookup,
    questions: &Questions,
    answers: &Answers,
) -> BTreeMap<String, TaskAnswer> {
    let mut all = BTreeMap::new();
    let mut steps: BTreeMap<&str, Vec<Step>> = BTreeMap::new();
    for response in answers.responses.iter().filter(|response| !Questions::is_claim(&response.id)) {
        let Some(question) = by_id.question(&response.id) else { continue };
        let handling = questions.handling.get(&response.id);
        let answer = TaskAnswer {
            kind: question.kind.as_str().to_owned(),
            label: response.label.clone(),
            probabilities: by_id.probabilities(response),
            confidence: response.confidence,
            by: by_word(&response.by).to_owned(),
            escalated: response.escalated,
            reasoning: reasoning(response),
            pass: handling.and_then(|handling| pass(handling, response.label.as_deref())),
        };
        all.insert(response.id.clone(), answer.clone());
        if let Some((handling, step)) = handling.and_then(|handling| Some((handling, handling.step?))) {
            steps.entry(&*handling.evaluator).or_default().push(Step { step, question, handling, answer });
        }
    }
    for (evaluator, steps) in steps {
        if let Some(answer) = worst(&steps) {
            all.insert(evaluator.to_owned(), answer);
        }
    }
    all
}

fn pass(handling: &Handling, label: Option<&str>) -> Option<bool> {
    let label = label.filter(|_| !handling.fails.is_empty())?;
    Some(!handling.fails.iter().any(|fails| fails == label))
}

/// The answer of the step that is most probably a failure; if all others passed and some have no answer, it is not known
/// whether all pass.
fn worst(steps: &[Step]) -> Option<TaskAnswer> {
    let answered: Vec<&Step> = steps.iter().filter(|step| step.answer.label.is_some()).collect();
    let unanswered = steps.len() - answered.len();
    let Some(worst) =
        answered.iter().copied().max_by(|a, b| badness(a).total_cmp(&badness(b)).then(b.step.cmp(&a.step)))
    else {
        return steps.first().map(|step| step.answer.clone());
    };
    let left = if unanswered > 0 { format!("; {unanswered} without an answer") } else { String::new() };
    let words = worst.answer.reasoning.as_deref().map(|words| format!(": {words}")).unwrap_or_default();
    Some(TaskAnswer {
        reasoning: Some(format!("the worst of {} steps{left} is step {}{words}", steps.len(), worst.step)),
        escalated: steps.iter().any(|step| step.answer.escalated),
        pass: worst.answer.pass.filter(|pass| !pass || unanswered == 0),
        ..worst.answer.clone()
    })
}

/// How far an answer is a failure, from 0 to 1: what the decision model thinks of the failing labels, and for a pick without
/// probabilities, or one that overrules them, the pick alone. Without failing labels the best label counts as the first
/// option, as `true`, or as the highest level.
fn badness(step: &Step) -> f64 {
    let labels = step.question.kind.labels();
    let last = (labels.len().max(2) - 1) as f64;
    let weight = |label: &str| {
        let fails = &step.handling.fails;
        if !fails.is_empty() {
            return f64::from(u8::from(fails.iter().any(|fails| fails == label)));
        }
        let rank = labels.iter().position(|known| known == label).unwrap_or_default() as f64 / last;
        if matches!(step.question.kind, Kind::Choice { .. }) { rank } else { 1.0 - rank }
    };
    let answer = &step.answer;
    if answer.by == "local" && !answer.probabilities.is_empty() {
        return answer.probabilities.iter().map(|(label, p)| p * weight(label)).sum();
    }
    answer.label.as_deref().map_or(0.0, weight)
}
