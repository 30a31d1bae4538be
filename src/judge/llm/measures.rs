//! Asks for the value of a metric until it is valid or the tries are used up.

use std::sync::Arc;

use moka::future::Cache;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, timeout_at};

use super::super::attempt::Said;
use super::super::config::Config;
use super::super::dialect::Shape;
use super::super::guard::Tally;
use super::super::metric::Form;
use super::super::prompt::{Prompt, Prompts, state_text};
use super::super::{JudgeError, JudgeErrorKind, Measured};
use super::exchange::{Exchange, MAX_CUTS};
use crate::ask::excerpt;
use crate::domain::{Json, Measure};
use crate::metrics;

/// Kinds of shapes from here on are those of metrics, each its own.
const METRICS: u64 = 1 << 32;

/// Values, and those that are kept.
pub(super) struct Measuring {
    kept: Cache<[u8; 32], Arc<Value>>,
}

struct Value {
    value: Json,
    cuts: Vec<String>,
}

impl Measuring {
    /// With the cache of `config`.
    pub fn new(config: &Config) -> Self {
        let weigh = |_: &[u8; 32], value: &Arc<Value>| {
            u32::try_from(256 + value.value.to_string().len()).unwrap_or(u32::MAX)
        };
        let kept = Cache::builder().max_capacity(config.cache.max_bytes.0).weigher(weigh);
        Self { kept: kept.time_to_live(config.cache.keep.0).build() }
    }

    /// The value of a metric.
    pub async fn measured(
        &self,
        measure: &Measure,
        prompts: &Prompts,
        exchange: &Exchange,
    ) -> Result<Measured, JudgeError> {
        let form = Form::new(&measure.schema)?;
        let shape = Shape { schema: form.reply.clone(), strict: form.strict, kind: kind(&form.reply) };
        let deadline = Instant::now() + exchange.deadline;
        let tally = Tally::new();
        let whole = state_text(measure);
        let mut asking = Asking {
            measure,
            form: &form,
            shape: &shape,
            prompts,
            exchange,
            deadline,
            tally: &tally,
            state: whole.clone(),
            whole,
            cuts: Vec::new(),
        };
        let first = asking.prompt("")?;
        let mut asked = false;
        let key = first.digest();
        let valued = self.kept.entry(key).or_try_insert_with(async {
            asked = true;
            asking.ask(first).await
        });
        let fail = |kind| JudgeError { kind, usage: tally.usage() };
        let value = match timeout_at(deadline, valued).await {
            Ok(Ok(entry)) => entry.into_value(),
            Ok(Err(kind)) => return Err(fail((*kind).clone())),
            Err(_) => {
                let waiting = tally.waiting();
                return Err(fail(JudgeErrorKind::Deadline { deadline: exchange.deadline, waiting }));
            }
        };
        Ok(Measured {
            value: value.value.clone(),
            usage: tally.usage(),
            cached: !asked,
            truncated: value.cuts.clone(),
        })
    }
}

/// A number for a schema: its manners are learnt apart from those of others.
fn kind(schema: &Json) -> u64 {
    let hash = Sha256::digest(schema.to_string());
    let low = hash.iter().take(4).fold(0, |number, byte| number << 8 | u64::from(*byte));
    METRICS + low
}

struct Asking<'a> {
    measure: &'a Measure,
    form: &'a Form,
    shape: &'a Shape,
    prompts: &'a Prompts,
    exchange: &'a Exchange,
    deadline: Instant,
    tally: &'a Tally,
    whole: String,
    state: String,
    cuts: Vec<String>,
}

impl Asking<'_> {
    fn prompt(&mut self, complaint: &str) -> Result<Prompt, JudgeErrorKind> {
        for _ in 0..=MAX_CUTS {
            let prompt = self.prompts.metric(self.measure, &self.state, &self.shape.schema, complaint)?;
            match self.exchange.fits(&prompt, self.shape, self.state.len())? {
                None => return Ok(prompt),
                Some(room) => self.shrink(room),
            }
        }
        let message = "its state cannot be cut to fit".to_owned();
        Err(JudgeErrorKind::TooLong { tokens: 0, message })
    }

    fn shrink(&mut self, room: usize) {
        let chars = self.whole.chars().count();
        let most = room.saturating_mul(chars) / self.whole.len().max(1);
        let topics = match &self.measure.instructions {
            Json::Null => Vec::new(),
            Json::String(text) => vec![text.clone()],
            other => vec![other.to_string()],
        };
        let Some(part) = excerpt(&self.whole, &topics, most) else { return };
        let (name, kept) = (&self.measure.name, part.chars().count());
        self.cuts =
            vec![format!("state of {name}: {kept} of {chars} characters, those nearest to its instructions")];
        self.state = part;
    }

    async fn ask(mut self, first: Prompt) -> Result<Arc<Value>, JudgeErrorKind> {
        let mut prompt = first;
        let (mut tries, mut cuts) = (0, 0);
        loop {
            let said = self.exchange.send(&prompt, self.shape, self.deadline, self.tally).await;
            let (text, cut) = match said {
                Ok(Said::Text { text, cut }) => (text, cut),
                Ok(Said::Declined { message }) => return Err(JudgeErrorKind::Declined { message }),
                Err(JudgeErrorKind::TooLong { tokens, message }) if cuts < MAX_CUTS => {
                    cuts += 1;
                    self.exchange.learn(tokens, &message);
                    let too_long = JudgeErrorKind::TooLong { tokens, message };
                    prompt = self.prompt("").map_err(|_| too_long)?;
                    continue;
                }
                Err(kind) => return Err(kind),
            };
            tries += 1;
            match self.form.read(&text, cut) {
                Ok(value) => return Ok(Arc::new(Value { value, cuts: self.cuts })),
                Err(reply) => {
                    metrics::judge_request(self.exchange.provider(), "invalid");
                    if tries > self.exchange.repairs {
                        return Err(JudgeErrorKind::Invalid { tries, reply });
                    }
                    prompt = self.prompt(&reply.to_string())?;
                }
            }
        }
    }
}
