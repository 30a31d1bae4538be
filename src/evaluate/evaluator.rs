//! Evaluation for programs: input in, a typed result or an error value out, on any backend.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::{Backend, Input, OpenError, open};
use crate::config::Config;
use crate::domain::{
    AnswerBy, Answers, AssayedClaim, Inquiry, Json, Kind, Label, Nobody, Outcome, Question, Questions,
    Response, Standing, Verdict,
};
use crate::pipeline::Assayer;
use crate::serve::CheckRequest;

/// What came of an evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Whether the context bears the response out; none if the response states nothing.
    pub label: Option<Label>,
    /// GSAR's score, from 0 to 1; none if the response states nothing.
    pub score: Option<f64>,
    /// The probability that something in the response does not stand; none if nobody gave one.
    pub hallucination_probability: Option<f64>,
    /// How sure that is: |2p − 1|.
    pub confidence: Option<f64>,
    /// The claims that do not stand, with the judge's words.
    pub reasoning: Option<String>,
    /// The answers to the input's questions, by their ids.
    pub answers: BTreeMap<String, Result<Answer, Unanswered>>,
    /// Everything: each claim with its evidence, provenance, cost.
    pub verdict: Verdict,
}

/// The answer to one question.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The pick: `true` or `false`, an option, or a level's number.
    pub label: String,
    /// By label; empty for an LLM's pick.
    pub probabilities: BTreeMap<String, f64>,
    /// How sure the decision model is; none for an LLM's pick.
    pub confidence: Option<f64>,
    /// Whether the LLM picked.
    pub is_judged: bool,
    /// The LLM's words.
    pub reasoning: Option<String>,
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("nobody answered: {why}")]
pub struct Unanswered {
    /// What was in the way.
    pub why: String,
}

/// Why there is no evaluation.
#[derive(Debug, thiserror::Error)]
pub enum EvaluateError {
    /// A backend cannot be used, or its model not be loaded.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is nothing to evaluate.
    #[error("the response is empty")]
    Empty,
    /// A question makes no sense.
    #[error("the question {id:?} {wrong}")]
    Question {
        /// Its id.
        id: String,
        /// What is wrong with it.
        wrong: &'static str,
    },
    /// The model, or the judge, failed. An error is not a score.
    #[error("it could not be evaluated: {reason}")]
    Failed {
        /// Why.
        reason: String,
    },
}

/// Evaluates with one backend. Cheap to share by reference; the model is loaded once.
///
/// ```
/// use assayd::evaluate::{Backend, EvaluateError, Evaluator, Input};
///
/// # let runtime = tokio::runtime::Runtime::new()?;
/// # runtime.block_on(async {
/// let evaluator = Evaluator::open(&Backend::Embedded)?;
/// let input = Input::new("Footwear may be returned within 30 days.")
///     .query("How long can I return shoes?")
///     .context("Unworn footwear may be returned within 30 days of delivery for a full refund.");
/// let evaluation = evaluator.evaluate(&input).await?;
/// println!("{:?}, S {:?}, p {:?}", evaluation.label, evaluation.score, evaluation.hallucination_probability);
/// assert!(evaluation.hallucination_probability.is_some_and(|p| p < 0.5));
///
/// // What cannot be evaluated is an error value, never a score.
/// let nothing = evaluator.evaluate(&Input::new(" ")).await;
/// assert!(matches!(nothing, Err(EvaluateError::Empty)));
/// # Ok::<(), EvaluateError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Evaluator {
    assayer: Assayer,
}

impl Evaluator {
    /// With a backend and the default configuration. Loads the model: takes as long as that takes.
    pub fn open(model: &Backend) -> Result<Self, EvaluateError> {
        Self::with(Config::default(), Some(model), None)
    }

    /// With a configuration, another model, and a judge for what the model is not sure of; what is not given is as configured.
    pub fn with(
        config: Config,
        model: Option<&Backend>,
        judge: Option<&Backend>,
    ) -> Result<Self, EvaluateError> {
        Ok(Self { assayer: open(config, model, judge)? })
    }

    /// Evaluates. All questions go to the model at once, and in one more call to the judge what it is not sure of.
    pub async fn evaluate(&self, input: &Input) -> Result<Evaluation, EvaluateError> {
        if input.response.trim().is_empty() {
            return Err(EvaluateError::Empty);
        }
        check(&input.questions, &self.assayer.evaluators())?;
        self.assayer.ready().await.map_err(OpenError::from)?;
        let request = CheckRequest {
            context: if input.context.is_null() {
                Json::String(String::new())
            } else {
                input.context.clone()
            },
            query: input.query.clone(),
            response: input.response.clone(),
            service: None,
        };
        let own = Inquiry::new(Arc::new(input.state()), input.questions.clone());
        let (verdict, answered) = if input.questions.is_empty() {
            (self.assayer.check(&request).await, Answers::default())
        } else {
            self.assayer.check_asking(&request, own).await
        };
        if verdict.outcome == Outcome::Failed && input.questions.is_empty() {
            let reason =
                verdict.judge_error.or(verdict.reason).unwrap_or_else(|| "no reason was given".to_owned());
            return Err(EvaluateError::Failed { reason });
        }
        let answers = input.questions.iter().map(|question| (question.id.clone(), read(question, &answered)));
        let p = verdict.hallucination_probability;
        Ok(Evaluation {
            label: verdict.label,
            score: verdict.grounding.as_ref().map(|grounding| grounding.score),
            hallucination_probability: p,
            confidence: p.map(|p| (2.0 * p - 1.0).abs()),
            reasoning: reasoning(&verdict),
            answers: answers.collect(),
            verdict,
        })
    }
}

/// Evaluates once; [`Evaluator`] does not load the model again for the next input.
pub async fn evaluate(input: &Input, model: &Backend) -> Result<Evaluation, EvaluateError> {
    let model = model.clone();
    let opened = tokio::task::spawn_blocking(move || Evaluator::open(&model)).await;
    let evaluator = opened.map_err(|error| EvaluateError::Failed { reason: error.to_string() })??;
    evaluator.evaluate(input).await
}

/// Why a verdict is what it is, in a sentence: the claims that do not stand, with the judge's words; if there are none, those
/// that leave it unsure; or why it was not made.
pub fn reasoning(verdict: &Verdict) -> Option<String> {
    let Some(grounding) = &verdict.grounding else {
        return verdict.reason.as_ref().map(|reason| format!("not evaluated: {reason}"));
    };
    let doubtful = grounding.claims.iter().filter_map(|claim| {
        let standing = claim.standing?;
        let by_judge = claim.reasoning.as_deref().map(|words| format!(" ({words})")).unwrap_or_default();
        (!matches!(standing, Standing::Grounded | Standing::Complementary))
            .then(|| format!("{}: {:?}{by_judge}", standing.as_str(), claim.text))
    });
    let text = doubtful.collect::<Vec<_>>().join("; ");
    if !text.is_empty() || verdict.label != Some(Label::Unsure) {
        return (!text.is_empty()).then_some(text);
    }
    let supported = |claim: &AssayedClaim| -> Option<f64> {
        claim.standing?;
        let p = |standing: Standing| claim.probabilities.get(standing.as_str());
        Some(p(Standing::Grounded)? + p(Standing::Complementary).copied().unwrap_or_default())
    };
    let open = grounding.claims.iter().filter(|claim| claim.standing.is_none());
    let open = open.map(|claim| format!("not answered: {:?}", claim.text));
    let least = grounding.claims.iter().filter_map(|claim| Some((supported(claim)?, claim)));
    let least = least.min_by(|left, right| left.0.total_cmp(&right.0));
    let least =
        least.map(|(p, claim)| format!("unsure: {:?} is supported with a probability of {p:.2}", claim.text));
    let text = open.chain(least).collect::<Vec<_>>().join("; ");
    (!text.is_empty()).then_some(text)
}

fn check(questions: &[Question], evaluators: &[Arc<str>]) -> Result<(), EvaluateError> {
    let mut ids = HashSet::new();
    for question in questions {
        let wrong = match &question.kind {
            _ if !ids.insert(question.id.as_str()) => "is asked twice",
            _ if evaluators.iter().any(|name| **name == *question.id) => {
                "has the name of an evaluator that is on"
            }
            _ if Questions::is_claim(&question.id) => "has an id that is kept for claims",
            Kind::Choice { options } if !(2..=255).contains(&options.len()) => "must have 2 to 255 options",
            Kind::Score { levels } if !(2..=10).contains(&levels.len()) => "must have 2 to 10 levels",
            _ => continue,
        };
        return Err(EvaluateError::Question { id: question.id.clone(), wrong });
    }
    Ok(())
}

fn read(question: &Question, answers: &Answers) -> Result<Answer, Unanswered> {
    let Some(response) = answers.response(&question.id) else {
        return Err(Unanswered { why: "the answer is missing".to_owned() });
    };
    match (&response.by, &response.label) {
        (AnswerBy::Nobody(nobody), _) => Err(Unanswered { why: why(nobody, answers, response) }),
        (_, None) => Err(Unanswered { why: "there is no pick".to_owned() }),
        (by, Some(label)) => {
            let p = response.decision.iter().flat_map(|decision| decision.probabilities.iter().copied());
            Ok(Answer {
                label: label.clone(),
                probabilities: question.kind.labels().into_iter().zip(p).collect(),
                confidence: response.confidence,
                is_judged: *by == AnswerBy::Judge,
                reasoning: response.reasoning.clone(),
            })
        }
    }
}

/// The judge was asked last, so its failure is the reason where there is one.
fn why(nobody: &Nobody, answers: &Answers, response: &Response) -> String {
    match (&answers.judge_error, nobody) {
        (Some(error), _) if response.escalated => error.clone(),
        (_, Nobody::Failed(why) | Nobody::Refused(why)) => why.clone(),
        (_, Nobody::Unsupported) => {
            "the model does not answer such questions, and there is no judge".to_owned()
        }
        (_, nobody) => nobody.reason().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_embedded_model_judges_the_response_and_says_what_it_cannot_answer() {
        let input = Input::new("The moon is made of green cheese from Wisconsin.")
            .context("Footwear may be returned within 30 days of delivery.")
            .noul("polite", "Is it polite?");
        let evaluation = evaluate(&input, &Backend::Embedded).await.unwrap();
        assert!(evaluation.hallucination_probability.is_some_and(|p| p > 0.5), "{evaluation:?}");
        assert!(evaluation.reasoning.is_some_and(|why| why.contains("green cheese")));
        let unanswered = evaluation.answers["polite"].as_ref().unwrap_err();
        assert!(unanswered.to_string().contains("no judge"), "{unanswered}");
    }

    #[test]
    fn an_unsure_verdict_says_what_leaves_it_so() {
        let mut verdict = crate::emit::sample::full();
        verdict.label = Some(Label::Unsure);
        let claims = &mut verdict.grounding.as_mut().unwrap().claims;
        claims.truncate(1);
        claims[0].standing = Some(Standing::Grounded);
        claims[0].probabilities = [("grounded".to_owned(), 0.51), ("contradicted".to_owned(), 0.49)].into();
        let why = reasoning(&verdict).unwrap();
        assert!(
            why.starts_with("unsure: ") && why.ends_with("is supported with a probability of 0.51"),
            "{why}"
        );
        verdict.grounding.as_mut().unwrap().claims[0].standing = None;
        assert!(reasoning(&verdict).unwrap().starts_with("not answered: "));
        verdict.label = Some(Label::Faithful);
        assert_eq!(reasoning(&verdict), None);
    }

    #[test]
    fn questions_that_make_no_sense_are_refused() {
        let bad = [
            Input::new("x").noul("a", "?").noul("a", "?"),
            Input::new("x").choice("a", "?", ["one"]),
            Input::new("x").score("a", "?", ["one"]),
            Input::new("x").noul("claim:0", "?"),
            Input::new("x").noul("tone", "?"),
        ];
        for input in bad {
            assert!(
                matches!(check(&input.questions, &["tone".into()]), Err(EvaluateError::Question { .. })),
                "{input:?}"
            );
        }
        assert!(check(&Input::new("x").noul("a", "?").questions, &[]).is_ok());
    }
}
