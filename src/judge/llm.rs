//! A judge behind an endpoint: prompt, cache, guarded calls, repairs.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use moka::future::Cache;
use tokio::time::{Instant, timeout_at};

use super::attempt::{Said, Tokens};
use super::dialect::Shape;
use super::endpoint::Endpoint;
use super::guard::{Guard, Tally};
use super::prompt::{Prompt, Prompts};
use super::reply::{self, Reading};
use super::sheet::{Item, Sheet};
use super::{
    Ask, BuildError, Config, Flaw, Judge, JudgeError, JudgeErrorKind, Judged, Judgement, Unanswered,
};
use crate::domain::Usage;
use crate::metrics;

/// The judge that `config` asks for; none if it names no provider. Reads the key and the prompts, connects to nothing.
pub fn build(config: &Config) -> Result<Option<Arc<dyn Judge>>, BuildError> {
    let Some(provider) = config.provider() else { return Ok(None) };
    let judge = LlmJudge {
        endpoint: Endpoint::new(provider, config)?,
        guard: Guard::new(provider.name(), config),
        prompts: Prompts::load(&config.prompts)?,
        kept: Cache::builder()
            .max_capacity(config.cache.max_bytes.0)
            .weigher(|_, reading: &Arc<Reading>| weight(reading))
            .time_to_live(config.cache.keep.0)
            .build(),
        deadline: config.deadline.0,
        repairs: config.repairs,
        max_input_tokens: config.max_input_tokens.map(|limit| u64::from(limit.get())),
        max_output_tokens: u64::from(config.max_output_tokens.get()),
    };
    Ok(Some(Arc::new(judge)))
}

struct LlmJudge {
    endpoint: Endpoint,
    guard: Guard,
    prompts: Prompts,
    /// Complete answers by the digest of the prompt, which holds no ids: equal questions share them whatever they are called.
    kept: Cache<[u8; 32], Arc<Reading>>,
    deadline: Duration,
    repairs: u32,
    max_input_tokens: Option<u64>,
    max_output_tokens: u64,
}

/// What is not kept for the next equal ask.
enum Unkept {
    Failed(JudgeErrorKind),
    Incomplete(Arc<Reading>),
}

impl Judge for LlmJudge {
    fn judge<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Judgement, JudgeError>> {
        async move {
            let result = self.judgement(ask).await;
            match &result {
                Ok(judgement) if judgement.cached => {
                    metrics::judge_request(self.endpoint.provider(), "cached")
                }
                Err(error) if matches!(error.result(), "budget" | "deadline" | "resting") => {
                    metrics::judge_request(self.endpoint.provider(), error.result());
                }
                _ => {}
            }
            result
        }
        .boxed()
    }

    fn model(&self) -> &str {
        self.endpoint.model()
    }

    fn prompt_digest(&self) -> &str {
        self.prompts.digest()
    }
}

impl LlmJudge {
    async fn judgement(&self, ask: &Ask) -> Result<Judgement, JudgeError> {
        let sheet = Sheet::new(ask)?;
        if sheet.items.is_empty() {
            let usage = Usage::default();
            return Ok(Judgement { answers: Vec::new(), unanswered: Vec::new(), usage, cached: false });
        }
        let everything: Vec<usize> = (0..sheet.items.len()).collect();
        let prompt = self.prompts.render(&sheet, &everything, "")?;
        let deadline = Instant::now() + self.deadline;
        let tally = Tally::new();
        let mut asked = false;
        let key = prompt.digest();
        let answered = self.kept.entry(key).or_try_insert_with(async {
            asked = true;
            self.ask(&sheet, prompt, deadline, &tally).await
        });
        // The calls below keep the deadline themselves; this holds for one that waits for an equal ask of another caller.
        let answered = timeout_at(deadline, answered).await;
        let reading = match answered {
            Ok(Ok(entry)) => entry.into_value(),
            Ok(Err(unkept)) => match &*unkept {
                Unkept::Incomplete(reading) => Arc::clone(reading),
                Unkept::Failed(kind) => return Err(JudgeError { kind: kind.clone(), usage: tally.usage() }),
            },
            Err(_) => {
                let kind = JudgeErrorKind::Deadline { deadline: self.deadline, waiting: tally.waiting() };
                return Err(JudgeError { kind, usage: tally.usage() });
            }
        };
        Ok(judgement(&sheet, &reading, tally.usage(), !asked))
    }

    /// Asks, and asks again for what is still open, as often as repairs are allowed.
    async fn ask(
        &self,
        sheet: &Sheet<'_>,
        first: Prompt,
        deadline: Instant,
        tally: &Tally,
    ) -> Result<Arc<Reading>, Unkept> {
        let mut reading: Reading = vec![Err(Flaw::Missing); sheet.items.len()];
        let mut prompt = first;
        let mut tries = 0;
        loop {
            let open: Vec<usize> =
                (0..reading.len()).filter(|position| reading[*position].is_err()).collect();
            let items: Vec<&Item> = open.iter().map(|position| &sheet.items[*position]).collect();
            let (complaint, error) = match self.ask_once(&prompt, &items, deadline, tally).await {
                Ok(Said::Text { text, cut }) => match reply::read(&text, cut, &items) {
                    Ok(answers) => {
                        for (position, answer) in open.into_iter().zip(answers) {
                            reading[position] = answer;
                        }
                        (complaint(sheet, &reading), None)
                    }
                    Err(reply) => {
                        metrics::judge_request(self.endpoint.provider(), "invalid");
                        let complaint = reply.to_string();
                        (complaint, Some(JudgeErrorKind::Invalid { tries: tries + 1, reply }))
                    }
                },
                Ok(Said::Declined { message }) => {
                    return settle(reading, JudgeErrorKind::Declined { message });
                }
                Err(kind) => return settle(reading, kind),
            };
            tries += 1;
            if reading.iter().all(Result::is_ok) {
                return Ok(Arc::new(reading));
            }
            if tries > self.repairs {
                return match error {
                    Some(kind) => settle(reading, kind),
                    None => Err(Unkept::Incomplete(Arc::new(reading))),
                };
            }
            let open: Vec<usize> =
                (0..reading.len()).filter(|position| reading[*position].is_err()).collect();
            prompt = self.prompts.render(sheet, &open, &complaint).map_err(Unkept::Failed)?;
        }
    }

    async fn ask_once(
        &self,
        prompt: &Prompt,
        items: &[&Item<'_>],
        deadline: Instant,
        tally: &Tally,
    ) -> Result<Said, JudgeErrorKind> {
        let shape = Shape { schema: super::schema::reply(items), strict: true, kind: 0 };
        let tokens = Tokens::estimate(prompt.len() + shape.schema.to_string().len());
        if let Some(limit) = self.max_input_tokens.filter(|limit| tokens > *limit) {
            return Err(JudgeErrorKind::TooLong {
                tokens,
                message: format!("judge.max_input_tokens is {limit}"),
            });
        }
        let estimate = Tokens { input: tokens, output: self.max_output_tokens };
        let called =
            self.guard.call(estimate, deadline, tally, || self.endpoint.attempt(prompt, &shape)).await;
        called.map_err(|kind| match kind {
            JudgeErrorKind::TooLong { message, .. } => JudgeErrorKind::TooLong { tokens, message },
            other => other,
        })
    }
}

/// Answers that came before an error are kept.
fn settle(reading: Reading, kind: JudgeErrorKind) -> Result<Arc<Reading>, Unkept> {
    if reading.iter().all(Result::is_err) {
        return Err(Unkept::Failed(kind));
    }
    tracing::debug!(error = %kind, "the judge's first reply was incomplete, and asking again failed");
    Err(Unkept::Incomplete(Arc::new(reading)))
}

/// What is wrong with the open questions' answers, for the judge to read; the first few are enough to learn from.
fn complaint(sheet: &Sheet, reading: &Reading) -> String {
    let flaws = sheet.items.iter().zip(reading).filter_map(|(item, answer)| {
        let flaw = answer.as_ref().err()?;
        Some(format!("{} {flaw}", item.key))
    });
    flaws.take(5).collect::<Vec<_>>().join("; ")
}

fn judgement(sheet: &Sheet, reading: &Reading, usage: Usage, cached: bool) -> Judgement {
    let mut judgement = Judgement { answers: Vec::new(), unanswered: Vec::new(), usage, cached };
    for (item, answer) in sheet.items.iter().zip(reading) {
        let id = item.question.id.clone();
        match answer {
            Ok(pick) => judgement.answers.push(Judged {
                id,
                label: pick.label.clone(),
                reasoning: pick.reasoning.clone(),
            }),
            Err(flaw) => judgement.unanswered.push(Unanswered { id, why: flaw.clone() }),
        }
    }
    judgement
}

/// Bytes that a kept reading takes, roughly.
fn weight(reading: &Reading) -> u32 {
    let texts: usize = reading
        .iter()
        .flatten()
        .map(|pick| pick.label.len() + pick.reasoning.as_ref().map_or(0, String::len))
        .sum();
    u32::try_from(128 + reading.len() * size_of::<Result<reply::Pick, Flaw>>() + texts).unwrap_or(u32::MAX)
}
