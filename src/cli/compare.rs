//! `assayd compare`: models and thresholds on labelled questions.

mod records;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use futures::StreamExt;

use self::records::{Kept, Line};
use self::report::Report;
use super::progress::Progress;
use super::{Output, Usage, Voice};
use crate::config::{self, Config};
use crate::evaluate::{Answerer, Backend, Item, LineError, Record, read_labelled};

/// Compare models and thresholds on labelled questions: accuracy, calibration, what is settled, what a judge adds, time, cost
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  assayd compare items.jsonl --model embedded --model strands:./my-checkpoint
  assayd compare items.jsonl --model embedded --judge openai:judge-large --save runs.jsonl
  assayd compare items.jsonl --model systemone:https://host --merge runs.jsonl --output json

A line of ITEMS.jsonl:
  {\"state\": \"My payouts fail!\",
   \"questions\": {\"urgent\": {\"type\": \"noul\", \"instructions\": \"Is it urgent?\"}},
   \"labels\": {\"urgent\": true}}
Questions are as POST /v1/systemone has them. A label is true or false, an option, a level's number
or text; a question may be left without one.

What is in the files of --merge is not asked again, nor what is in the file of --save already; so a
run that was broken off goes on. The judge is asked once for each item, with all its questions; each
row says what comes of asking it only for answers below the threshold.

Exit codes: 0 all was compared, 1 a line of the file is wrong or a model cannot be had,
64 the command line or the configuration is wrong.")]
pub struct Args {
    /// Labelled questions, one JSON object a line
    #[arg(value_name = "ITEMS.jsonl")]
    items: PathBuf,
    /// A model: embedded, strands:NAME, systemone:URL, decisions:URL, openai:MODEL[@URL], … Repeatable
    #[arg(long, required = true, value_name = "BACKEND")]
    model: Vec<Backend>,
    /// The judge for what a model is not sure of: openai:MODEL[@URL], …
    #[arg(long, value_name = "BACKEND")]
    judge: Option<Backend>,
    /// Confidences from which an answer is settled
    #[arg(long, value_delimiter = ',', default_values_t = [0.5, 0.7, 0.9], value_name = "T,T")]
    thresholds: Vec<f64>,
    /// Add what is answered to this file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Take what these files hold instead of asking again. Repeatable
    #[arg(long, value_name = "FILE", num_args = 1..)]
    merge: Vec<PathBuf>,
    /// How the comparison is printed
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Items that are asked at the same time; times are those of one item while so many are asked
    #[arg(long, default_value = "1", value_name = "N")]
    concurrency: std::num::NonZeroUsize,
    /// Leave wrong lines out instead of stopping
    #[arg(long)]
    skip_bad: bool,
    /// The configuration file, for prices, the judge's limits and prompts
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    for threshold in &args.thresholds {
        if !(0.0..=1.0).contains(threshold) {
            return Err(Usage(format!("--thresholds: {threshold} must be from 0 to 1")).into());
        }
    }
    if let Some(judge) = args.judge.as_ref().filter(|judge| !judge.is_judge()) {
        let problem = format!(
            "--judge: {judge} is a decision model; a judge is openai:MODEL, anthropic:MODEL or bedrock:MODEL"
        );
        return Err(Usage(problem).into());
    }
    let config = config::load(args.config.as_deref())?;
    super::log(&config.log, Voice::Quiet)?;
    let items = items(&args)?;
    let mut kept = Kept::read(&args.merge, args.save.as_deref())?;
    let backends: Vec<&Backend> = args.model.iter().chain(&args.judge).collect();
    super::runtime()?.block_on(async {
        for backend in &backends {
            ask(&config, backend, &items, &mut kept, args.concurrency.get()).await?;
        }
        anyhow::Ok(())
    })?;
    let report = Report::of(&items, &args.model, args.judge.as_ref(), &args.thresholds, &kept);
    let text = match args.output {
        Output::Table => report.table(),
        Output::Json => format!("{}\n", serde_json::to_string(&report)?),
    };
    super::print(&text)?;
    for complaint in report.complaints() {
        super::complain(&complaint);
    }
    Ok(ExitCode::SUCCESS)
}

/// The items of the file. Any mistake is told with its line.
fn items(args: &Args) -> anyhow::Result<Vec<Item>> {
    let path = args.items.display();
    let text = std::fs::read_to_string(&args.items).with_context(|| format!("cannot read {path}"))?;
    let (labelled, mut errors) = read_labelled(&text);
    let mut items = Vec::new();
    for labelled in labelled {
        match labelled.record {
            Record::Item(item) => items.push(item),
            Record::Check { .. } | Record::Feedback(_) => errors.push(LineError {
                line: labelled.line,
                message: "compare needs {state, questions, labels}; responses and feedback are for `assayd calibrate`".to_owned(),
            }),
        }
    }
    errors.sort_by_key(|error| error.line);
    super::tell_mistakes(&args.items, &errors, args.skip_bad)?;
    ensure!(!items.is_empty(), "{path} holds no item");
    Ok(items)
}

/// Asks a backend what is not kept yet.
async fn ask(
    config: &Config,
    backend: &Backend,
    items: &[Item],
    kept: &mut Kept,
    concurrency: usize,
) -> anyhow::Result<()> {
    let name = backend.to_string();
    // A model under a calibration answers otherwise: whether it is one is known only when it is loaded.
    let may_skip = config.decide.calibration.is_none() || backend.is_judge();
    if may_skip && items.iter().all(|item| kept.holds(item, &name, None)) {
        return Ok(());
    }
    let answerer = Answerer::open(config.clone(), backend).with_context(|| name.clone())?;
    answerer.ready().await.with_context(|| name.clone())?;
    let calibration = answerer.calibration();
    let mut seen = std::collections::HashSet::new();
    let open: Vec<&Item> = items
        .iter()
        .filter(|item| !kept.holds(item, &name, calibration.as_deref()) && seen.insert(item.digest.as_str()))
        .collect();
    let mut progress = Progress::over(open.len(), "items");
    let asked = futures::stream::iter(open).map(|item| {
        let answerer = &answerer;
        async move { (item, answerer.answer(&item.inquiry).await) }
    });
    let mut answers = asked.buffered(concurrency);
    while let Some((item, answered)) = answers.next().await {
        let line = Line::new(item, &name, &answerer, &answered);
        progress.suspend(|| kept.add(line))?;
        progress.step();
    }
    Ok(())
}
