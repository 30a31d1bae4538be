//! One provider's endpoint over HTTP, and what it has taught us of its manners.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url, redirect};

use super::anthropic::Anthropic;
use super::attempt::{Completion, Failure};
use super::auth::Auth;
use super::aws::Signer;
use super::bedrock::Bedrock;
use super::config::Provider;
use super::dialect::{Dialect, Settings, Shape};
use super::http;
use super::manners::{Manners, Style};
use super::openai::OpenAi;
use super::prompt::Prompt;
use super::reply::shorten;
use super::told::{MAX_MESSAGE, Told};
use super::{BuildError, Config};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a reply's body that are read.
const MAX_BODY: usize = 4 << 20;
const MAX_ERROR_BODY: usize = 64 << 10;
/// Where AWS names an error.
const AWS_ERROR: &str = "x-amzn-errortype";

/// The endpoint.
pub(super) struct Endpoint {
    provider: &'static str,
    client: Client,
    url: Url,
    headers: HeaderMap,
    auth: Auth,
    dialect: Box<dyn Dialect>,
    settings: Settings,
    /// By the kind of shape that is asked for: one kind that is refused does not lower the others.
    manners: Mutex<HashMap<u64, Manners>>,
}

impl Endpoint {
    /// Reads the key and sets up the client; connects to nothing.
    pub fn new(provider: Provider<'_>, config: &Config) -> Result<Self, BuildError> {
        let name = provider.name();
        let lost = |url: &str| BuildError::Url { provider: name, url: url.to_owned() };
        let mut headers = HeaderMap::new();
        let (url, auth, dialect, temperature): (Url, Auth, Box<dyn Dialect>, Option<f64>) = match provider {
            Provider::OpenAi(openai) => {
                let url = OpenAi::address(openai).ok_or_else(|| lost(&openai.url))?;
                // Azure's keys are no bearer tokens.
                let azure = openai.api_version.as_ref().map(|_| "api-key");
                let header = openai.key_header.as_deref().or(azure);
                let auth = Auth::key(name, openai.key.as_ref(), header)?;
                (url, auth, Box::new(OpenAi), openai.temperature)
            }
            Provider::Anthropic(anthropic) => {
                let url = Anthropic::address(anthropic).ok_or_else(|| lost(&anthropic.url))?;
                let version = HeaderValue::try_from(&anthropic.version)
                    .map_err(|_| BuildError::Header { provider: name, setting: "version" })?;
                headers.insert(HeaderName::from_static("anthropic-version"), version);
                let header = anthropic.key_header.as_deref().unwrap_or("x-api-key");
                let auth = Auth::key(name, anthropic.key.as_ref(), Some(header))?;
                (url, auth, Box::new(Anthropic), anthropic.temperature)
            }
            Provider::Bedrock(bedrock) => {
                let shown = bedrock.url.as_deref().unwrap_or(&bedrock.region);
                let url = Bedrock::address(bedrock).ok_or_else(|| lost(shown))?;
                let auth = match &bedrock.key {
                    Some(key) => Auth::key(name, Some(key), None)?,
                    None => Auth::Aws(Signer::new(bedrock)?),
                };
                (url, auth, Box::new(Bedrock), bedrock.temperature)
            }
        };
        // A redirect would carry the key and the trace's content to a place that nobody configured.
        let builder = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(redirect::Policy::none())
            .user_agent(concat!("assayd/", env!("CARGO_PKG_VERSION")));
        let client = config.tls.clone().unwrap_or_default().apply(builder)?.build()?;
        let settings = Settings {
            model: provider.model().to_owned(),
            max_output_tokens: config.max_output_tokens.get(),
            temperature,
        };
        let manners = Mutex::default();
        Ok(Self { provider: name, client, url, headers, auth, dialect, settings, manners })
    }

    /// The provider's name in the configuration.
    pub fn provider(&self) -> &'static str {
        self.provider
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        &self.settings.model
    }

    /// Sends one request. The caller limits the time.
    pub async fn attempt(&self, prompt: &Prompt, shape: &Shape) -> Result<Completion, Failure> {
        let style = self.with_manners(shape.kind, |manners| manners.style(Instant::now()));
        let body = self.dialect.request(&self.settings, style, prompt, shape);
        let request = self.client.post(self.url.clone()).headers(self.headers.clone()).json(&body).build();
        let mut request = request.map_err(|error| http::unreachable(&error))?;
        let shown = self.auth.admit(&mut request).await?;
        let response = self.client.execute(request).await.map_err(|error| http::unreachable(&error))?;
        let status = response.status();
        if status.is_success() {
            let read = self.dialect.completion(&http::read(response, MAX_BODY).await?);
            return read.map_err(|failure| failure.without(|text| shown.hide(text)));
        }
        let retry_after = http::retry_after(response.headers(), SystemTime::now());
        if matches!(status.as_u16(), 401 | 403) && self.auth.has_another(&shown) {
            return Err(Failure::Adapted);
        }
        let named = response.headers().get(AWS_ERROR).and_then(|name| name.to_str().ok()).map(str::to_owned);
        let body = http::read(response, MAX_ERROR_BODY).await.unwrap_or_default();
        let mut told = Told::parse(&body);
        told.message = shown.hide(&told.message);
        if let Some(name) = named {
            told.add(&name);
        }
        if self.adapts(status.as_u16(), &told, style, shape) {
            return Err(Failure::Adapted);
        }
        Err(self.dialect.failure(status.as_u16(), &told, retry_after))
    }

    /// Whether the endpoint refused something that the next request will do without.
    fn adapts(&self, status: u16, told: &Told, style: Style, shape: &Shape) -> bool {
        let Some(feature) = self.dialect.refused(status, told, style) else { return false };
        if !self.with_manners(shape.kind, |manners| manners.refused(feature, style, Instant::now())) {
            return false;
        }
        tracing::info!(
            model = self.model(),
            ?feature,
            rung = style.rung.as_str(),
            said = shorten(&told.message, MAX_MESSAGE),
            "the judge does not take this"
        );
        true
    }

    fn with_manners<T>(&self, kind: u64, act: impl FnOnce(&mut Manners) -> T) -> T {
        let mut manners = self.manners.lock().unwrap_or_else(PoisonError::into_inner);
        act(manners.entry(kind).or_insert_with(|| Manners::new(self.dialect.rungs())))
    }
}
