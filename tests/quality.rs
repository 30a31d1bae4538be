//! How good the verdicts are, measured; not a test of the build. Both need data that the repository does not hold, so they
//! are ignored and read its place from the environment:
//!
//! ```text
//! ASSAYD_GROUNDING_DATA=…/dev cargo test --release --test quality -- --ignored --nocapture dev
//! ASSAYD_TRACES=…/traces      cargo test --release --test quality -- --ignored --nocapture traces
//! ```
//!
//! `ASSAYD_MODEL` names another decision model than the embedded one, `ASSAYD_ROWS` the rows of each source (default 150).

#![expect(clippy::print_stdout, reason = "the numbers are the product")]

use std::collections::{BTreeMap, HashSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use assayd::decide::{self, Desk, ModelName};
use assayd::domain::{Json, Label, Step, StepKind, Story, Time, Verdict};
use assayd::pipeline::Cascade;
use assayd::{ask, score};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs labelled data; see above"]
async fn dev() {
    let folder = PathBuf::from(
        env::var("ASSAYD_GROUNDING_DATA").expect("ASSAYD_GROUNDING_DATA is a folder of *.jsonl"),
    );
    let rows: usize =
        env::var("ASSAYD_ROWS").map_or(150, |rows| rows.parse().expect("ASSAYD_ROWS is a number"));
    let assayer = Assayer::new();
    let mut files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut all = Vec::new();
    println!("{:<18} {:>5} {:>6} | labels (grounded rows / other rows)", "source", "rows", "AUROC");
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "jsonl")) {
        let lines: Vec<Json> = fs::read_to_string(file)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        // Every n-th row, so that a part of the file stands for all of it.
        let step = lines.len().div_ceil(rows).max(1);
        let mut found = Vec::new();
        for row in lines.iter().step_by(step) {
            let verdict = assayer.assay(&row_story(row)).await;
            found.push((row["label"] == "grounded", verdict));
        }
        report(&file.file_stem().unwrap().to_string_lossy(), &found);
        all.extend(found);
    }
    report("all", &all);
    println!("\nlabels by threshold, all rows:");
    for threshold in [0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9] {
        let probable =
            |row: &&(bool, Verdict)| row.1.hallucination_probability.is_some_and(|p| p >= threshold);
        let sure =
            |row: &&(bool, Verdict)| row.1.hallucination_probability.is_some_and(|p| p <= 1.0 - threshold);
        let share = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
        let bad: Vec<_> = all.iter().filter(probable).collect();
        let good: Vec<_> = all.iter().filter(sure).collect();
        println!(
            "{threshold:.2}: hallucination for {:>5.1} % of rows, right in {:>5.1} %; faithful for {:>5.1} %, right in {:>5.1} %",
            share(bad.len(), all.len()),
            share(bad.iter().filter(|row| !row.0).count(), bad.len()),
            share(good.len(), all.len()),
            share(good.iter().filter(|row| row.0).count(), good.len()),
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the corpus of traces; see above"]
async fn traces() {
    let folder =
        PathBuf::from(env::var("ASSAYD_TRACES").expect("ASSAYD_TRACES is the folder of MANIFEST.jsonl"));
    let assayer = Assayer::new();
    let mut seen = HashSet::new();
    for line in fs::read_to_string(folder.join("MANIFEST.jsonl")).unwrap().lines() {
        let run: Json = serde_json::from_str(line).unwrap();
        let expected = &run["expected"];
        let Some(answer) = expected["final_answer"].as_str() else { continue };
        if !seen.insert(answer.to_owned()) {
            continue;
        }
        let verdict = assayer.assay(&run_story(&folder, expected, answer)).await;
        let grounding = verdict.grounding.as_ref().unwrap();
        println!(
            "\n{} faithful {} -> {} S {:.2} {}",
            run["scenario"].as_str().unwrap_or_default(),
            expected["faithful"],
            verdict.label.map_or("none", Label::as_str),
            grounding.score,
            grounding.tier.as_str()
        );
        for claim in &grounding.claims {
            let wrong = expected["wrong_sentences"]
                .as_array()
                .unwrap()
                .iter()
                .any(|wrong| wrong.as_str() == Some(&claim.text));
            let p: Vec<String> =
                claim.probabilities.iter().map(|(label, p)| format!("{label} {p:.2}")).collect();
            println!(
                "  {} {} | {} | {}",
                if wrong { "WRONG" } else { "  ok " },
                p.join(" "),
                claim.evidence_type.as_str(),
                claim.text
            );
        }
    }
}

/// Ask, cascade and score, as the daemon runs them, without a judge.
struct Assayer {
    cascade: Cascade,
    plan: score::Plan,
}

impl Assayer {
    fn new() -> Self {
        let model = env::var("ASSAYD_MODEL").map_or(ModelName::Embedded, |name| ModelName::parse(&name));
        let desk: Desk = decide::start(&decide::Config { model, ..decide::Config::default() }).unwrap();
        let name = desk.info().name.clone();
        Self {
            cascade: Cascade::new(desk, None, 0.9),
            plan: score::Plan::new(
                score::Config::default(),
                &ask::fingerprint(&ask::Config::default()),
                name,
                None,
                0.9,
            ),
        }
    }

    async fn assay(&self, story: &Story) -> Verdict {
        let questions = ask::questions(story, &ask::Config::default());
        let answers = self.cascade.answer(&questions).await;
        score::verdict(&score::Origin::default(), story, &questions, &answers, &self.plan, Time(1))
    }
}

fn row_story(row: &Json) -> Story {
    let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
    told(vec![
        (StepKind::Request, text("query")),
        (StepKind::Observation, text("evidence")),
        (StepKind::Answer, text("claim")),
    ])
}

fn run_story(folder: &Path, expected: &Json, answer: &str) -> Story {
    let requests = expected["user_requests"].as_array().unwrap();
    let mut steps: Vec<(StepKind, String)> =
        requests.iter().map(|request| (StepKind::Request, request.as_str().unwrap().to_owned())).collect();
    for step in expected["steps"].as_array().unwrap() {
        if !matches!(step["kind"].as_str(), Some("observation" | "retrieval")) {
            continue;
        }
        let text = match step["text_file"].as_str() {
            Some(file) => fs::read_to_string(folder.join(file)).unwrap(),
            None => step["text"].as_str().unwrap_or_default().to_owned(),
        };
        steps.push((StepKind::Observation, text));
    }
    steps.push((StepKind::Answer, answer.to_owned()));
    told(steps)
}

fn told(steps: Vec<(StepKind, String)>) -> Story {
    let last = |kind| steps.iter().rfind(|(found, _)| *found == kind).map(|(_, text)| text.clone());
    Story {
        request: last(StepKind::Request),
        answer: last(StepKind::Answer),
        steps: steps
            .into_iter()
            .enumerate()
            .map(|(index, (kind, text))| Step { index, text: Some(text), ..Step::new(kind) })
            .collect(),
        ..Story::default()
    }
}

fn report(source: &str, rows: &[(bool, Verdict)]) {
    let mut labels: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for (grounded, verdict) in rows {
        let label = verdict.label.map_or(verdict.outcome.as_str(), Label::as_str);
        labels.entry(label).or_default()[usize::from(!grounded)] += 1;
    }
    let labels: Vec<String> =
        labels.iter().map(|(label, [good, bad])| format!("{label} {good}/{bad}")).collect();
    println!("{source:<18} {:>5} {:>6.3} | {}", rows.len(), auroc(rows), labels.join(", "));
}

/// How often a row with support has a lower hallucination probability than one without; ties count half.
fn auroc(rows: &[(bool, Verdict)]) -> f64 {
    let of = |wanted: bool| -> Vec<f64> {
        rows.iter()
            .filter(|(grounded, _)| *grounded == wanted)
            .filter_map(|(_, verdict)| verdict.hallucination_probability)
            .collect()
    };
    let (good, bad) = (of(true), of(false));
    let wins: f64 = good
        .iter()
        .flat_map(|good| {
            bad.iter().map(move |bad| {
                if good < bad {
                    1.0
                } else if good == bad {
                    0.5
                } else {
                    0.0
                }
            })
        })
        .sum();
    wins / (good.len() * bad.len()).max(1) as f64
}
