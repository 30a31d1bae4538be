//! What a judge's tokens are counted at, and where that comes from.

use super::Price;

/// What tokens are counted at: for budgets, for the verdict's `judge_cost_usd`, for metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Pricing {
    /// The model.
    pub model: String,
    /// What it is taken to cost.
    pub price: Price,
    /// Where that comes from.
    pub basis: PriceBasis,
}

/// Where a price comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriceBasis {
    /// The configuration, `judge.prices`.
    Configured,
    /// The table that is built in: written down in December 2025 and not looked up since.
    BuiltIn,
    /// None is known, and there is a budget: what a dear model costs.
    Assumed,
    /// None is known, and there is no budget: tokens are counted and cost nothing.
    Unknown,
}

impl PriceBasis {
    /// The word that interfaces use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::BuiltIn => "built_in",
            Self::Assumed => "assumed",
            Self::Unknown => "unknown",
        }
    }
}

impl std::fmt::Display for Pricing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Price { usd_per_million_input: input, usd_per_million_output: output } = self.price;
        let model = &self.model;
        match self.basis {
            PriceBasis::Unknown => return write!(f, "0 USD, since judge.prices has no price of {model}"),
            _ => write!(f, "{input} and {output} USD per million tokens of prompt and reply, ")?,
        }
        match self.basis {
            PriceBasis::Configured => write!(f, "as judge.prices says of {model}"),
            PriceBasis::BuiltIn => {
                write!(f, "the built-in price of {model} as of {AS_OF}: judge.prices overrides it")
            }
            _ => write!(f, "assumed, since judge.prices has no price of {model}"),
        }
    }
}

/// When the table was written down. It is a default to override, not a price list: makers change their prices, and gateways
/// and regions have their own.
const AS_OF: &str = "2025-12";

/// USD per million tokens of prompt and reply.
const KNOWN: &[(&str, f64, f64)] = &[
    ("claude-3-5-haiku", 0.80, 4.0),
    ("claude-3-5-sonnet", 3.0, 15.0),
    ("claude-3-7-sonnet", 3.0, 15.0),
    ("claude-3-haiku", 0.25, 1.25),
    ("claude-haiku-4-5", 1.0, 5.0),
    ("claude-opus-4", 15.0, 75.0),
    ("claude-opus-4-1", 15.0, 75.0),
    ("claude-opus-4-5", 5.0, 25.0),
    ("claude-sonnet-4", 3.0, 15.0),
    ("claude-sonnet-4-5", 3.0, 15.0),
    ("gpt-4.1", 2.0, 8.0),
    ("gpt-4.1-mini", 0.4, 1.6),
    ("gpt-4.1-nano", 0.1, 0.4),
    ("gpt-4o", 2.5, 10.0),
    ("gpt-4o-mini", 0.15, 0.6),
    ("gpt-5", 1.25, 10.0),
    ("gpt-5-mini", 0.25, 2.0),
    ("gpt-5-nano", 0.05, 0.4),
    ("nova-lite", 0.06, 0.24),
    ("nova-micro", 0.035, 0.14),
    ("nova-pro", 0.8, 3.2),
    ("o3", 2.0, 8.0),
    ("o4-mini", 1.1, 4.4),
];

/// What stands before a model's own name: the region and the maker at Bedrock, the maker at gateways.
const BEFORE: [&str; 9] =
    ["us.", "eu.", "apac.", "global.", "anthropic.", "amazon.", "anthropic/", "openai/", "bedrock/"];

/// The built-in price of a model, whatever stands around its name: `eu.anthropic.claude-sonnet-4-5-20250929-v1:0`.
pub(super) fn known(model: &str) -> Option<Price> {
    let mut bare = model;
    while let Some(rest) = BEFORE.iter().find_map(|before| bare.strip_prefix(before)) {
        bare = rest;
    }
    let fits = |name: &str| bare.strip_prefix(name).is_some_and(is_version);
    let found = KNOWN.iter().find(|(name, ..)| fits(name))?;
    Some(Price { usd_per_million_input: found.1, usd_per_million_output: found.2 })
}

/// Nothing, a date, a revision or `latest`: no other model of the same family.
fn is_version(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix(['-', '@', ':']) else { return rest.is_empty() };
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    rest == "latest" || digits(rest) >= 4 || rest.strip_prefix('v').is_some_and(|rest| digits(rest) >= 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_known_whatever_stands_around_its_name_and_its_relatives_are_not() {
        let input = |model: &str| known(model).map(|price| price.usd_per_million_input);
        for name in [
            "claude-sonnet-4-5",
            "claude-sonnet-4-5-20250929",
            "claude-sonnet-4-5@20250929",
            "anthropic/claude-sonnet-4-5",
            "eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
        ] {
            assert_eq!(input(name), Some(3.0), "{name}");
        }
        assert_eq!(input("amazon.nova-pro-v1:0"), Some(0.8));
        assert_eq!(input("gpt-4o-2024-11-20"), Some(2.5));
        assert_eq!(input("gpt-4o-mini"), Some(0.15));
        for name in ["gpt-5-pro", "gpt-5.1", "gpt-4o-audio-preview", "claude-sonnet-4-6", "judge-large", ""] {
            assert_eq!(input(name), None, "{name}");
        }
    }
}
