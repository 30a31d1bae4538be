//! One prompt to the endpoint and its reply, through the guard; and how long a prompt may be.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::super::attempt::{Said, Tokens};
use super::super::config::Config;
use super::super::dialect::Shape;
use super::super::endpoint::Endpoint;
use super::super::guard::{Guard, Tally};
use super::super::prompt::Prompt;
use super::super::{Allowance, JudgeErrorKind, Pricing};

/// How often evidence is cut further when the endpoint says that a prompt is too long.
pub(super) const MAX_CUTS: u32 = 3;
/// Evidence below this many bytes is no evidence.
const LEAST: usize = 256;

/// The way to the endpoint.
pub(super) struct Exchange {
    endpoint: Endpoint,
    guard: Guard,
    /// How long one ask may take.
    pub deadline: Duration,
    /// How often an invalid reply is asked for again.
    pub repairs: u32,
    limit: Option<u64>,
    /// What the endpoint's refusals say about its window; 0: nothing yet.
    learnt: AtomicU64,
    max_output_tokens: u64,
}

impl Exchange {
    /// To this endpoint, through this guard.
    pub fn new(endpoint: Endpoint, guard: Guard, config: &Config) -> Self {
        Self {
            endpoint,
            guard,
            deadline: config.deadline.0,
            repairs: config.repairs,
            limit: config.max_input_tokens.map(|limit| u64::from(limit.get())),
            learnt: AtomicU64::new(0),
            max_output_tokens: u64::from(config.max_output_tokens.get()),
        }
    }

    /// The provider's name.
    pub fn provider(&self) -> &'static str {
        self.endpoint.provider()
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        self.endpoint.model()
    }

    /// What tokens are counted at.
    pub fn pricing(&self) -> &Pricing {
        self.guard.pricing()
    }

    /// The limited windows of money as they stand.
    pub fn allowances(&self) -> Vec<Allowance> {
        self.guard.allowances()
    }

    /// Writes down what has to outlive the process. Blocks.
    pub fn keep(&self) {
        self.guard.keep();
    }

    /// Sends one prompt, as often as the guard sees fit.
    pub async fn send(
        &self,
        prompt: &Prompt,
        shape: &Shape,
        deadline: Instant,
        tally: &Tally,
    ) -> Result<Said, JudgeErrorKind> {
        let tokens = tokens(prompt, shape);
        let estimate = Tokens { input: tokens, output: self.max_output_tokens };
        let called =
            self.guard.call(estimate, deadline, tally, || self.endpoint.attempt(prompt, shape)).await;
        called.map_err(|kind| match kind {
            JudgeErrorKind::TooLong { message, .. } => JudgeErrorKind::TooLong { tokens, message },
            other => other,
        })
    }

    /// Whether a prompt may be sent; else how many bytes its evidence, now `evidence` bytes, may have. An error if no evidence
    /// would be left.
    pub fn fits(
        &self,
        prompt: &Prompt,
        shape: &Shape,
        evidence: usize,
    ) -> Result<Option<usize>, JudgeErrorKind> {
        let learnt = Some(self.learnt.load(Ordering::Relaxed)).filter(|learnt| *learnt > 0);
        let Some(limit) = self.limit.into_iter().chain(learnt).min() else { return Ok(None) };
        let tokens = tokens(prompt, shape);
        if tokens <= limit {
            return Ok(None);
        }
        // Three bytes a token, as estimated, and a little more, so that it fits at once.
        let over = usize::try_from(tokens - limit).unwrap_or(usize::MAX).saturating_mul(3);
        let room = evidence.saturating_sub(over.saturating_add(evidence / 50 + 32));
        if room < LEAST.min(evidence) || room == 0 {
            let whose =
                if self.limit == Some(limit) { "judge.max_input_tokens" } else { "the endpoint's limit" };
            return Err(JudgeErrorKind::TooLong { tokens, message: format!("{whose} is {limit}") });
        }
        Ok(Some(room))
    }

    /// The endpoint said that a prompt of about `tokens` tokens is too long.
    pub fn learn(&self, tokens: u64, message: &str) {
        let window = window(message, tokens, self.max_output_tokens);
        tracing::info!(
            model = self.model(),
            tokens,
            window,
            "the judge's window is smaller than a prompt: evidence is cut"
        );
        let known = self.learnt.load(Ordering::Relaxed);
        if known == 0 || window < known {
            self.learnt.store(window, Ordering::Relaxed);
        }
    }
}

/// About how many tokens a prompt has, the shape included.
pub(super) fn tokens(prompt: &Prompt, shape: &Shape) -> u64 {
    Tokens::estimate(prompt.len() + shape.schema.to_string().len())
}

/// The tokens that a prompt may have, by our estimate: the endpoint counts in its own way, and may name its limit. Always less
/// than what was refused.
fn window(message: &str, refused: u64, output: u64) -> u64 {
    let numbers =
        message.split(|letter: char| !letter.is_ascii_digit()).filter_map(|digits| digits.parse().ok());
    let named: Vec<u64> = numbers.filter(|number| *number >= 512).collect();
    // "4096 is the limit, and you sent 9000": the smaller one is the limit, the larger one what it counted.
    let (Some(limit), Some(counted)) = (named.iter().min(), named.iter().max()) else { return refused / 2 };
    let room = if *limit > output * 2 { limit - output } else { limit / 2 };
    let counted = (*counted).max(*limit);
    let scaled = u128::from(refused) * u128::from(room) / u128::from(counted);
    u64::try_from(scaled).unwrap_or(refused).clamp(refused / 8, refused * 9 / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_learnt_from_what_the_endpoint_says_and_shrinks_anyhow() {
        let says = "This model's maximum context length is 8192 tokens. However, you requested 20000 tokens.";
        assert_eq!(window(says, 10_000, 1_000), 10_000 * 7_192 / 20_000);
        let says = "prompt is too long: 210000 tokens > 200000 maximum";
        assert_eq!(window(says, 180_000, 4_096), 162_000, "a little less is always tried");
        assert_eq!(window("Input is too long for requested model.", 10_000, 1_000), 5_000);
        assert_eq!(window("limit 600", 100_000, 4_096), 50_000);
        assert_eq!(window("7 of 9", 1_000, 100), 500);
    }
}
