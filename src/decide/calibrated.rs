//! A model whose probabilities follow a calibration file.

use std::path::Path;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::{Backend, Calibration, DecideError, Desk, LoadError, ModelInfo, Reply};
use crate::domain::Inquiry;
use crate::measure::Fitted;

/// Reads a calibration file.
pub(super) fn load(path: &Path) -> Result<Fitted, LoadError> {
    let text = std::fs::read_to_string(path).map_err(|source| unusable(path, source))?;
    Fitted::read(&text).map_err(|source| unusable(path, source))
}

/// The desk with its probabilities by `fitted`, which must have been fitted for its model.
pub(super) fn by(desk: Desk, fitted: Fitted, path: &Path) -> Result<Desk, LoadError> {
    if fitted.model != desk.info().name {
        let found = desk.info().name.clone();
        return Err(unusable(path, Misfit { wanted: fitted.model, found }));
    }
    Ok(desk.calibrated(fitted))
}

fn unusable(path: &Path, source: impl std::error::Error + Send + Sync + 'static) -> LoadError {
    LoadError::Calibration { path: path.to_owned(), source: Box::new(source) }
}

#[derive(Debug, thiserror::Error)]
#[error("it was fitted for {wanted}, and the decision model is {found}; fit it anew with `assayd calibrate`")]
struct Misfit {
    wanted: String,
    found: String,
}

/// What a model says of itself under a calibration.
pub(super) fn info(info: &ModelInfo, fitted: &Fitted) -> ModelInfo {
    let mut info = info.clone();
    info.calibration = if fitted.calibrated {
        let labels = fitted.labeled_by.get("human").copied().unwrap_or_default();
        Calibration::Labelled { data: format!("{labels} records labelled by people ({})", fitted.digest()) }
    } else {
        Calibration::Uncalibrated
    };
    info.facts.insert("calibration".to_owned(), fitted.name().into());
    info
}

/// Asks a desk and turns its probabilities.
pub(super) struct Calibrated {
    /// The model.
    pub desk: Desk,
    /// What they are turned by.
    pub fitted: Arc<Fitted>,
}

impl Backend for Calibrated {
    fn ask(&self, inquiry: Inquiry) -> BoxFuture<'_, Result<Reply, DecideError>> {
        async move {
            let questions = inquiry.questions.clone();
            let reply = self.desk.ask(inquiry).await?;
            let turned = questions
                .iter()
                .zip(reply.decisions)
                .map(|(question, decision)| decision.map(|decision| self.fitted.apply(question, decision)));
            Ok(Reply { decisions: turned.collect(), ..reply })
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::{Config, Scripted, start_with};
    use crate::domain::{Decision, Json, Kind, Question, Subject};

    fn fitted(model: &str) -> Fitted {
        let mut fitted = Fitted::new(model, [("human".to_owned(), 50)].into());
        fitted.temperatures.insert("noul".to_owned(), 0.5);
        fitted
    }

    #[tokio::test]
    async fn probabilities_are_turned_and_the_model_says_so() {
        let script = |inquiry: &Inquiry| {
            let decision = Decision { probabilities: vec![0.2, 0.8], tokens: 1 };
            let decisions = inquiry.questions.iter().map(|_| Ok(decision.clone())).collect();
            Ok(Reply { decisions, input_tokens: 1, truncated: false })
        };
        let desk = start_with(Scripted::new(script), &Config::default()).unwrap();
        let desk = by(desk, fitted("scripted"), Path::new("c.json")).unwrap();
        assert!(desk.ready().await);
        let question = Question {
            id: "q".to_owned(),
            kind: Kind::Noul { if_true: None, if_false: None },
            instructions: Json::Null,
            subject: Subject::General,
        };
        let reply = desk.ask(Inquiry::new(Arc::new("s".into()), vec![question])).await.unwrap();
        let p = reply.decisions[0].as_ref().unwrap().probabilities[1];
        assert!((p - 16.0 / 17.0).abs() < 1e-12, "{p}");
        assert!(
            matches!(&desk.info().calibration, Calibration::Labelled { data } if data.contains("50 records"))
        );
        let other = by(desk, fitted("another"), Path::new("c.json")).unwrap_err().to_string();
        assert!(other.contains("another") && other.contains("scripted"), "{other}");
    }

    #[test]
    fn a_file_that_is_none_is_named() {
        let error = load(Path::new("/no/such/calibration.json")).unwrap_err().to_string();
        assert!(error.contains("/no/such/calibration.json"), "{error}");
    }
}
