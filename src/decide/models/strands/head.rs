//! The pointer head: how well each option's hidden row answers the question's.

use super::error::LoadError;
use super::shards::{Rounding, Shard};
use crate::decide::kernels::{Rows, RowsMut, Threads, dot, times_transposed, vectorised};

/// Added to a variance under the root.
const EPS: f32 = 1e-5;

/// The pointer head's weights, f32.
pub struct PointerHead {
    hidden: usize,
    width: usize,
    norm_weight: Vec<f32>,
    norm_bias: Vec<f32>,
    query: Vec<f32>,
    query_bias: Vec<f32>,
    key: Vec<f32>,
    key_bias: Vec<f32>,
}

impl PointerHead {
    /// Reads the six tensors; `file_of` finds the file of a tensor of this name and shape.
    pub fn load<'a>(
        hidden: usize,
        width: usize,
        file_of: impl Fn(&str, &[usize]) -> Result<&'a Shard, LoadError>,
    ) -> Result<Self, LoadError> {
        let values = |name: &str, shape: &[usize]| file_of(name, shape)?.values(name, shape, Rounding::F32);
        Ok(Self {
            hidden,
            width,
            norm_weight: values("norm.weight", &[hidden])?,
            norm_bias: values("norm.bias", &[hidden])?,
            query: values("q.weight", &[width, hidden])?,
            query_bias: values("q.bias", &[width])?,
            key: values("k.weight", &[width, hidden])?,
            key_bias: values("k.bias", &[width])?,
        })
    }

    /// One logit per option, from hidden rows: the options', then the answer's.
    pub fn logits(&self, rows: &[f32]) -> Vec<f32> {
        let mut normed = rows.to_vec();
        for row in normed.chunks_exact_mut(self.hidden) {
            vectorised(
                #[inline(always)]
                || self.norm(row),
            );
        }
        let options = normed.len() / self.hidden - 1;
        let (options_rows, answer) = normed.split_at(options * self.hidden);
        let query = self.project(answer, &self.query, &self.query_bias);
        let keys = self.project(options_rows, &self.key, &self.key_bias);
        let scale = (self.width as f32).powf(-0.5);
        keys.chunks_exact(self.width).map(|key| dot(key, &query) * scale).collect()
    }

    #[inline(always)]
    fn norm(&self, row: &mut [f32]) {
        let count = row.len() as f32;
        let mean = row.iter().sum::<f32>() / count;
        row.iter_mut().for_each(|value| *value -= mean);
        let scale = 1.0 / (dot(row, row) / count + EPS).sqrt();
        for ((value, weight), bias) in row.iter_mut().zip(&self.norm_weight).zip(&self.norm_bias) {
            *value = *value * scale * weight + bias;
        }
    }

    fn project(&self, rows: &[f32], weights: &[f32], bias: &[f32]) -> Vec<f32> {
        let count = rows.len() / self.hidden;
        let mut out = vec![0.0; count * self.width];
        times_transposed(
            RowsMut::new(&mut out, count, self.width, self.width),
            Rows::new(rows, count, self.hidden, self.hidden),
            Rows::new(weights, self.width, self.hidden, self.hidden),
            false,
            Threads::All,
        );
        for row in out.chunks_exact_mut(self.width) {
            row.iter_mut().zip(bias).for_each(|(value, bias)| *value += bias);
        }
        out
    }
}

/// `softmax( logits / temperature )`
pub fn softmax(logits: &[f32], temperature: f32) -> Vec<f64> {
    let scaled: Vec<f32> = logits.iter().map(|logit| logit / temperature).collect();
    let most = scaled.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f32> = scaled.iter().map(|logit| (logit - most).exp()).collect();
    let sum: f32 = powers.iter().sum();
    powers.iter().map(|power| f64::from(power / sum)).collect()
}
