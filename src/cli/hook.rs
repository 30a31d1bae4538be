//! `assayd hook`: a Stop hook for Claude Code and Codex, which sends the agent back if its tools do not bear out its answer.

mod reason;
mod tail;

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::Voice;
use crate::domain::{Period, Verdict};
use crate::evaluate::{self, Backend};
use crate::transcript::{HookInput, Session, Told, block};
use crate::{config, transcript};

/// Check a coding agent's final answer against what its tools gave it; for the Stop hooks of Claude Code and Codex
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  in ~/.claude/settings.json, and the same in ~/.codex/hooks.json:
    {\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"assayd hook\"}]}]}}
  assayd hook --model strands:./my-checkpoint --max-context-chars 60000

The hook's input comes on standard input. An answer that the tool output of its turn does not
support is sent back once, with the claims and the evidence against them. A turn without tool output
is not checked. Whatever goes wrong is said on standard error, and the answer goes out.

Exit code: always 0.")]
pub struct Args {
    /// The model: embedded, strands:NAME, systemone:URL, openai:MODEL[@URL], …; without it, as the configuration says
    #[arg(long)]
    model: Option<Backend>,
    /// The judge for what the model is unsure of: openai:MODEL[@URL], …
    #[arg(long)]
    judge: Option<Backend>,
    /// Characters of tool output that are read, the most recent ones
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    max_context_chars: usize,
    /// How probable it must be, from 0 to 1, that a claim is not supported
    #[arg(long, value_name = "P", default_value_t = 0.6)]
    min_probability: f64,
    /// How long a check may take; after that the answer goes out
    #[arg(long, value_name = "TIME", default_value = "50s")]
    timeout: Period,
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs the command. Its exit code is 0 whatever happens: any other would be shown to the user, and 2 would block.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let checked = std::panic::catch_unwind(|| check(args));
    match checked {
        Ok(Ok(Some(reason))) => super::print(&format!("{}\n", block(&reason)))?,
        Ok(Ok(None)) => {}
        Ok(Err(error)) => warn(&super::told(&error)),
        // The panic's message is on standard error already.
        Err(_) => warn("a check panicked"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Says why an answer goes out unchecked.
pub fn warn(why: &str) {
    super::complain(&format!("the answer was not checked: {why}"));
}

/// Why the answer must be sent back, if so.
fn check(args: Args) -> anyhow::Result<Option<String>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
    let input = HookInput::read(&text)?;
    if input.stop_hook_active {
        return Ok(None);
    }
    let Some(path) = input.path() else {
        bail!("the hook's input names no transcript: the session is not kept")
    };
    let session = tail::read(std::path::Path::new(path), input.is_subagent())?;
    let Some(told) = to_check(&session, &input, args.max_context_chars) else { return Ok(None) };
    let config = config::load(args.config.as_deref())?;
    super::log(&config.log, Voice::Quiet)?;
    let timeout = args.timeout;
    let verdict = super::runtime()?.block_on(async {
        let assayer = evaluate::open(config, args.model.as_ref(), args.judge.as_ref())?;
        let check = async {
            assayer.ready().await?;
            anyhow::Ok(assayer.check_story(&told.story).await)
        };
        tokio::time::timeout(timeout.0, check)
            .await
            .with_context(|| format!("it took longer than {timeout}"))?
    })?;
    say(&verdict);
    Ok(reason::why(&verdict, &told, args.min_probability))
}

/// The story of the answer, if there is something to check: not after a block, and not without tool output.
fn to_check(session: &Session, input: &HookInput, max_chars: usize) -> Option<Told> {
    if session.was_blocked() || !session.has_tool_output() {
        return None;
    }
    let answer = input.answer().map(str::to_owned).or_else(|| session.answer())?;
    let told: transcript::Told = session.told(&answer, max_chars);
    (!told.story.steps.is_empty()).then_some(told)
}

/// What kept the answer from being checked in full, on standard error.
fn say(verdict: &Verdict) {
    match (&verdict.reason, &verdict.judge_error) {
        (Some(reason), _) if verdict.outcome == crate::domain::Outcome::Failed => warn(reason),
        (_, Some(error)) => super::complain(&format!("the judge did not answer: {error}")),
        _ => {}
    }
}
