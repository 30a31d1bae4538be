//! `assayd model`: downloads, lists and checks decision models.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

use crate::decide::{Cache, HubId, HubSettings, Progress};
use crate::decide::{Verified, locate, verify_model};

/// Download, list and check decision models
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  assayd model pull StrandsAgents/strands-decider-2B-qwen3.5-v1-2610
  assayd model list
  assayd model verify StrandsAgents/strands-decider-2B-qwen3.5-v1-2610
  assayd model verify ./my-checkpoint

The cache is the Hub's own: HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_HUB_OFFLINE and HF_ENDPOINT are
honoured. A download that was broken off goes on where it stopped.

Exit codes: 0 done, 1 failed; of `verify`, 1 also if a file is wrong, or if the checkpoint has no
hashes to hold its files against.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum Command {
    /// Download a checkpoint and its base model, or what is missing of them; prints their folders
    Pull {
        /// `owner/name`, or `owner/name@revision` (branch, tag or commit)
        id: String,
    },
    /// List the models in the cache: name, commit, size, folder
    List,
    /// Check a checkpoint's files against its published hashes
    Verify {
        /// A folder, or a Hub id that is in the cache
        model: String,
    },
}

/// Runs the command. The exit code of `verify` is 1 if a file is wrong.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let settings = HubSettings::from_env();
    match args.command {
        Command::Pull { id } => pull(&id, &settings),
        Command::List => list(&settings),
        Command::Verify { model } => verify(&model, &settings),
    }
}

fn pull(id: &str, settings: &HubSettings) -> anyhow::Result<ExitCode> {
    HubId::parse(id)
        .with_context(|| format!("{id:?} is no Hub id: write owner/name or owner/name@revision"))?;
    let mut display = Display::new();
    let located = locate(id, None, settings, true, &mut |progress| display.show(progress))?;
    display.finish();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", located.folder.display())?;
    if let Some(base) = located.base {
        writeln!(out, "{}", base.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list(settings: &HubSettings) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    let models = Cache::new(&settings.cache).models();
    if models.is_empty() {
        super::complain(&format!("there is no model in {}", settings.cache.display()));
    }
    for model in models {
        let mib = model.bytes as f64 / f64::from(1 << 20);
        writeln!(out, "{}\t{}\t{mib:.1} MiB\t{}", model.repository, model.commit, model.folder.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn verify(model: &str, settings: &HubSettings) -> anyhow::Result<ExitCode> {
    let cached = HubId::parse(model).and_then(|id| Cache::new(&settings.cache).find(&id));
    let folder = if Path::new(model).is_dir() { Some(model.into()) } else { cached };
    let folder = folder.with_context(|| format!("{model} is neither a folder nor in the cache"))?;
    let mut out = std::io::stdout().lock();
    let (mut good, mut compared) = (true, false);
    for (name, verified) in verify_model(&folder)? {
        let word = match verified {
            Verified::Good => "ok",
            Verified::Unlisted => "not listed",
            Verified::Missing => "missing",
            Verified::Wrong => "WRONG",
        };
        good &= verified != Verified::Wrong;
        compared |= matches!(verified, Verified::Good | Verified::Wrong);
        writeln!(out, "{word:10}  {name}")?;
    }
    if !compared {
        super::complain(
            "nothing was verified: the checkpoint has no hashes (MANIFEST.sha256, provenance.json)",
        );
    }
    Ok(if good && compared { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A bar on a terminal, plain lines elsewhere; always on standard error.
struct Display {
    bar: Option<ProgressBar>,
}

impl Display {
    fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style =
                ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
            ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { bar }
    }

    fn show(&mut self, progress: Progress) {
        let Some(bar) = &self.bar else {
            // Nobody is left to tell if standard error is closed.
            let _ = match progress {
                Progress::Files { count, bytes } => {
                    writeln!(std::io::stderr(), "{count} files, {bytes} bytes")
                }
                Progress::Done { file } => writeln!(std::io::stderr(), "{file}: done"),
                Progress::Begin { .. } | Progress::Bytes(_) => Ok(()),
            };
            return;
        };
        match progress {
            // A base model follows its checkpoint: its bytes come on top.
            Progress::Files { bytes, .. } => bar.inc_length(bytes),
            Progress::Begin { file, have, .. } => {
                bar.set_message(file);
                bar.inc(have);
            }
            Progress::Bytes(bytes) => bar.inc(bytes),
            Progress::Done { .. } => {}
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
