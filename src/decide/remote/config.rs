//! `decide.model: { systemone: … }` and `{ decisions: … }`.

use std::num::{NonZeroU32, NonZeroUsize};

use reqwest::Url;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Api;
use crate::domain::{Kind, Period};
use crate::net::TlsClient;
use crate::secret::{Revealed, Secret, SecretError};

/// In this variable a key for an address that names none is looked for, unless it is the hosted service's.
const KEY: &str = "ASSAYD_DECIDE_KEY";

/// A decision model behind HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RemoteConfig {
    /// The address, with or without the API's path. Not given: the hosted service's.
    pub url: Option<String>,
    /// The model that is asked for. Not given: `jev-latest`, or `gpt-6-luna` of the Decisions API.
    pub model: Option<String>,
    /// The key; read at the start and again when it is refused. Not given: for the hosted service `TYPESAFE_API_KEY` (or
    /// `OPENAI_API_KEY`), for other addresses `ASSAYD_DECIDE_KEY`, if it is set.
    pub key: Option<Secret>,
    /// Authorities and a certificate of assayd's own for `https`, beyond the system's authorities.
    pub tls: Option<TlsClient>,
    /// Whether a server that serves other models than `model` is an error at the start, or only a warning.
    pub check_model: bool,
    /// How long an inquiry may take with all waits and attempts.
    pub deadline: Period,
    /// Attempts when the server is overloaded, failing or out of reach.
    pub attempts: NonZeroU32,
    /// Requests at the same time, at most.
    pub concurrency: NonZeroUsize,
    /// Most questions of one request; more are asked in several.
    pub max_questions: NonZeroUsize,
    /// The kinds of questions that the model answers; others are not sent.
    pub kinds: Vec<RemoteKind>,
    /// Most options of a choice; a question with more is not sent.
    pub max_options: NonZeroUsize,
    /// Most levels of a score; a question with more is not sent.
    pub max_levels: NonZeroUsize,
    /// The model's window in tokens: what is longer, at four bytes a token, is not sent. Not given: the server decides.
    pub window: Option<NonZeroU32>,
}

/// A kind of question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RemoteKind {
    /// Yes or no.
    Noul,
    /// One of several options.
    Choice,
    /// One of several ordered levels.
    Score,
}

impl RemoteKind {
    /// The kind of a question.
    pub fn of(kind: &Kind) -> Self {
        match kind {
            Kind::Noul { .. } => RemoteKind::Noul,
            Kind::Choice { .. } => RemoteKind::Choice,
            Kind::Score { .. } => RemoteKind::Score,
        }
    }
}

impl Default for RemoteConfig {
    fn default() -> Self {
        Self {
            url: None,
            model: None,
            key: None,
            tls: None,
            check_model: true,
            deadline: Period::seconds(60),
            attempts: NonZeroU32::new(5).expect("5 is not zero"),
            concurrency: NonZeroUsize::new(8).expect("8 is not zero"),
            max_questions: NonZeroUsize::new(64).expect("64 is not zero"),
            kinds: vec![RemoteKind::Noul, RemoteKind::Choice, RemoteKind::Score],
            max_options: NonZeroUsize::new(255).expect("255 is not zero"),
            max_levels: NonZeroUsize::new(10).expect("10 is not zero"),
            window: None,
        }
    }
}

impl RemoteConfig {
    /// From the short form `ADDRESS#MODEL`; either may be left out.
    pub fn parse(text: &str) -> Self {
        let (url, model) = text.split_once('#').unwrap_or((text, ""));
        let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        Self { url: given(url), model: given(model), ..Self::default() }
    }

    /// The short form.
    pub fn short(&self) -> String {
        let model = self.model.as_ref().map(|model| format!("#{model}")).unwrap_or_default();
        format!("{}{model}", self.url.as_deref().unwrap_or_default())
    }

    /// Adds what is wrong; `api` says in which section it stands.
    pub fn check(&self, api: Api, problems: &mut Vec<String>) {
        let section = format!("decide.model.{}", api.word());
        if self.address(api).is_none() {
            let url = self.url.as_deref().unwrap_or_default();
            problems.push(format!(
                "{section}.url ({url:?}) must be an address that starts with http:// or https://"
            ));
        }
        if let Some(tls) = &self.tls {
            tls.check(&format!("{section}.tls"), problems);
        }
        if self.kinds.is_empty() {
            problems.push(format!("{section}.kinds is empty: such a model answers nothing"));
        }
        if self.deadline.0.is_zero() {
            problems.push(format!("{section}.deadline (0s) must be above 0"));
        }
    }

    pub(super) fn address(&self, api: Api) -> Option<Url> {
        let url = Url::parse(self.url.as_deref().unwrap_or(api.home())).ok()?;
        (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
    }

    pub(super) fn model(&self, api: Api) -> &str {
        self.model.as_deref().unwrap_or(api.default_model())
    }

    /// Where the key is, and the key; none if the address needs none.
    pub(super) fn key(&self, api: Api, address: &Url) -> Result<Option<(Secret, Revealed)>, SecretError> {
        if let Some(secret) = &self.key {
            return Ok(Some((secret.clone(), secret.reveal()?)));
        }
        let home = Url::parse(api.home()).ok();
        if address.host_str() == home.as_ref().and_then(Url::host_str) {
            let secret = Secret::Env(api.home_key().to_owned());
            return Ok(Some((secret.clone(), secret.reveal()?)));
        }
        let secret = Secret::Env(KEY.to_owned());
        match secret.reveal() {
            Ok(key) => Ok(Some((secret, key))),
            Err(SecretError::Unset { .. } | SecretError::Empty { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_is_an_address_and_perhaps_a_model() {
        let config = RemoteConfig::parse("http://localhost:11434#nimble");
        assert_eq!(config.url.as_deref(), Some("http://localhost:11434"));
        assert_eq!(config.model(Api::Systemone), "nimble");
        assert_eq!(config.short(), "http://localhost:11434#nimble");
        let hosted = RemoteConfig::parse("");
        assert_eq!(hosted.address(Api::Systemone).unwrap().as_str(), "https://api.typesafe.ai/");
        assert_eq!(hosted.model(Api::Systemone), "jev-latest");
        assert_eq!(hosted.model(Api::Decisions), "gpt-6-luna");
    }

    #[test]
    fn what_cannot_work_is_reported() {
        let config: RemoteConfig = serde_saphyr::from_str("{ url: localhost:8000, kinds: [] }").unwrap();
        let mut problems = Vec::new();
        config.check(Api::Systemone, &mut problems);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("decide.model.systemone.url") && problems[0].contains("http://"));
        let error = serde_saphyr::from_str::<RemoteConfig>("{ urll: x }").unwrap_err().to_string();
        assert!(error.contains("check_model"), "{error}");
    }

    #[test]
    fn the_hosted_service_needs_a_key_and_other_addresses_need_none() {
        let hosted =
            RemoteConfig { key: Some(Secret::Env("ASSAYD_NO_SUCH_KEY".into())), ..RemoteConfig::default() };
        let address = hosted.address(Api::Systemone).unwrap();
        let error = hosted.key(Api::Systemone, &address).unwrap_err();
        assert!(error.to_string().contains("ASSAYD_NO_SUCH_KEY"));
        let local = RemoteConfig::parse("http://127.0.0.1:1");
        let address = local.address(Api::Systemone).unwrap();
        assert!(local.key(Api::Systemone, &address).unwrap().is_none());
    }
}
