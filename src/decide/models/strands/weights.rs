//! A torso's weights: the base model's tensors, rounded to its type, with the adapter merged in.

use std::collections::BTreeMap;
use std::path::Path;

use super::config::AdapterConfig;
use super::error::LoadError;
use super::shards::{Rounding, Shard, Shards, Table};

/// The weights of a torso, by path within the text model (`layers.0.mlp.up_proj`).
pub struct Weights {
    shards: Shards,
    prefix: &'static str,
    rounding: Rounding,
    adapter: Option<Adapter>,
}

impl Weights {
    /// The weights of a base model folder, multimodal or text-only. An adapter must fit it entirely.
    pub fn open(folder: &Path, rounding: Rounding, adapter: Option<Adapter>) -> Result<Self, LoadError> {
        let shards = Shards::open(folder)?;
        let multimodal = "model.language_model.";
        let prefix = if shards.any_starts_with(multimodal) { multimodal } else { "model." };
        let weights = Self { shards, prefix, rounding, adapter };
        if let Some(adapter) = &weights.adapter {
            adapter.check(|path| weights.shape(path))?;
        }
        Ok(weights)
    }

    /// The files, for tensors beside the torso.
    pub fn shards(&self) -> &Shards {
        &self.shards
    }

    fn shape(&self, path: &str) -> Option<Vec<usize>> {
        let name = format!("{}{path}.weight", self.prefix);
        let shard = self.shards.shard(&name, &[]).ok()?;
        shard.shape(&name).map(<[usize]>::to_vec)
    }

    /// A tensor by its full path, never adapted.
    pub fn values(&self, path: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        let name = format!("{}{path}", self.prefix);
        self.shards.shard(&name, shape)?.values(&name, shape, self.rounding)
    }

    /// A product's matrix, `[outputs, inputs]` in row order, with the adapter merged in f32.
    pub fn matrix(&self, path: &str, outputs: usize, inputs: usize) -> Result<Vec<f32>, LoadError> {
        let mut matrix = self.values(&format!("{path}.weight"), &[outputs, inputs])?;
        if let Some(adapter) = &self.adapter {
            adapter.merge(path, &mut matrix, outputs, inputs)?;
        }
        Ok(matrix)
    }

    /// The token embedding, left in its file.
    pub fn embedding(&self, vocab: usize, hidden: usize) -> Result<Table, LoadError> {
        let name = format!("{}embed_tokens.weight", self.prefix);
        self.shards.shard(&name, &[vocab, hidden])?.table(&name, vocab, hidden, self.rounding)
    }
}

/// A LoRA adapter.
pub struct Adapter {
    shard: Shard,
    config: AdapterConfig,
    /// Module path to the names of A and B.
    pairs: BTreeMap<String, (String, String)>,
}

impl Adapter {
    /// Opens `lora/` of a checkpoint.
    pub fn open(folder: &Path) -> Result<Self, LoadError> {
        let config = AdapterConfig::read(&folder.join("adapter_config.json"))?;
        let shard = Shard::open(&folder.join("adapter_model.safetensors"))?;
        let mut pairs: BTreeMap<String, (Option<String>, Option<String>)> = BTreeMap::new();
        for name in shard.names() {
            let inner = name.strip_prefix("base_model.model.");
            let a = inner.and_then(|inner| inner.strip_suffix(".lora_A.weight"));
            let b = inner.and_then(|inner| inner.strip_suffix(".lora_B.weight"));
            match (a, b) {
                (Some(path), _) => pairs.entry(path.to_owned()).or_default().0 = Some(name.clone()),
                (_, Some(path)) => pairs.entry(path.to_owned()).or_default().1 = Some(name.clone()),
                _ => {
                    return Err(adapter_error(&shard, &name, "is neither a lora_A nor a lora_B of a module"));
                }
            }
        }
        let pairs = pairs
            .into_iter()
            .map(|(path, pair)| match pair {
                (Some(a), Some(b)) => Ok((path, (a, b))),
                (Some(a), None) => Err(adapter_error(&shard, &a, "has no lora_B beside it")),
                (_, b) => Err(adapter_error(&shard, &b.unwrap_or(path), "has no lora_A beside it")),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { shard, config, pairs })
    }

    /// Every pair must belong to a matrix of the base model and have its shape.
    fn check(&self, shape_of: impl Fn(&str) -> Option<Vec<usize>>) -> Result<(), LoadError> {
        for (path, (a, b)) in &self.pairs {
            let Some(shape) = shape_of(path) else {
                let why = format!("matches no tensor of the base model ({path}.weight)");
                return Err(adapter_error(&self.shard, a, &why));
            };
            let &[outputs, inputs] = shape.as_slice() else {
                return Err(adapter_error(&self.shard, a, "adapts a tensor that is no matrix"));
            };
            for (name, expected) in [(a, vec![self.config.r, inputs]), (b, vec![outputs, self.config.r])] {
                let found = self.shard.shape(name).unwrap_or_default();
                if found != expected {
                    return Err(LoadError::Shape {
                        path: self.shard.path().to_owned(),
                        tensor: name.clone(),
                        found: found.to_vec(),
                        expected,
                    });
                }
            }
        }
        Ok(())
    }

    /// `matrix += scale · B A`
    fn merge(&self, path: &str, matrix: &mut [f32], outputs: usize, inputs: usize) -> Result<(), LoadError> {
        let Some((a, b)) = self.pairs.get(path) else {
            return Ok(());
        };
        let rank = self.config.r;
        let a = self.shard.values(a, &[rank, inputs], Rounding::F32)?;
        let b = self.shard.values(b, &[outputs, rank], Rounding::F32)?;
        let product = crate::decide::kernels::product(&b, &a, outputs, inputs, rank);
        let scale = self.config.scale();
        for (weight, change) in matrix.iter_mut().zip(product) {
            *weight += scale * change;
        }
        Ok(())
    }
}

fn adapter_error(shard: &Shard, tensor: &str, why: &str) -> LoadError {
    LoadError::Adapter { path: shard.path().to_owned(), tensor: tensor.to_owned(), why: why.to_owned() }
}
