//! The command line.

pub mod ask;
pub mod convert;
pub mod model;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Assays agent traces: OpenTelemetry spans in, grounded verdicts out.
#[derive(Debug, Parser)]
#[command(name = "assayd", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Convert(convert::Args),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let variable = std::env::var(crate::logging::VARIABLE).ok();
    if let Err(error) = crate::logging::init(&crate::logging::Config::default(), variable.as_deref()) {
        eprintln!("{error}");
    }
    let result = match &cli.command {
        Command::Convert(args) => convert::run(args),
    };
    result.unwrap_or_else(|error| {
        tracing::error!("{error:#}");
        ExitCode::FAILURE
    })
}
