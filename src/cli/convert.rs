//! `assayd convert`: the story of every trace in files.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;

use super::progress::Progress;
use crate::convert::{join_runs, read};
use crate::domain::{Step, StepKind, Story};
use crate::receive::read_files_telling;

use super::table::harmless;

/// Print the story of every trace in files: what the agent was asked, thought, called, saw and answered
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  assayd convert traces.otlp.json
  assayd convert --output text exports/ runs.jsonl.gz

Files hold OTLP in protobuf or JSON, JSON lines of it, or LangSmith run exports; .gz and .zst are
unpacked, folders are read whole. Traces and log records may be spread over files. A trace without
an agent or without content is named on standard error, with the reason.

Exit codes: 0 every file was read, 1 some were not or hold no traces, 64 the command line is wrong.")]
pub struct Args {
    /// Files and folders
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// How stories are printed
    #[arg(long, value_enum, default_value_t = Output::Json)]
    pub output: Output,
}

/// How stories are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// One JSON object per line and trace
    Json,
    /// For people
    Text,
}

/// Runs the command. The exit code is 1 if a file could not be read.
///
/// # Errors
/// If standard output cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    super::log(&crate::logging::Config::default(), super::Voice::Quiet)?;
    let mut reading = Progress::of_unknown("files read");
    let found = read_files_telling(&args.paths, &mut || reading.step());
    drop(reading);
    super::say_notes(&found.notes);
    let mut out = BufWriter::new(io::stdout().lock());
    for trace in join_runs(found.traces) {
        match read(&trace) {
            Ok(story) => print(&mut out, &story, args.output)?,
            Err(skip) => super::complain(&format!("trace {}: no story: {skip}", trace.trace_id)),
        }
    }
    out.flush()?;
    for error in &found.errors {
        super::complain(&error.to_string());
    }
    Ok(if found.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(out: &mut impl Write, story: &Story, output: Output) -> anyhow::Result<()> {
    match output {
        Output::Json => {
            serde_json::to_writer(&mut *out, story)?;
            writeln!(out)?;
        }
        Output::Text => text(out, story)?,
    }
    Ok(())
}

fn text(out: &mut impl Write, story: &Story) -> io::Result<()> {
    let id = story.trace_id.map(|id| id.to_string()).unwrap_or_default();
    let service = harmless(story.service.as_deref().unwrap_or("unknown"));
    writeln!(out, "trace {id}  service {service}")?;
    for told in &story.instructions {
        writeln!(out, "  {}", clean(&format!("told         {}", told.text), &told.agents))?;
    }
    for tool in &story.tools {
        let listed = if tool.unlisted { "known" } else { "offered" };
        let description = tool.description.as_deref().unwrap_or_default();
        writeln!(out, "  {}", clean(&format!("{listed:<12} {}: {description}", tool.name), &tool.agents))?;
    }
    for step in &story.steps {
        writeln!(out, "  {}", line(step))?;
    }
    for lack in story.truncated.iter().chain(&story.warnings) {
        writeln!(out, "  ! {}", harmless(lack))?;
    }
    writeln!(out)
}

fn line(step: &Step) -> String {
    let text = step.text.as_deref().unwrap_or_default();
    let tool = step.tool.as_deref().unwrap_or_default();
    let said = match step.kind {
        StepKind::Request => format!("request      {text}"),
        StepKind::Thought => format!("thought      {text}"),
        StepKind::ToolCall => {
            let arguments = step.arguments.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("call         {tool} {arguments}")
        }
        StepKind::Observation if step.is_error == Some(true) => format!("error        {tool}: {text}"),
        StepKind::Observation => format!("observation  {tool}: {text}"),
        StepKind::Answer => format!("answer       {text}"),
        StepKind::Handoff => format!("handoff      to {tool}"),
    };
    clean(&said, step.agent.as_slice())
}

/// Text of a trace is untrusted: it must not steer the terminal.
fn clean(said: &str, agents: &[String]) -> String {
    let who = if agents.is_empty() { String::new() } else { format!(" [{}]", agents.join(", ")) };
    harmless(&format!("{said}{who}"))
}
