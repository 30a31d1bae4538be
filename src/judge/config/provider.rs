//! Who the judge is: one of the providers.

use reqwest::Url;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::secret::Secret;

/// An endpoint that speaks OpenAI's `chat/completions`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenAiConfig {
    /// The base address, such as `https://api.openai.com/v1`, or Azure's `https://NAME.openai.azure.com/openai/deployments/NAME`;
    /// a query is kept.
    pub url: String,
    /// The model's name as the endpoint knows it.
    pub model: String,
    /// The key; read at the start and again when the endpoint refuses it. None is sent if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Secret>,
    /// The header that carries the bare key; absent: `authorization: Bearer KEY`, or Azure's `api-key` with an `api_version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_header: Option<String>,
    /// Azure's version of the interface, such as `2024-10-21`; goes into the query as `api-version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The sampling temperature; left out for models that refuse it, or if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
}

/// An endpoint that speaks Anthropic's `messages`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnthropicConfig {
    /// The base address.
    #[serde(default = "anthropic")]
    pub url: String,
    /// The model's name.
    pub model: String,
    /// The key; read at the start and again when the endpoint refuses it. None is sent if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Secret>,
    /// The header that carries the key; absent: `x-api-key`; with `authorization` it is sent as `Bearer KEY`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_header: Option<String>,
    /// The version of the interface, sent as `anthropic-version`.
    #[serde(default = "version")]
    pub version: String,
    /// The sampling temperature; left out for models that refuse it, or if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
}

fn anthropic() -> String {
    "https://api.anthropic.com".to_owned()
}

fn version() -> String {
    "2023-06-01".to_owned()
}

impl Default for AnthropicConfig {
    fn default() -> Self {
        Self {
            url: anthropic(),
            model: String::new(),
            key: None,
            key_header: None,
            version: version(),
            temperature: None,
        }
    }
}

/// A model of AWS Bedrock, by Converse.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BedrockConfig {
    /// The AWS region, such as `eu-central-1`.
    pub region: String,
    /// The id or ARN of the model or inference profile.
    pub model: String,
    /// Another base address, such as that of a VPC endpoint; the region's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A Bedrock API key, sent as a bearer token. Absent: requests are signed with credentials of AWS' usual chain
    /// (environment, profile, web identity, container, instance), by builds with the feature `bedrock`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Secret>,
    /// The profile of the shared AWS configuration; the chain's own choice if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The sampling temperature; left out for models that refuse it, or if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
}

/// The provider that is configured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Provider<'a> {
    /// `judge.openai`.
    OpenAi(&'a OpenAiConfig),
    /// `judge.anthropic`.
    Anthropic(&'a AnthropicConfig),
    /// `judge.bedrock`.
    Bedrock(&'a BedrockConfig),
}

impl<'a> Provider<'a> {
    /// Its name in the configuration, and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi(_) => "openai",
            Self::Anthropic(_) => "anthropic",
            Self::Bedrock(_) => "bedrock",
        }
    }

    /// The model's name.
    pub fn model(self) -> &'a str {
        match self {
            Self::OpenAi(openai) => &openai.model,
            Self::Anthropic(anthropic) => &anthropic.model,
            Self::Bedrock(bedrock) => &bedrock.model,
        }
    }

    /// Adds what is wrong to `problems`.
    pub fn check(self, problems: &mut Vec<String>) {
        let name = self.name();
        if self.model().trim().is_empty() {
            problems.push(format!("judge.{name}.model must not be empty"));
        }
        let (url, temperature) = match self {
            Self::OpenAi(openai) => (Some(&openai.url), openai.temperature),
            Self::Anthropic(anthropic) => (Some(&anthropic.url), anthropic.temperature),
            Self::Bedrock(bedrock) => (bedrock.url.as_ref(), bedrock.temperature),
        };
        if let Some(url) = url.filter(|url| web_address(url).is_none()) {
            problems.push(format!("judge.{name}.url ({url:?}) must be an http or https address"));
        }
        if temperature.is_some_and(|temperature| !(0.0..=2.0).contains(&temperature)) {
            problems.push(format!("judge.{name}.temperature must be from 0 to 2"));
        }
        if let Self::Bedrock(bedrock) = self {
            let is_region =
                |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
            if bedrock.region.is_empty() || !bedrock.region.chars().all(is_region) {
                let region = &bedrock.region;
                problems.push(format!(
                    "judge.bedrock.region ({region:?}) must be an AWS region such as us-east-1"
                ));
            }
            if bedrock.key.is_some() && bedrock.profile.is_some() {
                problems.push("judge.bedrock: give a key or a profile, not both".to_owned());
            }
        }
    }
}

/// An http or https address.
pub(crate) fn web_address(text: &str) -> Option<Url> {
    Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
}
