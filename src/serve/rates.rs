//! `GET /v1/rates`: verdicts over time, by service and agent, and by model and version against the days before.

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use serde::Serialize;

use super::query::{self, invalid, now};
use super::reply::{Refusal, json};
use super::server::{Shared, route};
use crate::domain::Period;
use crate::emit::{Counted, Of, Pair, Point, VariantRate};

/// How finely verdicts are counted, in seconds.
const FINEST: u64 = 10;
/// How far back they are, in seconds.
const LONGEST: u64 = 3 * 3_600;
/// Points unless the request says how many.
const POINTS: usize = 60;
/// Most points.
const MAX_POINTS: usize = 360;

/// The query: `service`, `agent`, `window`, `points`.
#[derive(Debug, PartialEq)]
struct Wish {
    service: Option<String>,
    agent: Option<String>,
    seconds: u64,
    points: usize,
}

#[derive(Serialize)]
struct Rates {
    seconds_each: u64,
    points: Vec<Point>,
    /// All services and agents of the last three hours.
    agents: Vec<Pair>,
    /// Models, releases and prompts of the service, or of all, in the last hour and in the days before.
    variants: Vec<VariantRate>,
    /// Verdicts on conversations, which are not among those above.
    conversations: Counted,
}

pub(super) fn routes() -> Router<Shared> {
    route("/v1/rates", get(rates))
}

async fn rates(State(shared): State<Shared>, RawQuery(query): RawQuery) -> Result<Response, Refusal> {
    let wish = wish(query.as_deref().unwrap_or_default())?;
    let (seconds_each, points) = stretches(wish.seconds, wish.points);
    let recent = &shared.state.recent;
    let (service, agent) = (wish.service.as_deref(), wish.agent.as_deref());
    let counted = |of| recent.rates(of, now(), seconds_each, points, service, agent);
    let mut variants = recent.variants(now());
    variants.retain(|rate| service.is_none() || rate.variant.service.as_deref() == service);
    let conversations = counted(Of::Conversations);
    let Counted { points, agents } = counted(Of::Answers);
    let found = Rates { seconds_each, points, agents, variants, conversations };
    let body = serde_json::to_vec(&found).expect("it has text keys only, so it is always JSON");
    Ok(json(StatusCode::OK, body))
}

/// Width of a stretch, a multiple of what is counted, and how many cover the window.
fn stretches(seconds: u64, points: usize) -> (u64, usize) {
    let seconds_each = seconds.div_ceil(points as u64).div_ceil(FINEST) * FINEST;
    (seconds_each, usize::try_from(seconds.div_ceil(seconds_each)).unwrap_or(points))
}

fn wish(query: &str) -> Result<Wish, Refusal> {
    let mut wish = Wish { service: None, agent: None, seconds: 3_600, points: POINTS };
    for (name, value) in query::pairs(query)? {
        match name.as_str() {
            "service" => wish.service = Some(value),
            "agent" => wish.agent = Some(value),
            "window" => wish.seconds = window(&value)?,
            "points" => wish.points = query::number(&name, &value, 1, MAX_POINTS)?,
            _ => return Err(query::unknown(&name, "service, agent, window and points")),
        }
    }
    Ok(wish)
}

fn window(value: &str) -> Result<u64, Refusal> {
    let seconds = value.parse().ok().map(|Period(window)| window.as_secs());
    seconds
        .filter(|seconds| (FINEST..=LONGEST).contains(seconds))
        .ok_or_else(|| invalid("window must be a duration from 10s to 3h, such as 15m"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_cover_the_window_in_multiples_of_what_is_counted() {
        assert_eq!(stretches(3_600, 60), (60, 60));
        assert_eq!(stretches(900, 60), (20, 45));
        assert_eq!(stretches(10_800, 360), (30, 360));
        assert_eq!(stretches(10, 360), (10, 1));
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(wish("window=15m&points=30").unwrap().seconds, 900);
        assert!(wish("window=9h").unwrap_err().message.contains("from 10s to 3h"));
        assert!(wish("points=0").unwrap_err().message.contains("from 1 to 360"));
        assert!(wish("x=1").unwrap_err().message.contains("service, agent, window and points"));
    }
}
