//! Laws of reading a remote model's answers that hold for any bytes; `crate::fuzzing` calls them. A broken one panics.

use super::Api;
use crate::decide::models::strands::Node;
use crate::domain::{Json, Kind, Question, Subject};

/// An answer has a probability for each label of its question, and together they are a distribution; anything else is an error.
pub fn hold(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(body) = Node::read(text) else { return };
    let options = ["a", "b", "c"].map(|name| (name.to_owned(), Json::Null)).to_vec();
    let kinds = [
        Kind::Noul { if_true: None, if_false: None },
        Kind::Choice { options },
        Kind::Score { levels: vec![Json::Null; 4] },
    ];
    let asked: Vec<Question> = kinds
        .into_iter()
        .enumerate()
        .map(|(number, kind)| Question {
            id: format!("question {number}"),
            kind,
            instructions: Json::Null,
            subject: Subject::General,
        })
        .collect();
    let questions: Vec<&Question> = asked.iter().collect();
    for api in [Api::Systemone, Api::Decisions] {
        let Ok(answers) = api.read(&body, &questions) else { continue };
        assert_eq!(answers.decisions.len(), questions.len(), "one for each question");
        for (question, decision) in questions.iter().zip(answers.decisions) {
            let Ok(decision) = decision else { continue };
            let probabilities = &decision.probabilities;
            assert_eq!(probabilities.len(), question.kind.labels().len(), "one for each label");
            assert!(probabilities.iter().all(|p| (0.0..=1.0).contains(p)), "{probabilities:?}");
            let sum: f64 = probabilities.iter().sum();
            assert!((sum - 1.0).abs() < 0.01, "{probabilities:?} sum to {sum}");
            assert!((0.0..=1.0).contains(&decision.confidence(&question.kind)), "{probabilities:?}");
        }
    }
}
