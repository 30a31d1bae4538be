//! From a checkpoint's folder to a decision model.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{DType, Device};
use serde_json::{Map, json};

use super::config::TorsoConfig;
use super::encoder::StrandsEncoder;
use super::engine::Strands;
use super::error::LoadError;
use super::files::Checkpoint;
use super::head::PointerHead;
use super::prefix::PrefixCache;
use super::shards::{Rounding, Shard};
use super::torso::{CpuTorso, DeviceTorso, Torso};
use super::weights::{Adapter, Weights};
use crate::decide::kernels::Precision;
use crate::decide::{Calibration, Capabilities, ModelInfo};
use crate::domain::Json;

/// How a checkpoint is loaded and run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The base model's folder, if it is not where the checkpoint says.
    pub base: Option<PathBuf>,
    /// The Hub's name (`owner/name`) and commit, if it came from there.
    pub published: Option<(String, String)>,
    /// Refuse what is longer than the window instead of cutting it.
    pub strict_window: bool,
    /// What the CPU computes products in.
    pub precision: Precision,
    /// Bytes of prefix states that are kept for later requests.
    pub prefix_cache: usize,
    /// Tokens of one forward pass.
    pub batch_tokens: usize,
    /// Threads of one forward pass; none: one for each core.
    pub threads: Option<NonZeroUsize>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            base: None,
            published: None,
            strict_window: false,
            precision: Precision::F32,
            prefix_cache: 1 << 30,
            batch_tokens: 4096,
            threads: None,
        }
    }
}

/// Loads a checkpoint for the CPU.
pub fn load(folder: &Path, options: &Options) -> Result<Strands<CpuTorso>, LoadError> {
    load_with(folder, options, "cpu", |config, weights| CpuTorso::load(config, weights, options.precision))
}

/// Loads a checkpoint for a device of candle's; products are computed in `dtype`.
pub fn load_on(
    folder: &Path,
    options: &Options,
    device: &Device,
    dtype: DType,
) -> Result<Strands<DeviceTorso>, LoadError> {
    let name = match device {
        Device::Cpu => "cpu",
        Device::Cuda(_) => "cuda",
        Device::Metal(_) => "metal",
    };
    load_with(folder, options, name, |config, weights| DeviceTorso::load(config, weights, device, dtype))
}

fn load_with<T: Torso>(
    folder: &Path,
    options: &Options,
    device: &str,
    torso: impl FnOnce(TorsoConfig, &Weights) -> Result<T, LoadError>,
) -> Result<Strands<T>, LoadError> {
    let checkpoint = Checkpoint::open(folder)?;
    let base = base_folder(&checkpoint, options)?;
    let torso_config = TorsoConfig::read(&base.join("config.json"))?;
    let tokenizer = checkpoint.folder.join("tokenizer.json");
    let config = checkpoint.config.clone();
    let encoder = StrandsEncoder::load(&tokenizer, torso_config.vocab, config, options.strict_window)?;
    let rounding = Rounding::parse(&checkpoint.config.torch_dtype, &checkpoint.config_path)?;
    let adapter = checkpoint.adapter().map(|folder| Adapter::open(&folder)).transpose()?;
    let weights = Weights::open(&base, rounding, adapter)?;
    let head = head(&checkpoint, &weights, torso_config.hidden)?;
    let torso = torso(torso_config, &weights)?;
    let pool = match options.threads {
        Some(threads) => {
            let builder = rayon::ThreadPoolBuilder::new().num_threads(threads.get());
            Some(builder.thread_name(|index| format!("model-{index}")).build().map_err(LoadError::Threads)?)
        }
        None => None,
    };
    Ok(Strands {
        torso,
        head,
        encoder: Arc::new(encoder),
        info: info(&checkpoint, options, device),
        cache: PrefixCache::new(options.prefix_cache),
        budget: options.batch_tokens,
        pool,
    })
}

fn base_folder(checkpoint: &Checkpoint, options: &Options) -> Result<PathBuf, LoadError> {
    let candidates = match (&options.base, checkpoint.merged) {
        (Some(base), false) => vec![base.clone()],
        _ => checkpoint.base_candidates(),
    };
    let found = candidates.iter().find(|folder| folder.join("config.json").exists());
    found.cloned().ok_or_else(|| LoadError::NoBase {
        checkpoint: checkpoint.folder.clone(),
        base: checkpoint.config.base_model.clone(),
        looked_at: candidates,
    })
}

fn head(checkpoint: &Checkpoint, weights: &Weights, hidden: usize) -> Result<PointerHead, LoadError> {
    let width = checkpoint.config.pointer_dim;
    if checkpoint.merged {
        return PointerHead::load(hidden, width, |name, shape| weights.shards().shard(name, shape));
    }
    let shard = Shard::open(&checkpoint.folder.join("head.safetensors"))?;
    PointerHead::load(hidden, width, |_, _| Ok(&shard))
}

fn info(checkpoint: &Checkpoint, options: &Options, device: &str) -> ModelInfo {
    let (name, revision) = match &options.published {
        Some((repository, commit)) => {
            (repository.rsplit('/').next().unwrap_or(repository).to_owned(), commit.clone())
        }
        None => (checkpoint.name(), checkpoint.revision()),
    };
    ModelInfo {
        name,
        revision,
        // Its temperatures were fitted by its makers, on labels that this engine has not seen.
        calibration: Calibration::Uncalibrated,
        capabilities: Capabilities::ALL,
        max_tokens: Some(checkpoint.config.max_length),
        facts: facts(checkpoint, options, device),
    }
}

/// What the reference's `GET /health` says of a model.
fn facts(checkpoint: &Checkpoint, options: &Options, device: &str) -> Map<String, Json> {
    let config = &checkpoint.config;
    // Through its text: 1.7 as f32 is 1.7000000476837158 as f64.
    let temperature: f64 = config.temperature.to_string().parse().unwrap_or(f64::from(config.temperature));
    let facts = [
        ("checkpoint", json!(checkpoint.folder)),
        ("base_model", json!(config.base_model)),
        ("num_slots", json!(config.num_slots)),
        ("max_length", json!(config.max_length)),
        ("temperature", json!(temperature)),
        ("device", json!(device)),
        ("prefix_cache", json!(options.prefix_cache > 0)),
        ("vision", json!(false)),
    ];
    facts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
