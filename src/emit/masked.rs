//! A sink that gets verdicts with markers in place of secrets and personal data.

use futures::future::BoxFuture;

use super::{EmitError, Sink};
use crate::domain::Verdict;
use crate::metrics;
use crate::redact::Redactor;

/// Masks verdicts for another sink.
pub(super) struct Masked<S> {
    pub(super) sink: S,
    pub(super) redactor: Redactor,
}

impl<S: Sink> Sink for Masked<S> {
    fn write<'a>(&'a self, verdict: &'a Verdict) -> BoxFuture<'a, Result<(), EmitError>> {
        let (masked, pieces) = self.redactor.verdict(verdict);
        metrics::redact_masked("sink", pieces);
        Box::pin(async move { self.sink.write(&masked).await })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::emit::sample;
    use crate::redact::Config;

    struct Kept(Arc<Mutex<Vec<Verdict>>>);

    impl Sink for Kept {
        fn write<'a>(&'a self, verdict: &'a Verdict) -> BoxFuture<'a, Result<(), EmitError>> {
            Box::pin(async move {
                self.0.lock().unwrap().push(verdict.clone());
                Ok(())
            })
        }
    }

    #[tokio::test]
    async fn the_sink_behind_it_never_sees_the_raw_text() {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let config = Config::default();
        let redactor = Redactor::new(&config, config.webhook.as_deref()).unwrap().unwrap();
        let sink = Masked { sink: Kept(Arc::clone(&kept)), redactor };
        let mut verdict = sample::full();
        verdict.grounding.as_mut().unwrap().claims[0].text = "Write to jane.roe@posteo.de.".into();
        sink.write(&verdict).await.unwrap();
        let seen = kept.lock().unwrap();
        assert_eq!(seen[0].grounding.as_ref().unwrap().claims[0].text, "Write to [EMAIL].");
        assert_eq!(seen[0].verdict_id, verdict.verdict_id);
    }
}
