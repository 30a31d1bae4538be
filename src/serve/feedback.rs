//! `POST /v1/feedback`: a person says whether a verdict or a claim is right. `GET` exports it all, for `assayd calibrate`.

use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::get;
use serde::{Deserialize, Serialize};

use super::query::{self, invalid};
use super::reply::{JsonBody, Refusal, json};
use super::server::{Shared, route};
use super::stories::parsed;
use crate::domain::{Outcome, TraceId, Verdict};
use crate::feedback::{Feedback, Mark, Predicted, Record, Recorded, Refused, Verdicted, Word};

/// Longest name of a person, in characters.
const MAX_BY: usize = 100;
/// Longest note, in characters.
const MAX_NOTE: usize = 2_000;
/// Longest id of a verdict, in characters.
const MAX_ID: usize = 200;
/// When to come back if it is not taken now.
const BUSY: Duration = Duration::from_secs(1);

/// What a person says. The last four are for a verdict that assayd no longer holds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    verdict_id: String,
    #[serde(default)]
    claim: Option<u32>,
    /// `null` takes back what this person said before.
    label: Option<Mark>,
    #[serde(default)]
    by: Option<String>,
    #[serde(default)]
    note: Option<String>,
    #[serde(default)]
    trace_id: Option<TraceId>,
    #[serde(default)]
    predicted: Option<Predicted>,
    #[serde(default)]
    hallucination_probability: Option<f64>,
    #[serde(default)]
    confidence: Option<f64>,
}

#[derive(Serialize)]
struct Taken {
    /// False if this person had said the same before.
    changed: bool,
    feedback: Record,
}

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .merge(route("/v1/feedback", get(export).post(say)))
        .merge(route("/v1/feedback/agreement", get(agreement)))
}

async fn say(
    State(shared): State<Shared>,
    FromHere: FromHere,
    JsonBody(said): JsonBody<Said>,
) -> Result<Response, Refusal> {
    let feedback = keeper(&shared)?;
    check(&said)?;
    let held = shared.state.recent.find(&said.verdict_id).map(|(entry, _)| parsed(&entry)).transpose()?;
    let verdicted = match &held {
        Some(verdict) => Some(of_verdict(verdict, said.claim)?),
        None => of_sender(&said)?,
    };
    let word = Word {
        verdict_id: said.verdict_id,
        claim: said.claim,
        label: said.label,
        by: kept(said.by),
        note: kept(said.note),
    };
    let Recorded { record, changed } = feedback.record(word, verdicted).await.map_err(refusal)?;
    let body = serde_json::to_vec(&Taken { changed, feedback: record })
        .expect("it has text keys only, so it is always JSON");
    Ok(json(StatusCode::OK, body))
}

/// All labels, one JSON object per line.
async fn export(State(shared): State<Shared>, RawQuery(query): RawQuery) -> Result<Response, Refusal> {
    if let Some((name, _)) = query::pairs(query.as_deref().unwrap_or_default())?.first() {
        return Err(query::unknown(name, "none here"));
    }
    let lines = keeper(&shared)?.export().await.map_err(refusal)?;
    let mut response = json(StatusCode::OK, lines);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(
        header::CONTENT_DISPOSITION,
        HeaderValue::from_static("attachment; filename=\"feedback.jsonl\""),
    );
    Ok(response)
}

async fn agreement(State(shared): State<Shared>) -> Result<Response, Refusal> {
    let agreement = keeper(&shared)?.agreement().await.map_err(refusal)?;
    let body = serde_json::to_vec(&agreement).expect("it has text keys only, so it is always JSON");
    Ok(json(StatusCode::OK, body))
}

fn keeper(shared: &Shared) -> Result<&Feedback, Refusal> {
    let none = || Refusal::busy("this process takes no feedback", Duration::from_secs(60));
    shared.state.feedback.as_ref().ok_or_else(none)
}

fn check(said: &Said) -> Result<(), Refusal> {
    if let Some(label) = said.label
        && label.is_of_claims() != said.claim.is_some()
    {
        return Err(invalid(match said.claim {
            Some(_) => "the label of a claim is grounded, ungrounded, contradicted or complementary",
            None => "the label of a verdict is faithful or hallucination; those of claims go with `claim`",
        }));
    }
    let texts = [
        ("verdict_id", Some(&said.verdict_id), MAX_ID),
        ("by", said.by.as_ref(), MAX_BY),
        ("note", said.note.as_ref(), MAX_NOTE),
    ];
    for (name, text, most) in texts {
        if text.is_some_and(|text| text.chars().count() > most) {
            return Err(invalid(format!("{name} has more than {most} characters")));
        }
    }
    let numbers =
        [("hallucination_probability", said.hallucination_probability), ("confidence", said.confidence)];
    match numbers.into_iter().find(|(_, number)| number.is_some_and(|value| !(0.0..=1.0).contains(&value))) {
        Some((name, _)) => Err(invalid(format!("{name} must be from 0 to 1"))),
        None => Ok(()),
    }
}

fn of_verdict(verdict: &Verdict, claim: Option<u32>) -> Result<Verdicted, Refusal> {
    let found = match claim {
        Some(claim) => Verdicted::of_claim(verdict, claim as usize),
        None => Verdicted::of_answer(verdict),
    };
    found.ok_or_else(|| {
        let claims = verdict.grounding.as_ref().map_or(0, |grounding| grounding.claims.len());
        invalid(match (verdict.outcome, claim) {
            (Outcome::Scored, Some(claim)) => {
                format!("the verdict has {claims} claims, counted from 0; there is no claim {claim}")
            }
            (Outcome::Scored, None) => {
                "the answer makes no claim, so it has no label that could be right or wrong".to_owned()
            }
            (outcome, _) => format!(
                "the trace was {}, not scored: there is no label that could be right or wrong",
                outcome.as_str()
            ),
        })
    })
}

/// What the sender says that the verdict had said.
fn of_sender(said: &Said) -> Result<Option<Verdicted>, Refusal> {
    let Some(predicted) = said.predicted else { return Ok(None) };
    let fits = match said.claim {
        Some(_) => Predicted::OF_CLAIMS.contains(&predicted),
        None => Predicted::OF_ANSWERS.contains(&predicted),
    };
    if !fits {
        return Err(invalid(format!(
            "predicted is {}, which is not said of {}",
            predicted.as_str(),
            if said.claim.is_some() { "a claim" } else { "an answer" }
        )));
    }
    Ok(Some(Verdicted {
        trace_id: said.trace_id,
        predicted,
        hallucination_probability: said.hallucination_probability,
        confidence: said.confidence,
    }))
}

/// Nothing but spaces is nothing.
fn kept(text: Option<String>) -> Option<String> {
    text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn refusal(refused: Refused) -> Refusal {
    let message = refused.to_string();
    match refused {
        Refused::UnknownVerdict(_) => Refusal::new(
            StatusCode::NOT_FOUND,
            "not_found",
            format!(
                "{message}: emit.recent says how many are held. To mark an older one, send what it had said as well: predicted (its \
                 label, or the claim's standing), trace_id, hallucination_probability and confidence"
            ),
        ),
        Refused::Full(_) => Refusal::new(StatusCode::INSUFFICIENT_STORAGE, "full", message),
        Refused::NotStored(_) => Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "not_stored", message),
        Refused::Busy => Refusal::busy(message, BUSY),
    }
}

/// The request is not from a page of another site, and says that it is JSON: a form of another site cannot say that without
/// asking first.
struct FromHere;

impl axum::extract::FromRequestParts<Shared> for FromHere {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut axum::http::request::Parts, _: &Shared) -> Result<Self, Refusal> {
        if !is_from_here(&parts.headers) {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "forbidden",
                "feedback from pages of other sites is refused",
            ));
        }
        if !parts.headers.contains_key(header::CONTENT_TYPE) {
            return Err(Refusal::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "there is no content type; send application/json",
            ));
        }
        Ok(Self)
    }
}

/// Browsers say where a page is from; a browser too old to say so still names the page's origin, which must be ours.
fn is_from_here(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("?"));
    if let Some(site) = text(header::HeaderName::from_static("sec-fetch-site")) {
        return ["same-origin", "none"].contains(&site);
    }
    let Some(origin) = text(header::ORIGIN) else { return true };
    let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    host.is_some() && host == text(header::HOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (header::HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn only_our_own_pages_and_programs_may_say_something() {
        let host = ("host", "assayd:8321");
        assert!(is_from_here(&headers(&[host])), "a program");
        assert!(is_from_here(&headers(&[host, ("origin", "http://assayd:8321")])));
        assert!(!is_from_here(&headers(&[host, ("origin", "http://evil:8321")])));
        assert!(!is_from_here(&headers(&[host, ("origin", "null")])));
        assert!(!is_from_here(&headers(&[host, ("origin", "http://assayd:9000")])));
        let behind_a_proxy = [host, ("origin", "https://a.example"), ("sec-fetch-site", "same-origin")];
        assert!(is_from_here(&headers(&behind_a_proxy)));
        assert!(!is_from_here(&headers(&[host, ("sec-fetch-site", "same-site")])));
        assert!(!is_from_here(&headers(&[host, ("sec-fetch-site", "cross-site")])));
    }
}
