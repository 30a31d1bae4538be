//! From configuration to a desk.

use std::path::Path;

use super::models::starter::Starter;
use super::models::strands;
use super::{Config, Decider, Desk, LoadError, ModelName};

/// Loads the configured model and starts its inference thread. Takes as long as loading takes: call it off the async threads.
/// The model then warms up by itself; [`Desk::ready`] waits for that.
pub fn start(config: &Config) -> Result<Desk, LoadError> {
    match &config.model {
        ModelName::Embedded => start_with(Starter::embedded(config.threads)?, config),
        ModelName::Checkpoint(name) if !Path::new(name).is_dir() => {
            Err(LoadError::Unknown { name: name.clone() })
        }
        ModelName::Checkpoint(name) => {
            let options = strands::Options {
                base: config.base.clone(),
                strict_window: config.strict_window,
                prefix_cache: config.prefix_cache.as_usize(),
                batch_tokens: config.batch_tokens.get(),
                threads: config.threads,
            };
            start_with(strands::load(Path::new(name), &options)?, config)
        }
    }
}

/// Starts the inference thread of a model made elsewhere, as tests and benches do.
pub fn start_with(decider: impl Decider, config: &Config) -> Result<Desk, LoadError> {
    Desk::local(decider, config)
}
