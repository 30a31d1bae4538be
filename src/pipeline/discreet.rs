//! A judge and a remote decision model that get markers in place of secrets and personal data. They stand before every model that
//! text may leave the house to, whoever asks it.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::config;
use crate::decide::{Backend, DecideError, Desk, Reply};
use crate::domain::{Inquiry, Measure};
use crate::judge::{Allowance, Ask, Judge, JudgeError, Judgement, Measured, Pricing};
use crate::metrics;
use crate::redact::{Config, PatternError, Redactor};

/// The judge as it may be asked by this configuration.
pub fn discreet(config: &Config, judge: Arc<dyn Judge>) -> Result<Arc<dyn Judge>, PatternError> {
    Ok(match Redactor::new(config, config.judge.as_deref())? {
        Some(redactor) => Arc::new(Discreet { judge, redactor }),
        None => judge,
    })
}

/// The decision model as it may be asked by this configuration: with a mask before it if it is elsewhere.
pub fn discreet_desk(config: &config::Config, desk: Desk) -> Result<Desk, PatternError> {
    if !config.decide.model.is_remote() {
        return Ok(desk);
    }
    Ok(match Redactor::new(&config.redact, config.redact.decider.as_deref())? {
        Some(redactor) => desk.behind(|desk| Arc::new(DiscreetDesk { desk, redactor })),
        None => desk,
    })
}

struct DiscreetDesk {
    desk: Desk,
    redactor: Redactor,
}

impl Backend for DiscreetDesk {
    fn ask(&self, inquiry: Inquiry) -> BoxFuture<'_, Result<Reply, DecideError>> {
        let (mut masked, pieces) = self.redactor.inquiries(std::slice::from_ref(&inquiry));
        metrics::redact_masked("decider", pieces);
        match masked.pop() {
            Some(masked) => Box::pin(self.desk.ask(masked)),
            None => Box::pin(async { Err(DecideError::Closed) }),
        }
    }
}

struct Discreet {
    judge: Arc<dyn Judge>,
    redactor: Redactor,
}

impl Discreet {
    fn masked(&self, ask: &Ask) -> Ask {
        let (inquiries, pieces) = self.redactor.inquiries(&ask.inquiries);
        metrics::redact_masked("judge", pieces);
        Ask { inquiries }
    }
}

// Every method is written out: one that came in by the trait's default would go past the mask.
impl Judge for Discreet {
    fn judge<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Judgement, JudgeError>> {
        let masked = self.masked(ask);
        Box::pin(async move { self.judge.judge(&masked).await })
    }

    fn partition<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Judgement, JudgeError>> {
        let masked = self.masked(ask);
        Box::pin(async move { self.judge.partition(&masked).await })
    }

    fn measure<'a>(&'a self, measure: &'a Measure) -> BoxFuture<'a, Result<Measured, JudgeError>> {
        let mut mask = self.redactor.mask();
        let masked = Measure {
            state: Arc::new(mask.json(&measure.state)),
            instructions: mask.json(&measure.instructions),
            ..measure.clone()
        };
        metrics::redact_masked("judge", mask.masked());
        Box::pin(async move { self.judge.measure(&masked).await })
    }

    fn model(&self) -> &str {
        self.judge.model()
    }

    fn pricing(&self) -> Option<&Pricing> {
        self.judge.pricing()
    }

    fn prompt_digest(&self) -> &str {
        self.judge.prompt_digest()
    }

    fn allowances(&self) -> Vec<Allowance> {
        self.judge.allowances()
    }

    fn keep(&self) {
        self.judge.keep();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::domain::Json;
    use crate::judge::JudgeErrorKind;

    /// Keeps what it is asked, as text.
    #[derive(Default)]
    struct Curious(Mutex<Vec<String>>);

    impl Curious {
        fn hear(&self, heard: String) -> BoxFuture<'_, Result<Judgement, JudgeError>> {
            self.0.lock().unwrap().push(heard);
            Box::pin(async { Err(JudgeErrorKind::Unmeasured.into()) })
        }
    }

    impl Judge for Curious {
        fn judge<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Judgement, JudgeError>> {
            self.hear(format!("{ask:?}"))
        }

        fn partition<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Judgement, JudgeError>> {
            self.hear(format!("{ask:?}"))
        }

        fn measure<'a>(&'a self, measure: &'a Measure) -> BoxFuture<'a, Result<Measured, JudgeError>> {
            self.0.lock().unwrap().push(format!("{measure:?}"));
            Box::pin(async { Err(JudgeErrorKind::Unmeasured.into()) })
        }

        fn model(&self) -> &str {
            "curious"
        }
    }

    #[tokio::test]
    async fn the_judge_hears_markers_whatever_it_is_asked() {
        let curious = Arc::new(Curious::default());
        let judge = discreet(&Config::default(), Arc::<Curious>::clone(&curious)).unwrap();
        let state = Arc::new(Json::String("Write to jane.roe@posteo.de".into()));
        let inquiry = Inquiry { state: Arc::clone(&state), questions: Vec::new(), prompt: None };
        let ask = Ask { inquiries: vec![inquiry] };
        let measure = Measure {
            name: "tone".into(),
            state,
            instructions: Json::Null,
            prompt: None,
            schema: Arc::new(Json::Bool(true)),
        };
        assert!(judge.judge(&ask).await.is_err());
        assert!(judge.partition(&ask).await.is_err());
        assert!(judge.measure(&measure).await.is_err());
        let heard = curious.0.lock().unwrap();
        assert_eq!(heard.len(), 3);
        assert!(heard.iter().all(|text| text.contains("[EMAIL]") && !text.contains("jane")), "{heard:?}");
    }

    #[tokio::test]
    async fn a_remote_model_hears_markers_whoever_asks_it_and_has_no_desk_if_a_pattern_cannot_be_used() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let curious = |heard: &Arc<Mutex<Vec<String>>>| {
            let heard = Arc::clone(heard);
            let script = move |inquiry: &Inquiry| {
                heard.lock().unwrap().push(format!("{inquiry:?}"));
                Ok(Reply { decisions: Vec::new(), input_tokens: 1, truncated: false })
            };
            crate::decide::start_with(crate::decide::Scripted::new(script), &crate::decide::Config::default())
                .unwrap()
        };
        let inquiry = || Inquiry {
            state: Arc::new(Json::String("Write to jane.roe@posteo.de".into())),
            questions: Vec::new(),
            prompt: None,
        };
        let mut config = config::Config::default();
        assert!(discreet_desk(&config, curious(&heard)).unwrap().ask(inquiry()).await.is_ok());
        config.decide.model = crate::decide::ModelName::parse("systemone:http://127.0.0.1:1");
        assert!(discreet_desk(&config, curious(&heard)).unwrap().ask(inquiry()).await.is_ok());
        let wrong = crate::redact::Pattern { marker: "ORDER".into(), regex: "(".into() };
        config.redact.patterns = vec![wrong];
        let refused = discreet_desk(&config, curious(&heard)).err().unwrap();
        assert!(matches!(refused, PatternError::Regex { marker, .. } if marker == "ORDER"));
        let heard: Vec<String> =
            heard.lock().unwrap().iter().filter(|text| text.contains("Write")).cloned().collect();
        assert_eq!(heard.len(), 2, "{heard:?}");
        assert!(heard[0].contains("jane.roe") && heard[1].contains("[EMAIL]"), "{heard:?}");
        assert!(!heard[1].contains("jane"), "{heard:?}");
    }

    #[tokio::test]
    async fn a_judge_in_the_house_may_hear_the_raw_text() {
        let curious = Arc::new(Curious::default());
        let config = Config { judge: None, ..Config::default() };
        let judge = discreet(&config, Arc::<Curious>::clone(&curious)).unwrap();
        let state = Arc::new(Json::String("jane.roe@posteo.de".into()));
        let ask = Ask { inquiries: vec![Inquiry { state, questions: Vec::new(), prompt: None }] };
        assert!(judge.judge(&ask).await.is_err());
        assert!(curious.0.lock().unwrap()[0].contains("jane.roe@posteo.de"));
    }
}
