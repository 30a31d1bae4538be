//! `assayd replay`: evaluate files as the daemon would evaluate the stream.

mod explain;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::ValueEnum;
use futures::StreamExt;
use tokio_util::task::AbortOnDropHandle;

use super::progress::Progress;
use super::{Voice, table};
use crate::config::{self, Config};
use crate::convert;
use crate::domain::{Outcome, Trace, Verdict};
use crate::pipeline::Assayer;
use crate::receive::read_files_telling;

/// Evaluate the traces in files
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  assayd replay traces.otlp.json > verdicts.jsonl
  assayd replay --output table exports/
  assayd replay --config assayd.yaml runs.jsonl.gz
  assayd replay --explain --output table --config assayd.yaml traces.otlp.json

Files hold OTLP in protobuf or JSON, JSON lines of it, or LangSmith run exports; .gz and .zst are
unpacked, folders are read whole. What a file holds is decided by its content. How many verdicts of
which kind there were is said on standard error.

Exit codes: 0 every file was read, 1 some were not or hold no traces, 64 the configuration is wrong.")]
pub struct Args {
    /// Files and folders
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// How verdicts are printed
    #[arg(long, value_enum, default_value_t = Output::Jsonl)]
    output: Output,
    /// The configuration file; `emit` is not used, verdicts go to standard output
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Ask no model: say for each trace which evaluators would be asked about it, and why the others would not
    #[arg(long)]
    explain: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// The verdict's JSON, one per line
    Jsonl,
    /// One line for people
    Table,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = config::load(args.config.as_deref())?;
    super::log(&config.log, Voice::Quiet)?;
    let mut reading = Progress::of_unknown("files read");
    let found = read_files_telling(&args.paths, &mut || reading.step());
    drop(reading);
    super::say_notes(&found.notes);
    let traces = convert::join_runs(found.traces);
    if args.explain {
        explain::explain(&config, &traces, args.output == Output::Table)?;
    } else {
        super::runtime()?.block_on(replay(config, traces, args.output))?;
    }
    for error in &found.errors {
        super::complain(&error.to_string());
    }
    Ok(if found.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn replay(config: Config, traces: Vec<Trace>, output: Output) -> anyhow::Result<()> {
    let assayer = Arc::new(Assayer::start(&config)?);
    assayer.ready().await?;
    let mut progress = Progress::over(traces.len(), "traces");
    if output == Output::Table {
        super::print(&table::head())?;
    }
    let mut tally = Tally::default();
    let mut verdicts = futures::stream::iter(traces)
        .map(|trace| {
            let assayer = Arc::clone(&assayer);
            // A task each: conversion and preparation use all cores. It ends with the reader of its verdict.
            AbortOnDropHandle::new(tokio::spawn(async move { (assayer.assay(&trace).await, trace) }))
        })
        .buffered(config.flow.concurrency.get());
    while let Some(finished) = verdicts.next().await {
        let (verdict, trace) = finished?;
        let line = match output {
            Output::Jsonl => format!("{}\n", serde_json::to_string(&verdict)?),
            Output::Table => {
                let story = convert::story(&trace).ok();
                let stories: HashMap<_, _> = story.into_iter().map(|story| (trace.trace_id, story)).collect();
                table::line(&verdict, &stories)
            }
        };
        progress.suspend(|| super::print(&line))?;
        progress.step();
        tally.count(&verdict);
    }
    drop(progress);
    super::complain(&tally.told());
    Ok(())
}

/// How many verdicts there were of which kind.
#[derive(Debug, Default)]
struct Tally {
    all: usize,
    labels: BTreeMap<&'static str, usize>,
    others: BTreeMap<String, usize>,
}

impl Tally {
    fn count(&mut self, verdict: &Verdict) {
        self.all += 1;
        let reason = verdict.reason.as_deref().unwrap_or("no reason");
        match (verdict.outcome, verdict.label) {
            (Outcome::Scored, Some(label)) => *self.labels.entry(label.as_str()).or_default() += 1,
            (Outcome::Scored, None) => *self.labels.entry("not labelled").or_default() += 1,
            (outcome, _) => {
                *self.others.entry(format!("{} ({reason})", outcome.as_str())).or_default() += 1;
            }
        }
    }

    fn told(&self) -> String {
        let labels = self.labels.iter().map(|(label, count)| format!("{count} {label}"));
        let others = self.others.iter().map(|(outcome, count)| format!("{count} {outcome}"));
        let kinds: Vec<String> = labels.chain(others).collect();
        let traces = super::counted(self.all, "trace");
        if kinds.is_empty() { traces } else { format!("{traces}: {}", kinds.join(", ")) }
    }
}
