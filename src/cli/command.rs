//! What was asked for, and the exit code that it ends with.

use std::io::ErrorKind;
use std::process::ExitCode;

use clap::Parser;

use super::say::{complain, told};
use super::{ask, calibrate, check, compare, config, convert, demo, hook, model, replay, serve};
use crate::config::ConfigError;
use crate::judge::BuildError;
use crate::pipeline::StartError;

/// The configuration or the command line is wrong (BSD's EX_USAGE).
pub(super) const BAD_CONFIG: u8 = 64;

/// Continuous evaluation of agent traffic: OpenTelemetry spans in, grounded verdicts out.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 110, after_help = "Start with `assayd demo`.")]
pub(super) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Demo(demo::Args),
    Serve(serve::Args),
    Replay(replay::Args),
    Convert(convert::Args),
    Check(check::Args),
    Hook(hook::Args),
    Ask(ask::Args),
    Compare(compare::Args),
    Calibrate(calibrate::Args),
    Model(model::Args),
    Config(config::Args),
}

/// A command line that clap takes and that makes no sense all the same.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Usage(pub(super) String);

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A reader that went away (`assayd --help | head`) is no error of ours.
            let _ = error.print();
            if !error.use_stderr() {
                return ExitCode::SUCCESS;
            }
            return match std::env::args().nth(1).as_deref() {
                Some("check") => ExitCode::from(check::CANNOT_SAY),
                // A hook that is written wrongly must not keep an agent from its answer.
                Some("hook") => {
                    hook::warn("the hook's command line is wrong");
                    ExitCode::SUCCESS
                }
                _ => ExitCode::from(BAD_CONFIG),
            };
        }
    };
    let (result, failure) = match cli.command {
        Command::Demo(args) => (demo::run(args), 1),
        Command::Serve(args) => (serve::run(args), 1),
        Command::Replay(args) => (replay::run(args), 1),
        Command::Convert(args) => (convert::run(&args), 1),
        Command::Check(args) => (check::run(args), check::CANNOT_SAY),
        Command::Hook(args) => (hook::run(args), 1),
        Command::Ask(args) => (ask::run(args), 1),
        Command::Compare(args) => (compare::run(args), 1),
        Command::Calibrate(args) => (calibrate::run(args), 1),
        Command::Model(args) => (model::run(args), 1),
        Command::Config(args) => (config::run(args), 1),
    };
    result.unwrap_or_else(|error| {
        if is_closed_pipe(&error) {
            return ExitCode::SUCCESS;
        }
        complain(&told(&error));
        let is_ours = error.downcast_ref::<ConfigError>().is_some()
            || error.downcast_ref::<Usage>().is_some()
            || is_template(&error);
        ExitCode::from(if is_ours && failure == 1 { BAD_CONFIG } else { failure })
    })
}

/// Whether a judge's template, which the configuration names, is what is wrong.
fn is_template(error: &anyhow::Error) -> bool {
    let built = match error.downcast_ref::<StartError>() {
        Some(StartError::Judge(error)) => Some(error),
        _ => error.downcast_ref::<BuildError>(),
    };
    matches!(built, Some(BuildError::Prompt { .. } | BuildError::PromptFile { .. }))
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        // serde_json does not give out the error that it holds.
        let json = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        io.or(json) == Some(ErrorKind::BrokenPipe)
    })
}
