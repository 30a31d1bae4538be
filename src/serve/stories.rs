//! `GET /v1/verdicts/{verdict_id}`: a verdict with its story and what people say of it.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use serde::Serialize;
use serde_json::value::RawValue;

use super::reply::{Refusal, json};
use super::server::{Shared, route};
use super::words;
use crate::domain::Verdict;
use crate::emit::{Entry, Told};
use crate::feedback::Record;

/// The answer. Verdict and story are JSON already and are not made again.
#[derive(Serialize)]
struct Whole<'a> {
    verdict: &'a RawValue,
    /// What became of the trace, in words.
    message: String,
    story: Option<&'a RawValue>,
    /// `never`, `forgotten` or `off` where there is no story.
    story_missing: Option<&'static str>,
    feedback: Vec<Record>,
}

pub(super) fn routes() -> Router<Shared> {
    route("/v1/verdicts/{verdict_id}", get(whole))
}

async fn whole(State(shared): State<Shared>, Path(verdict_id): Path<String>) -> Result<Response, Refusal> {
    let Some((entry, told)) = shared.state.recent.find(&verdict_id) else {
        return Err(forgotten(&verdict_id));
    };
    let feedback = match &shared.state.feedback {
        // Feedback that cannot be asked for now does not hide the verdict.
        Some(feedback) => feedback.of(&verdict_id).await.unwrap_or_default(),
        None => Vec::new(),
    };
    let story = match &told {
        Told::Story(story) => Some(raw(story)?),
        Told::Never | Told::Forgotten | Told::Off => None,
    };
    let whole = Whole {
        verdict: raw(&entry.json)?,
        message: words::of(&parsed(&entry)?),
        story,
        story_missing: match told {
            Told::Story(_) => None,
            Told::Never => Some("never"),
            Told::Forgotten => Some("forgotten"),
            Told::Off => Some("off"),
        },
        feedback,
    };
    let body = serde_json::to_vec(&whole).map_err(broken)?;
    Ok(json(StatusCode::OK, body))
}

/// The verdict of an entry.
pub(super) fn parsed(entry: &Entry) -> Result<Verdict, Refusal> {
    serde_json::from_slice(&entry.json).map_err(broken)
}

/// Only the latest verdicts are held.
pub(super) fn forgotten(verdict_id: &str) -> Refusal {
    let short: String = verdict_id.chars().take(64).collect();
    Refusal::new(
        StatusCode::NOT_FOUND,
        "not_found",
        format!(
            "there is no verdict {short:?} among the recent ones (emit.recent says how many are held); older ones are where emit \
             sends them"
        ),
    )
}

fn raw(json: &[u8]) -> Result<&RawValue, Refusal> {
    serde_json::from_slice(json).map_err(broken)
}

/// What this process wrote itself cannot be read: a defect.
fn broken(error: serde_json::Error) -> Refusal {
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string())
}
