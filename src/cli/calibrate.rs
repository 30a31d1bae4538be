//! `assayd calibrate`: fit temperatures and thresholds to labelled records, and say how good they are on others.

mod grade;
mod tell;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};

use self::grade::Graded;
use super::{Output, Usage, Voice};
use crate::config::{self, Config};
use crate::evaluate::{self, Backend, Labelled, Record, read_labelled};
use crate::measure::{Fitted, Part, Thresholds, Wish, fit, report, split};

/// Fewer records than this are not fitted to.
const LEAST: usize = 20;

/// Fewer than this are said to be few.
const ADVISED: usize = 100;

/// Fit temperatures and thresholds to labelled records on one split, report on the other, write a calibration file
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  assayd calibrate labels.jsonl --out calibration.json
  assayd calibrate labels.jsonl --model strands:./my-checkpoint --target-accuracy 0.9
  curl -s 127.0.0.1:8321/v1/feedback > feedback.jsonl && assayd calibrate feedback.jsonl

A line of LABELS.jsonl is one of
  {\"context\": …, \"query\": …, \"response\": \"…\",
   \"label\": \"faithful|hallucination\", \"labeled_by\": \"human\"}
  {\"state\": …, \"questions\": {…}, \"labels\": {…}, \"labeled_by\": \"human\"}
or of the console's export of feedback, which needs no run of the model. 100 to 200 records are a
good number.

The file is put in force by `decide: { calibration: calibration.json }`; verdicts name it. Nothing
is called calibrated whose labels were not all given by people (`labeled_by: human`).

Exit codes: 0 written, 1 a line is wrong, there are too few records, or the model cannot be had,
64 the command line or the configuration is wrong.")]
pub struct Args {
    /// Labelled records, one JSON object a line
    #[arg(value_name = "LABELS.jsonl")]
    labels: PathBuf,
    /// The decision model: embedded, strands:NAME, systemone:URL, …; without it, as the configuration says
    #[arg(long, value_name = "BACKEND")]
    model: Option<Backend>,
    /// Where the calibration is written
    #[arg(long, value_name = "FILE", default_value = "calibration.json")]
    out: PathBuf,
    /// How often an answer that a threshold settles must be right
    #[arg(long, value_name = "SHARE", default_value_t = 0.95)]
    target_accuracy: f64,
    /// The share of records that the fit sees; the report is made of the rest
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    split: f64,
    /// Another number, another split
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Fit GSAR's weights by kind of evidence too
    #[arg(long)]
    weights: bool,
    /// Use records that no person labelled beside those that one did; what comes of it is not called calibrated
    #[arg(long)]
    any_labels: bool,
    /// How the report is printed
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Leave wrong lines out instead of stopping
    #[arg(long)]
    skip_bad: bool,
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    for (name, share) in [("target-accuracy", args.target_accuracy), ("split", args.split)] {
        if !(share > 0.0 && share <= 1.0) {
            return Err(Usage(format!("--{name}: {share} must be above 0 and at most 1")).into());
        }
    }
    if args.split >= 1.0 {
        return Err(Usage("--split: 1 leaves no record for the report".to_owned()).into());
    }
    if let Some(model) = args.model.as_ref().filter(|model| model.is_judge()) {
        let problem =
            format!("{model} gives no probabilities: there is nothing to calibrate; name a decision model");
        return Err(Usage(problem).into());
    }
    let mut config = config::load(args.config.as_deref())?;
    super::log(&config.log, Voice::Quiet)?;
    // Neither a calibration nor a judge may stand between the model and its labels.
    config.decide.calibration = None;
    config.judge = crate::judge::Config::default();
    let labelled = labelled(&args)?;
    writable(&args.out)?;
    let (labelled, labeled_by) = chosen(labelled, args.any_labels);
    let (model, graded, mut notes) = super::runtime()?.block_on(grade(&config, &args, labelled))?;
    ensure!(
        graded.len() >= LEAST,
        "{} graded records are too few to fit to and to report on: at least {LEAST}, better {ADVISED} to 200",
        graded.len()
    );
    if graded.len() < ADVISED {
        notes.push(format!("{} records are few: {ADVISED} to 200 tell more", graded.len()));
    }
    let groups: Vec<String> = graded.iter().map(|graded| graded.group.clone()).collect();
    let parts = split(&groups, args.split, args.seed);
    let of = |part: Part| {
        graded.iter().zip(&parts).filter(move |(_, found)| **found == part).map(|(graded, _)| graded)
    };
    let seen = |part: Part| of(part).map(|graded| graded.seen.clone()).collect::<Vec<_>>();
    let (fit_on, report_on) = (seen(Part::Fit), seen(Part::Report));
    ensure!(
        !fit_on.is_empty() && !report_on.is_empty(),
        "all records are about the same evidence: they cannot be split"
    );

    let mut fitted = Fitted::new(model, labeled_by);
    let wish = Wish { target: args.target_accuracy, weights: args.weights };
    fit(&fit_on, wish, &mut fitted, &mut notes);
    let configured = Thresholds {
        min_confidence: Some(config.decide.min_confidence),
        hallucination: Some(config.score.label.hallucination),
        faithful: Some(config.score.label.faithful),
    };
    let told = report(&report_on, &fitted, configured);
    let wrong = tell::wrong(&fitted, &of(Part::Report).collect::<Vec<&Graded>>());
    fitted.report = serde_json::json!({
        "target_accuracy": args.target_accuracy,
        "split": args.split,
        "seed": args.seed,
        "fitted_on": fit_on.len(),
        "reported_on": report_on.len(),
        "notes": notes,
        "report": told,
        "wrong": wrong,
    });
    std::fs::write(&args.out, fitted.text())
        .with_context(|| format!("cannot write {}", args.out.display()))?;
    let text = match args.output {
        Output::Json => fitted.text(),
        Output::Table => tell::text(&fitted, &told, &wrong, fit_on.len(), &args.out),
    };
    super::print(&text)?;
    for note in &notes {
        super::complain(note);
    }
    if !fitted.calibrated {
        super::complain("uncalibrated: not all labels were given by people (labeled_by: human)");
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether a file can be written: better known before the model's work than after it.
fn writable(path: &Path) -> anyhow::Result<()> {
    let is_new = !path.exists();
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    if is_new {
        std::fs::remove_file(path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn labelled(args: &Args) -> anyhow::Result<Vec<Labelled>> {
    let path = args.labels.display();
    let text = std::fs::read_to_string(&args.labels).with_context(|| format!("cannot read {path}"))?;
    let (labelled, errors) = read_labelled(&text);
    super::tell_mistakes(&args.labels, &errors, args.skip_bad)?;
    ensure!(!labelled.is_empty(), "{path} holds no record");
    Ok(labelled)
}

/// The records to use, and how many of them are by whom: those that people labelled, if there are any, unless all are wanted.
fn chosen(labelled: Vec<Labelled>, any: bool) -> (Vec<Labelled>, BTreeMap<String, usize>) {
    let is_human = |labelled: &Labelled| labelled.labeled_by.as_deref() == Some("human");
    let all = labelled.len();
    let by_people = labelled.iter().filter(|labelled| is_human(labelled)).count();
    let chosen: Vec<Labelled> =
        labelled.into_iter().filter(|labelled| any || by_people == 0 || is_human(labelled)).collect();
    if chosen.len() < all {
        super::complain(&format!(
            "{} records that no person labelled are left out (--any-labels takes them)",
            all - chosen.len()
        ));
    }
    let mut labeled_by = BTreeMap::new();
    for labelled in &chosen {
        *labeled_by
            .entry(labelled.labeled_by.clone().unwrap_or_else(|| "unknown".to_owned()))
            .or_default() += 1;
    }
    (chosen, labeled_by)
}

/// What the model says of each record.
async fn grade(
    config: &Config,
    args: &Args,
    labelled: Vec<Labelled>,
) -> anyhow::Result<(String, Vec<Graded>, Vec<String>)> {
    let assayer = evaluate::open(config.clone(), args.model.as_ref(), None)?;
    assayer.ready().await?;
    let mut notes = Vec::new();
    let runs = labelled.iter().any(|labelled| matches!(labelled.record, Record::Check { .. }));
    let before = labelled.len();
    // Probabilities of past verdicts are by the calibration of their time: they do not mix with those of now.
    let labelled: Vec<Labelled> = labelled
        .into_iter()
        .filter(|labelled| !runs || !matches!(labelled.record, Record::Feedback(_)))
        .collect();
    if labelled.len() < before {
        let left_out = before - labelled.len();
        notes.push(format!("{left_out} records of feedback are left out: they do not mix with responses; calibrate on them alone"));
    }
    let (graded, open) = grade::all(&assayer, labelled).await;
    notes.extend(open.into_iter().map(|(why, count)| format!("{count} records could not be graded: {why}")));
    Ok((assayer.desk().info().name.clone(), graded, notes))
}
