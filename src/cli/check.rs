//! `assayd check`: is this response supported by this context?

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::json;

use super::Voice;
use crate::config;
use crate::domain::{Json, Label};
use crate::evaluate::{self, Backend};
use crate::serve::CheckRequest;

/// The exit code when there is no answer: neither supported nor unsupported.
pub const CANNOT_SAY: u8 = 2;

/// Check one response against its context; no daemon needed
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  assayd check --context 'Footwear may be returned within 30 days.' --response 'You have 90 days.'
  summarize report.txt | assayd check --context @report.txt
  assayd check --context @facts.json --response @answer.txt | jq .reasoning

Exit codes: 0 supported, 1 not supported or unsure, 2 it cannot be said (no response, a failure).")]
pub struct Args {
    /// What the response must be supported by: text, JSON, or @FILE
    #[arg(long, value_name = "TEXT|@FILE")]
    context: String,
    /// What was asked
    #[arg(long)]
    query: Option<String>,
    /// The response: text or @FILE; standard input if not given
    #[arg(long, value_name = "TEXT|@FILE")]
    response: Option<String>,
    /// The model: embedded, strands:NAME, systemone:URL, openai:MODEL[@URL], …; without it, as the configuration says
    #[arg(long)]
    model: Option<Backend>,
    /// The judge for what the model is unsure of: openai:MODEL[@URL], …
    #[arg(long)]
    judge: Option<Backend>,
    /// The service whose response it is: its thresholds and evaluators of the configuration are used
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = config::load(args.config.as_deref())?;
    super::log(&config.log, Voice::Quiet)?;
    let response = match args.response {
        Some(response) => text_or_file(&response)?,
        None => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .context("cannot read the response from standard input")?;
            text
        }
    };
    if response.trim().is_empty() {
        bail!("the response is empty; give --response or standard input");
    }
    let context = Json::String(text_or_file(&args.context)?);
    let request = CheckRequest { context, query: args.query, response, service: args.service };
    let verdict = super::runtime()?.block_on(async {
        let assayer = evaluate::open(config, args.model.as_ref(), args.judge.as_ref())?;
        assayer.ready().await?;
        anyhow::Ok(assayer.check(&request).await)
    })?;
    let faithful = verdict.label == Some(Label::Faithful);
    // A judge that was asked and did not answer has said nothing.
    let judge = verdict.provenance.judge.as_ref().filter(|_| verdict.judge_error.is_none());
    let report = json!({
        "faithful": faithful,
        "model": judge.unwrap_or(&verdict.provenance.decider),
        "hallucination_probability": verdict.hallucination_probability,
        "reasoning": evaluate::reasoning(&verdict),
        "verdict": verdict,
    });
    super::print(&format!("{report}\n"))?;
    Ok(match verdict.label {
        Some(Label::Faithful) => ExitCode::SUCCESS,
        Some(Label::Hallucination | Label::Unsure) => ExitCode::FAILURE,
        None => ExitCode::from(CANNOT_SAY),
    })
}

fn text_or_file(text: &str) -> anyhow::Result<String> {
    match text.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path).with_context(|| format!("cannot read {path}")),
        None => Ok(text.to_owned()),
    }
}
