//! A linear map: one or several of a layer's matrices that read the same input, stacked.

use super::super::super::error::LoadError;
use super::super::super::weights::Weights;
use crate::decide::kernels::{Rows, RowsMut, Threads, times_transposed};

/// `y = x Wᵀ`
pub struct Linear {
    /// `[outputs, inputs]`
    weights: Vec<f32>,
    outputs: usize,
    inputs: usize,
}

impl Linear {
    /// Stacks the matrices of these names and numbers of outputs.
    pub fn load(
        weights: &Weights,
        path: &str,
        parts: &[(&str, usize)],
        inputs: usize,
    ) -> Result<Self, LoadError> {
        let outputs = parts.iter().map(|(_, outputs)| outputs).sum();
        let mut stacked = Vec::with_capacity(outputs * inputs);
        for (name, outputs) in parts {
            stacked.extend(weights.matrix(&format!("{path}{name}"), *outputs, inputs)?);
        }
        Ok(Self { weights: stacked, outputs, inputs })
    }

    /// `out = x Wᵀ`, or `out += x Wᵀ`, row by row.
    pub fn apply(&self, x: &[f32], out: &mut [f32], add: bool) {
        let rows = x.len() / self.inputs;
        times_transposed(
            RowsMut::new(out, rows, self.outputs, self.outputs),
            Rows::new(x, rows, self.inputs, self.inputs),
            Rows::new(&self.weights, self.outputs, self.inputs, self.inputs),
            add,
            Threads::All,
        );
    }
}
