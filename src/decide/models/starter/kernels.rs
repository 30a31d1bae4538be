//! The parts of a forward pass that are not matrix products, on slices: activation, norm, attention. Written for the
//! compiler's vectors, because candle's own run one number at a time; each is tested against its plain definition.

use rayon::prelude::*;

use crate::decide::kernels::{Rows, RowsMut, Threads, exp, times, times_transposed, vectorised};

/// One sequence of a ragged batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequence {
    /// Its first token among all tokens.
    pub start: usize,
    /// How many it has.
    pub tokens: usize,
}

/// Rows that one task of a row-wise kernel takes: enough to be worth handing over.
const ROWS_A_TASK: usize = 32;
/// Queries whose scores are held at a time; with 256 keys these are 64 KiB and stay in the second cache.
const QUERIES_A_BLOCK: usize = 64;
const LANES: usize = 16;

/// Adds `bias` to each row, then applies `x·Φ(x)`.
pub fn bias_gelu(rows: &mut [f32], bias: &[f32]) {
    rows.par_chunks_mut(ROWS_A_TASK * bias.len()).for_each(|rows| {
        vectorised(
            #[inline(always)]
            || {
                for row in rows.chunks_exact_mut(bias.len()) {
                    for (x, bias) in row.iter_mut().zip(bias) {
                        *x = gelu(*x + *bias);
                    }
                }
            },
        );
    });
}

/// Each row of `rows` plus `bias` plus its row of `residual`, normalised, scaled and shifted.
pub fn bias_residual_norm(rows: &mut [f32], residual: &[f32], bias: &[f32], norm: Norm) {
    let width = bias.len();
    let tasks = rows.par_chunks_mut(ROWS_A_TASK * width).zip(residual.par_chunks(ROWS_A_TASK * width));
    tasks.for_each(|(rows, residual)| {
        vectorised(
            #[inline(always)]
            || {
                for (row, residual) in rows.chunks_exact_mut(width).zip(residual.chunks_exact(width)) {
                    for ((x, residual), bias) in row.iter_mut().zip(residual).zip(bias) {
                        *x += *residual + *bias;
                    }
                    norm.apply(row);
                }
            },
        );
    });
}

/// Normalises each row.
pub fn norm(rows: &mut [f32], norm: Norm) {
    vectorised(
        #[inline(always)]
        || rows.chunks_exact_mut(norm.scale.len()).for_each(|row| norm.apply(row)),
    );
}

/// A layer norm's parameters.
#[derive(Clone, Copy)]
pub struct Norm<'a> {
    /// By what each number is multiplied.
    pub scale: &'a [f32],
    /// What is added then.
    pub shift: &'a [f32],
    /// Added to the variance.
    pub epsilon: f32,
}

impl Norm<'_> {
    #[inline(always)]
    fn apply(self, row: &mut [f32]) {
        let mean = sum(row, |x| x) / row.len() as f32;
        let variance = sum(row, |x| (x - mean) * (x - mean)) / row.len() as f32;
        let factor = 1.0 / (variance + self.epsilon).sqrt();
        for ((x, scale), shift) in row.iter_mut().zip(self.scale).zip(self.shift) {
            *x = (*x - mean) * factor * *scale + *shift;
        }
    }
}

/// The sum of `of` each number, in lanes so that the compiler may keep them in vectors.
#[inline(always)]
fn sum(row: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let chunks = row.chunks_exact(LANES);
    let rest: f32 = chunks.remainder().iter().map(|x| of(*x)).sum();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane += of(*x);
        }
    }
    lanes.iter().sum::<f32>() + rest
}

/// Attention of each sequence to itself, all heads: `softmax((q + bias)·kᵀ)·v`; the scale is part of `q` already.
/// Heads lie side by side, `head` wide.
pub struct Attention<'a> {
    /// A row for each token, or (`first_only`) one for each sequence.
    pub queries: &'a [f32],
    /// A row for each token: its keys, and its values beside them.
    pub keys_values: &'a [f32],
    /// Added to each query; as wide as all heads.
    pub bias: &'a [f32],
    /// Numbers of one head.
    pub head: usize,
    /// The sequences.
    pub sequences: &'a [Sequence],
    /// Whether only each sequence's first token asks.
    pub first_only: bool,
}

impl Attention<'_> {
    /// Fills one row for each query, heads side by side.
    pub fn run(&self, out: &mut [f32]) {
        let width = self.bias.len();
        let heads = width / self.head;
        let tasks: Vec<(usize, usize)> = (0..self.sequences.len())
            .flat_map(|sequence| (0..heads).map(move |head| (sequence, head)))
            .collect();
        let parts: Vec<Vec<f32>> =
            tasks.par_iter().map(|(sequence, head)| self.one(*sequence, *head)).collect();
        for ((sequence, head), part) in tasks.iter().zip(parts) {
            let (first, _) = self.queries_of(*sequence);
            for (row, part) in part.chunks_exact(self.head).enumerate() {
                out[(first + row) * width + head * self.head..][..self.head].copy_from_slice(part);
            }
        }
    }

    /// The first query row of a sequence, and how many it has.
    fn queries_of(&self, sequence: usize) -> (usize, usize) {
        if self.first_only {
            (sequence, 1)
        } else {
            (self.sequences[sequence].start, self.sequences[sequence].tokens)
        }
    }

    fn one(&self, sequence: usize, head: usize) -> Vec<f32> {
        let (width, size) = (self.bias.len(), self.head);
        let column = head * size;
        let Sequence { start, tokens } = self.sequences[sequence];
        let (first, queries) = self.queries_of(sequence);
        let of_tokens = |column: usize| {
            Rows::new(&self.keys_values[start * 2 * width + column..], tokens, size, 2 * width)
        };
        let (keys, values) = (of_tokens(column), of_tokens(width + column));
        let bias = &self.bias[column..column + size];
        let block = QUERIES_A_BLOCK.min(queries);
        let (mut asked, mut scores) = (vec![0.0; block * size], vec![0.0; block * tokens]);
        let mut out = vec![0.0; queries * size];
        for (index, out) in out.chunks_mut(QUERIES_A_BLOCK * size).enumerate() {
            let rows = out.len() / size;
            let (asked, scores) = (&mut asked[..rows * size], &mut scores[..rows * tokens]);
            for (row, query) in asked.chunks_exact_mut(size).enumerate() {
                let source = &self.queries[(first + index * QUERIES_A_BLOCK + row) * width + column..];
                for ((query, source), bias) in query.iter_mut().zip(source).zip(bias) {
                    *query = *source + *bias;
                }
            }
            let asked = Rows::new(asked, rows, size, size);
            let target = RowsMut::new(scores, rows, tokens, tokens);
            times_transposed(target, asked, keys, false, Threads::One);
            let mut sums = [0.0; QUERIES_A_BLOCK];
            vectorised(
                #[inline(always)]
                || {
                    for (sum, scores) in sums.iter_mut().zip(scores.chunks_exact_mut(tokens)) {
                        *sum = exponentials(scores);
                    }
                },
            );
            let weights = Rows::new(scores, rows, tokens, tokens);
            times(RowsMut::new(out, rows, size, size), weights, values, false, Threads::One);
            for (out, sum) in out.chunks_exact_mut(size).zip(sums) {
                out.iter_mut().for_each(|x| *x /= sum);
            }
        }
        out
    }
}

/// Replaces scores by the exponentials of their distance to the largest; returns their sum.
#[inline(always)]
fn exponentials(row: &mut [f32]) -> f32 {
    let mut largest = [f32::NEG_INFINITY; LANES];
    let chunks = row.chunks_exact(LANES);
    let rest = chunks.remainder().iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
    for chunk in chunks {
        for (lane, x) in largest.iter_mut().zip(chunk) {
            *lane = if *x > *lane { *x } else { *lane };
        }
    }
    let largest = largest.iter().fold(rest, |a, b| a.max(*b));
    row.iter_mut().for_each(|x| *x = exp(*x - largest));
    sum(row, |x| x)
}

/// `x·Φ(x)`, the error function by Abramowitz and Stegun 7.1.26 (within 1.5e-7).
#[inline(always)]
fn gelu(x: f32) -> f32 {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let series =
        t * (0.254_829_6 + t * (-0.284_496_74 + t * (1.421_413_7 + t * (-1.453_152_1 + t * 1.061_405_4))));
    let tail = 0.5 * series * exp(-z * z);
    // tail = Φ(−|x|)
    if x < 0.0 { x * tail } else { x - x * tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers between -1 and 1 that look random.
    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed.wrapping_mul(2_654_435_761).max(1);
        let next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state as f32 / u32::MAX as f32 * 2.0 - 1.0
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    fn erf(x: f64) -> f64 {
        // Its series; exact enough below 5.
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        2.0 / std::f64::consts::PI.sqrt() * sum
    }

    #[test]
    fn gelu_is_the_exact_one() {
        for step in -600..=600 {
            let x = step as f32 / 100.0;
            let wanted = f64::from(x) * 0.5 * (1.0 + erf(f64::from(x) / 2f64.sqrt()));
            assert!((f64::from(gelu(x)) - wanted).abs() < 1e-6, "{x}: {} is not {wanted}", gelu(x));
        }
        assert!(gelu(100.0) == 100.0 && gelu(-100.0).abs() < 1e-30);
    }

    #[test]
    fn a_norm_has_mean_zero_and_variance_one_before_scale_and_shift() {
        let width = 37;
        let (scale, shift, bias) = (numbers(width, 1), numbers(width, 2), numbers(width, 3));
        let residual = numbers(3 * width, 4);
        let before = numbers(3 * width, 5);
        let mut rows = before.clone();
        bias_residual_norm(
            &mut rows,
            &residual,
            &bias,
            Norm { scale: &scale, shift: &shift, epsilon: 1e-12 },
        );
        for row in 0..3 {
            let at = |column: usize| {
                f64::from(before[row * width + column] + residual[row * width + column] + bias[column])
            };
            let mean = (0..width).map(at).sum::<f64>() / width as f64;
            let variance = (0..width).map(|column| (at(column) - mean).powi(2)).sum::<f64>() / width as f64;
            for column in 0..width {
                let wanted = (at(column) - mean) / variance.sqrt() * f64::from(scale[column])
                    + f64::from(shift[column]);
                assert!((f64::from(rows[row * width + column]) - wanted).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn attention_is_softmax_of_products_and_keeps_sequences_apart() {
        let (head, heads, tokens) = (4, 3, 70 + 5 + 1);
        let width = head * heads;
        let (queries, keys_values) = (numbers(tokens * width, 7), numbers(tokens * 2 * width, 9));
        let bias = numbers(width, 8);
        let sequences = [
            Sequence { start: 0, tokens: 70 },
            Sequence { start: 70, tokens: 5 },
            Sequence { start: 75, tokens: 1 },
        ];
        let attention = Attention {
            queries: &queries,
            keys_values: &keys_values,
            bias: &bias,
            head,
            sequences: &sequences,
            first_only: false,
        };
        let mut found = vec![0.0; tokens * width];
        attention.run(&mut found);
        for Sequence { start, tokens } in sequences {
            for (query, column) in
                (start..start + tokens).flat_map(|query| (0..width).map(move |column| (query, column)))
            {
                let of = column / head * head;
                let asked = |c: usize| f64::from(queries[query * width + c]) + f64::from(bias[c]);
                let told = |row: usize, column: usize| f64::from(keys_values[row * 2 * width + column]);
                let score = |key: usize| -> f64 { (of..of + head).map(|c| asked(c) * told(key, c)).sum() };
                let weights: Vec<f64> = (start..start + tokens).map(|key| score(key).exp()).collect();
                let mixed: f64 =
                    weights.iter().enumerate().map(|(i, w)| w * told(start + i, width + column)).sum();
                let wanted = mixed / weights.iter().sum::<f64>();
                assert!((f64::from(found[query * width + column]) - wanted).abs() < 1e-5);
            }
        }
        let first: Vec<f32> =
            sequences.iter().flat_map(|s| queries[s.start * width..][..width].to_vec()).collect();
        let mut only_first = vec![0.0; sequences.len() * width];
        Attention { queries: &first, first_only: true, ..attention }.run(&mut only_first);
        for (sequence, row) in sequences.iter().zip(only_first.chunks_exact(width)) {
            let whole = &found[sequence.start * width..][..width];
            assert!(row.iter().zip(whole).all(|(a, b)| (a - b).abs() < 1e-6));
        }
    }
}
