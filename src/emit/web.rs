//! What the sinks that speak HTTP have in common: TLS, headers with secrets, and when to come back.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{ClientBuilder, Response, redirect};

use crate::net::TlsClient;
use crate::secret::Secret;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read.
const MOST_ANSWER: usize = 64 << 10;
/// Characters of an answer that are told.
const MOST_TOLD: usize = 200;

/// A client that follows no redirect: it would carry headers and content to a place that nobody configured.
pub(super) fn client(timeout: Duration, tls: Option<&TlsClient>) -> Result<ClientBuilder, String> {
    let builder = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT.min(timeout))
        .timeout(timeout)
        .redirect(redirect::Policy::none())
        .user_agent(concat!("assayd/", env!("CARGO_PKG_VERSION")));
    match tls {
        Some(tls) => tls.apply(builder).map_err(|error| error.to_string()),
        None => Ok(builder),
    }
}

/// A file of certificates or keys.
pub(super) fn pem(path: &std::path::Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// The configured headers with their secrets, read now.
pub(super) fn headers(configured: &BTreeMap<String, Secret>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, secret) in configured {
        let secret = secret.reveal().map_err(|error| format!("the header {name}: {error}"))?;
        let mut value = HeaderValue::try_from(secret.expose())
            .map_err(|_| format!("the header {name} has a value that no header can have"))?;
        value.set_sensitive(true);
        let name =
            HeaderName::try_from(name.as_str()).map_err(|_| format!("{name} is not the name of a header"))?;
        headers.insert(name, value);
    }
    Ok(headers)
}

/// `Retry-After`, in seconds or as a date.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = u64::try_from(jiff::fmt::rfc2822::parse(text).ok()?.timestamp().as_second()).ok()?;
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Some(Duration::from_secs(at).saturating_sub(now))
}

/// The first bytes of an answer's body; what breaks off or is too long is cut.
pub(super) async fn body(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() >= MOST_ANSWER {
            body.truncate(MOST_ANSWER);
            break;
        }
    }
    body
}

/// The beginning of an answer in one line, for a message.
pub(super) fn told(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    text.chars()
        .take(MOST_TOLD)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect::<String>()
        .trim()
        .to_owned()
}

/// Why there was no answer, without the address: its query may hold a secret.
pub(super) fn unreachable(error: &reqwest::Error) -> String {
    use std::error::Error as _;
    let mut causes = Vec::new();
    let mut cause = error.source();
    while let Some(inner) = cause {
        causes.push(inner.to_string());
        cause = inner.source();
    }
    match (causes.is_empty(), error.is_timeout()) {
        (_, true) => "no answer in time".to_owned(),
        (true, _) => "the connection failed".to_owned(),
        (false, _) => causes.join(": "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_in_both_forms() {
        let after = |value: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_str(value).unwrap())]);
            retry_after(&headers, SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_025_600))
        };
        assert_eq!(after("3"), Some(Duration::from_secs(3)));
        assert_eq!(after("Mon, 30 Nov 2026 08:00:07 GMT"), Some(Duration::from_secs(7)));
        assert_eq!(after("Mon, 30 Nov 2020 08:00:07 GMT"), Some(Duration::ZERO));
        assert_eq!(after("soon"), None);
        assert_eq!(after("-1"), None);
    }

    #[test]
    fn an_answer_is_told_in_one_short_line() {
        assert_eq!(told(b" no\r\nsuch thing\x1b[31m "), "no  such thing [31m");
        assert_eq!(told("é".repeat(1_000).as_bytes()).chars().count(), 200);
    }
}
