//! An endpoint that speaks OpenAI's `POST chat/completions`.

use std::error::Error as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, Url, redirect};

use super::attempt::{Completion, Failure};
use super::manners::Manners;
use super::prompt::Prompt;
use super::wire::{self, Settings, Told};
use super::{BadReply, BuildError, Config, OpenAiConfig};
use crate::domain::Json;
use crate::secret::{Revealed, Secret};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a reply's body that are read.
const MAX_BODY: usize = 4 << 20;
const MAX_ERROR_BODY: usize = 64 << 10;

/// The endpoint, and what it has taught us.
pub(super) struct OpenAi {
    client: Client,
    url: Url,
    settings: Settings,
    secret: Option<Secret>,
    key: Mutex<Option<Key>>,
    key_header: Option<HeaderName>,
    manners: Mutex<Manners>,
}

#[derive(Clone)]
struct Key {
    text: Revealed,
    header: HeaderValue,
}

impl OpenAi {
    /// Reads the key and sets up the client; connects to nothing.
    pub fn new(openai: &OpenAiConfig, config: &Config) -> Result<Self, BuildError> {
        let url = endpoint(&openai.url).ok_or_else(|| BuildError::Url { url: openai.url.clone() })?;
        let key_header = match &openai.key_header {
            Some(name) => {
                let name = name.to_ascii_lowercase();
                let name =
                    HeaderName::try_from(name).map_err(|_| BuildError::Header { setting: "key_header" })?;
                Some(name).filter(|name| *name != AUTHORIZATION)
            }
            None => None,
        };
        let key = match &openai.key {
            Some(secret) => {
                let key = key(secret.reveal()?, key_header.is_none());
                Some(key.ok_or(BuildError::Header { setting: "key" })?)
            }
            None => None,
        };
        // A redirect would carry the key and the trace's content to a place that nobody configured.
        let client = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(redirect::Policy::none())
            .user_agent(concat!("assayd/", env!("CARGO_PKG_VERSION")))
            .build()?;
        let settings = Settings {
            model: openai.model.clone(),
            max_output_tokens: config.max_output_tokens.get(),
            temperature: openai.temperature,
        };
        Ok(Self {
            client,
            url,
            settings,
            secret: openai.key.clone(),
            key: Mutex::new(key),
            key_header,
            manners: Mutex::new(Manners::new()),
        })
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        &self.settings.model
    }

    /// Sends one request. The caller limits the time.
    pub async fn attempt(&self, prompt: &Prompt, schema: &Json) -> Result<Completion, Failure> {
        let style = lock(&self.manners).style(Instant::now());
        let key = lock(&self.key).clone();
        let mut request = self.client.post(self.url.clone());
        if let Some(key) = &key {
            let name = self.key_header.as_ref().unwrap_or(&AUTHORIZATION);
            request = request.header(name, key.header.clone());
        }
        let body = wire::request(&self.settings, style, prompt, schema);
        let response = request.json(&body).send().await.map_err(|error| unreachable(&error))?;
        let status = response.status();
        if status.is_success() {
            return wire::completion(&read(response, MAX_BODY).await?);
        }
        let retry_after = retry_after(response.headers(), SystemTime::now());
        if status == StatusCode::UNAUTHORIZED && self.has_another_key(key.as_ref()) {
            return Err(Failure::Adapted);
        }
        let body = read(response, MAX_ERROR_BODY).await.unwrap_or_default();
        let mut told = Told::parse(&body);
        if let Some(key) = &key {
            told.message = told.message.replace(key.text.expose(), "[secret]");
        }
        if let Some(feature) = wire::refused(status.as_u16(), &told, style)
            && lock(&self.manners).refused(feature, style, Instant::now())
        {
            let rung = style.rung.as_str();
            tracing::info!(
                model = self.model(),
                ?feature,
                rung,
                said = super::reply::shorten(&told.message, 200),
                "the judge does not take this"
            );
            return Err(Failure::Adapted);
        }
        Err(wire::failure(status.as_u16(), &told, retry_after))
    }

    /// Reads the key again, for its file may have been rotated. Whether it differs from the one that was refused.
    fn has_another_key(&self, refused: Option<&Key>) -> bool {
        let Some(secret) = &self.secret else { return false };
        let mut known = lock(&self.key);
        let differs = |key: &Key| refused.is_none_or(|refused| refused.text != key.text);
        if known.as_ref().is_some_and(differs) {
            return true;
        }
        match secret.reveal() {
            Ok(text) => match key(text, self.key_header.is_none()).filter(differs) {
                Some(fresh) => {
                    *known = Some(fresh);
                    true
                }
                None => false,
            },
            Err(error) => {
                tracing::warn!(%error, "the judge refuses its key, and the key cannot be read again");
                false
            }
        }
    }
}

/// The address of `chat/completions` below a base address, with its query.
fn endpoint(base: &str) -> Option<Url> {
    let mut url = Url::parse(base).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    let path = url.path().trim_end_matches('/').to_owned();
    if !path.ends_with("/chat/completions") {
        url.set_path(&format!("{path}/chat/completions"));
    }
    Some(url)
}

fn key(text: Revealed, bearer: bool) -> Option<Key> {
    let value = if bearer { format!("Bearer {}", text.expose()) } else { text.expose().to_owned() };
    let mut header = HeaderValue::try_from(value).ok()?;
    header.set_sensitive(true);
    Some(Key { text, header })
}

fn unreachable(error: &reqwest::Error) -> Failure {
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

async fn read(mut response: Response, limit: usize) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| unreachable(&error))? {
        if body.len() + chunk.len() > limit {
            return Err(Failure::BadBody(BadReply::TooLarge { limit }));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// `Retry-After` in seconds or as a date, or the more exact `retry-after-ms` of OpenAI and Azure.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|text| text.parse().ok()) {
        return Some(Duration::from_millis(millis));
    }
    let text = text(RETRY_AFTER.as_str())?;
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = u64::try_from(jiff::fmt::rfc2822::parse(text).ok()?.timestamp().as_second()).ok()?;
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Some(Duration::from_secs(at).saturating_sub(now))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_is_below_the_base_and_keeps_its_query() {
        let at = |base: &str| endpoint(base).map(String::from);
        let azure = "https://x.openai.azure.com/openai/deployments/d?api-version=2026-06-01";
        let expected =
            "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=2026-06-01";
        assert_eq!(at(azure).as_deref(), Some(expected));
        assert_eq!(
            at("http://localhost:8000/v1/").as_deref(),
            Some("http://localhost:8000/v1/chat/completions")
        );
        assert_eq!(at("http://h/v1/chat/completions").as_deref(), Some("http://h/v1/chat/completions"));
        assert_eq!(at("ftp://h/v1"), None);
        assert_eq!(at("judge"), None);
    }

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
}
