//! Qwen3.5's text torso on any device that candle has, in candle's operations: for GPUs, and the CPU torso's twin in tests.
//! The delta rule runs in chunks here: matrices instead of a step per token.

mod chunks;

use candle_core::{D, DType, Device, Result, Tensor};
use candle_nn::ops::{rms_norm, sigmoid, silu, softmax_last_dim};

use self::chunks::chunked;
use super::super::config::{Mixer, TorsoConfig};
use super::super::error::LoadError;
use super::super::weights::Weights;
use super::{After, Pass, Segment, Torso, TorsoError};

/// Qwen3.5's text torso on a device.
pub struct DeviceTorso {
    config: TorsoConfig,
    device: Device,
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    frequencies: Tensor,
}

struct Layer {
    input_norm: Tensor,
    mixer: MixerWeights,
    post_norm: Tensor,
    gate: Linear,
    up: Linear,
    down: Linear,
}

enum MixerWeights {
    Attention(Box<Attention>),
    Delta(Box<Delta>),
}

struct Attention {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    query_norm: Tensor,
    key_norm: Tensor,
}

struct Delta {
    qkv: Linear,
    z: Linear,
    beta: Linear,
    decay: Linear,
    output: Linear,
    /// `[taps, channels]`
    conv: Tensor,
    negative_rate: Tensor,
    dt_bias: Tensor,
    norm: Tensor,
}

/// What is carried across a split, on the device.
pub struct DeviceState {
    tokens: usize,
    layers: Vec<LayerState>,
}

#[derive(Clone)]
enum LayerState {
    /// `[kv_heads, tokens, head_dim]` each.
    Attention { keys: Tensor, values: Tensor },
    /// `[value_heads, key_dim, value_dim]` and `[conv − 1, channels]`.
    Delta { matrices: Tensor, tail: Tensor },
}

/// A product with weights of the device's type; everything around it is f32.
struct Linear(Tensor);

impl Linear {
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        x.to_dtype(self.0.dtype())?.matmul(&self.0.t()?)?.to_dtype(DType::F32)
    }
}

/// Puts weights on the device.
struct Placer<'a> {
    weights: &'a Weights,
    device: &'a Device,
    dtype: DType,
}

impl Placer<'_> {
    fn values(&self, path: &str, shape: &[usize]) -> std::result::Result<Tensor, LoadError> {
        Ok(Tensor::from_vec(self.weights.values(path, shape)?, shape, self.device)?)
    }

    fn zero_centred(&self, path: &str, width: usize) -> std::result::Result<Tensor, LoadError> {
        Ok((self.values(path, &[width])? + 1.0)?)
    }

    fn linear(&self, path: &str, outputs: usize, inputs: usize) -> std::result::Result<Linear, LoadError> {
        let matrix = self.weights.matrix(path, outputs, inputs)?;
        let matrix = Tensor::from_vec(matrix, (outputs, inputs), &Device::Cpu)?;
        Ok(Linear(matrix.to_dtype(self.dtype)?.to_device(self.device)?))
    }
}

impl DeviceTorso {
    /// Takes the weights; `dtype` is what the products are computed in.
    pub fn load(
        config: TorsoConfig,
        weights: &Weights,
        device: &Device,
        dtype: DType,
    ) -> std::result::Result<Self, LoadError> {
        let placer = Placer { weights, device, dtype };
        let (hidden, intermediate) = (config.hidden, config.intermediate);
        let embedding = placer.weights.values("embed_tokens.weight", &[config.vocab, hidden])?;
        let embedding = Tensor::from_vec(embedding, (config.vocab, hidden), &Device::Cpu)?;
        let mut layers = Vec::with_capacity(config.layers.len());
        for (index, mixer) in config.layers.iter().enumerate() {
            let path = format!("layers.{index}.");
            layers.push(Layer {
                input_norm: placer.zero_centred(&format!("{path}input_layernorm.weight"), hidden)?,
                mixer: match mixer {
                    Mixer::Attention => {
                        MixerWeights::Attention(Box::new(attention(&placer, &config, &path)?))
                    }
                    Mixer::Delta => MixerWeights::Delta(Box::new(delta(&placer, &config, &path)?)),
                },
                post_norm: placer.zero_centred(&format!("{path}post_attention_layernorm.weight"), hidden)?,
                gate: placer.linear(&format!("{path}mlp.gate_proj"), intermediate, hidden)?,
                up: placer.linear(&format!("{path}mlp.up_proj"), intermediate, hidden)?,
                down: placer.linear(&format!("{path}mlp.down_proj"), hidden, intermediate)?,
            });
        }
        let pairs = config.rotary / 2;
        let frequencies: Vec<f32> = (0..pairs)
            .map(|pair| 1.0 / config.rope_theta.powf(2.0 * pair as f32 / config.rotary as f32))
            .collect();
        Ok(Self {
            norm: placer.zero_centred("norm.weight", hidden)?,
            frequencies: Tensor::from_vec(frequencies, (1, pairs), device)?,
            embedding: embedding.to_dtype(dtype)?.to_device(device)?,
            device: device.clone(),
            config,
            layers,
        })
    }

    fn pass(&self, segments: &[Segment<'_, DeviceState>]) -> Result<Pass<DeviceState>> {
        let config = &self.config;
        let tokens: Vec<u32> = segments.iter().flat_map(|segment| segment.tokens).copied().collect();
        let tokens = Tensor::new(tokens, &self.device)?;
        let mut stream = self.embedding.index_select(&tokens, 0)?.to_dtype(DType::F32)?;
        let starts = starts(segments);
        let wanted: Vec<u32> = segments
            .iter()
            .zip(&starts)
            .flat_map(|(segment, start)| segment.wanted.iter().map(move |offset| (start + offset) as u32))
            .collect();
        let wanted = Tensor::new(wanted, &self.device)?;
        let prefixes = prefixes(segments);
        let mut states: Vec<Vec<LayerState>> = segments.iter().map(|_| Vec::new()).collect();
        for (index, layer) in self.layers.iter().enumerate() {
            let normed = rms_norm(&stream, &layer.input_norm, config.eps)?;
            let mut mixed = Vec::with_capacity(segments.len());
            for (place, segment) in segments.iter().enumerate() {
                let rows = normed.narrow(0, starts[place], segment.tokens.len())?;
                let before = match segment.after {
                    After::Nothing => None,
                    After::Segment(parent) => Some(states[parent][index].clone()),
                    After::Kept(state) => Some(state.layers[index].clone()),
                };
                let (out, state) = match &layer.mixer {
                    MixerWeights::Attention(attention) => {
                        self.attend(attention, &rows, prefixes[place], before.as_ref())?
                    }
                    MixerWeights::Delta(delta) => self.recur(delta, &rows, before.as_ref())?,
                };
                mixed.push(out);
                states[place].push(state);
            }
            stream = (stream + Tensor::cat(&mixed, 0)?)?;
            if index + 1 == self.layers.len() {
                stream = stream.index_select(&wanted, 0)?;
            }
            let normed = rms_norm(&stream, &layer.post_norm, config.eps)?;
            let product = (silu(&layer.gate.apply(&normed)?)? * layer.up.apply(&normed)?)?;
            stream = (stream + layer.down.apply(&product)?)?;
        }
        let rows = rms_norm(&stream, &self.norm, config.eps)?.flatten_all()?.to_vec1()?;
        let states = segments
            .iter()
            .zip(states)
            .zip(prefixes)
            .map(|((segment, layers), prefix)| {
                segment.keep.then(|| DeviceState { tokens: prefix + segment.tokens.len(), layers })
            })
            .collect();
        Ok(Pass { rows, states })
    }

    fn attend(
        &self,
        weights: &Attention,
        rows: &Tensor,
        prefix: usize,
        before: Option<&LayerState>,
    ) -> Result<(Tensor, LayerState)> {
        let config = &self.config;
        let (count, head_dim) = (rows.dim(0)?, config.head_dim);
        let query_gate = weights.query.apply(rows)?.reshape((count, config.heads, 2 * head_dim))?;
        let query = query_gate.narrow(2, 0, head_dim)?.contiguous()?;
        let gate = query_gate.narrow(2, head_dim, head_dim)?.reshape((count, config.heads * head_dim))?;
        let key = weights.key.apply(rows)?.reshape((count, config.kv_heads, head_dim))?;
        let value = weights.value.apply(rows)?.reshape((count, config.kv_heads, head_dim))?;
        let query = self.turn(&rms_norm(&query, &weights.query_norm, config.eps)?, prefix)?;
        let key = self.turn(&rms_norm(&key, &weights.key_norm, config.eps)?, prefix)?;
        let (mut keys, mut values) =
            (key.transpose(0, 1)?.contiguous()?, value.transpose(0, 1)?.contiguous()?);
        if let Some(LayerState::Attention { keys: before_keys, values: before_values }) = before {
            keys = Tensor::cat(&[before_keys, &keys], 1)?;
            values = Tensor::cat(&[before_values, &values], 1)?;
        }
        let group = config.heads / config.kv_heads;
        // The group's heads below each other, so that each key head is one product.
        let query = query.transpose(0, 1)?.reshape((config.kv_heads, group * count, head_dim))?;
        let scores = (query.matmul(&keys.transpose(1, 2)?.contiguous()?)? * (head_dim as f64).powf(-0.5))?;
        let columns = keys.dim(1)?;
        let scores = scores.reshape((config.kv_heads * group, count, columns))?;
        let scores = scores.broadcast_add(&causal(count, columns, &self.device)?)?;
        let shares = softmax_last_dim(&scores)?.reshape((config.kv_heads, group * count, columns))?;
        let mixed = shares.matmul(&values)?.reshape((config.heads, count, head_dim))?;
        let mixed = mixed.transpose(0, 1)?.reshape((count, config.heads * head_dim))?;
        let out = weights.output.apply(&(mixed * sigmoid(&gate)?)?)?;
        Ok((out, LayerState::Attention { keys, values }))
    }

    /// RoPE on the leading dimensions of `[tokens, heads, head_dim]`.
    fn turn(&self, x: &Tensor, prefix: usize) -> Result<Tensor> {
        let (count, heads, head_dim) = x.dims3()?;
        let rotary = self.config.rotary;
        if rotary == 0 {
            return Ok(x.clone());
        }
        let positions: Vec<f32> = (prefix..prefix + count).map(|position| position as f32).collect();
        let angles = Tensor::from_vec(positions, (count, 1), &self.device)?.matmul(&self.frequencies)?;
        let angles = angles.reshape((count, 1, rotary / 2))?.broadcast_as((count, heads, rotary / 2))?;
        let (cos, sin) = (angles.cos()?, angles.sin()?);
        let first = x.narrow(2, 0, rotary / 2)?;
        let second = x.narrow(2, rotary / 2, rotary / 2)?;
        let turned_first = ((&first * &cos)? - (&second * &sin)?)?;
        let turned_second = ((second * cos)? + (first * sin)?)?;
        let rest = x.narrow(2, rotary, head_dim - rotary)?;
        Tensor::cat(&[turned_first, turned_second, rest], 2)
    }

    fn recur(
        &self,
        weights: &Delta,
        rows: &Tensor,
        before: Option<&LayerState>,
    ) -> Result<(Tensor, LayerState)> {
        let config = &self.config;
        let (count, channels, past) = (rows.dim(0)?, config.conv_channels(), config.conv - 1);
        let (heads, key_dim, value_dim) = (config.value_heads, config.key_dim, config.value_dim);
        let (matrices, tail) = match before {
            Some(LayerState::Delta { matrices, tail }) => (matrices.clone(), tail.clone()),
            _ => (
                Tensor::zeros((heads, key_dim, value_dim), DType::F32, &self.device)?,
                Tensor::zeros((past, channels), DType::F32, &self.device)?,
            ),
        };
        let input = Tensor::cat(&[&tail, &weights.qkv.apply(rows)?], 0)?;
        let tail = input.narrow(0, count, past)?.contiguous()?;
        let mut convolved = Tensor::zeros((count, channels), DType::F32, &self.device)?;
        for tap in 0..config.conv {
            let weight = weights.conv.narrow(0, tap, 1)?;
            convolved = (convolved + input.narrow(0, tap, count)?.broadcast_mul(&weight)?)?;
        }
        let convolved = silu(&convolved)?;
        let key_width = config.key_heads * key_dim;
        let heads_of = |start: usize, heads: usize, width: usize| {
            let part = convolved.narrow(1, start, heads * width)?.reshape((count, heads, width))?;
            part.transpose(0, 1)?.contiguous()
        };
        let group = heads / config.key_heads;
        let repeat = |x: Tensor| {
            let x = x.unsqueeze(1)?.broadcast_as((config.key_heads, group, count, key_dim))?;
            x.reshape((heads, count, key_dim))
        };
        let query = unit(&heads_of(0, config.key_heads, key_dim)?)?;
        let query = repeat((query * (key_dim as f64).powf(-0.5))?)?;
        let key = repeat(unit(&heads_of(key_width, config.key_heads, key_dim)?)?)?;
        let value = heads_of(2 * key_width, heads, value_dim)?;
        let beta = sigmoid(&weights.beta.apply(rows)?)?.t()?.contiguous()?;
        let raw = weights.decay.apply(rows)?.broadcast_add(&weights.dt_bias)?;
        let log_decay = softplus(&raw)?.broadcast_mul(&weights.negative_rate)?.t()?.contiguous()?;
        let (mixed, matrices) = chunked(&query, &key, &value, &log_decay, &beta, &matrices)?;
        let mixed = mixed.transpose(0, 1)?.contiguous()?;
        let z = weights.z.apply(rows)?.reshape((count, heads, value_dim))?;
        let mixed = (rms_norm(&mixed, &weights.norm, config.eps)? * silu(&z)?)?;
        let out = weights.output.apply(&mixed.reshape((count, heads * value_dim))?)?;
        Ok((out, LayerState::Delta { matrices, tail }))
    }
}

impl Torso for DeviceTorso {
    type State = DeviceState;

    fn forward(
        &mut self,
        segments: &[Segment<'_, DeviceState>],
    ) -> std::result::Result<Pass<DeviceState>, TorsoError> {
        Ok(self.pass(segments)?)
    }

    fn hidden(&self) -> usize {
        self.config.hidden
    }

    fn weight(&self, state: &DeviceState) -> usize {
        let floats: usize = state
            .layers
            .iter()
            .map(|layer| match layer {
                LayerState::Attention { keys, values } => keys.elem_count() + values.elem_count(),
                LayerState::Delta { matrices, tail } => matrices.elem_count() + tail.elem_count(),
            })
            .sum();
        floats * size_of::<f32>()
    }
}

fn attention(
    placer: &Placer<'_>,
    config: &TorsoConfig,
    path: &str,
) -> std::result::Result<Attention, LoadError> {
    let path = format!("{path}self_attn.");
    let (hidden, query_width, kv_width) =
        (config.hidden, config.heads * config.head_dim, config.kv_heads * config.head_dim);
    Ok(Attention {
        query: placer.linear(&format!("{path}q_proj"), 2 * query_width, hidden)?,
        key: placer.linear(&format!("{path}k_proj"), kv_width, hidden)?,
        value: placer.linear(&format!("{path}v_proj"), kv_width, hidden)?,
        output: placer.linear(&format!("{path}o_proj"), hidden, query_width)?,
        query_norm: placer.zero_centred(&format!("{path}q_norm.weight"), config.head_dim)?,
        key_norm: placer.zero_centred(&format!("{path}k_norm.weight"), config.head_dim)?,
    })
}

fn delta(placer: &Placer<'_>, config: &TorsoConfig, path: &str) -> std::result::Result<Delta, LoadError> {
    let path = format!("{path}linear_attn.");
    let (hidden, heads) = (config.hidden, config.value_heads);
    let (channels, value_width) = (config.conv_channels(), heads * config.value_dim);
    let conv = placer.values(&format!("{path}conv1d.weight"), &[channels, 1, config.conv])?;
    Ok(Delta {
        qkv: placer.linear(&format!("{path}in_proj_qkv"), channels, hidden)?,
        z: placer.linear(&format!("{path}in_proj_z"), value_width, hidden)?,
        beta: placer.linear(&format!("{path}in_proj_b"), heads, hidden)?,
        decay: placer.linear(&format!("{path}in_proj_a"), heads, hidden)?,
        output: placer.linear(&format!("{path}out_proj"), hidden, value_width)?,
        conv: conv.squeeze(1)?.t()?.contiguous()?,
        negative_rate: placer.values(&format!("{path}A_log"), &[heads])?.exp()?.neg()?,
        dt_bias: placer.values(&format!("{path}dt_bias"), &[heads])?,
        norm: placer.values(&format!("{path}norm.weight"), &[config.value_dim])?,
    })
}

fn unit(x: &Tensor) -> Result<Tensor> {
    x.broadcast_div(&(x.sqr()?.sum_keepdim(D::Minus1)? + 1e-6)?.sqrt()?)
}

/// `ln(1 + e^x)` without overflow: `max(x, 0) + ln(1 + e^−|x|)`.
fn softplus(x: &Tensor) -> Result<Tensor> {
    x.relu()? + (x.abs()?.neg()?.exp()? + 1.0)?.log()?
}

/// 0 where a query sees a key, −∞ elsewhere; queries are the last of the columns.
fn causal(count: usize, columns: usize, device: &Device) -> Result<Tensor> {
    let before = columns - count;
    let sees = |index: usize| index % columns <= before + index / columns;
    let values: Vec<f32> =
        (0..count * columns).map(|index| if sees(index) { 0.0 } else { f32::NEG_INFINITY }).collect();
    Tensor::from_vec(values, (1, count, columns), device)
}

fn starts(segments: &[Segment<'_, DeviceState>]) -> Vec<usize> {
    segments
        .iter()
        .scan(0, |start, segment| {
            let own = *start;
            *start += segment.tokens.len();
            Some(own)
        })
        .collect()
}

/// Tokens before each segment.
fn prefixes(segments: &[Segment<'_, DeviceState>]) -> Vec<usize> {
    let mut prefixes = Vec::with_capacity(segments.len());
    for segment in segments {
        prefixes.push(match segment.after {
            After::Nothing => 0,
            After::Segment(parent) => prefixes[parent] + segments[parent].tokens.len(),
            After::Kept(state) => state.tokens,
        });
    }
    prefixes
}
