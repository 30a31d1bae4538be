//! What commands that work need: a log, counters, a runtime.

use crate::pipeline::Clock;
use crate::{logging, metrics};

/// How much a command says on standard error unless it is told otherwise.
pub(super) enum Voice {
    /// What a daemon's operator wants to read.
    Full,
    /// Warnings and errors: the result is on standard output.
    Quiet,
}

pub(super) fn log(config: &logging::Config, voice: Voice) -> anyhow::Result<()> {
    let mut config = config.clone();
    if matches!(voice, Voice::Quiet) && config.level == logging::Config::default().level {
        config.level = "warn".to_owned();
    }
    let variable = std::env::var(logging::VARIABLE).ok();
    Ok(logging::init(&config, variable.as_deref())?)
}

pub(super) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// Counts what happens from here on, and says since when.
pub(super) fn count() -> anyhow::Result<()> {
    metrics::install()?;
    metrics::process_started(Clock::start().now());
    Ok(())
}
