//! `assayd config`: check a file, print the schema, explain a key, list the built-in evaluators.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::{config, judge};

/// Check a configuration, explain a key, print the schema
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  assayd config check assayd.yaml
  assayd config explain assemble.root_grace
  assayd config evaluators
  assayd config schema > assayd.schema.json
  assayd config default > assayd.yaml")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Check a file and the templates that it names: exit code 0 if they can be used, 64 if not
    Check {
        /// The configuration file
        file: PathBuf,
    },
    /// Print the JSON schema, for editors
    Schema,
    /// Say what a key means, its type and its default
    Explain {
        /// Such as `assemble.idle`; without it, the sections
        #[arg(default_value = "")]
        key: String,
    },
    /// Print every key with its default
    Default,
    /// Print the built-in evaluators: what each finds out, reads and asks
    Evaluators,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Check { file } => {
            let config = config::load(Some(&file))?;
            let wrong = judge::check_prompts(&config.judge.prompts, &config.evaluate.prompts());
            if !wrong.is_empty() {
                super::complain(&format!("{}: {}", file.display(), wrong.join("\n  ")));
                return Ok(ExitCode::from(super::BAD_CONFIG));
            }
            for note in config.notes() {
                super::complain(&format!("note: {note}"));
            }
            super::print(&format!("{}: fine\n", file.display()))?;
        }
        Command::Schema => super::print(&format!("{:#}\n", config::schema()))?,
        Command::Default => super::print(&config::annotated())?,
        Command::Evaluators => super::print(&crate::ask::reference())?,
        Command::Explain { key } => match config::explain(&key) {
            Ok(text) => super::print(&text)?,
            Err(names) => {
                tracing::debug!(key, "unknown key");
                super::complain(&format!("there is no key {key:?}; here are: {}", names.join(", ")));
                return Ok(ExitCode::from(super::BAD_CONFIG));
            }
        },
    }
    Ok(ExitCode::SUCCESS)
}
