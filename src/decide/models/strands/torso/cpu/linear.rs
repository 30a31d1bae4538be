//! From a checkpoint's matrices to packed linear maps.

use super::super::super::error::LoadError;
use super::super::super::weights::Weights;
use crate::decide::kernels::{Linear, Precision};

/// Narrower products stay in f32: they take no time worth saving, and with few terms coarse rounding does not average out (on
/// 64-wide random nets int8 changed one pick in nine).
const WORTH_ROUNDING: usize = 512;

/// One or several of a layer's matrices that read the same input, stacked: names and numbers of outputs.
pub fn load(
    weights: &Weights,
    path: &str,
    parts: &[(&str, usize)],
    inputs: usize,
    precision: Precision,
) -> Result<Linear, LoadError> {
    let outputs: usize = parts.iter().map(|(_, outputs)| outputs).sum();
    let mut stacked = Vec::with_capacity(outputs * inputs);
    for (name, outputs) in parts {
        stacked.extend(weights.matrix(&format!("{path}{name}"), *outputs, inputs)?);
    }
    let precision = if inputs < WORTH_ROUNDING { Precision::F32 } else { precision };
    Ok(Linear::pack(&stacked, outputs, inputs, precision))
}
