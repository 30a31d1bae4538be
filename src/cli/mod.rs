//! The command line: what was asked for, and the exit code it ends with. Results go to standard output, all else to
//! standard error.

mod ask;
mod calibrate;
mod check;
mod compare;
mod config;
mod convert;
mod demo;
mod hook;
mod model;
mod progress;
mod replay;
mod serve;
mod table;
#[cfg(test)]
mod tests;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::config::ConfigError;
use crate::evaluate::LineError;
use crate::judge::BuildError;
use crate::logging;
use crate::pipeline::StartError;

/// The configuration or the command line is wrong (BSD's EX_USAGE).
const BAD_CONFIG: u8 = 64;

/// Continuous evaluation of agent traffic: OpenTelemetry spans in, grounded verdicts out.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 110, after_help = "Start with `assayd demo`.")]
struct Cli {
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
struct Usage(String);

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

/// How the result of a command that measures is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people
    Table,
    /// One JSON object
    Json,
}

/// Mistakes of a file that are shown.
const SHOWN: usize = 50;

/// Tells the mistakes of a file with labels; an error if they are not to be skipped.
fn tell_mistakes(path: &std::path::Path, errors: &[LineError], skip: bool) -> anyhow::Result<()> {
    let path = path.display();
    for error in errors.iter().take(SHOWN) {
        complain(&format!("{path}: {error}"));
    }
    if errors.len() > SHOWN {
        complain(&format!("{path}: and {} more", errors.len() - SHOWN));
    }
    anyhow::ensure!(
        errors.is_empty() || skip,
        "{path}: {} mistakes; mend them, or leave the lines out with --skip-bad",
        errors.len()
    );
    Ok(())
}

/// Writes a result.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// An error and its causes, each once: many a text holds its cause's already.
fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&cause);
        }
    }
    text
}

/// Names the files and parts of files that were passed over, or says how many there are where they are many.
fn say_notes(notes: &[String]) {
    const SHOWN: usize = 5;
    for note in notes.iter().take(SHOWN) {
        complain(note);
    }
    for note in notes.iter().skip(SHOWN) {
        tracing::info!("{note}");
    }
    if notes.len() > SHOWN {
        complain(&format!("and {} more (ASSAYD_LOG=info names them)", notes.len() - SHOWN));
    }
}

/// A number of things, for a person: `1 trace`, `2 traces`.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Says what is wrong, to a person.
fn complain(text: &str) {
    // Nobody is left to tell if standard error is closed.
    let _ = writeln!(std::io::stderr().lock(), "assayd: {text}");
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

/// How much a command says on standard error unless it is told otherwise.
enum Voice {
    /// What a daemon's operator wants to read.
    Full,
    /// Warnings and errors: the result is on standard output.
    Quiet,
}

fn log(config: &logging::Config, voice: Voice) -> anyhow::Result<()> {
    let mut config = config.clone();
    if matches!(voice, Voice::Quiet) && config.level == logging::Config::default().level {
        config.level = "warn".to_owned();
    }
    let variable = std::env::var(logging::VARIABLE).ok();
    Ok(logging::init(&config, variable.as_deref())?)
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
