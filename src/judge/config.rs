//! The `judge` section.

mod prices;
mod provider;

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::{ByteSize, Period};
use crate::net::TlsClient;

pub use prices::{PriceBasis, Pricing};
pub use provider::{AnthropicConfig, BedrockConfig, OpenAiConfig};
pub(super) use provider::{Provider, web_address};

/// The LLM judge that answers what the decision model is unsure of. Without a provider there is no judge: unsure answers
/// stay unsure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// An endpoint that speaks OpenAI's `chat/completions`: OpenAI, Azure, vLLM, Ollama, LiteLLM and others.
    pub openai: Option<OpenAiConfig>,
    /// An endpoint that speaks Anthropic's `messages`.
    pub anthropic: Option<AnthropicConfig>,
    /// A model of AWS Bedrock.
    pub bedrock: Option<BedrockConfig>,
    /// Authorities and a certificate of assayd's own for `https`, beyond the system's authorities.
    pub tls: Option<TlsClient>,
    /// How long one ask may take with all waits and attempts; then the decision model's answers stay.
    pub deadline: Period,
    /// How long one HTTP attempt may take.
    pub attempt_timeout: Period,
    /// HTTP attempts per call when the endpoint is overloaded, failing or unreachable.
    pub attempts: NonZeroU32,
    /// How often a reply that is invalid or incomplete is asked for again, with what was wrong and only the open questions.
    pub repairs: u32,
    /// Calls at the same time, at most; fewer while the endpoint says that it is overloaded.
    pub concurrency: NonZeroUsize,
    /// HTTP requests per minute, at most. No limit if absent.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Tokens per minute, at most: the prompt's (estimated) and the reply's limit. No limit if absent.
    pub tokens_per_minute: Option<NonZeroU32>,
    /// The prompt's tokens (estimated), at most. Of a longer one the evidence is cut to what is nearest to the claims and
    /// questions, and the verdict says so. If absent, the limit is learnt from the endpoint's refusals.
    pub max_input_tokens: Option<NonZeroU32>,
    /// Tokens that a reply may have, reasoning included.
    pub max_output_tokens: NonZeroU32,
    /// Failures in a row after which the endpoint is left alone.
    pub breaker_failures: NonZeroU32,
    /// For how long it is left alone before one call tries it again.
    pub breaker_pause: Period,
    /// Money that may be spent in an hour (UTC), counted on every attempt. No limit if absent.
    pub usd_per_hour: Option<f64>,
    /// Money that may be spent in a day (UTC), counted on every attempt. No limit if absent.
    pub usd_per_day: Option<f64>,
    /// What models cost, by the name in `model`. Of models that are not here a few well-known ones have a built-in price, written
    /// down in December 2025 and not looked up since: a default to override. Any other costs nothing; but under a budget it is
    /// counted at 10 and 40 dollars per million tokens, so that the budget ends early rather than never. The log at the start and
    /// `GET /v1/status` say which price is used.
    pub prices: BTreeMap<String, Price>,
    /// How claims are put to the judge: each as a question with its labels (`off`), or all together to be sorted into GSAR's four
    /// lists with the kind of evidence, gaps and contradictions: those that the decision model is unsure of (`escalated`), or
    /// every claim (`always`). The verdict then has both views in `grounding.views`. Takes more tokens of the reply.
    pub partition: Partitioning,
    /// Answers that are kept for equal asks.
    pub cache: CacheConfig,
    /// Own prompt templates.
    pub prompts: PromptsConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            openai: None,
            anthropic: None,
            bedrock: None,
            tls: None,
            deadline: Period::seconds(90),
            attempt_timeout: Period::seconds(60),
            attempts: NonZeroU32::new(4).expect("4 is not zero"),
            repairs: 1,
            concurrency: NonZeroUsize::new(16).expect("16 is not zero"),
            requests_per_minute: None,
            tokens_per_minute: None,
            max_input_tokens: None,
            max_output_tokens: NonZeroU32::new(4096).expect("4096 is not zero"),
            breaker_failures: NonZeroU32::new(5).expect("5 is not zero"),
            breaker_pause: Period::seconds(30),
            usd_per_hour: None,
            usd_per_day: None,
            prices: BTreeMap::new(),
            partition: Partitioning::default(),
            cache: CacheConfig::default(),
            prompts: PromptsConfig::default(),
        }
    }
}

/// Which claims are put to the judge together, to be sorted into GSAR's four lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Partitioning {
    /// None: each that the decision model is unsure of is a question of its own.
    #[default]
    Off,
    /// Those that the decision model is unsure of.
    Escalated,
    /// All of them.
    Always,
}

/// What a model costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// USD per million tokens of the prompt.
    pub usd_per_million_input: f64,
    /// USD per million tokens of the reply.
    pub usd_per_million_output: f64,
}

/// Answers that are kept for equal asks; equal asks at the same time share one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CacheConfig {
    /// Memory for kept answers, at most; 0 keeps none (asks at the same time still share a call).
    pub max_bytes: ByteSize,
    /// How long an answer is kept.
    pub keep: Period,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self { max_bytes: ByteSize::mib(32), keep: Period::seconds(3600) }
    }
}

/// Own prompt templates (Jinja) in place of the built-in ones, which are in `config/prompts/`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PromptsConfig {
    /// The system message's template; `judge.system.jinja` if absent.
    pub system: Option<PathBuf>,
    /// The user message's template; `judge.user.jinja` if absent.
    pub user: Option<PathBuf>,
    /// What is added to the user message where claims are to be partitioned; `judge.partition.jinja` if absent.
    pub partition: Option<PathBuf>,
    /// The system message's template for own metrics; `metric.system.jinja` if absent.
    pub metric_system: Option<PathBuf>,
    /// The user message's template for own metrics without one of their own; `metric.user.jinja` if absent.
    pub metric_user: Option<PathBuf>,
}

/// Of a model without a price while there is no budget.
const FREE: Price = Price { usd_per_million_input: 0.0, usd_per_million_output: 0.0 };

/// Of a model without a price under a budget: above what most models cost.
const ASSUMED: Price = Price { usd_per_million_input: 10.0, usd_per_million_output: 40.0 };

impl Config {
    /// The judge's model, if there is a judge.
    pub fn model(&self) -> Option<&str> {
        self.provider().map(Provider::model)
    }

    /// The provider, if there is one.
    pub(super) fn provider(&self) -> Option<Provider<'_>> {
        self.providers().into_iter().flatten().next()
    }

    fn providers(&self) -> [Option<Provider<'_>>; 3] {
        [
            self.openai.as_ref().map(Provider::OpenAi),
            self.anthropic.as_ref().map(Provider::Anthropic),
            self.bedrock.as_ref().map(Provider::Bedrock),
        ]
    }

    /// What the judge's model is taken to cost: its configured price, else its built-in one if it is well known, else nothing,
    /// or under a budget what a dear model costs.
    pub fn pricing(&self) -> Pricing {
        let model = self.model().unwrap_or_default();
        let of = |price, basis| Pricing { model: model.to_owned(), price, basis };
        if let Some(price) = self.prices.get(model) {
            return of(*price, PriceBasis::Configured);
        }
        if let Some(price) = prices::known(model) {
            return of(price, PriceBasis::BuiltIn);
        }
        if self.usd_per_hour.is_some() || self.usd_per_day.is_some() {
            return of(ASSUMED, PriceBasis::Assumed);
        }
        of(FREE, PriceBasis::Unknown)
    }

    /// Adds what is inconsistent to `problems`.
    pub fn check(&self, problems: &mut Vec<String>) {
        let (deadline, attempt) = (self.deadline, self.attempt_timeout);
        if deadline.0.is_zero() || attempt.0.is_zero() {
            problems.push("judge.deadline and judge.attempt_timeout must be longer than 0s".to_owned());
        }
        if attempt > deadline {
            problems.push(format!(
                "judge.attempt_timeout ({attempt}) must not exceed judge.deadline ({deadline})"
            ));
        }
        for (name, limit) in [("usd_per_hour", self.usd_per_hour), ("usd_per_day", self.usd_per_day)] {
            let Some(limit) = limit else { continue };
            if !limit.is_finite() || limit < 0.0 {
                problems.push(format!("judge.{name} ({limit}) must be a number from 0"));
            }
        }
        for (model, price) in &self.prices {
            let prices = [price.usd_per_million_input, price.usd_per_million_output];
            if prices.iter().any(|price| !price.is_finite() || *price < 0.0) {
                problems.push(format!("judge.prices.{model}: prices must be numbers from 0"));
            }
        }
        if let Some(tls) = &self.tls {
            tls.check("judge.tls", problems);
        }
        let given: Vec<Provider<'_>> = self.providers().into_iter().flatten().collect();
        if given.len() > 1 {
            let names: Vec<&str> = given.iter().map(|provider| provider.name()).collect();
            problems.push(format!("judge: give one provider, not {}", names.join(" and ")));
        }
        given.into_iter().for_each(|provider| provider.check(problems));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Config {
        serde_saphyr::from_str(text).unwrap()
    }

    fn problems(text: &str) -> Vec<String> {
        let mut problems = Vec::new();
        read(text).check(&mut problems);
        problems
    }

    #[test]
    fn the_default_is_no_judge_and_consistent() {
        assert_eq!(Config::default().model(), None);
        assert!(problems("{}").is_empty());
    }

    #[test]
    fn a_budget_counts_a_model_without_a_price_as_a_dear_one() {
        let unpriced = "openai: { url: 'https://judge/v1', model: large }\nusd_per_day: 20";
        assert!(problems(unpriced).is_empty());
        let read = |yaml: &str| serde_saphyr::from_str::<Config>(yaml).unwrap();
        assert_eq!(read(unpriced).pricing().price, ASSUMED);
        let priced = "openai: { url: 'https://judge/v1', model: large }\nusd_per_day: 20\n\
                      prices: { large: { usd_per_million_input: 2.5, usd_per_million_output: 10 } }";
        assert!(problems(priced).is_empty());
        assert_eq!(read(priced).pricing().price.usd_per_million_input, 2.5);
        assert_eq!(read("openai: { url: 'https://judge/v1', model: large }").pricing().price, FREE);
    }

    #[test]
    fn all_problems_are_found_at_once() {
        let found = problems(
            "openai: { url: 'judge', model: '', temperature: 3 }\ndeadline: 1s\nattempt_timeout: 2s\nusd_per_hour: -1",
        );
        assert_eq!(found.len(), 5, "{found:#?}");
    }

    #[test]
    fn there_is_one_provider_and_its_mistakes_are_told_by_its_name() {
        let two = problems("openai: { url: 'https://j/v1', model: m }\nanthropic: { model: m }");
        assert_eq!(two, ["judge: give one provider, not openai and anthropic"]);
        assert_eq!(read("anthropic: { model: m }").model(), Some("m"));
        assert!(problems("anthropic: { model: m }\nusd_per_day: 1").is_empty());
        let bedrock =
            problems("bedrock: { region: 'eu central', model: '', url: x, key: { env: K }, profile: p }");
        assert_eq!(bedrock.len(), 4, "{bedrock:#?}");
        assert!(bedrock.iter().all(|problem| problem.starts_with("judge.bedrock")), "{bedrock:#?}");
    }

    #[test]
    fn a_configured_price_beats_the_built_in_one_and_each_says_where_it_comes_from() {
        let built_in = "openai: { url: 'https://j/v1', model: gpt-4o-mini }";
        let own = format!(
            "{built_in}\nprices: {{ gpt-4o-mini: {{ usd_per_million_input: 9, usd_per_million_output: 9.5 }} }}"
        );
        let other = "openai: { url: 'https://j/v1', model: large }";
        let under_budget = format!("{other}\nusd_per_day: 1");
        let told = [
            (
                built_in,
                PriceBasis::BuiltIn,
                "0.15 and 0.6 USD per million tokens of prompt and reply, the built-in price of gpt-4o-mini as of 2025-12: judge.prices overrides it",
            ),
            (
                &own,
                PriceBasis::Configured,
                "9 and 9.5 USD per million tokens of prompt and reply, as judge.prices says of gpt-4o-mini",
            ),
            (
                &under_budget,
                PriceBasis::Assumed,
                "10 and 40 USD per million tokens of prompt and reply, assumed, since judge.prices has no price of large",
            ),
            (other, PriceBasis::Unknown, "0 USD, since judge.prices has no price of large"),
        ];
        for (yaml, basis, words) in told {
            let pricing = read(yaml).pricing();
            assert_eq!((pricing.basis, pricing.to_string().as_str()), (basis, words));
        }
    }
}
