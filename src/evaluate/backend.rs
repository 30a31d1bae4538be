//! Which model answers, in one word: the names that every `--model` and `--judge` takes.

use std::fmt;
use std::str::FromStr;

use crate::config::Config;
use crate::decide::ModelName;
use crate::judge::{AnthropicConfig, BedrockConfig, OpenAiConfig};
use crate::secret::Secret;

/// Where `openai:` goes unless told otherwise.
const OPENAI: &str = "https://api.openai.com/v1";

/// What answers questions.
///
/// ```
/// use assayd::evaluate::Backend;
///
/// let judge: Backend = "openai:judge-large@https://judge.internal/v1".parse()?;
/// assert!(judge.is_judge());
/// assert_eq!("embedded".parse(), Ok(Backend::Embedded));
/// # Ok::<(), assayd::evaluate::BackendError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Backend {
    /// `embedded`: the starter model in the binary.
    Embedded,
    /// `strands:NAME`, or the bare name: a checkpoint's folder or Hub id.
    Strands(String),
    /// `systemone:URL`, `systemone:URL#MODEL`: a server that speaks `/v1/systemone`; without an address the hosted one.
    Systemone(String),
    /// `decisions:URL`, `decisions:URL#MODEL`: a server that speaks `/v1/decisions`; without an address the hosted one.
    Decisions(String),
    /// `openai:MODEL`, `openai:MODEL@URL`: any endpoint that speaks `chat/completions`.
    OpenAi(Endpoint),
    /// `anthropic:MODEL`, `anthropic:MODEL@URL`.
    Anthropic(Endpoint),
    /// `bedrock:MODEL`, `bedrock:MODEL@REGION`.
    Bedrock(Endpoint),
}

/// An LLM and where it is asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The model's name.
    pub model: String,
    /// Its address or region; the provider's own if not given.
    pub at: Option<String>,
}

/// Why a text names no backend, or one that cannot be used so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackendError {
    /// Nothing is named.
    #[error("the model's name is empty; write {WANTED}")]
    Empty,
    /// The kind needs a name after its colon.
    #[error("{text:?} names no {what}; write {WANTED}")]
    Nameless {
        /// As given.
        text: String,
        /// What is missing.
        what: &'static str,
    },
    /// The address is none.
    #[error("{address:?} is no http or https address")]
    Address {
        /// As given.
        address: String,
    },
    /// The configuration that it makes is wrong.
    #[error("{backend}: {problem}")]
    Wrong {
        /// Which.
        backend: String,
        /// What is wrong.
        problem: String,
    },
    /// An LLM where a decision model is wanted.
    #[error(
        "{backend} is an LLM and no decision model; that is embedded, strands:NAME, systemone:URL or decisions:URL"
    )]
    NoDecider {
        /// Which.
        backend: String,
    },
    /// AWS is asked in a region.
    #[error("bedrock:{model} has no region: write bedrock:{model}@REGION, or set AWS_REGION")]
    NoRegion {
        /// The model.
        model: String,
    },
    /// A decision model where a judge is wanted.
    #[error(
        "{backend} is a decision model and no judge; a judge is openai:MODEL, anthropic:MODEL or bedrock:MODEL"
    )]
    NoJudge {
        /// Which.
        backend: String,
    },
    /// Two LLMs, one after the other.
    #[error("{backend} is an LLM already and answers all questions: leave out the judge")]
    JudgeTwice {
        /// Which.
        backend: String,
    },
}

/// What can be written.
const WANTED: &str = "embedded, strands:NAME (or a checkpoint's folder or Hub id), systemone:URL, decisions:URL, \
                      openai:MODEL[@URL], anthropic:MODEL[@URL] or bedrock:MODEL[@REGION]";

impl FromStr for Backend {
    type Err = BackendError;

    fn from_str(text: &str) -> Result<Self, BackendError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(BackendError::Empty);
        }
        let Some((kind, rest)) = text.split_once(':') else {
            return Ok(match text {
                "embedded" => Self::Embedded,
                "systemone" => Self::Systemone(String::new()),
                "decisions" => Self::Decisions(String::new()),
                name => Self::Strands(name.to_owned()),
            });
        };
        let named = |what| {
            let rest = rest.trim();
            let missing = BackendError::Nameless { text: text.to_owned(), what };
            if rest.is_empty() { Err(missing) } else { Ok(rest.to_owned()) }
        };
        match kind {
            "strands" => named("checkpoint").map(Self::Strands),
            "systemone" => Ok(Self::Systemone(address(named("address")?)?)),
            "decisions" => Ok(Self::Decisions(address(named("address")?)?)),
            "openai" => Ok(Self::OpenAi(endpoint(named("model")?, true)?)),
            "anthropic" => Ok(Self::Anthropic(endpoint(named("model")?, true)?)),
            "bedrock" => Ok(Self::Bedrock(endpoint(named("model")?, false)?)),
            // A folder's name may hold a colon.
            _ => Ok(Self::Strands(text.to_owned())),
        }
    }
}

fn address(text: String) -> Result<String, BackendError> {
    let is_web = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match is_web {
        Some(host) if !host.is_empty() => Ok(text),
        _ => Err(BackendError::Address { address: text }),
    }
}

fn endpoint(text: String, by_address: bool) -> Result<Endpoint, BackendError> {
    let Some((model, at)) = text.split_once('@').filter(|(model, at)| !model.is_empty() && !at.is_empty())
    else {
        return Ok(Endpoint { model: text, at: None });
    };
    let at = if by_address { address(at.to_owned())? } else { at.to_owned() };
    Ok(Endpoint { model: model.to_owned(), at: Some(at) })
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = match self {
            Self::Embedded => return f.write_str("embedded"),
            Self::Strands(name) => ("strands", name),
            Self::Systemone(url) => ("systemone", url),
            Self::Decisions(url) => ("decisions", url),
            Self::OpenAi(endpoint) => ("openai", &endpoint.model),
            Self::Anthropic(endpoint) => ("anthropic", &endpoint.model),
            Self::Bedrock(endpoint) => ("bedrock", &endpoint.model),
        };
        if name.is_empty() {
            return f.write_str(kind);
        }
        write!(f, "{kind}:{name}")?;
        match self {
            Self::OpenAi(Endpoint { at: Some(at), .. })
            | Self::Anthropic(Endpoint { at: Some(at), .. })
            | Self::Bedrock(Endpoint { at: Some(at), .. }) => write!(f, "@{at}"),
            _ => Ok(()),
        }
    }
}

impl Backend {
    /// Whether it is an LLM, which picks and gives no probabilities, rather than a decision model.
    pub fn is_judge(&self) -> bool {
        matches!(self, Self::OpenAi(_) | Self::Anthropic(_) | Self::Bedrock(_))
    }

    /// Puts a decision model into `config`.
    pub(super) fn decide(&self, config: &mut Config) -> Result<(), BackendError> {
        match self {
            Self::Embedded => config.decide.model = ModelName::Embedded,
            Self::Strands(name) => config.decide.model = ModelName::parse(name),
            Self::Systemone(_) | Self::Decisions(_) => {
                let named = ModelName::parse(&self.to_string());
                // What the configuration says of this very server (its key, its limits) stays.
                if !config.decide.model.is_at(&named) {
                    config.decide.model = named;
                }
            }
            Self::OpenAi(_) | Self::Anthropic(_) | Self::Bedrock(_) => {
                return Err(BackendError::NoDecider { backend: self.to_string() });
            }
        }
        let mut problems = Vec::new();
        config.decide.check(&mut problems);
        if problems.is_empty() {
            return Ok(());
        }
        Err(BackendError::Wrong { backend: self.to_string(), problem: problems.join("; ") })
    }

    /// Puts a judge into `config`, alone. What the configuration says of its provider stays, unless this names another address.
    pub(super) fn judge(&self, config: &mut Config) -> Result<(), BackendError> {
        let judge = &mut config.judge;
        let known = (judge.openai.take(), judge.anthropic.take(), judge.bedrock.take());
        match self {
            Self::OpenAi(endpoint) => judge.openai = Some(openai(endpoint, known.0)),
            Self::Anthropic(endpoint) => judge.anthropic = Some(anthropic(endpoint, known.1)),
            Self::Bedrock(endpoint) => judge.bedrock = Some(bedrock(endpoint, known.2)?),
            other => return Err(BackendError::NoJudge { backend: other.to_string() }),
        }
        Ok(())
    }
}

/// A provider's key, from the variable that its own tools read. It goes to the provider, or where the person at the keyboard
/// sends it.
fn key(variable: &str) -> Option<Secret> {
    std::env::var_os(variable).is_some().then(|| Secret::Env(variable.to_owned()))
}

/// Whether what is known of a provider holds for this endpoint too.
fn is_there(endpoint: &Endpoint, known: &str) -> bool {
    endpoint.at.as_ref().is_none_or(|at| at == known)
}

fn openai(endpoint: &Endpoint, known: Option<OpenAiConfig>) -> OpenAiConfig {
    let model = endpoint.model.clone();
    if let Some(known) = known.filter(|known| is_there(endpoint, &known.url)) {
        return OpenAiConfig { model, ..known };
    }
    let url = endpoint.at.clone().unwrap_or_else(|| OPENAI.to_owned());
    OpenAiConfig { url, model, key: key("OPENAI_API_KEY"), ..OpenAiConfig::default() }
}

fn anthropic(endpoint: &Endpoint, known: Option<AnthropicConfig>) -> AnthropicConfig {
    let model = endpoint.model.clone();
    if let Some(known) = known.filter(|known| is_there(endpoint, &known.url)) {
        return AnthropicConfig { model, ..known };
    }
    let usual = AnthropicConfig::default();
    let url = endpoint.at.clone().unwrap_or(usual.url);
    AnthropicConfig { url, model, key: key("ANTHROPIC_API_KEY"), ..AnthropicConfig::default() }
}

fn bedrock(endpoint: &Endpoint, known: Option<BedrockConfig>) -> Result<BedrockConfig, BackendError> {
    let model = endpoint.model.clone();
    if let Some(known) = known.filter(|known| is_there(endpoint, &known.region)) {
        return Ok(BedrockConfig { model, ..known });
    }
    let from_env = || ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().find_map(|name| std::env::var(name).ok());
    let region = endpoint.at.clone().or_else(from_env).filter(|region| !region.is_empty());
    let region = region.ok_or_else(|| BackendError::NoRegion { model: model.clone() })?;
    Ok(BedrockConfig { region, model, key: key("AWS_BEARER_TOKEN_BEDROCK"), ..BedrockConfig::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_and_written_back() {
        for text in [
            "embedded",
            "strands:./models/mine",
            "strands:owner/name@main",
            "systemone",
            "systemone:http://127.0.0.1:8080#nimble",
            "decisions:https://api.openai.com/v1",
            "openai:gpt-large",
            "openai:large@https://judge.internal/v1",
            "anthropic:claude",
            "bedrock:anthropic.claude-v1:0",
            "bedrock:anthropic.claude-v1:0@eu-west-1",
        ] {
            assert_eq!(text.parse::<Backend>().unwrap().to_string(), text);
        }
        assert_eq!("owner/name".parse(), Ok(Backend::Strands("owner/name".to_owned())));
        assert_eq!(" embedded ".parse(), Ok(Backend::Embedded));
    }

    #[test]
    fn mistakes_say_what_can_be_written() {
        for text in ["", "openai:", "strands: ", "systemone:localhost", "openai:m@judge", "decisions:http://"]
        {
            let message = text.parse::<Backend>().unwrap_err().to_string();
            assert!(message.contains("openai:MODEL") || message.contains("http"), "{text}: {message}");
        }
    }

    #[test]
    fn a_remote_decision_model_keeps_what_the_configuration_says_of_its_server() {
        let known: crate::decide::Config =
            serde_saphyr::from_str("model: { systemone: { url: 'http://h:1', model: m, concurrency: 3 } }")
                .unwrap();
        let mut config = Config { decide: known.clone(), ..Config::default() };
        for same in ["systemone:http://h:1", "systemone:http://h:1#m"] {
            same.parse::<Backend>().unwrap().decide(&mut config).unwrap();
            assert_eq!(config.decide, known, "{same}");
        }
        for other in ["systemone:http://h:1#n", "systemone:http://g:1", "decisions:http://h:1"] {
            config.decide = known.clone();
            other.parse::<Backend>().unwrap().decide(&mut config).unwrap();
            assert_eq!(config.decide.model.to_string(), other);
        }
    }

    #[test]
    fn a_judge_keeps_what_the_configuration_says_of_its_endpoint() {
        let mut config = Config::default();
        let known = OpenAiConfig {
            url: "https://judge/v1".to_owned(),
            model: "small".to_owned(),
            key: Some(Secret::Env("JUDGE_KEY".to_owned())),
            ..OpenAiConfig::default()
        };
        config.judge.openai = Some(known.clone());
        "openai:large".parse::<Backend>().unwrap().judge(&mut config).unwrap();
        assert_eq!(config.judge.openai, Some(OpenAiConfig { model: "large".to_owned(), ..known }));
        "openai:large@http://other/v1".parse::<Backend>().unwrap().judge(&mut config).unwrap();
        let other = config.judge.openai.clone().unwrap();
        assert_eq!(other.url, "http://other/v1");
        assert_ne!(
            other.key,
            Some(Secret::Env("JUDGE_KEY".to_owned())),
            "a key does not go to another endpoint"
        );
        assert!(Backend::Embedded.judge(&mut config).is_err());
        "anthropic:claude".parse::<Backend>().unwrap().judge(&mut config).unwrap();
        "bedrock:nova@eu-west-1".parse::<Backend>().unwrap().judge(&mut config).unwrap();
        let mut problems = Vec::new();
        config.judge.check(&mut problems);
        assert_eq!((config.judge.model(), problems), (Some("nova"), vec![]), "there is one judge");
    }
}
