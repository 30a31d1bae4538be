//! The fan-out: each verdict to every sink, again and again until it is safe or the daemon gives up.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio_util::sync::CancellationToken;

use super::config::{Config, RetryConfig};
use super::masked::Masked;
use super::{EmitError, Jsonl, Kafka, Otlp, Recent, Sink, Stdout, Webhook};
use crate::domain::{Story, Time, Verdict};
use crate::error::Fault;
use crate::redact::{self, Redactor};
use crate::{find, metrics};

/// All sinks of the configuration.
pub struct Sinks {
    sinks: Vec<Named>,
    recent: Recent,
    /// Masks what is remembered for people to look at.
    console: Option<Redactor>,
    retry: RetryConfig,
    /// No more attempts after the ones under way and one more.
    last_call: CancellationToken,
    /// Nothing at all any more.
    give_up: CancellationToken,
    abandoned: AtomicUsize,
}

struct Named {
    name: &'static str,
    sink: Box<dyn Sink>,
    /// Whether the last attempt failed; so that an outage is one line in the log and not one per verdict.
    failing: AtomicBool,
}

impl Sinks {
    /// Opens every sink that `config` names. When `give_up` is cancelled, verdicts that are not safe yet are abandoned: it
    /// belongs to the end of the shutdown's patience, not to its beginning.
    pub fn open(
        config: &Config,
        redact: &redact::Config,
        recent: Recent,
        give_up: CancellationToken,
    ) -> Result<Self, EmitError> {
        let mut sinks = Self::none(config.retry.clone(), recent, give_up);
        sinks.console = redactor("console", redact, redact.console.as_deref())?;
        if config.to_stdout() {
            let stdout = Stdout::open().map_err(|error| EmitError {
                sink: "stdout",
                message: error.to_string(),
                fault: Fault::Fatal,
            })?;
            sinks.add_masked("stdout", stdout, redactor("stdout", redact, redact.stdout.as_deref())?);
        }
        if let Some(jsonl) = &config.jsonl {
            sinks.add_masked(
                "jsonl",
                Jsonl::open(jsonl.clone())?,
                redactor("jsonl", redact, redact.jsonl.as_deref())?,
            );
        }
        if let Some(kafka) = &config.kafka {
            sinks.add_masked(
                "kafka",
                Kafka::open(kafka.clone())?,
                redactor("kafka", redact, redact.kafka.as_deref())?,
            );
        }
        if let Some(otlp) = &config.otlp {
            sinks.add_masked("otlp", Otlp::open(otlp)?, redactor("otlp", redact, redact.otlp.as_deref())?);
        }
        if let Some(webhook) = &config.webhook {
            let webhook = Webhook::open(webhook.clone(), config.retry.clone(), sinks.last_call.clone())?;
            sinks.add_masked("webhook", webhook, redactor("webhook", redact, redact.webhook.as_deref())?);
        }
        Ok(sinks)
    }

    /// No sinks: verdicts are only remembered. For programs that add their own, and for tests.
    pub fn none(retry: RetryConfig, recent: Recent, give_up: CancellationToken) -> Self {
        Self {
            sinks: Vec::new(),
            recent,
            console: None,
            retry,
            last_call: CancellationToken::new(),
            give_up,
            abandoned: AtomicUsize::new(0),
        }
    }

    /// Adds a sink; `name` is its label in metrics.
    pub fn add(&mut self, name: &'static str, sink: impl Sink + 'static) {
        self.sinks.push(Named { name, sink: Box::new(sink), failing: AtomicBool::new(false) });
    }

    fn add_masked(&mut self, name: &'static str, sink: impl Sink + 'static, redactor: Option<Redactor>) {
        match redactor {
            Some(redactor) => self.add(name, Masked { sink, redactor }),
            None => self.add(name, sink),
        }
    }

    /// Returns when every sink has the verdict; then it is counted ([`metrics::emitted`]) and remembered.
    ///
    /// A sink that is away is tried again until it is back. A verdict that a sink refuses for good is logged and counted as a
    /// dead letter of that sink, and is no error: trying the trace again would make the same verdict. An error is
    /// [`Fault::Fatal`], or [`Fault::Transient`] if the daemon gave up waiting; after either the trace must be tried again.
    pub async fn write(&self, verdict: &Verdict) -> Result<(), EmitError> {
        self.write_told(verdict, None).await
    }

    /// The daemon stops: from now on every sink has one more attempt at each verdict, and no time to wait in between.
    pub fn last_call(&self) {
        self.last_call.cancel();
    }

    /// Verdicts that some sink did not get because the daemon stops.
    pub fn abandoned(&self) -> usize {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// The same for a verdict with a story, which is remembered beside it and goes nowhere else.
    pub async fn write_told(&self, verdict: &Verdict, story: Option<&Story>) -> Result<(), EmitError> {
        let _in_flight = InFlight::new();
        let writes = self.sinks.iter().map(|named| self.write_to(named, verdict));
        // All of them, so that one that fails does not cut another one short.
        let results = futures::future::join_all(writes).await;
        results.into_iter().collect::<Result<(), EmitError>>().inspect_err(|_| {
            if self.last_call.is_cancelled() {
                self.abandoned.fetch_add(1, Ordering::Relaxed);
            }
        })?;
        metrics::emitted(verdict);
        if let Some(closed) = verdict.times.closed {
            metrics::verdict_latency(now().since(closed));
        }
        self.remember(verdict, story);
        Ok(())
    }

    fn remember(&self, verdict: &Verdict, story: Option<&Story>) {
        let Some(redactor) = &self.console else { return self.recent.keep(verdict, story) };
        let (verdict, pieces) = redactor.verdict(verdict);
        let story = story.map(|story| redactor.story(story));
        metrics::redact_masked("console", pieces + story.as_ref().map_or(0, |(_, pieces)| *pieces));
        self.recent.keep(&verdict, story.as_ref().map(|(story, _)| story));
    }

    async fn write_to(&self, named: &Named, verdict: &Verdict) -> Result<(), EmitError> {
        let began = Instant::now();
        let mut waits = self.retry.waits();
        loop {
            let is_last = self.last_call.is_cancelled();
            let attempt = self.give_up.run_until_cancelled(named.sink.write(verdict));
            let Some(result) = attempt.await else { return Err(named.abandoned("it did not answer")) };
            let error = match result {
                Ok(()) => {
                    metrics::emit_write(named.name, "ok");
                    metrics::emit_write_seconds(named.name, began.elapsed());
                    named.recovered();
                    return Ok(());
                }
                Err(error) => error,
            };
            match error.fault {
                Fault::Transient if is_last => return Err(named.abandoned(&error.message)),
                Fault::Transient => {
                    metrics::emit_write(named.name, "retried");
                    named.failed(&error);
                }
                Fault::Poison => {
                    named.set_aside(verdict, &error);
                    return Ok(());
                }
                Fault::Fatal => {
                    metrics::emit_write(named.name, "fatal");
                    return Err(error);
                }
            }
            let wait = waits.next().unwrap_or(self.retry.longest.0);
            // Woken early it tries once more, or hears that it may not.
            let rest = self.last_call.run_until_cancelled(tokio::time::sleep(wait));
            let _ = self.give_up.run_until_cancelled(rest).await;
        }
    }
}

fn redactor(
    sink: &'static str,
    config: &redact::Config,
    kinds: Option<&[find::Kind]>,
) -> Result<Option<Redactor>, EmitError> {
    Redactor::new(config, kinds).map_err(|error| EmitError {
        sink,
        message: error.to_string(),
        fault: Fault::Fatal,
    })
}

impl Named {
    fn failed(&self, error: &EmitError) {
        if !self.failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(sink = self.name, error = %error.message, "a sink does not take verdicts; trying again");
        }
    }

    fn recovered(&self) {
        if self.failing.load(Ordering::Relaxed) && self.failing.swap(false, Ordering::Relaxed) {
            tracing::info!(sink = self.name, "a sink takes verdicts again");
        }
    }

    fn abandoned(&self, why: &str) -> EmitError {
        metrics::emit_write(self.name, "abandoned");
        EmitError {
            sink: self.name,
            message: format!("the daemon stops before the verdict is safe: {why}"),
            fault: Fault::Transient,
        }
    }

    /// The record of a verdict that this sink will never take. Only ids: contents may be private.
    fn set_aside(&self, verdict: &Verdict, error: &EmitError) {
        metrics::emit_write(self.name, "poison");
        metrics::emit_dead_letter(self.name);
        let trace_id = verdict.trace_id.map(|id| id.to_string());
        tracing::error!(
            sink = self.name,
            verdict_id = verdict.verdict_id,
            trace_id,
            outcome = verdict.outcome.as_str(),
            label = verdict.label.map(|label| label.as_str()),
            error = %error.message,
            "a sink refuses a verdict for good; it was set aside"
        );
    }
}

fn now() -> Time {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
}

/// Counts a verdict that is being written, also when its task is cancelled.
struct InFlight;

impl InFlight {
    fn new() -> Self {
        metrics::emit_in_flight(1);
        Self
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        metrics::emit_in_flight(-1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;

    use futures::future::BoxFuture;

    use super::*;
    use crate::domain::Period;
    use crate::emit::{Filter, RecentConfig, sample};

    /// Fails as scripted, then takes everything.
    #[derive(Clone, Default)]
    struct Scripted {
        faults: Arc<Mutex<Vec<Fault>>>,
        attempts: Arc<AtomicUsize>,
        taken: Arc<Mutex<Vec<String>>>,
    }

    impl Scripted {
        fn failing(faults: &[Fault]) -> Self {
            let faults = Arc::new(Mutex::new(faults.iter().rev().copied().collect()));
            Self { faults, ..Self::default() }
        }

        fn taken(&self) -> Vec<String> {
            self.taken.lock().unwrap().clone()
        }
    }

    impl Sink for Scripted {
        fn write<'a>(&'a self, verdict: &'a Verdict) -> BoxFuture<'a, Result<(), EmitError>> {
            Box::pin(async move {
                self.attempts.fetch_add(1, Ordering::Relaxed);
                if let Some(fault) = self.faults.lock().unwrap().pop() {
                    return Err(EmitError { sink: "jsonl", message: "scripted".into(), fault });
                }
                self.taken.lock().unwrap().push(verdict.verdict_id.clone());
                Ok(())
            })
        }
    }

    fn fan_out(sinks: &[&Scripted]) -> (Sinks, Recent, CancellationToken) {
        let retry = RetryConfig { first: Period::millis(1), longest: Period::millis(2) };
        let recent = Recent::new(&RecentConfig::default());
        let give_up = CancellationToken::new();
        let mut all = Sinks::none(retry, recent.clone(), give_up.clone());
        for sink in sinks {
            all.add("jsonl", (*sink).clone());
        }
        (all, recent, give_up)
    }

    #[tokio::test]
    async fn a_sink_that_fails_for_now_is_tried_again_and_the_others_are_not_asked_twice() {
        let (steady, flaky) = (Scripted::default(), Scripted::failing(&[Fault::Transient; 3]));
        let (sinks, recent, _) = fan_out(&[&steady, &flaky]);
        sinks.write(&sample::numbered(1)).await.unwrap();
        assert_eq!(flaky.attempts.load(Ordering::Relaxed), 4);
        assert_eq!(steady.attempts.load(Ordering::Relaxed), 1);
        assert_eq!(
            (steady.taken(), flaky.taken()),
            (vec!["verdict-1".to_owned()], vec!["verdict-1".to_owned()])
        );
        assert_eq!(recent.latest(&Filter::default(), 10).len(), 1);
    }

    #[tokio::test]
    async fn a_verdict_that_one_sink_refuses_for_good_still_reaches_the_others() {
        let (steady, picky) = (Scripted::default(), Scripted::failing(&[Fault::Poison]));
        let (sinks, _, _) = fan_out(&[&picky, &steady]);
        sinks.write(&sample::numbered(1)).await.unwrap();
        sinks.write(&sample::numbered(2)).await.unwrap();
        assert_eq!(steady.taken(), ["verdict-1", "verdict-2"]);
        assert_eq!(picky.taken(), ["verdict-2"]);
    }

    #[tokio::test]
    async fn a_fatal_error_comes_back_and_the_verdict_does_not_count_as_written() {
        let (sinks, recent, _) = fan_out(&[&Scripted::failing(&[Fault::Fatal])]);
        assert_eq!(sinks.write(&sample::numbered(1)).await.unwrap_err().fault, Fault::Fatal);
        assert!(recent.latest(&Filter::default(), 10).is_empty());
    }

    #[tokio::test]
    async fn after_the_last_call_every_sink_has_one_more_attempt_and_none_waits() {
        let patient = RetryConfig { first: Period::seconds(3_600), longest: Period::seconds(3_600) };
        let (back, broken, late) = (
            Scripted::failing(&[Fault::Transient]),
            Scripted::failing(&[Fault::Transient; 9]),
            Scripted::default(),
        );
        let mut sinks = Sinks::none(patient, Recent::new(&RecentConfig::default()), CancellationToken::new());
        for sink in [&back, &broken] {
            sinks.add("jsonl", sink.clone());
        }
        let verdict = sample::numbered(1);
        let (result, ()) = tokio::join!(sinks.write(&verdict), async {
            while broken.attempts.load(Ordering::Relaxed) < 1 {
                tokio::task::yield_now().await;
            }
            sinks.last_call();
        });
        assert_eq!(result.unwrap_err().fault, Fault::Transient);
        assert_eq!((back.taken().len(), broken.attempts.load(Ordering::Relaxed)), (1, 2));
        assert_eq!(sinks.abandoned(), 1);

        let mut sinks = Sinks::none(
            RetryConfig::default(),
            Recent::new(&RecentConfig::default()),
            CancellationToken::new(),
        );
        sinks.add("jsonl", late.clone());
        sinks.last_call();
        sinks.write(&verdict).await.unwrap();
        assert_eq!(late.taken(), ["verdict-1"], "a sink that works has its verdicts to the end");
    }

    #[tokio::test]
    async fn giving_up_ends_the_retries_with_an_error() {
        let broken = Scripted::failing(&[Fault::Transient; 100_000]);
        let (sinks, recent, give_up) = fan_out(&[&broken]);
        let verdict = sample::numbered(1);
        let (result, ()) = tokio::join!(sinks.write(&verdict), async {
            while broken.attempts.load(Ordering::Relaxed) < 3 {
                tokio::task::yield_now().await;
            }
            give_up.cancel();
        });
        assert_eq!(result.unwrap_err().fault, Fault::Transient);
        assert!(recent.latest(&Filter::default(), 10).is_empty());
    }
}
