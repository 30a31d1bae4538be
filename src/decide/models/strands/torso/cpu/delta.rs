//! Gated DeltaNet: a linear layer whose state is one matrix per head, updated by the delta rule token by token.

use rayon::prelude::*;

use super::super::super::config::TorsoConfig;
use super::super::super::error::LoadError;
use super::super::super::weights::Weights;
use super::linear::load;
use super::mixing::Mixing;
use super::norm::inverse_rms;
use super::{LayerState, gather};
use crate::decide::kernels::{
    Fused, Kernel, Linear, Precision, dot, run, sigmoid, silu, softplus, vectorised,
};

/// Value columns that are worked on at a time: their part of the state stays in the first cache, their sums in registers.
const COLUMNS: usize = 32;

/// The same for heads so narrow that half of the columns would be empty.
const FEW_COLUMNS: usize = 16;

/// Added to a sum of squares before its root; not the norms' epsilon.
const UNIT_EPS: f32 = 1e-6;

/// The weights of a linear layer.
pub struct Delta {
    /// q, k, v, then z.
    input: Linear,
    /// beta's input, then the decay's. In f32 always: small, and inside an exponential.
    gates: Linear,
    /// `[taps, channels]`
    conv: Vec<f32>,
    /// `−e^A_log`
    decay: Vec<f32>,
    dt_bias: Vec<f32>,
    norm: Vec<f32>,
    output: Linear,
}

/// One head of one segment.
struct Head<'a> {
    /// Normalised q, k and v of the segment, `[tokens, channels]`.
    inputs: &'a [f32],
    channels: usize,
    query: usize,
    key: usize,
    value: usize,
    key_dim: usize,
    value_dim: usize,
    /// `(decay, beta)` of each token.
    gates: &'a [(f32, f32)],
    /// `[key_dim, value_dim]`, before the segment and after it.
    matrix: Vec<f32>,
}

impl Delta {
    pub fn load(
        config: &TorsoConfig,
        weights: &Weights,
        path: &str,
        precision: Precision,
    ) -> Result<Self, LoadError> {
        let path = format!("{path}linear_attn.");
        let heads = config.value_heads;
        let value_width = heads * config.value_dim;
        let channels = config.conv_channels();
        let values = |name: &str, shape: &[usize]| weights.values(&format!("{path}{name}"), shape);
        let conv = values("conv1d.weight", &[channels, 1, config.conv])?;
        let a_log = values("A_log", &[heads])?;
        Ok(Self {
            input: load(
                weights,
                &path,
                &[("in_proj_qkv", channels), ("in_proj_z", value_width)],
                config.hidden,
                precision,
            )?,
            gates: load(
                weights,
                &path,
                &[("in_proj_b", heads), ("in_proj_a", heads)],
                config.hidden,
                Precision::F32,
            )?,
            conv: (0..config.conv)
                .flat_map(|tap| conv.iter().skip(tap).step_by(config.conv).copied())
                .collect(),
            decay: a_log.iter().map(|a_log| -a_log.exp()).collect(),
            dt_bias: values("dt_bias", &[heads])?,
            norm: values("norm.weight", &[config.value_dim])?,
            output: load(weights, &path, &[("out_proj", config.hidden)], value_width, precision)?,
        })
    }

    /// Adds the mixed rows to `stream`: all of them, or the wanted ones. Gives the state after each segment that is to be kept.
    pub fn mix(
        &self,
        mixing: &Mixing<'_, '_>,
        stream: &mut [f32],
        see: &mut dyn FnMut(&str, &[f32]),
    ) -> Vec<Option<LayerState>> {
        let Mixing { config, normed, places, wanted, .. } = *mixing;
        let channels = config.conv_channels();
        let value_width = config.value_heads * config.value_dim;
        let width = channels + value_width;
        let mut input = vec![0.0; places.rows * width];
        self.input.apply(normed, &mut input);
        see("in_proj", &input);
        let gates = self.gates(mixing, see);
        let tails = self.tails(mixing, &input, width);
        let convolved = self.convolve(mixing, &input, width, &tails);
        see("delta.qkv", &convolved);
        let (mut mixed, matrices) = recur(mixing, &convolved, &gates);
        see("delta.out", &mixed);
        if let Some(matrix) = matrices.last().and_then(Option::as_ref) {
            see("delta.final_state", matrix);
        }
        if let Some(wanted) = wanted {
            mixed = gather(&mixed, wanted, value_width);
        }
        self.gated_norm(config, &mut mixed, |row| {
            let row = wanted.map_or(row, |wanted| wanted[row]);
            &input[row * width + channels..][..value_width]
        });
        see("gated_norm.out", &mixed);
        self.output.apply_adding(&mixed, stream);
        places
            .places
            .iter()
            .zip(matrices.into_iter().zip(tails))
            .map(|(place, state)| match state {
                (Some(matrices), Some(tail)) if place.keep => Some(LayerState::Delta { matrices, tail }),
                _ => None,
            })
            .collect()
    }

    /// `(decay, beta)` of each head at each row, `[heads, rows]`.
    fn gates(&self, mixing: &Mixing<'_, '_>, see: &mut dyn FnMut(&str, &[f32])) -> Vec<(f32, f32)> {
        let (heads, rows) = (mixing.config.value_heads, mixing.places.rows);
        let mut raw = vec![0.0; rows * 2 * heads];
        self.gates.apply(mixing.normed, &mut raw);
        see("gates", &raw);
        let mut gates = vec![(0.0, 0.0); rows * heads];
        for (row, raw) in raw.chunks_exact(2 * heads).enumerate() {
            for head in 0..heads {
                let log_decay = self.decay[head] * softplus(raw[heads + head] + self.dt_bias[head]);
                gates[head * rows + row] = (log_decay.exp(), sigmoid(raw[head]));
            }
        }
        gates
    }

    /// The last inputs of the convolution of each segment whose state is needed, `[taps − 1, channels]`.
    fn tails(&self, mixing: &Mixing<'_, '_>, input: &[f32], width: usize) -> Vec<Option<Vec<f32>>> {
        let Mixing { config, places, .. } = *mixing;
        let channels = config.conv_channels();
        let past = config.conv - 1;
        let mut tails: Vec<Option<Vec<f32>>> = Vec::with_capacity(places.places.len());
        for (segment, place) in places.places.iter().enumerate() {
            if !place.needed {
                tails.push(None);
                continue;
            }
            let mut tail = before(mixing, segment, &tails).unwrap_or_else(|| vec![0.0; past * channels]);
            let own = place.rows.len().min(past);
            tail.drain(..own * channels);
            for row in place.rows.end - own..place.rows.end {
                tail.extend_from_slice(&input[row * width..][..channels]);
            }
            tails.push(Some(tail));
        }
        tails
    }

    /// Depthwise convolution and silu of q, k and v, then q and k to unit length, q scaled.
    fn convolve(
        &self,
        mixing: &Mixing<'_, '_>,
        input: &[f32],
        width: usize,
        tails: &[Option<Vec<f32>>],
    ) -> Vec<f32> {
        let Mixing { config, places, .. } = *mixing;
        let channels = config.conv_channels();
        let past = config.conv - 1;
        let (key_dim, key_width) = (config.key_dim, config.key_heads * config.key_dim);
        let query_scale = (key_dim as f32).powf(-0.5);
        let mut out = vec![0.0; places.rows * channels];
        for (segment, place) in places.places.iter().enumerate() {
            let tail = before(mixing, segment, tails);
            let rows = &mut out[place.rows.start * channels..place.rows.end * channels];
            rows.par_chunks_mut(channels).enumerate().for_each(|(offset, row)| {
                vectorised(
                    #[inline(always)]
                    || {
                        for (tap, weights) in self.conv.chunks_exact(channels).enumerate() {
                            // Row of this tap, counted from the start of the tail.
                            let at = offset + tap;
                            let source = if at >= past {
                                &input[(place.rows.start + at - past) * width..][..channels]
                            } else {
                                match &tail {
                                    Some(tail) => &tail[at * channels..][..channels],
                                    None => continue,
                                }
                            };
                            for ((slot, value), weight) in row.iter_mut().zip(source).zip(weights) {
                                *slot += value * weight;
                            }
                        }
                        for value in row.iter_mut() {
                            *value = silu(*value);
                        }
                        let (query, key) = row[..2 * key_width].split_at_mut(key_width);
                        for (heads, scale) in [(query, query_scale), (key, 1.0)] {
                            for head in heads.chunks_exact_mut(key_dim) {
                                let scale = scale / (dot(head, head) + UNIT_EPS).sqrt();
                                head.iter_mut().for_each(|value| *value *= scale);
                            }
                        }
                    },
                );
            });
        }
        out
    }

    /// Per head: `o / √(mean o² + eps) · weight · silu(z)`. The weight is plain, not an offset from 1.
    fn gated_norm<'b>(
        &self,
        config: &TorsoConfig,
        mixed: &mut [f32],
        z_of_row: impl Fn(usize) -> &'b [f32] + Sync,
    ) {
        let value_dim = config.value_dim;
        mixed.par_chunks_mut(config.value_heads * value_dim).enumerate().for_each(|(row, outputs)| {
            let z = z_of_row(row);
            vectorised(
                #[inline(always)]
                || {
                    for (output, z) in outputs.chunks_exact_mut(value_dim).zip(z.chunks_exact(value_dim)) {
                        let scale = inverse_rms(output, config.eps);
                        for ((value, z), weight) in output.iter_mut().zip(z).zip(&self.norm) {
                            *value = *value * scale * weight * silu(*z);
                        }
                    }
                },
            );
        });
    }
}

/// The delta rule over all segments. Gives the outputs `[rows, heads · value_dim]` and, where needed, the matrices after a segment.
fn recur(
    mixing: &Mixing<'_, '_>,
    convolved: &[f32],
    gates: &[(f32, f32)],
) -> (Vec<f32>, Vec<Option<Vec<f32>>>) {
    let Mixing { config, places, .. } = *mixing;
    let (key_dim, value_dim) = (config.key_dim, config.value_dim);
    let (channels, heads) = (config.conv_channels(), config.value_heads);
    let group = heads / config.key_heads;
    let value_width = heads * value_dim;
    let size = key_dim * value_dim;
    let mut mixed = vec![0.0; places.rows * value_width];
    let mut matrices: Vec<Option<Vec<f32>>> = places.places.iter().map(|_| None).collect();
    for wave in 0..places.waves() {
        let tasks: Vec<(usize, usize)> = (0..places.places.len())
            .filter(|segment| places.places[*segment].wave == wave)
            .flat_map(|segment| (0..heads).map(move |head| (segment, head)))
            .collect();
        let results: Vec<(Vec<f32>, Vec<f32>)> = tasks
            .par_iter()
            .map(|&(segment, head)| {
                let rows = places.places[segment].rows.clone();
                let matrix = match places.places[segment].parent {
                    Some(parent) => matrices[parent].as_deref(),
                    None => match mixing.kept(segment) {
                        Some(LayerState::Delta { matrices, .. }) => Some(matrices.as_slice()),
                        _ => None,
                    },
                };
                let matrix =
                    matrix.map_or_else(|| vec![0.0; size], |all| all[head * size..][..size].to_vec());
                run(Head {
                    inputs: &convolved[rows.start * channels..rows.end * channels],
                    channels,
                    query: head / group * key_dim,
                    key: (config.key_heads + head / group) * key_dim,
                    value: 2 * config.key_heads * key_dim + head * value_dim,
                    key_dim,
                    value_dim,
                    gates: &gates[head * places.rows..][rows],
                    matrix,
                })
            })
            .collect();
        for ((segment, head), (outputs, matrix)) in tasks.into_iter().zip(results) {
            let place = &places.places[segment];
            for (row, output) in place.rows.clone().zip(outputs.chunks_exact(value_dim)) {
                mixed[row * value_width + head * value_dim..][..value_dim].copy_from_slice(output);
            }
            if place.needed {
                matrices[segment].get_or_insert_with(Vec::new).extend(matrix);
            }
        }
    }
    (mixed, matrices)
}

/// The convolution's inputs before a segment, if there are any.
fn before(mixing: &Mixing<'_, '_>, segment: usize, tails: &[Option<Vec<f32>>]) -> Option<Vec<f32>> {
    match (mixing.places.places[segment].parent, mixing.kept(segment)) {
        (Some(parent), _) => tails[parent].clone(),
        (None, Some(LayerState::Delta { tail, .. })) => Some(tail.clone()),
        _ => None,
    }
}

impl Kernel for Head<'_> {
    /// Outputs `[tokens, value_dim]`, and the matrix afterwards.
    type Output = (Vec<f32>, Vec<f32>);

    #[inline(always)]
    fn run<F: Fused>(self) -> (Vec<f32>, Vec<f32>) {
        if self.value_dim <= FEW_COLUMNS {
            self.by_columns::<F, FEW_COLUMNS>()
        } else {
            self.by_columns::<F, COLUMNS>()
        }
    }
}

impl Head<'_> {
    #[inline(always)]
    fn by_columns<F: Fused, const N: usize>(mut self) -> (Vec<f32>, Vec<f32>) {
        let mut outputs = vec![0.0; self.gates.len() * self.value_dim];
        let mut state = vec![[0.0; N]; self.key_dim];
        for from in (0..self.value_dim).step_by(N) {
            let width = N.min(self.value_dim - from);
            for (row, matrix) in state.iter_mut().zip(self.matrix.chunks_exact(self.value_dim)) {
                *row = [0.0; N];
                row[..width].copy_from_slice(&matrix[from..from + width]);
            }
            self.columns::<F, N>(&mut state, from, width, &mut outputs);
            for (row, matrix) in state.iter().zip(self.matrix.chunks_exact_mut(self.value_dim)) {
                matrix[from..from + width].copy_from_slice(&row[..width]);
            }
        }
        (outputs, self.matrix)
    }

    /// The recurrence for a block of value columns. A token's update of the state is applied while the next token reads it, so
    /// that the state goes through the cache once per token.
    #[inline(always)]
    fn columns<F: Fused, const N: usize>(
        &self,
        state: &mut [[f32; N]],
        from: usize,
        width: usize,
        outputs: &mut [f32],
    ) {
        let zeros = vec![0.0; self.key_dim];
        let mut last_key = zeros.as_slice();
        let mut last_change = [0.0; N];
        let mut last_decay = 1.0;
        for (token, (inputs, &(decay, beta))) in
            self.inputs.chunks_exact(self.channels).zip(self.gates).enumerate()
        {
            let query = &inputs[self.query..][..self.key_dim];
            let key = &inputs[self.key..][..self.key_dim];
            let mut value = [0.0; N];
            value[..width].copy_from_slice(&inputs[self.value + from..][..width]);
            let mut read = [0.0; N];
            let mut out = [0.0; N];
            for (((row, last), key), query) in state.iter_mut().zip(last_key).zip(key).zip(query) {
                for lane in 0..N {
                    let now = F::multiply_add(*last, last_change[lane], row[lane] * last_decay);
                    row[lane] = now;
                    read[lane] = F::multiply_add(*key, now, read[lane]);
                    out[lane] = F::multiply_add(*query, now, out[lane]);
                }
            }
            let overlap = dot(key, query);
            for lane in 0..N {
                last_change[lane] = beta * (value[lane] - decay * read[lane]);
                out[lane] = F::multiply_add(overlap, last_change[lane], decay * out[lane]);
            }
            last_key = key;
            last_decay = decay;
            outputs[token * self.value_dim + from..][..width].copy_from_slice(&out[..width]);
        }
        for (row, last) in state.iter_mut().zip(last_key) {
            for lane in 0..N {
                row[lane] = F::multiply_add(*last, last_change[lane], row[lane] * last_decay);
            }
        }
    }
}
