//! A judge behind an endpoint: prompts, cache, guarded calls, repairs.

mod answers;
mod exchange;
mod measures;

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};

use super::config::Config;
use super::endpoint::Endpoint;
use super::guard::Guard;
use super::prompt::Prompts;
use super::{
    Allowance, Ask, BuildError, Flaw, Judge, JudgeError, JudgeErrorKind, Judgement, Measured, Pricing,
    Unanswered,
};
use crate::domain::{Inquiry, Measure};
use crate::metrics;
use answers::Answering;
use exchange::Exchange;
use measures::Measuring;

/// The judge that `config` asks for; none if it names no provider. Reads the key and the prompts, connects to nothing.
pub fn build(config: &Config) -> Result<Option<Arc<dyn Judge>>, BuildError> {
    build_with(config, &BTreeSet::new())
}

/// The same with the prompt templates that evaluators and metrics bring along, by the paths that inquiries name.
pub fn build_with(config: &Config, own: &BTreeSet<&PathBuf>) -> Result<Option<Arc<dyn Judge>>, BuildError> {
    build_kept(config, own, None)
}

/// The same for a process whose budget has to outlive it: what was spent is kept in a file of this folder, if money is limited.
/// One process at a time may use a folder.
pub fn build_kept(
    config: &Config,
    own: &BTreeSet<&PathBuf>,
    folder: Option<&Path>,
) -> Result<Option<Arc<dyn Judge>>, BuildError> {
    let Some(provider) = config.provider() else { return Ok(None) };
    let judge = LlmJudge {
        prompts: Prompts::load(&config.prompts, own)?,
        exchange: Exchange::new(
            Endpoint::new(provider, config)?,
            Guard::new(provider.name(), config, folder)?,
            config,
        ),
        answering: Answering::new(config),
        measuring: Measuring::new(config),
    };
    Ok(Some(Arc::new(judge)))
}

struct LlmJudge {
    prompts: Prompts,
    exchange: Exchange,
    answering: Answering,
    measuring: Measuring,
}

impl Judge for LlmJudge {
    fn judge<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Judgement, JudgeError>> {
        self.answered(ask, false).boxed()
    }

    fn partition<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Judgement, JudgeError>> {
        self.answered(ask, true).boxed()
    }

    fn measure<'a>(&'a self, measure: &'a Measure) -> BoxFuture<'a, Result<Measured, JudgeError>> {
        async move {
            let result = self.measuring.measured(measure, &self.prompts, &self.exchange).await;
            self.count(result.as_ref().map(|measured| measured.cached));
            result
        }
        .boxed()
    }

    fn model(&self) -> &str {
        self.exchange.model()
    }

    fn pricing(&self) -> Option<&Pricing> {
        Some(self.exchange.pricing())
    }

    fn prompt_digest(&self) -> &str {
        self.prompts.digest()
    }

    fn allowances(&self) -> Vec<Allowance> {
        self.exchange.allowances()
    }

    fn keep(&self) {
        self.exchange.keep();
    }
}

impl LlmJudge {
    /// One call for all questions that share a template: one in all, unless evaluators bring their own.
    async fn answered(&self, ask: &Ask, partition: bool) -> Result<Judgement, JudgeError> {
        let groups = groups(ask)?;
        let calls = groups.iter().map(|Group { own, inquiries }| async move {
            // An own template asks in its own way: it knows nothing of a partition.
            let partition = partition && own.is_none();
            let result =
                self.answering.answered(inquiries, partition, *own, &self.prompts, &self.exchange).await;
            self.count(result.as_ref().map(|judgement| judgement.cached));
            result
        });
        merged(&groups, join_all(calls).await)
    }

    /// Counts asks that came to nothing before a request, or needed none.
    fn count(&self, result: Result<bool, &JudgeError>) {
        let provider = self.exchange.provider();
        match result {
            Ok(true) => metrics::judge_request(provider, "cached"),
            Err(error) if matches!(error.result(), "budget" | "deadline" | "resting") => {
                metrics::judge_request(provider, error.result());
            }
            _ => {}
        }
    }
}

/// Inquiries that share a template.
struct Group<'a> {
    /// Its name; none: the usual one.
    own: Option<&'a str>,
    inquiries: Vec<&'a Inquiry>,
}

/// Inquiries by their template, in order.
fn groups(ask: &Ask) -> Result<Vec<Group<'_>>, JudgeErrorKind> {
    let mut ids = HashSet::new();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for inquiry in &ask.inquiries {
        for question in &inquiry.questions {
            if !ids.insert(question.id.as_str()) {
                return Err(JudgeErrorKind::RepeatedId { id: question.id.clone() });
            }
        }
        let own = inquiry.prompt.as_deref();
        match groups.iter_mut().find(|group| group.own == own) {
            Some(group) => group.inquiries.push(inquiry),
            None => groups.push(Group { own, inquiries: vec![inquiry] }),
        }
    }
    Ok(groups)
}

/// What all calls of an ask brought together. A call that failed leaves its questions open, unless all did.
fn merged(
    groups: &[Group<'_>],
    mut results: Vec<Result<Judgement, JudgeError>>,
) -> Result<Judgement, JudgeError> {
    if results.len() == 1 {
        return results.swap_remove(0);
    }
    if let Some(first) =
        results.iter().position(Result::is_err).filter(|_| results.iter().all(Result::is_err))
    {
        let mut error = results.swap_remove(first);
        if let Err(error) = &mut error {
            for other in results.iter().filter_map(|result| result.as_ref().err()) {
                error.usage += other.usage;
            }
        }
        return error;
    }
    let mut all = Judgement { cached: !results.is_empty(), ..Judgement::default() };
    for (group, result) in groups.iter().zip(results) {
        match result {
            Ok(judgement) => {
                all.answers.extend(judgement.answers);
                all.unanswered.extend(judgement.unanswered);
                all.usage += judgement.usage;
                all.cached &= judgement.cached;
                all.partition = all.partition.or(judgement.partition);
                all.truncated.extend(judgement.truncated);
            }
            Err(error) => {
                all.usage += error.usage;
                all.cached = false;
                let questions = group.inquiries.iter().flat_map(|inquiry| &inquiry.questions);
                let why = Flaw::Failed { error: error.to_string() };
                all.unanswered.extend(
                    questions.map(|question| Unanswered { id: question.id.clone(), why: why.clone() }),
                );
            }
        }
    }
    Ok(all)
}
