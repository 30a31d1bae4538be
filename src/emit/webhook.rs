//! Failing verdicts to an address of the operator's: JSON, signed, tried again for a while, and never to a place that a name
//! was bent to.

mod sign;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, StatusCode, Url};
use tokio_util::sync::CancellationToken;

use super::config::{RetryConfig, WebhookConfig};
use super::{EmitError, Sink, web};
use crate::domain::Verdict;
use crate::error::Fault;
use crate::metrics;
use crate::net::AddressGuard;

const SINK: &str = "webhook";
/// Ends the message of a refused address.
const ADVICE: &str = "emit.webhook.allow_addresses lets it through";

/// An address that verdicts are posted to.
pub struct Webhook {
    config: WebhookConfig,
    retry: RetryConfig,
    client: Client,
    url: Url,
    /// The daemon stops, and waits for nobody's recovery.
    last_call: CancellationToken,
}

/// What came of one attempt.
enum Attempt {
    Taken,
    /// It may work later.
    Later {
        message: String,
        after: Option<Duration>,
    },
    /// It will not work.
    Never(String),
}

impl Webhook {
    /// Reads keys and certificates; connects to nothing. After `last_call` it does not wait for a receiver that is away: it then
    /// says so, and the verdict is no dead letter.
    pub fn open(
        config: WebhookConfig,
        retry: RetryConfig,
        last_call: CancellationToken,
    ) -> Result<Self, EmitError> {
        let fatal = |message: String| EmitError { sink: SINK, message, fault: Fault::Fatal };
        let guard = AddressGuard::new(config.allow_addresses.clone(), ADVICE);
        let url = Url::parse(&config.url).map_err(|error| fatal(format!("{}: {error}", config.url)))?;
        guard.admit_literal(&url).map_err(fatal)?;
        let client = web::client(config.timeout.0, config.tls.as_ref())
            .map_err(fatal)?
            // A proxy would resolve the name itself, past the guard.
            .no_proxy()
            .dns_resolver(guard)
            .build()
            .map_err(|error| fatal(error.to_string()))?;
        // Secrets that are not there should show at the start; later ones are read per request.
        web::headers(&config.headers).map_err(fatal)?;
        sign::keys(&config.keys).map_err(fatal)?;
        Ok(Self { config, retry, client, url, last_call })
    }

    async fn deliver(&self, verdict: &Verdict) -> Result<(), EmitError> {
        if !self.config.wants(verdict) {
            metrics::emit_filtered(SINK);
            return Ok(());
        }
        let body = body(verdict, self.config.texts);
        let poison = |message| EmitError { sink: SINK, message, fault: Fault::Poison };
        let began = Instant::now();
        let mut waits = self.retry.waits();
        loop {
            let (message, after) = match self.post(verdict, &body).await {
                Attempt::Taken => return Ok(()),
                Attempt::Never(message) => return Err(poison(message)),
                Attempt::Later { message, after } => (message, after),
            };
            let wait = after.unwrap_or_default().max(waits.next().unwrap_or(self.retry.longest.0));
            if began.elapsed() + wait > self.config.give_up_after.0 {
                let patience = self.config.give_up_after;
                return Err(poison(format!(
                    "given up after {patience} (emit.webhook.give_up_after): {message}"
                )));
            }
            metrics::emit_write(SINK, "retried");
            tracing::debug!(sink = SINK, message, "trying again");
            if self.last_call.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                return Err(EmitError { sink: SINK, message, fault: Fault::Transient });
            }
        }
    }

    async fn post(&self, verdict: &Verdict, body: &[u8]) -> Attempt {
        let now = SystemTime::now();
        // A secret that cannot be read may be there again soon: its file is being replaced.
        let (headers, keys) = match (web::headers(&self.config.headers), sign::keys(&self.config.keys)) {
            (Ok(headers), Ok(keys)) => (headers, keys),
            (Err(message), _) | (_, Err(message)) => return Attempt::Later { message, after: None },
        };
        let id = format!("{}.{}", verdict.verdict_id, verdict.revision);
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut post = self
            .client
            .post(self.url.clone())
            .headers(headers)
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", &id)
            .header("webhook-timestamp", seconds);
        if !keys.is_empty() {
            post = post.header("webhook-signature", sign::signatures(&keys, &id, seconds, body));
        }
        let response = match post.body(body.to_vec()).send().await {
            Ok(response) => response,
            Err(error) => {
                let message = web::unreachable(&error);
                let refused = AddressGuard::has_refused(&error);
                return if refused {
                    Attempt::Never(message)
                } else {
                    Attempt::Later { message, after: None }
                };
            }
        };
        let status = response.status();
        if status.is_success() {
            return Attempt::Taken;
        }
        let after = web::retry_after(response.headers(), now);
        let message = format!("{status}: {}", web::told(&web::body(response).await));
        if status.is_server_error() || is_retryable(status) {
            Attempt::Later { message, after }
        } else {
            Attempt::Never(message)
        }
    }
}

impl Sink for Webhook {
    fn write<'a>(&'a self, verdict: &'a Verdict) -> BoxFuture<'a, Result<(), EmitError>> {
        Box::pin(self.deliver(verdict))
    }
}

fn is_retryable(status: StatusCode) -> bool {
    [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS].contains(&status)
}

/// The verdict as JSON, with or without what the answer says.
fn body(verdict: &Verdict, texts: bool) -> Vec<u8> {
    let encode = |verdict: &Verdict| {
        serde_json::to_vec(verdict).expect("a verdict has text keys only, so it is always JSON")
    };
    if texts {
        return encode(verdict);
    }
    let mut bare = verdict.clone();
    for claim in bare.grounding.iter_mut().flat_map(|grounding| &mut grounding.claims) {
        claim.text.clear();
        claim.reasoning = None;
        claim.derived.clear();
    }
    for answer in bare.answers.values_mut() {
        answer.reasoning = None;
    }
    // What a judge says, and what a run of the loop wrote, are texts through and through.
    bare.metrics.clear();
    bare.run = None;
    bare.judge_error = bare.judge_error.map(|_| "not told".to_owned());
    encode(&bare)
}
