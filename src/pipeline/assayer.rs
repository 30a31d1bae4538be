//! From a trace to its verdict: the flow without sockets. The daemon, `replay` and `check` all go through here.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::allowance::Allowances;
use super::asking::Asking;
use super::cascade::Cascade;
use super::clock::Clock;
use super::discreet::{discreet, discreet_desk};
use super::panic::caught;
use super::tally::{Row, Tally};
use super::{StartError, status};
use crate::config::Config;
use crate::decide::{self, Desk};
use crate::domain::{Answers, Inquiry, Json, Session, Skip, Step, StepKind, Story, Trace, Value, Verdict};
use crate::emit::{Notes, stage_now};
use crate::judge::{self, Judge, PriceBasis, Pricing};
use crate::measure::Fitted;
use crate::redact::PatternError;
use crate::score::{Origin, Plan, Run};
use crate::serve::CheckRequest;
use crate::{convert, metrics, score};

/// A trace of more bytes than this is converted where it may block a thread.
const LARGE: usize = 64 * 1024;

/// Evaluates traces and texts by one plan.
pub struct Assayer {
    asking: Asking,
    /// Of conversations, if they are evaluated.
    sessions: Option<Asking>,
    cascade: Cascade,
    plan: Plan,
    tally: Tally,
    clock: Clock,
}

impl Assayer {
    /// Loads the decision model and makes the judge's client, as `config` says. The model warms up meanwhile.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        Self::start_kept(config, None)
    }

    /// The same for a daemon: what the judge has cost is kept in this folder, so that a restart does not begin its budget anew.
    pub fn start_kept(config: &Config, folder: Option<&Path>) -> Result<Self, StartError> {
        let judge = judge::build_kept(&config.judge, &config.evaluate.prompts(), folder)?;
        let desk = decide::start(&config.decide)?;
        Ok(Self::new(config, desk, judge)?)
    }

    /// Writes down what has to outlive the process. Blocks.
    pub fn keep(&self) {
        if let Some(judge) = self.cascade.judge() {
            judge.keep();
        }
    }

    /// Waits until the decision model answers.
    pub async fn ready(&self) -> Result<(), StartError> {
        if self.desk().ready().await {
            Ok(())
        } else {
            Err(StartError::Model { model: self.plan.decider.clone() })
        }
    }

    /// The same, but goes on waiting while a remote decision model cannot be reached: a daemon is then not ready, and not gone.
    pub async fn reached(&self) -> Result<(), StartError> {
        if self.desk().reached().await {
            Ok(())
        } else {
            Err(StartError::Model { model: self.plan.decider.clone() })
        }
    }

    /// An assayer before a model that is loaded already. An error if what must be masked on the way to model or judge cannot be.
    pub fn new(config: &Config, desk: Desk, judge: Option<Arc<dyn Judge>>) -> Result<Self, PatternError> {
        let desk = discreet_desk(config, desk)?;
        let judge = judge.map(|judge| discreet(&config.redact, judge)).transpose()?;
        let config = &calibrated(config, desk.fitted());
        let calibration = desk.fitted().map(Fitted::name);
        let prompts = judge.as_ref().map(|judge| judge.prompt_digest().to_owned());
        let asking = Asking::new(config);
        let mut questions = serde_json::json!({
            "ask": asking.fingerprint(), "prompts": prompts, "partition": config.judge.partition,
        });
        if let Some(calibration) = &calibration {
            questions["calibration"] = calibration.as_str().into();
        }
        let sessions = config.assemble.sessions.as_ref().map(|_| Asking::of_sessions(config));
        if let Some(sessions) = &sessions {
            questions["sessions"] = sessions.fingerprint();
        }
        let mut plan = Plan::new(
            config.score.clone(),
            &questions,
            desk.info().name.clone(),
            judge.as_ref().map(|judge| judge.model().to_owned()),
            config.decide.min_confidence,
        );
        plan.calibration = calibration;
        plan.prompts = prompts.filter(|digest| !digest.is_empty());
        warn_of_idle(&asking, &desk, judge.is_some());
        if let Some(sessions) = &sessions {
            warn_of_idle(sessions, &desk, judge.is_some());
        }
        if let Some(pricing) = judge.as_ref().and_then(|judge| judge.pricing()) {
            tell_price(pricing);
        }
        let allowances = Allowances::new(asking.evaluators().budgets());
        let cascade = Cascade::new(desk, judge, config.decide.min_confidence)
            .with_allowances(allowances)
            .with_partitioning(config.judge.partition);
        let mut names = asking.evaluators().names();
        let of_sessions = sessions.iter().flat_map(|sessions| sessions.evaluators().names());
        let further: Vec<Arc<str>> = of_sessions.filter(|name| !names.contains(name)).collect();
        names.extend(further);
        let tally = Tally::new(names);
        Ok(Self { asking, sessions, cascade, plan, tally, clock: Clock::start() })
    }

    /// What it evaluates with and what each evaluator did since the start, for `GET /v1/status`.
    pub fn status(&self) -> Json {
        let rows: Vec<(Arc<str>, Row)> = self.tally.rows();
        let judge = self.cascade.judge().map(|judge| (judge, self.tally.judge()));
        status::of(self.desk(), judge, &self.plan, &rows)
    }

    /// The decision model's desk.
    pub fn desk(&self) -> &Desk {
        self.cascade.desk()
    }

    /// The verdict on a trace. Cannot fail: what goes wrong is a recorded outcome.
    pub async fn assay(&self, trace: &Trace) -> Verdict {
        self.assay_told(trace).await.0
    }

    /// The same, with the story that was judged; none if nothing could be told of the trace.
    pub async fn assay_told(&self, trace: &Trace) -> (Verdict, Option<Story>) {
        let origin = Origin::of(trace);
        caught(self.follow(trace, &origin)).await.unwrap_or_else(|panic| {
            tracing::error!(trace_id = %trace.trace_id, panic, "evaluating a trace panicked; it counts as failed");
            (score::failed(&origin, "panic", &self.plan, self.clock.now()), None)
        })
    }

    /// The verdict on a response and its context, by the same path as a trace's answer.
    pub async fn check(&self, request: &CheckRequest) -> Verdict {
        self.check_story(&story_of(request)).await
    }

    /// The same with questions of the caller's own beside the claims, in the same calls to model and judge, and all answers.
    pub async fn check_asking(&self, request: &CheckRequest, own: Inquiry) -> (Verdict, Answers) {
        self.check_told(&story_of(request), Some(own)).await
    }

    /// The names of the evaluators; no question of the caller's own may have one of them.
    pub fn evaluators(&self) -> Vec<Arc<str>> {
        self.asking.evaluators().names()
    }

    /// The verdict on a story that was told otherwise than by a trace.
    pub async fn check_story(&self, story: &Story) -> Verdict {
        self.check_told(story, None).await.0
    }

    async fn check_told(&self, story: &Story, own: Option<Inquiry>) -> (Verdict, Answers) {
        let origin = Origin::default();
        caught(self.judge_story(&origin, story, None, own)).await.unwrap_or_else(|panic| {
            tracing::error!(panic, "a check panicked; it counts as failed");
            let verdict = score::failed(&origin, "panic", &self.plan, self.clock.now());
            (verdict, Answers::default())
        })
    }

    /// The verdict on a conversation: the worst of what its traces got, and the answers to what conversations are evaluated for.
    pub async fn assay_session(&self, session: &Session) -> Verdict {
        let origin = Origin {
            revision: session.revision,
            service: session.service.clone(),
            closed: Some(session.closed),
            closed_at: Some(session.closed_at),
            first_span: session.story.steps.iter().find_map(|step| step.time),
            ..Origin::default()
        };
        let asking = self.sessions.as_ref().unwrap_or(&self.asking);
        let judged = caught(self.judge_by(asking, &origin, &session.story, None, None)).await;
        let verdict = judged.map(|(verdict, _)| verdict).unwrap_or_else(|panic| {
            tracing::error!(session_id = session.id, panic, "evaluating a conversation panicked");
            score::failed(&origin, "panic", &self.plan, self.clock.now())
        });
        score::of_session(session, verdict, &self.plan)
    }

    /// The verdict on a run of GSAR's loop that has ended.
    pub fn run_verdict(&self, run: &Run) -> Verdict {
        score::of_run(run, &self.plan, self.clock.now())
    }

    /// The verdict of the decision model alone on a response and its context; nothing is counted.
    pub(super) async fn rehearse(&self, request: &CheckRequest) -> Verdict {
        let story = story_of(request);
        let questions = self.asking.claims(&story);
        let answers = self.cascade.rehearse(&questions).await;
        score::verdict(&Origin::default(), &story, &questions, &answers, &self.plan, self.clock.now())
    }

    async fn follow(&self, trace: &Trace, origin: &Origin) -> (Verdict, Option<Story>) {
        let story = match stage_now("convert", || told(trace), steps) {
            Ok(story) => story,
            Err(skip) => return (score::skipped(origin, &skip, &self.plan, self.clock.now()), None),
        };
        let (verdict, _) = self.judge_story(origin, &story, Some(trace), None).await;
        (verdict, Some(story))
    }

    async fn judge_story(
        &self,
        origin: &Origin,
        story: &Story,
        trace: Option<&Trace>,
        own: Option<Inquiry>,
    ) -> (Verdict, Answers) {
        self.judge_by(&self.asking, origin, story, trace, own).await
    }

    async fn judge_by(
        &self,
        asking: &Asking,
        origin: &Origin,
        story: &Story,
        trace: Option<&Trace>,
        own: Option<Inquiry>,
    ) -> (Verdict, Answers) {
        let (mut questions, selections) = stage_now(
            "ask",
            || asking.ask(story, trace, origin),
            |(questions, _)| Notes::of([("assayd.claims", Value::Int(questions.claims.len() as i64))]),
        );
        questions.inquiries.extend(own);
        let underway = self.tally.begin(selections);
        let answers = self.cascade.answer(&questions).await;
        let score = || score::verdict(origin, story, &questions, &answers, &self.plan, self.clock.now());
        let verdict = stage_now("score", score, |_| Notes::default());
        underway.end(&questions, &answers, &verdict);
        (verdict, answers)
    }
}

/// The configuration with what a calibration puts in place of it.
fn calibrated(config: &Config, fitted: Option<&Fitted>) -> Config {
    let mut config = config.clone();
    let Some(fitted) = fitted else { return config };
    let thresholds = &fitted.thresholds;
    let put = |value: Option<f64>, place: &mut f64| *place = value.unwrap_or(*place);
    put(thresholds.min_confidence, &mut config.decide.min_confidence);
    put(thresholds.hallucination, &mut config.score.label.hallucination);
    put(thresholds.faithful, &mut config.score.label.faithful);
    for (kind, weight) in &fitted.weights {
        if !config.score.weights.set(kind, *weight) {
            tracing::warn!(kind, "the calibration weighs a kind of evidence that does not exist");
        }
    }
    config
}

/// An evaluator that nobody can answer would be a silent one: said at the start, and in `GET /v1/status`.
fn warn_of_idle(asking: &Asking, desk: &Desk, has_judge: bool) {
    if has_judge {
        return;
    }
    let mut idle = asking.evaluators().measured();
    if !desk.info().capabilities.general {
        idle.extend(asking.evaluators().general());
    }
    if !idle.is_empty() {
        let (names, model) = (idle.join(", "), &desk.info().name);
        tracing::warn!(
            evaluators = names,
            model,
            "nobody can answer these evaluators: the decision model does not, and there is no judge"
        );
    }
}

/// Budgets are as right as the price that they count with.
fn tell_price(pricing: &Pricing) {
    match pricing.basis {
        PriceBasis::Assumed => tracing::warn!(%pricing, "the judge's budget counts with an assumed price"),
        _ => tracing::info!(%pricing, "what the judge's tokens are counted at"),
    }
}

/// What a trace of the daemon's own work says of a conversion.
fn steps(told: &Result<Story, Skip>) -> Notes {
    let steps = told.as_ref().map_or(0, |story| story.steps.len());
    Notes::of([("assayd.steps", Value::Int(steps as i64))])
}

/// Conversion is pure computing: a large trace gets a thread that may block.
fn told(trace: &Trace) -> Result<Story, Skip> {
    let started = std::time::Instant::now();
    let weight: usize = trace.spans.iter().map(|span| span.weight()).sum();
    let is_threaded = tokio::runtime::Handle::try_current()
        .is_ok_and(|handle| handle.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread);
    let told = if weight > LARGE && is_threaded {
        tokio::task::block_in_place(|| convert::story(trace))
    } else {
        convert::story(trace)
    };
    let took: Duration = started.elapsed();
    metrics::convert(took, told.as_ref().map_or(0, |story| story.warnings.len()));
    told
}

/// A story of one observation (the context) and one answer (the response).
fn story_of(request: &CheckRequest) -> Story {
    let context = match &request.context {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut steps = Vec::new();
    let mut add = |kind, text: &str| {
        let index = steps.len();
        steps.push(Step { index, text: Some(text.to_owned()), ..Step::new(kind) });
    };
    if let Some(query) = &request.query {
        add(StepKind::Request, query);
    }
    if !context.trim().is_empty() {
        add(StepKind::Observation, &context);
    }
    add(StepKind::Answer, &request.response);
    Story {
        service: request.service.clone(),
        request: request.query.clone(),
        steps,
        answer: Some(request.response.clone()),
        ..Story::default()
    }
}
