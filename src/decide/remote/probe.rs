//! At the start: is the server there, does it take the key, and does it serve the model?

use super::client::Client;
use super::failure::Failure;
use super::names;

/// Asks until something is known. `Err` is what a person must change, or a reason to come back.
pub async fn reach(client: &Client) -> Result<(), Failure> {
    let found = match client.aside("/v1/models").await {
        Ok(body) => names::listed(&body),
        // The Strands server has no list; its health tells the one model that it serves.
        Err(Failure::Unexpected { .. } | Failure::Refused { .. } | Failure::Nonsense { .. }) => {
            match client.aside("/health").await {
                Ok(body) => names::of_health(&body).into_iter().collect(),
                Err(failure) => tolerable(failure)?,
            }
        }
        Err(failure) => tolerable(failure)?,
    };
    client.judge_names(&found)
}

/// A server that answers so is there, and only keeps to itself what it serves.
fn tolerable(failure: Failure) -> Result<Vec<String>, Failure> {
    match failure {
        Failure::Unexpected { .. }
        | Failure::Refused { .. }
        | Failure::Nonsense { .. }
        | Failure::Denied { status: 403, .. } => Ok(Vec::new()),
        other => Err(other),
    }
}
