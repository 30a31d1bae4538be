//! The network: BERT for sequence classification, computed in f32. Sequences of a batch lie end to end, so there is no
//! padding and no mask, and a row's numbers do not depend on its company.

use candle_core::{CpuStorage, CustomOp2, Device, InplaceOp1, InplaceOp2, Layout, Result, Shape, Tensor};
use serde::Deserialize;

use super::kernels::{self, Attention, Norm, Rows, Sequence};
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
    pooler: Linear,
    classifier: Linear,
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
    /// Queries (scaled), keys and values: `[hidden, 3 · hidden]`.
    attention: Tensor,
    query_bias: Vec<f32>,
    output: Linear,
    output_norm: NormWeights,
    up: Linear,
    down: Linear,
    down_norm: NormWeights,
}

/// `x · weight + bias`.
struct Linear {
    /// `[in, out]`.
    weight: Tensor,
    bias: Vec<f32>,
}

impl<'a> Bert<'a> {
    /// Takes the weights out of a safetensors file.
    pub fn load(config: &BertConfig, weights: &Weights<'a>) -> std::result::Result<Self, LoadError> {
        let (hidden, labels) = (config.hidden_size, config.id2label.len());
        let layers = (0..config.num_hidden_layers).map(|layer| Layer::load(config, weights, layer));
        Ok(Self {
            config: config.clone(),
            embeddings: Embeddings::load(config, weights)?,
            layers: layers.collect::<std::result::Result<_, _>>()?,
            pooler: Linear::load(weights, "bert.pooler.dense", hidden, hidden)?,
            classifier: Linear::load(weights, "classifier", hidden, labels)?,
        })
    }

    /// The logits of each row, in order of the labels.
    pub fn logits(&self, rows: &[&Row]) -> Result<Vec<Vec<f32>>> {
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
            hidden = layer.forward(&hidden, &sequences, self.config.num_attention_heads, is_last)?;
        }
        let pooled = self.pooler.apply(&hidden)?.tanh()?;
        self.classifier.apply(&pooled)?.to_vec2()
    }
}

impl<'a> Embeddings<'a> {
    fn load(config: &BertConfig, weights: &Weights<'a>) -> std::result::Result<Self, LoadError> {
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

    fn look_up(&self, rows: &[&Row], hidden: usize) -> Result<Tensor> {
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
                candle_core::bail!("token id {id} is not in the vocabulary");
            };
            widen(word, out);
            let Some(place) = self.positions.get(position * hidden..(position + 1) * hidden) else {
                candle_core::bail!("a sequence of more than {position} tokens");
            };
            let kind = &self.types[kind * hidden..(kind + 1) * hidden];
            for ((out, place), kind) in out.iter_mut().zip(place).zip(kind) {
                *out += *place + *kind;
            }
        }
        kernels::norm(&mut out, self.norm.view());
        Tensor::from_vec(out, (tokens, hidden), &Device::Cpu)
    }
}

impl NormWeights {
    fn load(weights: &Weights, name: &str, config: &BertConfig) -> std::result::Result<Self, LoadError> {
        Ok(Self {
            scale: weights.floats(&format!("{name}.weight"), &[config.hidden_size])?,
            shift: weights.floats(&format!("{name}.bias"), &[config.hidden_size])?,
            epsilon: config.layer_norm_eps,
        })
    }
}

impl Linear {
    fn load(
        weights: &Weights,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> std::result::Result<Self, LoadError> {
        let weight = weights.floats(&format!("{name}.weight"), &[outputs, inputs])?;
        let bias = weights.floats(&format!("{name}.bias"), &[outputs])?;
        Ok(Self { weight: transposed(name, weight, inputs, outputs)?, bias })
    }

    fn product(&self, x: &Tensor) -> Result<Tensor> {
        x.matmul(&self.weight)
    }

    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let bias = Tensor::from_slice(&self.bias, self.bias.len(), &Device::Cpu)?;
        self.product(x)?.broadcast_add(&bias)
    }
}

/// A weight as `[in, out]`, from `[out, in]` as it is stored.
fn transposed(
    name: &str,
    weight: Vec<f32>,
    inputs: usize,
    outputs: usize,
) -> std::result::Result<Tensor, LoadError> {
    Tensor::from_vec(weight, (outputs, inputs), &Device::Cpu)
        .and_then(|weight| weight.t()?.contiguous())
        .map_err(|source| LoadError::Invalid { file: name.to_owned(), source: source.into() })
}

impl Layer {
    fn load(config: &BertConfig, weights: &Weights, index: usize) -> std::result::Result<Self, LoadError> {
        let hidden = config.hidden_size;
        let name = |part: &str| format!("bert.encoder.layer.{index}.{part}");
        let scale = 1.0 / ((hidden / config.num_attention_heads) as f32).sqrt();

        let part =
            |part: &str| weights.floats(&name(&format!("attention.self.{part}.weight")), &[hidden, hidden]);
        let bias = |part: &str| weights.floats(&name(&format!("attention.self.{part}.bias")), &[hidden]);
        let mut fused = part("query")?;
        fused.iter_mut().for_each(|weight| *weight *= scale);
        fused.extend(part("key")?);
        fused.extend(part("value")?);
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
        Ok(Self {
            attention: transposed(&name("attention.self"), fused, hidden, 3 * hidden)?,
            query_bias,
            output: Linear {
                weight: transposed(&name("attention.output.dense"), output_weight, hidden, hidden)?,
                bias: output_bias,
            },
            output_norm: NormWeights::load(weights, &name("attention.output.LayerNorm"), config)?,
            up: Linear::load(weights, &name("intermediate.dense"), hidden, config.intermediate_size)?,
            down: Linear::load(weights, &name("output.dense"), config.intermediate_size, hidden)?,
            down_norm: NormWeights::load(weights, &name("output.LayerNorm"), config)?,
        })
    }

    /// The layer's output; of the last layer only each sequence's first row, which is all that the classifier reads.
    fn forward(&self, x: &Tensor, sequences: &[Sequence], heads: usize, first_only: bool) -> Result<Tensor> {
        let hidden = self.query_bias.len();
        let (queries, keys_values, residual) = if first_only {
            let firsts: Vec<u32> = sequences.iter().map(|sequence| sequence.start as u32).collect();
            let firsts = Tensor::from_slice(&firsts, firsts.len(), &Device::Cpu)?;
            let residual = x.index_select(&firsts, 0)?;
            let queries = residual.matmul(&self.attention.narrow(1, 0, hidden)?)?;
            (queries, x.matmul(&self.attention.narrow(1, hidden, 2 * hidden)?)?, residual)
        } else {
            let all = x.matmul(&self.attention)?;
            (all.narrow(1, 0, hidden)?, all.narrow(1, hidden, 2 * hidden)?, x.clone())
        };
        let attend = Attend { bias: &self.query_bias, head: hidden / heads, sequences, first_only };
        let attended = queries.apply_op2_no_bwd(&keys_values, &attend)?;
        let x = self.output.product(&attended)?;
        let norm = BiasResidualNorm { bias: &self.output.bias, norm: self.output_norm.view() };
        x.inplace_op2(&residual, &norm)?;
        let wide = self.up.product(&x)?;
        wide.inplace_op1(&BiasGelu { bias: &self.up.bias })?;
        let out = self.down.product(&wide)?;
        out.inplace_op2(&x, &BiasResidualNorm { bias: &self.down.bias, norm: self.down_norm.view() })?;
        Ok(out)
    }
}

/// The numbers of a tensor whose rows are dense, from its first on, and the distance of its rows.
fn rows<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<Rows<'a>> {
    let (stride, inner) = match layout.stride() {
        [stride, inner] => (*stride, *inner),
        _ => candle_core::bail!("expected a matrix, got {:?}", layout.shape()),
    };
    if inner != 1 {
        candle_core::bail!("expected dense rows");
    }
    Ok(Rows { data: &storage.as_slice::<f32>()?[layout.start_offset()..], stride })
}

struct Attend<'a> {
    bias: &'a [f32],
    head: usize,
    sequences: &'a [Sequence],
    first_only: bool,
}

impl CustomOp2 for Attend<'_> {
    fn name(&self) -> &'static str {
        "ragged-attention"
    }

    fn cpu_fwd(
        &self,
        queries: &CpuStorage,
        queries_layout: &Layout,
        keys_values: &CpuStorage,
        keys_values_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let keys = rows(keys_values, keys_values_layout)?;
        let attention = Attention {
            queries: rows(queries, queries_layout)?,
            keys,
            values: Rows { data: &keys.data[self.bias.len()..], stride: keys.stride },
            bias: self.bias,
            head: self.head,
            sequences: self.sequences,
            first_only: self.first_only,
        };
        let out = attention.run();
        Ok((CpuStorage::F32(out), queries_layout.shape().clone()))
    }
}

struct BiasGelu<'a> {
    bias: &'a [f32],
}

impl InplaceOp1 for BiasGelu<'_> {
    fn name(&self) -> &'static str {
        "bias-gelu"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        kernels::bias_gelu(dense_mut(storage, layout)?, self.bias);
        Ok(())
    }
}

struct BiasResidualNorm<'a> {
    bias: &'a [f32],
    norm: Norm<'a>,
}

impl InplaceOp2 for BiasResidualNorm<'_> {
    fn name(&self) -> &'static str {
        "bias-residual-norm"
    }

    fn cpu_fwd(
        &self,
        storage: &mut CpuStorage,
        layout: &Layout,
        residual: &CpuStorage,
        residual_layout: &Layout,
    ) -> Result<()> {
        let Some((from, to)) = residual_layout.contiguous_offsets() else {
            candle_core::bail!("expected a dense residual");
        };
        let residual = &residual.as_slice::<f32>()?[from..to];
        kernels::bias_residual_norm(dense_mut(storage, layout)?, residual, self.bias, self.norm);
        Ok(())
    }
}

fn dense_mut<'a>(storage: &'a mut CpuStorage, layout: &Layout) -> Result<&'a mut [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(numbers), Some((from, to))) => Ok(&mut numbers[from..to]),
        _ => candle_core::bail!("expected dense f32"),
    }
}
