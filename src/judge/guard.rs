//! Stands before an endpoint: concurrency, pace, breaker, budget, time limits and retries, counted on every attempt.

mod account;
mod aimd;
mod breaker;
mod budget;
mod pace;
mod rhythm;
mod slots;
mod statement;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::time::{Instant, timeout_at};

use super::attempt::{Completion, Failure, Said, Tokens};
use super::{BuildError, Config, JudgeErrorKind, Pricing, Waiting};
use crate::domain::{Time, Usage};
use crate::metrics;
use account::Account;
use breaker::{Breaker, Resting};
pub use budget::Allowance;
use budget::{Budget, NanoUsd, Reservation};
use pace::Pace;
use slots::{Load, Slots};

/// Requests of one call that only teach us what the endpoint takes; more would mean that it refuses whatever is sent.
const MAX_LESSONS: u32 = 8;
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const LONGEST_BACKOFF: Duration = Duration::from_secs(20);

/// What one ask has cost so far, and what it waits for. Kept outside the ask's future, so that it outlives a deadline.
#[derive(Debug)]
pub(super) struct Tally(Mutex<(Usage, Waiting)>);

impl Tally {
    /// Nothing yet.
    pub fn new() -> Self {
        Self(Mutex::new((Usage::default(), Waiting::Slot)))
    }

    /// What it has cost.
    pub fn usage(&self) -> Usage {
        lock(&self.0).0
    }

    /// What it waits for.
    pub fn waiting(&self) -> Waiting {
        lock(&self.0).1
    }

    fn waits_for(&self, waiting: Waiting) {
        lock(&self.0).1 = waiting;
    }

    fn add(&self, tokens: Tokens, cost: NanoUsd) {
        let usage = &mut lock(&self.0).0;
        usage.judge_input_tokens += tokens.input;
        usage.judge_output_tokens += tokens.output;
        usage.judge_cost_usd += cost.usd();
    }
}

/// The guard of one endpoint.
pub(super) struct Guard {
    provider: &'static str,
    deadline: Duration,
    attempt_timeout: Duration,
    attempts: u32,
    pricing: Pricing,
    slots: Slots,
    pace: Pace,
    breaker: Mutex<Breaker>,
    account: Account,
}

impl Guard {
    /// A guard with the limits of `config`. What is spent is kept in the folder, if there is one and money is limited.
    pub fn new(provider: &'static str, config: &Config, kept_in: Option<&Path>) -> Result<Self, BuildError> {
        let is_limited = config.usd_per_hour.is_some() || config.usd_per_day.is_some();
        let budget = Budget::new(config.usd_per_hour, config.usd_per_day);
        let account = match kept_in.filter(|_| is_limited) {
            Some(folder) => Account::kept(budget, folder)?,
            None => Account::forgetful(budget),
        };
        Ok(Self {
            provider,
            deadline: config.deadline.0,
            attempt_timeout: config.attempt_timeout.0,
            attempts: config.attempts.get(),
            pricing: config.pricing(),
            slots: Slots::new(config.concurrency.get()),
            pace: Pace::new(config.requests_per_minute, config.tokens_per_minute),
            breaker: Mutex::new(Breaker::new(config.breaker_failures.get(), config.breaker_pause.0)),
            account,
        })
    }

    /// The limited windows as they stand.
    pub fn allowances(&self) -> Vec<Allowance> {
        self.account.allowances()
    }

    /// Writes down what has to outlive the process. Blocks.
    pub fn keep(&self) {
        self.account.keep();
    }

    /// What tokens are counted at.
    pub fn pricing(&self) -> &Pricing {
        &self.pricing
    }

    /// Sends until a reply comes, the attempts are used up or `deadline` comes. `estimate` is what one attempt costs at most.
    pub async fn call<F>(
        &self,
        estimate: Tokens,
        deadline: Instant,
        tally: &Tally,
        send: impl Fn() -> F,
    ) -> Result<Said, JudgeErrorKind>
    where
        F: Future<Output = Result<Completion, Failure>>,
    {
        let mut backoff = ExponentialBuilder::new()
            .with_min_delay(FIRST_BACKOFF)
            .with_max_delay(LONGEST_BACKOFF)
            .without_max_times()
            .with_jitter()
            .build();
        let (mut attempts, mut lessons) = (0, 0);
        loop {
            let failure = match self.attempt(estimate, deadline, tally, &send).await? {
                Ok(said) => return Ok(said),
                Err(failure) => failure,
            };
            if failure == Failure::Adapted && lessons < MAX_LESSONS {
                lessons += 1;
                continue;
            }
            attempts += 1;
            if !failure.is_transient() || attempts >= self.attempts {
                return Err(failure.into_error(attempts));
            }
            let asked_for = match &failure {
                Failure::Overloaded { retry_after, .. } => *retry_after,
                _ => None,
            };
            let wait = backoff.next().unwrap_or(LONGEST_BACKOFF).max(asked_for.unwrap_or_default());
            if Instant::now() + wait >= deadline {
                return Err(failure.into_error(attempts));
            }
            tally.waits_for(Waiting::Rate);
            tokio::time::sleep(wait).await;
        }
    }

    /// One attempt: waits for its turn, asks breaker and budget, sends, and tells all of them what came of it.
    async fn attempt<F>(
        &self,
        estimate: Tokens,
        deadline: Instant,
        tally: &Tally,
        send: impl Fn() -> F,
    ) -> Result<Result<Said, Failure>, JudgeErrorKind>
    where
        F: Future<Output = Result<Completion, Failure>>,
    {
        let too_late = |waiting| JudgeErrorKind::Deadline { deadline: self.deadline, waiting };
        let resting = |Resting { failures, retry_in }| JudgeErrorKind::Resting { failures, retry_in };
        lock(&self.breaker).check(Instant::now().into_std()).map_err(resting)?;
        tally.waits_for(Waiting::Slot);
        let slot = timeout_at(deadline, self.slots.take()).await.map_err(|_| too_late(Waiting::Slot))?;
        tally.waits_for(Waiting::Rate);
        let tokens = estimate.input + estimate.output;
        self.pace.wait(tokens, deadline).await.map_err(|_| too_late(Waiting::Rate))?;
        self.pace.space(self.slots.limit().1, deadline).await.map_err(|_| too_late(Waiting::Rate))?;
        let mut bill = self.reserve(estimate, tally)?;
        self.account.settled_down(self.cost(estimate)).await;
        // Last, for it gives the one trial after a rest, which must not be lost to a limit of ours.
        let allowed = lock(&self.breaker).enter(Instant::now().into_std());
        if let Err(refusal) = allowed {
            bill.settle(Tokens::default());
            return Err(resting(refusal));
        }

        tally.waits_for(Waiting::Reply);
        bill.is_sent = true;
        let start = Instant::now();
        let end = deadline.min(start + self.attempt_timeout);
        let result = timeout_at(end, send()).await.unwrap_or_else(|_| {
            let message = format!("no reply within {:.0?}", end - start);
            Err(Failure::NoReply { message, timed_out: true })
        });
        let now = Instant::now();
        metrics::judge_seconds(self.provider, now - start);
        metrics::judge_request(self.provider, result.as_ref().map_or_else(Failure::result, result_of));
        slot.report(load(&result), now.into_std());
        let (slots, spacing) = self.slots.limit();
        metrics::judge_limit(self.provider, slots, spacing);
        match result {
            Ok(completion) => {
                lock(&self.breaker).succeeded();
                bill.settle(completion.tokens.unwrap_or(Tokens {
                    input: estimate.input,
                    output: match &completion.said {
                        Said::Text { text, .. } => Tokens::estimate(text.len()),
                        Said::Declined { message } => Tokens::estimate(message.len()),
                    },
                }));
                Ok(Ok(completion.said))
            }
            Err(failure) => {
                bill.settle(if failure.may_be_billed() { estimate } else { Tokens::default() });
                self.note(&failure, now);
                if now >= deadline {
                    return Err(too_late(Waiting::Reply));
                }
                Ok(Err(failure))
            }
        }
    }

    fn reserve<'a>(&'a self, estimate: Tokens, tally: &'a Tally) -> Result<Bill<'a>, JudgeErrorKind> {
        let reserved = self.account.reserve(self.cost(estimate));
        let reservation = reserved.map_err(|spent| JudgeErrorKind::Budget {
            window: spent.window,
            limit_usd: spent.limit_usd,
            pricing: Box::new(self.pricing.clone()),
            resets_in: spent.resets_in,
        })?;
        Ok(Bill { guard: self, tally, estimate, is_sent: false, reservation: Some(reservation) })
    }

    fn cost(&self, tokens: Tokens) -> NanoUsd {
        let input = tokens.input as f64 * self.pricing.price.usd_per_million_input;
        let output = tokens.output as f64 * self.pricing.price.usd_per_million_output;
        NanoUsd::from_usd((input + output) / 1e6)
    }

    /// Tells breaker and pace what a failure means for the calls to come.
    fn note(&self, failure: &Failure, now: Instant) {
        if let Failure::Overloaded { retry_after: Some(pause), .. } = failure {
            self.pace.pause(*pause, now);
        }
        let failing = match failure {
            Failure::NoConnection { .. }
            | Failure::NoReply { .. }
            | Failure::Broken { .. }
            | Failure::BadBody(_) => true,
            // 429 comes from an endpoint that lives; 503 and 529 may be all that is left of one.
            Failure::Overloaded { status, .. } => *status != 429,
            Failure::Final(kind) => {
                matches!(kind, JudgeErrorKind::Auth { .. } | JudgeErrorKind::Quota { .. })
            }
            Failure::Adapted => false,
        };
        if !failing {
            return;
        }
        tracing::debug!(provider = self.provider, ?failure, "attempt to ask the judge failed");
        if lock(&self.breaker).failed(now.into_std()) {
            let error = failure.clone().into_error(1);
            tracing::warn!(provider = self.provider, %error, "the judge keeps failing and is left alone for a while");
        }
    }
}

fn result_of(completion: &Completion) -> &'static str {
    match completion.said {
        Said::Text { .. } => "ok",
        Said::Declined { .. } => "refused",
    }
}

fn load(result: &Result<Completion, Failure>) -> Load {
    match result {
        Ok(_) => Load::Fine,
        Err(Failure::Overloaded { .. } | Failure::NoReply { timed_out: true, .. }) => Load::TooMuch,
        Err(_) => Load::Unknown,
    }
}

/// The money of one attempt. Dropped without being settled, as by a caller that goes away, an attempt that was sent counts in
/// full.
struct Bill<'a> {
    guard: &'a Guard,
    tally: &'a Tally,
    estimate: Tokens,
    is_sent: bool,
    reservation: Option<Reservation>,
}

impl Bill<'_> {
    fn settle(mut self, tokens: Tokens) {
        self.pay(tokens);
    }

    fn pay(&mut self, tokens: Tokens) {
        let Some(reservation) = self.reservation.take() else { return };
        let cost = self.guard.cost(tokens);
        self.guard.account.settle(reservation, cost);
        self.tally.add(tokens, cost);
        metrics::judge_tokens(self.guard.provider, tokens.input, tokens.output);
        metrics::judge_cost(cost.usd());
    }
}

impl Drop for Bill<'_> {
    fn drop(&mut self) {
        self.pay(if self.is_sent { self.estimate } else { Tokens::default() });
    }
}

fn wall_clock() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Nothing in these locks can be left half done, so a panic elsewhere does not matter.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
