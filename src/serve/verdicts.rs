//! `GET /v1/verdicts`: the latest verdicts, or, as `text/event-stream`, the coming ones.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::{Stream, StreamExt};
use tokio::sync::OwnedSemaphorePermit;

use super::query::{self, invalid, number, word};
use super::reply::{Refusal, json};
use super::server::{Shared, route};
use crate::emit::{Entry, Feed, Filter, Missed, Needle};
use crate::metrics;

/// Verdicts that are shown if the request does not say how many.
const LIMIT: usize = 100;
/// Most verdicts that are shown.
const MAX_LIMIT: usize = 10_000;
/// How often a silent feed shows that it is alive. Below the time that a stalled connection has.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// When a reader that found no place in the feed may come back.
const RETRY_AFTER: Duration = Duration::from_secs(10);

const PARAMETERS: &str = "service, agent, outcome, label, tier, trace_id, since, text, limit and live";

/// What the query asks for; see [`PARAMETERS`].
#[derive(Debug, Default, PartialEq)]
struct Wish {
    filter: Filter,
    limit: Option<usize>,
    live: bool,
}

pub(super) fn routes() -> Router<Shared> {
    route("/v1/verdicts", get(verdicts))
}

async fn verdicts(
    State(shared): State<Shared>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let wish = wish(query.as_deref().unwrap_or_default())?;
    if wish.live || accepts_events(&headers) {
        return live(&shared, wish);
    }
    let limit = wish.limit.unwrap_or(LIMIT);
    Ok(json(StatusCode::OK, list(&shared.state.recent.latest(&wish.filter, limit))))
}

/// `{"verdicts":[…]}`, newest first. They are JSON already and are not parsed again.
fn list(entries: &[Arc<Entry>]) -> Vec<u8> {
    let bytes = entries.iter().map(|entry| entry.json.len() + 1).sum::<usize>() + 16;
    let mut body = Vec::with_capacity(bytes);
    body.extend_from_slice(b"{\"verdicts\":[");
    for (position, entry) in entries.iter().enumerate() {
        if position > 0 {
            body.push(b',');
        }
        body.extend_from_slice(&entry.json);
    }
    body.extend_from_slice(b"]}");
    body
}

/// Events `verdict`, and `missed` with how many a slow reader did not see. With `limit`, the latest ones come first.
fn live(shared: &Shared, wish: Wish) -> Result<Response, Refusal> {
    let place = Arc::clone(&shared.feed_places)
        .try_acquire_owned()
        .map_err(|_| Refusal::busy("all places for readers of the live feed are taken", RETRY_AFTER))?;
    // In this order no verdict falls between; those that are in both are shown once.
    let feed = shared.state.recent.feed(wish.filter.clone());
    let mut backlog = shared.state.recent.latest(&wish.filter, wish.limit.unwrap_or(0));
    backlog.reverse();
    let shown = backlog.last().map_or(0, |entry| entry.sequence);
    let reader = Reader { feed, shown, _place: place };
    let events = futures::stream::iter(backlog).map(|entry| event(Ok(entry))).chain(reader.events());
    let events = events.take_until(shared.shutdown.clone().cancelled_owned());
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE).text("");
    Ok(Sse::new(events.map(Ok::<Event, Infallible>)).keep_alive(keep_alive).into_response())
}

/// A reader's place in the feed; given back when its connection ends.
struct Reader {
    feed: Feed,
    shown: u64,
    _place: OwnedSemaphorePermit,
}

impl Reader {
    fn events(self) -> impl Stream<Item = Event> {
        metrics::serve_feed_readers(1);
        futures::stream::unfold(self, async |mut reader| {
            loop {
                let next = reader.feed.next().await?;
                if next.as_ref().is_ok_and(|entry| entry.sequence <= reader.shown) {
                    continue;
                }
                return Some((event(next), reader));
            }
        })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        metrics::serve_feed_readers(-1);
    }
}

fn event(next: Result<Arc<Entry>, Missed>) -> Event {
    match next {
        // Compact JSON has no line breaks, which an event's data must not have.
        Ok(entry) => Event::default().event("verdict").data(String::from_utf8_lossy(&entry.json)),
        Err(Missed(count)) => {
            metrics::serve_feed_missed(count);
            Event::default().event("missed").data(format!(r#"{{"missed":{count}}}"#))
        }
    }
}

fn accepts_events(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|item| item.split(';').next().unwrap_or_default().trim() == "text/event-stream")
}

fn wish(query: &str) -> Result<Wish, Refusal> {
    let mut wish = Wish::default();
    for (name, value) in query::pairs(query)? {
        let filter = &mut wish.filter;
        match name.as_str() {
            "service" => filter.service = Some(value),
            "agent" => filter.agent = Some(value),
            "outcome" => filter.outcome = Some(word(&name, value, "scored, skipped or failed")?),
            "label" => filter.label = Some(word(&name, value, "faithful, hallucination or unsure")?),
            "tier" => filter.tier = Some(word(&name, value, "proceed, regenerate, replan or abstain")?),
            "trace_id" => filter.trace_id = Some(word(&name, value, "32 hexadecimal digits, not all zero")?),
            "since" => filter.since = Some(query::since(&value)?),
            "text" => filter.text = Some(needle(&value)?),
            "limit" => wish.limit = Some(number(&name, &value, 1, MAX_LIMIT)?),
            "live" => wish.live = word(&name, serde_json::from_str::<bool>(&value).ok(), "true or false")?,
            _ => return Err(query::unknown(&name, PARAMETERS)),
        }
    }
    Ok(wish)
}

fn needle(text: &str) -> Result<Needle, Refusal> {
    Needle::new(text)
        .ok_or_else(|| invalid(format!("text must have from 1 to {} characters", Needle::MAX_CHARS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Label, Outcome};

    #[test]
    fn a_query_becomes_a_wish() {
        let found = wish("service=support%20bot&label=unsure&outcome=scored&limit=5&live=true").unwrap();
        assert_eq!(found.filter.service.as_deref(), Some("support bot"));
        assert_eq!((found.filter.label, found.filter.outcome), (Some(Label::Unsure), Some(Outcome::Scored)));
        assert_eq!((found.limit, found.live), (Some(5), true));
        assert_eq!(wish("").unwrap(), Wish::default());
    }

    #[test]
    fn mistakes_in_a_query_are_named_with_what_is_accepted() {
        let refused = |query: &str| wish(query).unwrap_err().message;
        assert_eq!(refused("label=wrong"), "label must be faithful, hallucination or unsure");
        assert_eq!(refused("limit=0"), "limit must be a number from 1 to 10000");
        assert_eq!(refused("live=yes"), "live must be true or false");
        assert_eq!(refused("tier=replan&tier=proceed"), "tier is there twice");
        assert!(refused("lable=unsure").contains("there are service, agent"));
        assert!(refused("text=").contains("from 1 to 200 characters"));
        assert!(refused("since=noon").contains("such as 15m"));
        assert!(refused("trace_id=xyz").contains("32 hexadecimal digits"));
    }

    #[test]
    fn only_who_names_event_streams_gets_one() {
        let accepts = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, value.parse().unwrap());
            accepts_events(&headers)
        };
        assert!(accepts("text/event-stream"));
        assert!(accepts("application/json, text/event-stream;q=0.9"));
        assert!(!accepts("*/*"));
    }
}
