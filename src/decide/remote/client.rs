//! Requests to a remote model: bounded in number and time, tried again where that may help.

use std::collections::HashSet;
use std::error::Error as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use futures::future::{BoxFuture, FutureExt, join_all};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Response, Url, redirect};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::failure::{Failure, message};
use super::limits::{Limits, bytes};
use super::{Answers, Api, RemoteConfig, names};
use crate::decide::models::strands::Node;
use crate::decide::{DecideError, LoadError, Reply};
use crate::domain::{Decision, Inquiry, Json, Nobody, Question};
use crate::metrics;
use crate::secret::{Revealed, Secret};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a question about the server itself may take.
const ASIDE: Duration = Duration::from_secs(10);
/// Bytes of a body that are read.
const MAX_BODY: usize = 16 << 20;

/// The client of one server.
pub struct Client {
    http: reqwest::Client,
    api: Api,
    endpoint: Url,
    root: Url,
    model: String,
    /// Whether the model is the user's choice, and another one a mistake.
    chosen: bool,
    check_model: bool,
    secret: Option<Secret>,
    key: Mutex<Option<Revealed>>,
    limits: Limits,
    max_questions: usize,
    slots: Semaphore,
    deadline: Duration,
    attempts: u32,
    /// Names of other models that have answered: each is told once.
    strangers: Mutex<HashSet<String>>,
}

impl Client {
    /// Reads the key and sets up the client; connects to nothing.
    pub fn new(api: Api, config: &RemoteConfig) -> Result<Self, LoadError> {
        let url = config.url.clone().unwrap_or_default();
        let address = config.address(api).ok_or(LoadError::RemoteUrl { url })?;
        let (endpoint, root) = endpoint(api, &address);
        let key =
            config.key(api, &address).map_err(|source| LoadError::RemoteKey { api: api.word(), source })?;
        let (secret, key) = key.unzip();
        if key.is_some() && endpoint.scheme() == "http" && !is_loopback(&endpoint) {
            tracing::warn!(address = %place(&endpoint), "the decision model's key goes over plain HTTP");
        }
        // A redirect would carry the key and the trace's content to a place that nobody configured.
        let builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(redirect::Policy::none())
            .user_agent(concat!("assayd/", env!("CARGO_PKG_VERSION")));
        let tls = config.tls.clone().unwrap_or_default();
        let http = tls
            .apply(builder)
            .map_err(|source| LoadError::RemoteTls { api: api.word(), source })?
            .build()
            .map_err(|source| LoadError::RemoteClient { source: source.into() })?;
        Ok(Self {
            http,
            api,
            endpoint,
            root,
            model: config.model(api).to_owned(),
            chosen: config.model.is_some(),
            check_model: config.check_model,
            secret,
            key: Mutex::new(key),
            limits: Limits::new(config),
            max_questions: config.max_questions.get(),
            slots: Semaphore::new(config.concurrency.get().min(Semaphore::MAX_PERMITS)),
            deadline: config.deadline.0,
            attempts: config.attempts.get(),
            strangers: Mutex::default(),
        })
    }

    /// The model that is asked for.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// What it can do.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Where requests go, for people.
    pub fn place(&self) -> String {
        place(&self.endpoint)
    }

    /// Answers an inquiry, in as many requests as its questions need.
    pub async fn ask(&self, inquiry: &Inquiry) -> Result<Reply, DecideError> {
        let size = bytes(&inquiry.state);
        let mut decisions: Vec<Option<Result<Decision, Nobody>>> =
            inquiry.questions.iter().map(|question| self.limits.refuse(size, question).map(Err)).collect();
        let open: Vec<usize> = (0..decisions.len()).filter(|at| decisions[*at].is_none()).collect();
        let chunks: Vec<&[usize]> = open.chunks(self.max_questions).collect();
        let asked = chunks.iter().map(|chunk| {
            let questions = chunk.iter().map(|at| &inquiry.questions[*at]).collect();
            self.chunk(&inquiry.state, questions)
        });
        let mut input_tokens = 0;
        for (chunk, answers) in chunks.iter().zip(join_all(asked).await) {
            let answers = answers.map_err(remote)?;
            input_tokens += answers.tokens;
            for (at, decision) in chunk.iter().zip(answers.decisions) {
                decisions[*at] = Some(decision);
            }
        }
        let missing = || Err(Nobody::Failed("the remote model gave no answer".to_owned()));
        let decisions = decisions.into_iter().map(|decision| decision.unwrap_or_else(missing)).collect();
        Ok(Reply { decisions, input_tokens, truncated: false })
    }

    /// One request. If the server refuses several questions together, each is asked alone: the others are not to blame.
    fn chunk<'a>(
        &'a self,
        state: &'a Json,
        questions: Vec<&'a Question>,
    ) -> BoxFuture<'a, Result<Answers, Failure>> {
        async move {
            match self.answers(state, &questions).await {
                Err(Failure::Refused { status, message, .. }) if questions.len() == 1 || status == 413 => {
                    let refused = || Err(Nobody::Refused(message.clone()));
                    Ok(Answers { decisions: questions.iter().map(|_| refused()).collect(), tokens: 0 })
                }
                Err(Failure::Refused { .. }) => {
                    let alone = questions.iter().map(|question| self.chunk(state, vec![question]));
                    let mut all = Answers { decisions: Vec::new(), tokens: 0 };
                    for answers in join_all(alone).await {
                        let answers = answers?;
                        all.decisions.extend(answers.decisions);
                        all.tokens += answers.tokens;
                    }
                    Ok(all)
                }
                other => other,
            }
        }
        .boxed()
    }

    async fn answers(&self, state: &Json, questions: &[&Question]) -> Result<Answers, Failure> {
        let body = self.send(&self.api.request(&self.model, state, questions)).await?;
        self.recognise(&body);
        self.api.read(&body, questions).map_err(|message| {
            metrics::decide_remote("invalid");
            Failure::Nonsense { place: self.place(), message }
        })
    }

    /// A model that answers under another name than it was asked for is told once: verdicts will name the one asked for.
    fn recognise(&self, body: &Node) {
        let Some(told) = names::of_health(body) else { return };
        if !self.chosen || names::are_same(&told, &self.model) {
            return;
        }
        let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        if strangers.len() < 10 && strangers.insert(told.clone()) {
            tracing::warn!(
                asked = self.model,
                answered = told,
                "another decision model answers than was asked for"
            );
        }
    }

    /// Sends a body until there is an answer, or trying again does not help, or the time is over.
    async fn send(&self, body: &Json) -> Result<Node, Failure> {
        let closed = |_| Failure::Timeout { place: self.place() };
        let mut until = None;
        let mut attempt = 1;
        loop {
            let slot = self.slots.acquire().await.map_err(closed)?;
            // Waiting for a turn is not the server's slowness.
            let deadline = *until.get_or_insert_with(|| Instant::now() + self.deadline);
            let started = Instant::now();
            let tried = timeout_at(deadline, self.attempt(body)).await;
            drop(slot);
            metrics::decide_remote_seconds(started.elapsed());
            let failure = match tried {
                Ok(Ok(node)) => {
                    metrics::decide_remote("ok");
                    return Ok(node);
                }
                Ok(Err(failure)) => failure,
                Err(_) => Failure::Timeout { place: self.place() },
            };
            metrics::decide_remote(failure.result());
            let Some(wait) = failure.wait(attempt) else { return Err(failure) };
            if attempt >= self.attempts || Instant::now() + wait >= deadline {
                return Err(failure);
            }
            tracing::debug!(%failure, attempt, "asking the remote decision model again");
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    async fn attempt(&self, body: &Json) -> Result<Node, Failure> {
        match self.request(Method::POST, &self.endpoint, Some(body)).await {
            Err(Failure::Denied { .. }) if self.has_another_key() => {
                self.request(Method::POST, &self.endpoint, Some(body)).await
            }
            other => other,
        }
    }

    /// Asks the server about itself.
    pub async fn aside(&self, path: &str) -> Result<Node, Failure> {
        let mut url = self.root.clone();
        url.set_path(&format!("{}{path}", url.path().trim_end_matches('/')));
        let asked = tokio::time::timeout(ASIDE, self.request(Method::GET, &url, None)).await;
        asked.unwrap_or_else(|_| Err(Failure::Timeout { place: place(&url) }))
    }

    async fn request(&self, method: Method, url: &Url, body: Option<&Json>) -> Result<Node, Failure> {
        let unreachable =
            |error: reqwest::Error| Failure::Unreachable { place: place(url), message: cause(&error) };
        let key = self.key.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut request = self.http.request(method, url.clone());
        if let Some(header) = key.as_ref().and_then(bearer) {
            request = request.header(AUTHORIZATION, header);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let retry_after = retry_after(response.headers(), SystemTime::now());
        let body = read(response).await.map_err(unreachable)?;
        let nonsense = |message: String| Failure::Nonsense { place: place(url), message };
        if !status.is_success() {
            let mut told = message(body.as_deref().unwrap_or_default());
            if let Some(key) = &key {
                told = told.replace(key.expose(), "[secret]");
            }
            return Err(Failure::of_status(place(url), status.as_u16(), told, retry_after));
        }
        let body = body.ok_or_else(|| nonsense(format!("it is larger than {MAX_BODY} bytes")))?;
        let text = std::str::from_utf8(&body).map_err(|error| nonsense(error.to_string()))?;
        Node::read(text).map_err(|error| nonsense(error.to_string()))
    }

    /// Reads the key again, for its file may have been rotated. Whether it is another one now.
    fn has_another_key(&self) -> bool {
        let Some(Ok(fresh)) = self.secret.as_ref().map(Secret::reveal) else { return false };
        let mut known = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        let differs = known.as_ref() != Some(&fresh);
        *known = Some(fresh);
        differs
    }

    /// Whether the names of models that a server tells speak against the one that is asked for.
    pub fn judge_names(&self, found: &[String]) -> Result<(), Failure> {
        let listed = found.join(", ");
        if found.is_empty() {
            tracing::info!(
                place = self.place(),
                "the decision model's server does not say which models it has"
            );
            return Ok(());
        }
        if found.iter().any(|name| names::are_same(name, &self.model)) {
            return Ok(());
        }
        if self.chosen && self.check_model {
            return Err(Failure::OtherModel {
                place: self.place(),
                wanted: self.model.clone(),
                found: listed,
                setting: format!("decide.model.{}.model", self.api.word()),
            });
        }
        tracing::warn!(
            asked = self.model,
            served = listed,
            "the decision model's server lists other models than the one that is asked for"
        );
        Ok(())
    }
}

/// A failed request as an error of the room.
pub fn remote(failure: Failure) -> DecideError {
    let fault = failure.fault();
    DecideError::Remote { source: std::sync::Arc::new(failure), fault }
}

/// Where questions go, and the address of the server itself.
fn endpoint(api: Api, address: &Url) -> (Url, Url) {
    let path = address.path().trim_end_matches('/');
    let base = path.strip_suffix(&format!("/{}", api.word())).unwrap_or(path);
    let is_whole = base.len() < path.len();
    let root = base.strip_suffix("/v1").unwrap_or(base);
    let mut endpoint = address.clone();
    if !is_whole {
        endpoint.set_path(&format!("{root}/v1/{}", api.word()));
    }
    let mut home = address.clone();
    home.set_path(root);
    home.set_query(None);
    (endpoint, home)
}

/// An address for people: without credentials and query, which may hold a key.
fn place(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    host == "localhost"
        || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

fn bearer(key: &Revealed) -> Option<HeaderValue> {
    let mut header = HeaderValue::try_from(format!("Bearer {}", key.expose())).ok()?;
    header.set_sensitive(true);
    Some(header)
}

/// What a client's error comes from. Its outermost text names the address, which may hold a key in its query.
fn cause(error: &reqwest::Error) -> String {
    let mut causes = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        causes.push(error.to_string());
        cause = error.source();
    }
    if causes.is_empty() { "the connection failed".to_owned() } else { causes.join(": ") }
}

/// The body; none if it is too large.
async fn read(mut response: Response) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > MAX_BODY {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// `Retry-After` in seconds or as a date, or the more exact `retry-after-ms`.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    let asked = text(RETRY_AFTER.as_str())?;
    if let Ok(seconds) = asked.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = u64::try_from(jiff::fmt::rfc2822::parse(asked).ok()?.timestamp().as_second()).ok()?;
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Some(Duration::from_secs(at).saturating_sub(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_the_path_or_a_part_of_it() {
        for (given, asked, root) in [
            ("http://h:8000", "http://h:8000/v1/systemone", "http://h:8000/"),
            ("http://h/v1/", "http://h/v1/systemone", "http://h/"),
            ("http://h/v1/systemone", "http://h/v1/systemone", "http://h/"),
            ("http://h/proxy/systemone?a=b", "http://h/proxy/systemone?a=b", "http://h/proxy"),
            ("http://h/api", "http://h/api/v1/systemone", "http://h/api"),
        ] {
            let (endpoint, home) = endpoint(Api::Systemone, &Url::parse(given).unwrap());
            assert_eq!((endpoint.as_str(), home.as_str()), (asked, root), "{given}");
        }
        let url = Url::parse("http://user:pass@h:1/x?key=s").unwrap();
        assert_eq!(place(&url), "http://h:1/x");
    }

    #[test]
    fn retry_after_is_read_in_all_its_forms() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_445_412_400);
        let read = |name: &'static str, value: &str| {
            let name = reqwest::header::HeaderName::from_static(name);
            retry_after(&HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())]), now)
        };
        assert_eq!(read("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(read("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        assert_eq!(read("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::from_secs(80)));
        assert_eq!(read("retry-after", "Wed, 21 Oct 2015 07:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(read("retry-after", "soon"), None);
        assert_eq!(read("retry-after", "-1"), None);
    }
}
