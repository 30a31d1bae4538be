//! The section `emit.webhook`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::receiver::{check_headers, check_url};
use crate::domain::{Label, Period, Tier, Verdict};
use crate::net::TlsClient;
use crate::secret::Secret;

/// An address that failing verdicts are posted to, as JSON, signed after the Standard Webhooks specification. Redirects are not
/// followed, and no proxy is used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookConfig {
    /// The address, `https://…`, or `http://…` inside your own network.
    pub url: String,
    /// Verdicts with one of these labels are posted.
    #[serde(default = "failing_labels")]
    pub labels: Vec<String>,
    /// So are verdicts with one of these tiers.
    #[serde(default)]
    pub tiers: Vec<String>,
    /// So are verdicts in which an evaluator's answer is one of those that it calls a failure.
    #[serde(default = "yes")]
    pub evaluators: bool,
    /// Keys for the signature (`webhook-signature`), each makes one, so that a key can be replaced without a gap. A key that
    /// begins with `whsec_` is base64 after that; others are taken as they are. None means: not signed.
    #[serde(default)]
    pub keys: Vec<Secret>,
    /// Further headers, such as `authorization`; read again for each request.
    #[serde(default)]
    pub headers: BTreeMap<String, Secret>,
    /// How long one attempt may take.
    #[serde(default = "ten_seconds")]
    pub timeout: Period,
    /// How long a verdict is tried again before it is set aside as a dead letter: a receiver that is away does not stop the
    /// evaluation. When the daemon stops, `flow.drain` bounds it.
    #[serde(default = "five_minutes")]
    pub give_up_after: Period,
    /// Whether the texts of claims and the reasoning are sent.
    #[serde(default = "yes")]
    pub texts: bool,
    /// Addresses that may be posted to although they are link-local or serve a cloud's metadata, which is refused otherwise.
    #[serde(default)]
    pub allow_addresses: Vec<IpAddr>,
    /// Authorities and a certificate of assayd's own for `https`, beyond the system's authorities.
    #[serde(default)]
    pub tls: Option<TlsClient>,
}

fn failing_labels() -> Vec<String> {
    vec![Label::Hallucination.as_str().to_owned()]
}

fn ten_seconds() -> Period {
    Period::seconds(10)
}

fn five_minutes() -> Period {
    Period::seconds(300)
}

fn yes() -> bool {
    true
}

const LABELS: [Label; 3] = [Label::Faithful, Label::Hallucination, Label::Unsure];
const TIERS: [Tier; 4] = [Tier::Proceed, Tier::Regenerate, Tier::Replan, Tier::Abstain];

impl WebhookConfig {
    /// Whether a verdict is to be posted.
    pub fn wants(&self, verdict: &Verdict) -> bool {
        let label = verdict.label.map(Label::as_str);
        let tier = verdict.grounding.as_ref().map(|grounding| grounding.tier.as_str());
        label.is_some_and(|label| self.labels.iter().any(|wanted| wanted == label))
            || tier.is_some_and(|tier| self.tiers.iter().any(|wanted| wanted == tier))
            || self.evaluators && verdict.answers.values().any(|answer| answer.pass == Some(false))
    }

    pub(super) fn check(&self, problems: &mut Vec<String>) {
        check_url("emit.webhook.url", &self.url, problems);
        check_headers("emit.webhook.headers", &self.headers, problems);
        check_words("emit.webhook.labels", &self.labels, &LABELS.map(Label::as_str), problems);
        check_words("emit.webhook.tiers", &self.tiers, &TIERS.map(Tier::as_str), problems);
        if self.labels.is_empty() && self.tiers.is_empty() && !self.evaluators {
            problems.push(
                "emit.webhook wants neither labels, tiers nor evaluators, so nothing would ever be posted"
                    .to_owned(),
            );
        }
        if self.timeout.0.is_zero() {
            problems.push("emit.webhook.timeout (0s) must be longer than nothing".to_owned());
        }
        if let Some(tls) = &self.tls {
            tls.check("emit.webhook.tls", problems);
        }
    }
}

fn check_words(place: &str, words: &[String], known: &[&str], problems: &mut Vec<String>) {
    for word in words.iter().filter(|word| !known.contains(&word.as_str())) {
        problems.push(format!("{place} ({word:?}) must be of {}", known.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emit::sample;

    fn parsed(yaml: &str) -> WebhookConfig {
        serde_saphyr::from_str(yaml).unwrap()
    }

    fn problems(yaml: &str) -> usize {
        let mut problems = Vec::new();
        parsed(yaml).check(&mut problems);
        problems.len()
    }

    #[test]
    fn mistakes_are_told() {
        assert_eq!(problems("url: https://hooks.internal/assayd"), 0);
        assert_eq!(problems("{ url: 'hooks.internal', labels: [bad], tiers: [worse] }"), 3);
        assert_eq!(problems("{ url: 'http://h', labels: [], evaluators: false }"), 1);
        assert!(serde_saphyr::from_str::<WebhookConfig>("{}").is_err(), "an address is needed");
        assert!(
            serde_saphyr::from_str::<WebhookConfig>("{ url: 'http://h', allow_addresses: [here] }").is_err()
        );
    }

    #[test]
    fn a_verdict_is_wanted_for_its_label_or_its_tier() {
        let bad = sample::full();
        let good = sample::numbered(1);
        let by_default = parsed("url: http://h");
        assert!(by_default.wants(&bad) && !by_default.wants(&good) && !by_default.wants(&sample::skipped()));
        let by_tier = parsed("{ url: 'http://h', labels: [], tiers: [replan] }");
        assert!(by_tier.wants(&bad) && by_tier.wants(&good));
        let mut toxic = sample::numbered(1);
        toxic.answers.values_mut().for_each(|answer| answer.pass = Some(false));
        assert!(by_default.wants(&toxic) && !parsed("{ url: 'http://h', evaluators: false }").wants(&toxic));
    }
}
