//! RMS norms.

use rayon::prelude::*;

use crate::decide::kernels::{dot, vectorised};

/// Published weights of zero-centred norms are offsets from 1.
pub fn zero_centred(mut weights: Vec<f32>) -> Vec<f32> {
    weights.iter_mut().for_each(|weight| *weight += 1.0);
    weights
}

/// `out = x / √(mean x² + eps) · weight`, row by row.
pub fn norm_rows(rows: &[f32], weight: &[f32], eps: f32, out: &mut Vec<f32>) {
    let width = weight.len();
    out.resize(rows.len(), 0.0);
    out.par_chunks_mut(width).zip(rows.par_chunks(width)).for_each(|(out, row)| {
        vectorised(
            #[inline(always)]
            || {
                let scale = inverse_rms(row, eps);
                for ((slot, value), weight) in out.iter_mut().zip(row).zip(weight) {
                    *slot = value * scale * weight;
                }
            },
        );
    });
}

/// As [`norm_rows`], of one row in place.
#[inline(always)]
pub fn norm_in_place(row: &mut [f32], weight: &[f32], eps: f32) {
    let scale = inverse_rms(row, eps);
    for (value, weight) in row.iter_mut().zip(weight) {
        *value = *value * scale * weight;
    }
}

/// `1 / √(mean x² + eps)`
#[inline(always)]
pub fn inverse_rms(row: &[f32], eps: f32) -> f32 {
    1.0 / (dot(row, row) / row.len() as f32 + eps).sqrt()
}
