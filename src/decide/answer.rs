//! A decision as `POST /v1/systemone` writes it.

use serde_json::{Map, json};

use super::models::strands::{expected_level, legend, round4};
use crate::domain::{Decision, Json, Kind};

/// The answer's JSON: `type`, then `noul`, or `choice`/`score` with probabilities and confidence. Numbers have four decimals;
/// confidence is by the one definition of [`Decision::confidence`].
pub fn answer_json(kind: &Kind, decision: &Decision) -> Json {
    let p = &decision.probabilities;
    let labels = kind.labels();
    let probabilities = || -> Map<String, Json> {
        labels.iter().zip(p).map(|(label, p)| (label.clone(), json!(round4(*p)))).collect()
    };
    let confidence = round4(decision.confidence(kind));
    match kind {
        Kind::Noul { .. } => json!({"type": "noul", "noul": round4(p.get(1).copied().unwrap_or(0.0))}),
        Kind::Choice { .. } => json!({
            "type": "choice",
            "choice": labels.get(decision.pick()),
            "probabilities": probabilities(),
            "confidence": confidence,
        }),
        Kind::Score { levels } => {
            let legend: Map<String, Json> =
                legend(levels).into_iter().map(|(level, text)| (level, json!(text))).collect();
            json!({
                "type": "score",
                "score": round4(expected_level(p)),
                "legend": legend,
                "probabilities": probabilities(),
                "confidence": confidence,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_the_wire_s_keys_in_its_order() {
        let score = Kind::Score { levels: vec![json!(" low "), json!({"level": 1}), Json::Null] };
        let decision = Decision { probabilities: vec![0.2, 0.7, 0.1], tokens: 9 };
        assert_eq!(
            answer_json(&score, &decision).to_string(),
            r#"{"type":"score","score":0.9,"legend":{"0":"low","1":"{\n  \"level\": 1\n}","2":""},"probabilities":{"0":0.2,"1":0.7,"2":0.1},"confidence":0.55}"#
        );
        let noul = Kind::Noul { if_true: None, if_false: None };
        let decision = Decision { probabilities: vec![0.25, 0.75], tokens: 9 };
        assert_eq!(answer_json(&noul, &decision).to_string(), r#"{"type":"noul","noul":0.75}"#);
        let choice = Kind::Choice { options: vec![("b".into(), Json::Null), ("a".into(), Json::Null)] };
        assert_eq!(
            answer_json(&choice, &decision).to_string(),
            r#"{"type":"choice","choice":"a","probabilities":{"b":0.25,"a":0.75},"confidence":0.5}"#
        );
    }
}
