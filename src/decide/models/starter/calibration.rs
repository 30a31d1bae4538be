//! From logits and features to probabilities: the model's `calibration.json`.

use serde::Deserialize;

use super::prepare::{Features, Limits};

/// The classes of the model, in the order of its logits.
pub const CLASSES: [&str; 3] = ["grounded", "ungrounded", "contradicted"];

/// What is used of `calibration.json`.
#[derive(Debug, Deserialize)]
pub struct Calibration {
    labels: Vec<String>,
    input: Input,
    questions: Questions,
    stack: Stack,
}

#[derive(Debug, Deserialize)]
struct Input {
    max_tokens: usize,
    max_first_segment_tokens: usize,
}

#[derive(Debug, Deserialize)]
struct Questions {
    relevance: Relevance,
}

#[derive(Debug, Deserialize)]
struct Relevance {
    scale: f64,
    bias: f64,
}

#[derive(Debug, Deserialize)]
struct Stack {
    inputs: Vec<String>,
    weights: Vec<Vec<f64>>,
    bias: Vec<f64>,
}

/// Why a calibration does not fit the model.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum CalibrationError {
    /// Other classes, or in another order.
    #[error("its labels are {found:?}, not {CLASSES:?}")]
    Labels {
        /// The labels found.
        found: Vec<String>,
    },
    /// The calibrated layer asks for what is not there.
    #[error("its layer wants an input {name:?}, which is neither a logit nor a feature")]
    Input {
        /// What it asks for.
        name: String,
    },
    /// The layer's numbers are not as many as its inputs and classes ask for.
    #[error("its layer's weights and biases do not fit {inputs} inputs and {classes} classes")]
    Shape {
        /// Inputs that it names.
        inputs: usize,
        /// Classes.
        classes: usize,
    },
    /// There is no room for evidence beside the longest claim.
    #[error("a claim may have {claim} tokens, the whole input only {tokens}")]
    Limits {
        /// Tokens of a claim.
        claim: usize,
        /// Tokens of the input.
        tokens: usize,
    },
}

impl Calibration {
    /// Whether this fits the model and the features.
    pub fn check(&self) -> Result<(), CalibrationError> {
        if self.labels != CLASSES {
            return Err(CalibrationError::Labels { found: self.labels.clone() });
        }
        if let Some(name) = self.stack.inputs.iter().find(|name| !is_input(name)) {
            return Err(CalibrationError::Input { name: name.clone() });
        }
        let (inputs, classes) = (self.stack.inputs.len(), CLASSES.len());
        let fits = self.stack.weights.iter().all(|row| row.len() == inputs);
        if !fits || self.stack.weights.len() != classes || self.stack.bias.len() != classes {
            return Err(CalibrationError::Shape { inputs, classes });
        }
        let Limits { tokens, claim } = self.limits();
        if tokens < claim + 4 {
            return Err(CalibrationError::Limits { claim, tokens });
        }
        Ok(())
    }

    /// How much the model reads.
    pub fn limits(&self) -> Limits {
        Limits { tokens: self.input.max_tokens, claim: self.input.max_first_segment_tokens }
    }

    /// The probabilities of the classes, by the calibrated layer.
    pub fn standings(&self, logits: &[f32], features: &Features) -> [f64; 3] {
        let inputs: Vec<f64> = self.stack.inputs.iter().map(|name| input(name, logits, features)).collect();
        let mut scores = [0.0; 3];
        for ((score, weights), bias) in scores.iter_mut().zip(&self.stack.weights).zip(&self.stack.bias) {
            *score = bias + weights.iter().zip(&inputs).map(|(weight, input)| weight * input).sum::<f64>();
        }
        softmax(scores)
    }

    /// The probability that the evidence holds what answers the query.
    pub fn relevance(&self, logits: &[f32]) -> f64 {
        let Relevance { scale, bias } = self.questions.relevance;
        let score = scale * (logit(logits, 0) - logit(logits, 1)) + bias;
        1.0 / (1.0 + (-score).exp())
    }
}

fn logit(logits: &[f32], index: usize) -> f64 {
    logits.get(index).map_or(f64::NAN, |logit| f64::from(*logit))
}

fn logit_index(name: &str) -> Option<usize> {
    name.strip_prefix('z')?.parse().ok().filter(|index| *index < CLASSES.len())
}

fn is_input(name: &str) -> bool {
    logit_index(name).is_some() || Features::NAMES.contains(&name)
}

fn input(name: &str, logits: &[f32], features: &Features) -> f64 {
    match logit_index(name) {
        Some(index) => logit(logits, index),
        None => features.by_name(name).unwrap_or(f64::NAN),
    }
}

fn softmax(scores: [f64; 3]) -> [f64; 3] {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers = scores.map(|score| (score - largest).exp());
    let sum: f64 = powers.iter().sum();
    powers.map(|power| power / sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calibration(change: impl FnOnce(&mut serde_json::Value)) -> Result<(), CalibrationError> {
        let mut json = serde_json::json!({
            "labels": CLASSES,
            "input": { "max_tokens": 256, "max_first_segment_tokens": 96 },
            "questions": { "relevance": { "scale": 1.0, "bias": 0.0 } },
            "stack": { "inputs": ["z2", "max_unit"], "weights": [[1, 0], [0, 1], [0, 0]], "bias": [0, 0, 0] },
        });
        change(&mut json);
        serde_json::from_value::<Calibration>(json).unwrap().check()
    }

    #[test]
    fn a_calibration_that_does_not_fit_is_refused() {
        assert_eq!(calibration(|_| ()), Ok(()));
        let refused = [
            calibration(|json| json["labels"][0] = "supported".into()),
            calibration(|json| json["stack"]["inputs"][0] = "z3".into()),
            calibration(|json| json["stack"]["inputs"][0] = "mood".into()),
            calibration(|json| json["stack"]["weights"][2] = vec![1].into()),
            calibration(|json| json["stack"]["bias"] = vec![1].into()),
            calibration(|json| json["input"]["max_tokens"] = 99.into()),
        ];
        assert!(refused.iter().all(Result::is_err), "{refused:?}");
    }
}
