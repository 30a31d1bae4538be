//! Qwen3.5's text torso on the CPU, in f32 on slices: every element-wise step is fused into its neighbour, and rows of all
//! segments lie end to end, so that nothing is padded and the weights are read once for all of them.

mod attention;
mod delta;
mod linear;
mod mixing;
mod norm;
mod place;
#[cfg(test)]
mod rounded;

use rayon::prelude::*;

use self::attention::Attention;
use self::delta::Delta;
use self::mixing::Mixing;
use self::norm::{norm_rows, zero_centred};
use self::place::Places;
use super::super::config::{Mixer, TorsoConfig};
use super::super::error::LoadError;
use super::super::shards::Table;
use super::super::weights::Weights;
use super::{Pass, Segment, Torso, TorsoError};
use crate::decide::kernels::{Linear, Precision, silu, vectorised};

/// Rows that go through an MLP at a time: enough to keep the products busy, few enough to stay in the cache.
const MLP_ROWS: usize = 512;

/// Qwen3.5's text torso on the CPU.
pub struct CpuTorso {
    config: TorsoConfig,
    embedding: Table,
    layers: Vec<Layer>,
    norm: Vec<f32>,
    probe: Option<Probe>,
}

/// Sees intermediate results by name; for comparing with recorded ones.
pub type Probe = Box<dyn FnMut(&str, &[f32]) + Send>;

struct Layer {
    input_norm: Vec<f32>,
    mixer: MixerWeights,
    post_norm: Vec<f32>,
    gate_up: Linear,
    down: Linear,
}

enum MixerWeights {
    Attention(Attention),
    Delta(Delta),
}

/// What is carried across a split.
pub struct State {
    /// How many tokens were read.
    tokens: usize,
    layers: Vec<LayerState>,
}

enum LayerState {
    /// Keys (after norm and RoPE) and values, `[tokens, kv_heads · head_dim]` each.
    Attention { keys: Vec<f32>, values: Vec<f32> },
    /// The delta rule's matrices `[value_heads, key_dim, value_dim]`, and the last inputs of the convolution `[conv − 1, channels]`.
    Delta { matrices: Vec<f32>, tail: Vec<f32> },
}

impl CpuTorso {
    /// Takes the weights.
    pub fn load(config: TorsoConfig, weights: &Weights, precision: Precision) -> Result<Self, LoadError> {
        let hidden = config.hidden;
        let embedding = weights.embedding(config.vocab, hidden)?;
        let norm = zero_centred(weights.values("norm.weight", &[hidden])?);
        let mut layers = Vec::with_capacity(config.layers.len());
        for (index, mixer) in config.layers.iter().enumerate() {
            let path = format!("layers.{index}.");
            let norm =
                |name: &str| weights.values(&format!("{path}{name}.weight"), &[hidden]).map(zero_centred);
            let up = [("gate_proj", config.intermediate), ("up_proj", config.intermediate)];
            layers.push(Layer {
                input_norm: norm("input_layernorm")?,
                mixer: match mixer {
                    Mixer::Attention => {
                        MixerWeights::Attention(Attention::load(&config, weights, &path, precision)?)
                    }
                    Mixer::Delta => MixerWeights::Delta(Delta::load(&config, weights, &path, precision)?),
                },
                post_norm: norm("post_attention_layernorm")?,
                gate_up: linear::load(weights, &format!("{path}mlp."), &up, hidden, precision)?,
                down: linear::load(
                    weights,
                    &format!("{path}mlp."),
                    &[("down_proj", hidden)],
                    config.intermediate,
                    precision,
                )?,
            });
        }
        Ok(Self { config, embedding, layers, norm, probe: None })
    }

    #[cfg(test)]
    /// Calls `probe` with every intermediate result that has a name.
    pub fn set_probe(&mut self, probe: Probe) {
        self.probe = Some(probe);
    }

    fn embed(&self, segments: &[Segment<'_, State>]) -> Vec<f32> {
        let hidden = self.config.hidden;
        let tokens = segments.iter().flat_map(|segment| segment.tokens);
        let mut rows = vec![0.0; tokens.clone().count() * hidden];
        for (row, token) in rows.chunks_exact_mut(hidden).zip(tokens) {
            self.embedding.copy_row(*token as usize, row);
        }
        rows
    }
}

impl Torso for CpuTorso {
    type State = State;

    fn forward(&mut self, segments: &[Segment<'_, State>]) -> Result<Pass<State>, TorsoError> {
        let mut probe = self.probe.take();
        let mut see = |name: &str, values: &[f32]| {
            if let Some(probe) = &mut probe {
                probe(name, values);
            }
        };
        let config = &self.config;
        let hidden = config.hidden;
        let places = Places::new(segments);
        let mut stream = self.embed(segments);
        see("embed", &stream);
        let mut kept: Vec<Vec<LayerState>> = segments.iter().map(|_| Vec::new()).collect();
        let mut normed = Vec::new();
        for (index, layer) in self.layers.iter().enumerate() {
            let mut name_and_see = |name: &str, values: &[f32]| see(&format!("layer.{index}.{name}"), values);
            norm_rows(&stream, &layer.input_norm, config.eps, &mut normed);
            name_and_see("input_layernorm", &normed);
            // In the last layer nothing after the mixing looks at another row.
            let wanted = (index + 1 == self.layers.len()).then_some(places.wanted.as_slice());
            if let Some(wanted) = wanted {
                stream = gather(&stream, wanted, hidden);
            }
            let mixing = Mixing { config, normed: &normed, places: &places, wanted, layer: index };
            let after = match &layer.mixer {
                MixerWeights::Attention(attention) => attention.mix(&mixing, &mut stream, &mut name_and_see),
                MixerWeights::Delta(delta) => delta.mix(&mixing, &mut stream, &mut name_and_see),
            };
            for (states, state) in kept.iter_mut().zip(after) {
                states.extend(state);
            }
            norm_rows(&stream, &layer.post_norm, config.eps, &mut normed);
            layer.mlp(&normed, &mut stream, hidden, config.intermediate);
            name_and_see("out", &stream);
        }
        norm_rows(&stream, &self.norm, config.eps, &mut normed);
        see("final_norm", &normed);
        self.probe = probe;
        let states = segments
            .iter()
            .zip(kept)
            .zip(&places.places)
            .map(|((segment, layers), place)| {
                segment.keep.then(|| State { tokens: place.prefix + segment.tokens.len(), layers })
            })
            .collect();
        Ok(Pass { rows: normed, states })
    }

    fn hidden(&self) -> usize {
        self.config.hidden
    }

    fn weight(&self, state: &State) -> usize {
        let floats: usize = state
            .layers
            .iter()
            .map(|layer| match layer {
                LayerState::Attention { keys, values } => keys.len() + values.len(),
                LayerState::Delta { matrices, tail } => matrices.len() + tail.len(),
            })
            .sum();
        floats * size_of::<f32>()
    }
}

impl Layer {
    /// `stream += down( silu(gate) · up )`
    fn mlp(&self, normed: &[f32], stream: &mut [f32], hidden: usize, intermediate: usize) {
        let rows_at_once = MLP_ROWS.min(normed.len() / hidden);
        let mut gate_up = vec![0.0; rows_at_once * 2 * intermediate];
        let mut product = vec![0.0; rows_at_once * intermediate];
        for (normed, stream) in normed.chunks(MLP_ROWS * hidden).zip(stream.chunks_mut(MLP_ROWS * hidden)) {
            let rows = normed.len() / hidden;
            let gate_up = &mut gate_up[..rows * 2 * intermediate];
            let product = &mut product[..rows * intermediate];
            self.gate_up.apply(normed, gate_up);
            product.par_chunks_mut(intermediate).zip(gate_up.par_chunks(2 * intermediate)).for_each(
                |(product, gate_up)| {
                    let (gate, up) = gate_up.split_at(intermediate);
                    vectorised(
                        #[inline(always)]
                        || {
                            for ((slot, gate), up) in product.iter_mut().zip(gate).zip(up) {
                                *slot = silu(*gate) * up;
                            }
                        },
                    );
                },
            );
            self.down.apply_adding(product, stream);
        }
    }
}

/// Copies the chosen rows.
fn gather(rows: &[f32], chosen: &[usize], width: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(chosen.len() * width);
    for row in chosen {
        out.extend_from_slice(&rows[row * width..][..width]);
    }
    out
}
