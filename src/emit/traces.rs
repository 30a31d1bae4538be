//! Spans of the daemon's own work to an OTLP receiver: sampled, bounded, and never waited for.
//!
//! Work says where it is by [`stage`]; who follows it ([`Traces::follow`]) decides whether that is written down. The task's own
//! storage carries the place from one to the other, so that no function in between has an argument for it.

mod task;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;
use uuid::Uuid;

pub use self::task::TracesTask;
use super::EmitError;
use super::config::TracesConfig;
use super::receiver::Client;
use crate::domain::{Attributes, Resource, Scope, Span, SpanId, SpanKind, Status, Time, TraceId, Value};
use crate::error::Fault;
use crate::metrics;

/// What a span says beside its name and times.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Notes {
    /// Its attributes: names, numbers and words of the house's own, nothing that was said to it.
    pub attributes: Vec<(&'static str, Value)>,
    /// The trace that the work was about.
    pub about: Option<(TraceId, SpanId)>,
    /// Why it failed, in a word, if it did.
    pub failed: Option<&'static str>,
}

impl Notes {
    /// Notes with these attributes.
    pub fn of(attributes: impl IntoIterator<Item = (&'static str, Value)>) -> Self {
        Self { attributes: attributes.into_iter().collect(), ..Self::default() }
    }
}

/// Follows the daemon's own work. Cheap to clone; the default follows nothing.
#[derive(Debug, Clone, Default)]
pub struct Traces(Option<Arc<Follower>>);

#[derive(Debug)]
struct Follower {
    spans: mpsc::Sender<Span>,
    sample: f64,
    resource: Arc<Resource>,
    scope: Arc<Scope>,
}

/// Where in a trace of its own the running task is.
#[derive(Clone)]
struct Place {
    follower: Arc<Follower>,
    trace_id: TraceId,
    span_id: SpanId,
}

tokio::task_local! {
    static PLACE: Place;
}

impl Traces {
    /// Starts the task that sends, if the configuration wants traces. The receiver need not be there yet. Must be called within a
    /// tokio runtime.
    pub fn open(config: Option<&TracesConfig>) -> Result<(Self, TracesTask), EmitError> {
        let Some(config) = config else { return Ok((Self::default(), TracesTask::none())) };
        let fatal = |message: String| EmitError { sink: "traces", message, fault: Fault::Fatal };
        let client = Client::new(config.receiver()).map_err(fatal)?;
        let (spans, waiting) = mpsc::channel(config.queue.get());
        let task = TracesTask::start(waiting, client, config);
        let version = env!("CARGO_PKG_VERSION");
        let mut attributes = Attributes::new();
        attributes.push("service.name", "assayd");
        attributes.push("service.version", version);
        attributes.push(Resource::OWN, true);
        let scope = Scope { name: "assayd".to_owned(), version: version.to_owned(), ..Scope::default() };
        let follower = Follower {
            spans,
            sample: config.sample,
            resource: Arc::new(Resource { attributes }),
            scope: Arc::new(scope),
        };
        Ok((Self(Some(Arc::new(follower))), task))
    }

    /// Does `work` as the root of a trace of its own, if the dice say so. `began` is when it began, if that was earlier than now;
    /// `note` reads from the result what is worth telling.
    pub async fn follow<T>(
        &self,
        name: &'static str,
        began: Option<Time>,
        work: impl Future<Output = T>,
        note: impl FnOnce(&T) -> Notes,
    ) -> T {
        let Some(place) = self.place() else { return work.await };
        let watch = Watch::start();
        let done = PLACE.scope(place.clone(), work).await;
        let end = watch.now();
        let start = began.filter(|began| *began < watch.start).unwrap_or(watch.start);
        place.follower.send(&place, None, place.span_id, name, [start, end], note(&done));
        done
    }

    /// Tells of work that is over, as a trace of one span, if the dice say so.
    pub fn tell(&self, name: &'static str, began: Instant, note: impl FnOnce() -> Notes) {
        let Some(place) = self.place() else { return };
        let end = now();
        let start = Time(end.0.saturating_sub(nanos(began)));
        place.follower.send(&place, None, place.span_id, name, [start, end], note());
    }

    fn place(&self) -> Option<Place> {
        let follower = self.0.as_ref()?;
        let id = Uuid::now_v7();
        // The last 32 bits are random; those before them count within a millisecond.
        let chance = f64::from(id.as_u64_pair().1 as u32) / (f64::from(u32::MAX) + 1.0);
        if chance >= follower.sample {
            return None;
        }
        let trace_id = TraceId::try_from(&id.as_bytes()[..]).ok()?;
        Some(Place { follower: Arc::clone(follower), trace_id, span_id: span_id()? })
    }
}

/// Does `work` as a stage of what the task is doing. Costs nothing where nobody follows.
pub async fn stage<T>(
    name: &'static str,
    work: impl Future<Output = T>,
    note: impl FnOnce(&T) -> Notes,
) -> T {
    let Some((parent, own)) = within() else { return work.await };
    let watch = Watch::start();
    let done = PLACE.scope(own.clone(), work).await;
    own.follower.send(&own, Some(parent), own.span_id, name, [watch.start, watch.now()], note(&done));
    done
}

/// The same for work that does not wait.
pub fn stage_now<T>(name: &'static str, work: impl FnOnce() -> T, note: impl FnOnce(&T) -> Notes) -> T {
    let Some((parent, own)) = within() else { return work() };
    let watch = Watch::start();
    let done = work();
    own.follower.send(&own, Some(parent), own.span_id, name, [watch.start, watch.now()], note(&done));
    done
}

/// Tells of a stage of what the task is doing that is over now.
pub fn stage_over(name: &'static str, start: Time, notes: Notes) {
    let Some((parent, own)) = within() else { return };
    own.follower.send(&own, Some(parent), own.span_id, name, [start, now().max(start)], notes);
}

/// The span that the task is in, and a place below it.
fn within() -> Option<(SpanId, Place)> {
    let place = PLACE.try_with(Place::clone).ok()?;
    let own = Place { span_id: span_id()?, ..place };
    let parent = PLACE.try_with(|place| place.span_id).ok()?;
    Some((parent, own))
}

impl Follower {
    fn send(
        &self,
        place: &Place,
        parent_id: Option<SpanId>,
        span_id: SpanId,
        name: &'static str,
        [start, end]: [Time; 2],
        notes: Notes,
    ) {
        let mut attributes = Attributes::new();
        notes.attributes.into_iter().for_each(|(key, value)| attributes.push(key, value));
        let link =
            |(trace_id, span_id)| crate::domain::Link { trace_id, span_id, attributes: Attributes::new() };
        let span = Span {
            trace_id: place.trace_id,
            span_id,
            parent_id,
            name: name.to_owned(),
            kind: SpanKind::Internal,
            start,
            end,
            status: notes.failed.map_or(Status::Unset, |why| Status::Error(why.to_owned())),
            attributes,
            events: Vec::new(),
            links: notes.about.map(link).into_iter().collect(),
            dropped_attributes: 0,
            resource: Arc::clone(&self.resource),
            scope: Arc::clone(&self.scope),
        };
        if self.spans.try_send(span).is_err() {
            metrics::emit_own_spans("dropped", 1);
        }
    }
}

/// Wall time at its start plus the monotonic time since.
struct Watch {
    start: Time,
    began: Instant,
}

impl Watch {
    fn start() -> Self {
        Self { start: now(), began: Instant::now() }
    }

    fn now(&self) -> Time {
        self.start + self.began.elapsed()
    }
}

fn now() -> Time {
    Time::default() + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn nanos(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// A random id; none in the one case in 2⁶² that it would be all zeros.
fn span_id() -> Option<SpanId> {
    SpanId::try_from(&Uuid::now_v7().as_bytes()[8..]).ok()
}
