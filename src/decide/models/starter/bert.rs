//! The network: BERT for sequence classification, computed in f32. Sequences of a batch lie end to end, so there is no
//! padding and no mask, and a row's numbers do not depend on its company.

use serde::Deserialize;

use super::kernels::{self, Attention, Norm, Sequence};
use super::matrix::{Form, Matrix};
use super::weights::{Weights, widen};
use crate::decide::LoadError;

/// What `config.json` says of the network.
#[derive(Debug, Clone, Deserialize)]
pub struct BertConfig {
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    layer_norm_eps: f32,
    vocab_size: usize,
    type_vocab_size: usize,
    /// Tokens of the longest sequence.
    pub max_position_embeddings: usize,
    id2label: std::collections::BTreeMap<usize, String>,
}

impl BertConfig {
    /// The labels of the logits, in order.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.id2label.values().map(String::as_str)
    }
}

/// One sequence: token ids, of which the first `split` are of type 0 and the others of type 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Token ids, special tokens among them.
    pub ids: Vec<u32>,
    /// Where the second segment starts.
    pub split: usize,
}

/// The network with its weights.
pub struct Bert<'a> {
    config: BertConfig,
    embeddings: Embeddings<'a>,
    layers: Vec<Layer>,
    pooler: Affine,
    classifier: Affine,
}

/// Half precision is kept for the word embeddings: they are half of all weights, and only looked up.
struct Embeddings<'a> {
    words: &'a [u8],
    positions: Vec<f32>,
    types: Vec<f32>,
    norm: NormWeights,
}

struct NormWeights {
    scale: Vec<f32>,
    shift: Vec<f32>,
    epsilon: f32,
}

impl NormWeights {
    fn view(&self) -> Norm<'_> {
        Norm { scale: &self.scale, shift: &self.shift, epsilon: self.epsilon }
    }
}

struct Layer {
    /// Scaled, so that attention need not be.
    queries: Matrix,
    query_bias: Vec<f32>,
    /// Keys, and values beside them.
    keys_values: Matrix,
    output: Affine,
    output_norm: NormWeights,
    up: Affine,
    down: Affine,
    down_norm: NormWeights,
}

/// `x · weightᵀ`, and a bias that the next step adds.
struct Affine {
    weight: Matrix,
    bias: Vec<f32>,
}

/// Why a row cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    /// No such token.
    #[error("token id {id} is not in the vocabulary")]
    Token {
        /// Its id.
        id: usize,
    },
    /// More tokens than the model has positions for.
    #[error("a row of {tokens} tokens; the model reads {most}")]
    Length {
        /// Tokens of the row.
        tokens: usize,
        /// The most there may be.
        most: usize,
    },
}

impl<'a> Bert<'a> {
    /// Takes the weights out of a safetensors file.
    pub fn load(config: &BertConfig, weights: &Weights<'a>, form: Form) -> Result<Self, LoadError> {
        let (hidden, labels) = (config.hidden_size, config.id2label.len());
        let layers = (0..config.num_hidden_layers).map(|layer| Layer::load(config, weights, layer, form));
        Ok(Self {
            config: config.clone(),
            embeddings: Embeddings::load(config, weights)?,
            layers: layers.collect::<Result<_, _>>()?,
            pooler: Affine::load(weights, "bert.pooler.dense", [hidden, hidden], form)?,
            classifier: Affine::load(weights, "classifier", [labels, hidden], form)?,
        })
    }

    /// The logits of each row, in order of the labels.
    pub fn logits(&self, rows: &[&Row]) -> Result<Vec<Vec<f32>>, RowError> {
        let mut start = 0;
        let sequences: Vec<Sequence> = rows
            .iter()
            .map(|row| {
                let sequence = Sequence { start, tokens: row.ids.len() };
                start += sequence.tokens;
                sequence
            })
            .collect();
        let mut hidden = self.embeddings.look_up(rows, self.config.hidden_size)?;
        for (index, layer) in self.layers.iter().enumerate() {
            let is_last = index + 1 == self.layers.len();
            hidden = layer.forward(hidden, &sequences, self.config.num_attention_heads, is_last);
        }
        let mut pooled = self.pooler.apply(&hidden);
        pooled.iter_mut().for_each(|x| *x = x.tanh());
        let labels = self.classifier.bias.len();
        Ok(self.classifier.apply(&pooled).chunks_exact(labels).map(<[f32]>::to_vec).collect())
    }
}

impl<'a> Embeddings<'a> {
    fn load(config: &BertConfig, weights: &Weights<'a>) -> Result<Self, LoadError> {
        let hidden = config.hidden_size;
        let name = |part: &str| format!("bert.embeddings.{part}.weight");
        Ok(Self {
            words: weights.halves(&name("word_embeddings"), &[config.vocab_size, hidden])?,
            positions: weights
                .floats(&name("position_embeddings"), &[config.max_position_embeddings, hidden])?,
            types: weights.floats(&name("token_type_embeddings"), &[config.type_vocab_size, hidden])?,
            norm: NormWeights::load(weights, "bert.embeddings.LayerNorm", config)?,
        })
    }

    fn look_up(&self, rows: &[&Row], hidden: usize) -> Result<Vec<f32>, RowError> {
        let most = self.positions.len() / hidden;
        if let Some(row) = rows.iter().find(|row| row.ids.len() > most) {
            return Err(RowError::Length { tokens: row.ids.len(), most });
        }
        let tokens: usize = rows.iter().map(|row| row.ids.len()).sum();
        let mut out = vec![0.0; tokens * hidden];
        let places = rows.iter().flat_map(|row| {
            row.ids
                .iter()
                .enumerate()
                .map(|(position, id)| (*id as usize, position, usize::from(position >= row.split)))
        });
        for (out, (id, position, kind)) in out.chunks_exact_mut(hidden).zip(places) {
            let Some(word) = self.words.get(id * hidden * 2..(id + 1) * hidden * 2) else {
                return Err(RowError::Token { id });
            };
            widen(word, out);
            let place = &self.positions[position * hidden..(position + 1) * hidden];
            let kind = &self.types[kind * hidden..(kind + 1) * hidden];
            for ((out, place), kind) in out.iter_mut().zip(place).zip(kind) {
                *out += *place + *kind;
            }
        }
        kernels::norm(&mut out, self.norm.view());
        Ok(out)
    }
}

impl NormWeights {
    fn load(weights: &Weights, name: &str, config: &BertConfig) -> Result<Self, LoadError> {
        Ok(Self {
            scale: weights.floats(&format!("{name}.weight"), &[config.hidden_size])?,
            shift: weights.floats(&format!("{name}.bias"), &[config.hidden_size])?,
            epsilon: config.layer_norm_eps,
        })
    }
}

impl Affine {
    /// `shape`: outputs and inputs.
    fn load(weights: &Weights, name: &str, shape: [usize; 2], form: Form) -> Result<Self, LoadError> {
        let weight = weights.floats(&format!("{name}.weight"), &shape)?;
        let bias = weights.floats(&format!("{name}.bias"), &shape[..1])?;
        Ok(Self { weight: Matrix::new(weight, shape, form), bias })
    }

    fn apply(&self, x: &[f32]) -> Vec<f32> {
        let mut out = self.weight.multiply(x);
        for row in out.chunks_exact_mut(self.bias.len()) {
            row.iter_mut().zip(&self.bias).for_each(|(x, bias)| *x += *bias);
        }
        out
    }
}

impl Layer {
    fn load(config: &BertConfig, weights: &Weights, index: usize, form: Form) -> Result<Self, LoadError> {
        let hidden = config.hidden_size;
        let name = |part: &str| format!("bert.encoder.layer.{index}.{part}");
        let scale = 1.0 / ((hidden / config.num_attention_heads) as f32).sqrt();

        let part =
            |part: &str| weights.floats(&name(&format!("attention.self.{part}.weight")), &[hidden, hidden]);
        let bias = |part: &str| weights.floats(&name(&format!("attention.self.{part}.bias")), &[hidden]);
        let mut queries = part("query")?;
        queries.iter_mut().for_each(|weight| *weight *= scale);
        let keys_values = [part("key")?, part("value")?].concat();
        let mut query_bias = bias("query")?;
        query_bias.iter_mut().for_each(|bias| *bias *= scale);
        // A key's bias adds the same to all scores of a query, which the softmax takes away again.
        bias("key")?;
        // A value's bias comes out of the attention as it went in (its weights sum to 1): part of the output's bias.
        let value_bias = bias("value")?;
        let mut output_bias = weights.floats(&name("attention.output.dense.bias"), &[hidden])?;
        let output_weight = weights.floats(&name("attention.output.dense.weight"), &[hidden, hidden])?;
        for (bias, weights) in output_bias.iter_mut().zip(output_weight.chunks_exact(hidden)) {
            *bias += weights.iter().zip(&value_bias).map(|(weight, value)| weight * value).sum::<f32>();
        }
        let (square, inner) = ([hidden, hidden], config.intermediate_size);
        Ok(Self {
            queries: Matrix::new(queries, square, form),
            query_bias,
            keys_values: Matrix::new(keys_values, [2 * hidden, hidden], form),
            output: Affine { weight: Matrix::new(output_weight, square, form), bias: output_bias },
            output_norm: NormWeights::load(weights, &name("attention.output.LayerNorm"), config)?,
            up: Affine::load(weights, &name("intermediate.dense"), [inner, hidden], form)?,
            down: Affine::load(weights, &name("output.dense"), [hidden, inner], form)?,
            down_norm: NormWeights::load(weights, &name("output.LayerNorm"), config)?,
        })
    }

    /// The layer's output; of the last layer only each sequence's first row, which is all that the classifier reads.
    fn forward(&self, x: Vec<f32>, sequences: &[Sequence], heads: usize, first_only: bool) -> Vec<f32> {
        let hidden = self.query_bias.len();
        let keys_values = self.keys_values.multiply(&x);
        let residual = if first_only {
            let first = |sequence: &Sequence| &x[sequence.start * hidden..][..hidden];
            sequences.iter().flat_map(first).copied().collect()
        } else {
            x
        };
        let attention = Attention {
            queries: &self.queries.multiply(&residual),
            keys_values: &keys_values,
            bias: &self.query_bias,
            head: hidden / heads,
            sequences,
            first_only,
        };
        let mut attended = vec![0.0; residual.len()];
        attention.run(&mut attended);
        let mut x = self.output.weight.multiply(&attended);
        kernels::bias_residual_norm(&mut x, &residual, &self.output.bias, self.output_norm.view());
        let mut wide = self.up.weight.multiply(&x);
        kernels::bias_gelu(&mut wide, &self.up.bias);
        let mut out = self.down.weight.multiply(&wide);
        kernels::bias_residual_norm(&mut out, &x, &self.down.bias, self.down_norm.view());
        out
    }
}
