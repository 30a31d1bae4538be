//! What all endpoints share of HTTP: reading a bounded body, waiting times in headers, and what a broken connection says.

use std::error::Error as _;
use std::time::{Duration, SystemTime};

use reqwest::Response;
use reqwest::header::{HeaderMap, RETRY_AFTER};

use super::BadReply;
use super::attempt::Failure;

/// Reads a body of at most `limit` bytes.
pub(super) async fn read(mut response: Response, limit: usize) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| unreachable(&error))? {
        if body.len() + chunk.len() > limit {
            return Err(Failure::BadBody(BadReply::TooLarge { limit }));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// What a request that brought no response comes to.
pub(super) fn unreachable(error: &reqwest::Error) -> Failure {
    let mut message = String::new();
    // The outermost text names the address, which may hold a key in its query; the causes do not.
    let mut cause = error.source();
    while let Some(error) = cause {
        if !message.is_empty() {
            message.push_str(": ");
        }
        message.push_str(&error.to_string());
        cause = error.source();
    }
    if message.is_empty() {
        message.push_str("the connection failed");
    }
    if error.is_connect() {
        return Failure::NoConnection { message };
    }
    Failure::NoReply { message, timed_out: error.is_timeout() }
}

/// When to come back: `Retry-After` in seconds or as a date, the more exact `retry-after-ms` of OpenAI and Azure, or else
/// the time at which the limit that is used up is reset, as OpenAI and Anthropic say it.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|text| text.parse().ok()) {
        return Some(Duration::from_millis(millis));
    }
    let Some(asked) = text(RETRY_AFTER.as_str()) else { return reset(&text, now) };
    if let Ok(seconds) = asked.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    until(jiff::fmt::rfc2822::parse(asked).ok()?.timestamp(), now)
}

/// The longest wait among the limits of which nothing remains.
fn reset<'a>(text: &impl Fn(&str) -> Option<&'a str>, now: SystemTime) -> Option<Duration> {
    let limits = ["requests", "tokens", "input-tokens", "output-tokens"];
    let waits = limits.iter().filter_map(|limit| {
        let spent = |name: String| text(&name) == Some("0");
        if spent(format!("anthropic-ratelimit-{limit}-remaining")) {
            let at = text(&format!("anthropic-ratelimit-{limit}-reset"))?;
            return until(at.parse().ok()?, now);
        }
        if spent(format!("x-ratelimit-remaining-{limit}")) {
            let wait: jiff::SignedDuration = text(&format!("x-ratelimit-reset-{limit}"))?.parse().ok()?;
            return Duration::try_from(wait).ok();
        }
        None
    });
    waits.max()
}

fn until(at: jiff::Timestamp, now: SystemTime) -> Option<Duration> {
    let at = Duration::from_millis(u64::try_from(at.as_millisecond()).ok()?);
    Some(at.saturating_sub(now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn retry_after_is_read_in_all_its_forms() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_445_412_400);
        let read = |name: &'static str, value: &'static str| {
            retry_after(
                &HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static(value))]),
                now,
            )
        };
        assert_eq!(read("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(read("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(read("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        assert_eq!(read("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::from_secs(80)));
        assert_eq!(read("retry-after", "Wed, 21 Oct 2015 07:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(read("retry-after", "soon"), None);
        assert_eq!(read("retry-after", "-1"), None);
    }

    #[test]
    fn without_retry_after_the_reset_of_the_limit_that_is_used_up_counts() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_025_600);
        let read = |pairs: &[(&'static str, &'static str)]| {
            let pair = |(name, value): &(&'static str, &'static str)| {
                (HeaderName::from_static(name), HeaderValue::from_static(value))
            };
            retry_after(&pairs.iter().map(pair).collect(), now)
        };
        let anthropic = [
            ("anthropic-ratelimit-requests-remaining", "7"),
            ("anthropic-ratelimit-requests-reset", "2026-11-30T08:05:00Z"),
            ("anthropic-ratelimit-input-tokens-remaining", "0"),
            ("anthropic-ratelimit-input-tokens-reset", "2026-11-30T08:00:12Z"),
        ];
        assert_eq!(read(&anthropic), Some(Duration::from_secs(12)));
        let openai = [("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "1m2s")];
        assert_eq!(read(&openai), Some(Duration::from_secs(62)));
        assert_eq!(read(&[("x-ratelimit-remaining-tokens", "5"), ("x-ratelimit-reset-tokens", "1s")]), None);
        assert_eq!(
            read(&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "soon")]),
            None
        );
    }
}
