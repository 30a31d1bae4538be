//! The query of a request: names that are known, each once, with values that are understood.

use std::collections::HashSet;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::Query;
use axum::http::{StatusCode, Uri};
use serde::de::DeserializeOwned;

use super::reply::Refusal;
use crate::domain::{Period, Time};

/// The pairs of a query, decoded, each name once.
pub(super) fn pairs(query: &str) -> Result<Vec<(String, String)>, Refusal> {
    let uri = Uri::builder().path_and_query(format!("/?{query}")).build();
    let parsed = uri.ok().and_then(|uri| Query::<Vec<(String, String)>>::try_from_uri(&uri).ok());
    let Some(Query(pairs)) = parsed else {
        return Err(invalid("the query cannot be read"));
    };
    let mut seen = HashSet::new();
    match pairs.iter().find(|(name, _)| !seen.insert(name)) {
        Some((name, _)) => Err(invalid(format!("{} is there twice", short(name)))),
        None => Ok(pairs),
    }
}

/// A value that is one of a type's words.
pub(super) fn word<T: DeserializeOwned>(
    name: &str,
    value: impl serde::Serialize,
    wanted: &str,
) -> Result<T, Refusal> {
    serde_json::to_value(value)
        .and_then(serde_json::from_value)
        .map_err(|_| invalid(format!("{name} must be {wanted}")))
}

/// A number within limits.
pub(super) fn number(name: &str, value: &str, least: usize, most: usize) -> Result<usize, Refusal> {
    value
        .parse()
        .ok()
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| invalid(format!("{name} must be a number from {least} to {most}")))
}

/// A point in time, or how long ago it was.
pub(super) fn since(value: &str) -> Result<Time, Refusal> {
    if let Ok(Period(ago)) = value.parse() {
        return Ok(Time(now().0.saturating_sub(u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX))));
    }
    word("since", value, "a time such as 2026-11-30T08:00:00Z or how long ago, such as 15m")
}

/// This machine's clock.
pub(super) fn now() -> Time {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
}

/// There is no such parameter.
pub(super) fn unknown(name: &str, known: &str) -> Refusal {
    invalid(format!("there is no parameter {:?}; there are {known}", short(name)))
}

pub(super) fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", message)
}

fn short(name: &str) -> String {
    name.chars().take(50).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_time_or_a_stretch_before_now() {
        assert_eq!(since("1970-01-01T00:00:01Z").unwrap(), Time(1_000_000_000));
        let ago = now().since(since("15m").unwrap()).as_secs();
        assert!((899..=901).contains(&ago), "{ago}");
        assert!(since("yesterday").unwrap_err().message.contains("such as 15m"));
    }
}
