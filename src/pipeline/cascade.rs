//! The cascade: the decision model answers all questions of a story, the judge those of which it is not sure, in one call.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::future::join_all;

use crate::decide::{DecideError, Desk, Reply};
use crate::domain::{
    AnswerBy, Answers, Decision, Handling, Inquiry, JudgedPartition, Nobody, Question, Questions, Response,
    Ruling, Standing, Value,
};
use crate::emit::{Notes, stage};
use crate::judge::{Ask, Judge, JudgeError, JudgeErrorKind, Judgement, Partitioning};
use crate::metrics;

use super::allowance::Allowances;
use super::measures;

/// Answers the questions about stories. It cannot fail: what nobody answers is a recorded state.
#[derive(Clone)]
pub struct Cascade {
    desk: Desk,
    judge: Option<Arc<dyn Judge>>,
    min_confidence: f64,
    allowances: Allowances,
    partitioning: Partitioning,
}

impl Cascade {
    /// A cascade of a decision model and, if there is one, a judge for answers less sure than `min_confidence`.
    pub fn new(desk: Desk, judge: Option<Arc<dyn Judge>>, min_confidence: f64) -> Self {
        Self {
            desk,
            judge,
            min_confidence,
            allowances: Allowances::default(),
            partitioning: Partitioning::Off,
        }
    }

    /// The same with limits on what evaluators may send to the judge.
    pub fn with_allowances(self, allowances: Allowances) -> Self {
        Self { allowances, ..self }
    }

    /// The same with the claims put to the judge in this way.
    pub fn with_partitioning(self, partitioning: Partitioning) -> Self {
        Self { partitioning, ..self }
    }

    /// The judge, if there is one.
    pub fn judge(&self) -> Option<&dyn Judge> {
        self.judge.as_deref()
    }

    /// The decision model.
    pub fn desk(&self) -> &Desk {
        &self.desk
    }

    /// Answers all questions.
    ///
    /// The judge gets the original states and only what is left over: answers below the threshold, and questions that the
    /// decision model did not answer, unless there was no evidence: then there is none for the judge either. If the judge
    /// fails, or leaves a question open, the decision model's answer stays, and the answers say so.
    pub async fn answer(&self, questions: &Questions) -> Answers {
        let mut answers = self.decide(questions).await;
        let measured = async {
            let asked = measures::ask(self.judge.as_deref(), &questions.measures);
            if questions.measures.is_empty() {
                asked.await
            } else {
                stage("measure", asked, |_| Notes::default()).await
            }
        };
        let escalated = async {
            if let Some(judge) = &self.judge {
                self.escalate(&**judge, questions, &mut answers).await;
            }
        };
        let (measured, ()) = tokio::join!(measured, escalated);
        measures::note(measured, &mut answers);
        self.rule(questions, &mut answers);
        answers.responses.extend(questions.unasked.iter().map(|(id, why)| nobody(id, why.clone())));
        count(&answers);
        answers
    }

    /// The decision model's answers alone: no judge, and not counted. For checks of the house itself.
    pub async fn rehearse(&self, questions: &Questions) -> Answers {
        let mut answers = self.decide(questions).await;
        answers.responses.extend(questions.unasked.iter().map(|(id, why)| nobody(id, why.clone())));
        answers
    }

    async fn decide(&self, questions: &Questions) -> Answers {
        let replies = join_all(questions.inquiries.iter().cloned().map(|inquiry| self.desk.ask(inquiry)));
        let replies = stage("decide", replies, |replies| replied(replies)).await;
        let mut answers = Answers::default();
        for (inquiry, reply) in questions.inquiries.iter().zip(replies) {
            decided(inquiry, reply, &mut answers);
        }
        answers
    }

    async fn escalate(&self, judge: &dyn Judge, questions: &Questions, answers: &mut Answers) {
        let inquiries = &questions.inquiries;
        let mut open = HashSet::new();
        for response in &mut answers.responses {
            let handling = questions.handling.get(&response.id);
            let may = handling.is_none_or(|handling| handling.escalate);
            let wanted = self.is_always_asked(response) || is_left_over(response, self.threshold(handling));
            if !may || !wanted {
                continue;
            }
            if let Some(handling) = handling.filter(|handling| !self.allowances.take(&handling.evaluator)) {
                let evaluator = &handling.evaluator;
                response.reasoning =
                    Some(format!("not escalated: {evaluator} has spent its escalations_per_hour"));
                answers.degraded = true;
                continue;
            }
            response.escalated = true;
            open.insert(response.id.clone());
        }
        if open.is_empty() {
            return;
        }
        answers.judge = Some(judge.model().to_owned());
        let wanted = open.len();
        let ask = Ask { inquiries: left_over(inquiries, &open) };
        let judging = match self.partitioning {
            Partitioning::Off => judge.judge(&ask),
            Partitioning::Escalated | Partitioning::Always => judge.partition(&ask),
        };
        let judgement = stage("judge", judging, |judgement| heard(judgement, wanted)).await;
        match judgement {
            Ok(judgement) => judged(inquiries, judgement, wanted, &open, answers),
            Err(error) => {
                answers.partition =
                    malformed(&error, &ask).filter(|_| self.partitioning != Partitioning::Off);
                tracing::warn!(result = error.result(), %error, "the judge did not answer");
                spend(answers, error.usage);
                answers.judge_error = Some(error.to_string());
                answers.degraded = true;
            }
        }
    }
}

impl Cascade {
    fn threshold(&self, handling: Option<&Handling>) -> f64 {
        handling.and_then(|handling| handling.min_confidence).unwrap_or(self.min_confidence)
    }

    /// What rules have answered; and what a rule found stands unless a model is sure of something else.
    fn rule(&self, questions: &Questions, answers: &mut Answers) {
        for response in &mut answers.responses {
            let Some(handling) = questions.handling.get(&response.id) else { continue };
            let Some(ruling) = &handling.otherwise else { continue };
            if response.by != AnswerBy::Judge && is_left_over(response, self.threshold(Some(handling))) {
                *response = ruled(&response.id, ruling, response.escalated);
            }
        }
        answers
            .responses
            .extend(questions.ruled.iter().map(|(question, ruling)| ruled(&question.id, ruling, false)));
    }

    /// Claims of which there is evidence go to a judge that partitions them all.
    fn is_always_asked(&self, response: &Response) -> bool {
        self.partitioning == Partitioning::Always
            && Questions::is_claim(&response.id)
            && response.by != AnswerBy::Nobody(Nobody::NoEvidence)
    }
}

/// What a trace of the daemon's own work says of the decision model's replies.
fn replied(replies: &[Result<Reply, DecideError>]) -> Notes {
    let tokens: u64 = replies.iter().flatten().map(|reply| reply.input_tokens).sum();
    let mut notes = Notes::of([
        ("assayd.inquiries", Value::Int(replies.len() as i64)),
        ("assayd.tokens", Value::Int(i64::try_from(tokens).unwrap_or(i64::MAX))),
    ]);
    notes.failed = replies.iter().any(Result::is_err).then_some("the decision model did not answer");
    notes
}

/// What it says of the judge's.
fn heard(judgement: &Result<Judgement, JudgeError>, wanted: usize) -> Notes {
    let mut notes = Notes::of([("assayd.questions", Value::Int(wanted as i64))]);
    match judgement {
        Ok(judgement) => notes.attributes.push(("assayd.cached", Value::Bool(judgement.cached))),
        Err(error) => notes.failed = Some(error.result()),
    }
    notes
}

/// The safe default where a judge's reply made no sense: it was asked for a partition, and nothing is known.
fn malformed(error: &JudgeError, ask: &Ask) -> Option<JudgedPartition> {
    let JudgeErrorKind::Invalid { reply, .. } = &error.kind else { return None };
    let questions = ask.inquiries.iter().flat_map(|inquiry| &inquiry.questions);
    let asked: Vec<usize> = questions.filter_map(|question| Questions::claim_of(&question.id)).collect();
    let reason = Some(format!("malformed: {reply}"));
    (!asked.is_empty()).then(|| JudgedPartition { asked, reason, ..JudgedPartition::default() })
}

/// The states that have leftover questions, with only those.
fn left_over(inquiries: &[Inquiry], open: &HashSet<String>) -> Vec<Inquiry> {
    let with_open = inquiries.iter().map(|inquiry| Inquiry {
        state: Arc::clone(&inquiry.state),
        questions: inquiry.questions.iter().filter(|question| open.contains(&question.id)).cloned().collect(),
        prompt: inquiry.prompt.clone(),
    });
    with_open.filter(|inquiry| !inquiry.questions.is_empty()).collect()
}

fn is_left_over(response: &Response, min_confidence: f64) -> bool {
    match &response.by {
        AnswerBy::Local => response.confidence.is_none_or(|confidence| confidence < min_confidence),
        AnswerBy::Judge | AnswerBy::Rule | AnswerBy::Nobody(Nobody::NoEvidence) => false,
        AnswerBy::Nobody(_) => true,
    }
}

/// Adds the decision model's answers to one inquiry.
fn decided(inquiry: &Inquiry, reply: Result<Reply, DecideError>, answers: &mut Answers) {
    let reply = match reply {
        Ok(reply) => reply,
        Err(error) => {
            tracing::warn!(%error, "the decision model did not answer");
            answers.degraded = true;
            let failed = |question: &Question| nobody(&question.id, Nobody::Failed(error.to_string()));
            answers.responses.extend(inquiry.questions.iter().map(failed));
            return;
        }
    };
    answers.usage.decider_tokens += reply.input_tokens;
    let cut = "evidence: the decision model read the parts nearest to each question";
    if reply.truncated {
        metrics::ask_evidence_cut(inquiry.questions.len());
        if !answers.truncated.iter().any(|known| known == cut) {
            answers.truncated.push(cut.to_owned());
        }
    }
    for (question, decision) in inquiry.questions.iter().zip(reply.decisions) {
        let response = match decision.and_then(|decision| sound(question, decision)) {
            Ok((decision, label)) => Response {
                id: question.id.clone(),
                by: AnswerBy::Local,
                label: Some(label),
                confidence: Some(decision.confidence(&question.kind)),
                decision: Some(decision),
                reasoning: None,
                escalated: false,
            },
            Err(why) => {
                answers.degraded |= matches!(why, Nobody::Failed(_));
                nobody(&question.id, why)
            }
        };
        answers.responses.push(response);
    }
}

/// A decision with its label, if it has a probability for each label of the question. A broken model must not become a score.
fn sound(question: &Question, decision: Decision) -> Result<(Decision, String), Nobody> {
    let mut labels = question.kind.labels();
    let valid = decision.probabilities.iter().all(|p| (0.0..=1.0).contains(p));
    if !valid || labels.is_empty() || labels.len() != decision.probabilities.len() {
        return Err(Nobody::Failed("the decision does not fit the question".to_owned()));
    }
    let label = labels.swap_remove(decision.pick());
    Ok((decision, label))
}

/// Puts the judge's picks in place. The decision model's probabilities stay beside them: a judge has none.
fn judged(
    inquiries: &[Inquiry],
    judgement: Judgement,
    wanted: usize,
    open: &HashSet<String>,
    answers: &mut Answers,
) {
    spend(answers, judgement.usage);
    answers.partition = judgement.partition;
    answers.truncated.extend(judgement.truncated);
    let kinds: HashMap<&str, &Question> = inquiries
        .iter()
        .flat_map(|inquiry| &inquiry.questions)
        .map(|question| (question.id.as_str(), question))
        .collect();
    let mut answered = HashSet::new();
    for judged in judgement.answers {
        let is_standing = Questions::is_claim(&judged.id) && Standing::parse(&judged.label).is_some();
        let fits = kinds
            .get(judged.id.as_str())
            .is_some_and(|question| is_standing || question.kind.labels().contains(&judged.label));
        let response = answers.responses.iter_mut().find(|response| response.id == judged.id);
        let Some(response) = response.filter(|response| fits && open.contains(&response.id)) else {
            continue;
        };
        response.by = AnswerBy::Judge;
        response.label = Some(judged.label);
        response.reasoning = judged.reasoning;
        answered.insert(judged.id);
    }
    if answered.len() < wanted {
        let why = judgement
            .unanswered
            .first()
            .map(|unanswered| format!(": one {}", unanswered.why))
            .unwrap_or_default();
        let missing = wanted - answered.len();
        answers.judge_error = Some(format!("the judge left {missing} of {wanted} questions open{why}"));
        answers.degraded = true;
    }
}

fn nobody(id: &str, why: Nobody) -> Response {
    Response {
        id: id.to_owned(),
        by: AnswerBy::Nobody(why),
        label: None,
        decision: None,
        confidence: None,
        reasoning: None,
        escalated: false,
    }
}

fn ruled(id: &str, ruling: &Ruling, escalated: bool) -> Response {
    Response {
        by: AnswerBy::Rule,
        label: Some(ruling.label.clone()),
        reasoning: ruling.reasoning.clone(),
        escalated,
        ..nobody(id, Nobody::Unsupported)
    }
}

/// Adds what the judge cost.
fn spend(answers: &mut Answers, usage: crate::domain::Usage) {
    answers.usage += usage;
}

fn count(answers: &Answers) {
    for response in &answers.responses {
        let question = Questions::label(&response.id);
        let by = match response.by {
            AnswerBy::Local => "local",
            AnswerBy::Judge => "judge",
            AnswerBy::Rule => "rule",
            AnswerBy::Nobody(_) => "nobody",
        };
        metrics::cascade_answer(question, by);
        if response.escalated {
            metrics::cascade_escalation(question);
        }
    }
}

#[cfg(test)]
mod tests;
