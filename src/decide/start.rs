//! From configuration to a desk.

use std::path::Path;

use candle_core::{DType, Device};

use super::hub::{HubId, HubSettings, Progress};
use super::models::starter::Starter;
use super::models::strands;
use super::remote::{self, Api};
use super::{Config, Decider, Desk, LoadError, ModelName, RunsOn, calibrated, locate};

/// Loads the configured model and starts its inference thread. Takes as long as loading takes: call it off the async threads.
/// The model then warms up by itself; [`Desk::ready`] waits for that.
pub fn start(config: &Config) -> Result<Desk, LoadError> {
    let fitted = config.calibration.as_deref().map(calibrated::load).transpose()?;
    let desk = uncalibrated(config)?;
    match (fitted, &config.calibration) {
        (Some(fitted), Some(path)) => calibrated::by(desk, fitted, path),
        _ => Ok(desk),
    }
}

/// The model with its own probabilities.
fn uncalibrated(config: &Config) -> Result<Desk, LoadError> {
    match &config.model {
        ModelName::Embedded => start_with(Starter::embedded(config.threads)?, config),
        ModelName::Checkpoint(name) => checkpoint(name, config),
        ModelName::Systemone(served) => remote::start(Api::Systemone, served, config),
        ModelName::Decisions(served) => remote::start(Api::Decisions, served, config),
    }
}

/// A Strands Decider checkpoint, from a folder or the Hub.
fn checkpoint(name: &str, config: &Config) -> Result<Desk, LoadError> {
    if !Path::new(name).is_dir() && HubId::parse(name).is_none() {
        return Err(LoadError::Unknown { name: name.to_owned() });
    }
    let settings = HubSettings::from_env();
    let located = locate(name, config.base.as_deref(), &settings, false, &mut |progress| match progress {
        Progress::Files { count, bytes } => tracing::info!(name, count, bytes, "downloading the model"),
        Progress::Done { file } => tracing::info!(name, file, "downloaded"),
        Progress::Begin { .. } | Progress::Bytes(_) => {}
    })?;
    let options = strands::Options {
        base: located.base,
        published: located.published,
        strict_window: config.strict_window,
        precision: config.precision,
        prefix_cache: config.prefix_cache.as_usize(),
        batch_tokens: config.batch_tokens.get(),
        threads: config.threads,
    };
    let device = match config.device {
        RunsOn::Cpu => return start_with(strands::load(&located.folder, &options)?, config),
        RunsOn::Cuda => Device::new_cuda(0),
        RunsOn::Metal => Device::new_metal(0),
    };
    let device = device.map_err(strands::LoadError::Device)?;
    // What GPUs multiply fastest, and what the published weights are stored in.
    start_with(strands::load_on(&located.folder, &options, &device, DType::BF16)?, config)
}

/// Starts the inference thread of a model made elsewhere, as tests and benches do.
pub fn start_with(decider: impl Decider, config: &Config) -> Result<Desk, LoadError> {
    Desk::local(decider, config)
}
