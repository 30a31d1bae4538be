//! What the catalogue finds without a model, measured on labelled cases: `cargo test --test catalogue -- --nocapture` prints
//! precision and recall. What is put to a model cannot be measured so: it is as good as the model.

#![expect(clippy::print_stdout, reason = "the numbers are the product")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use assayd::ask::{Candidate, Config, EvaluateConfig, Evaluators};
use assayd::domain::{Instructions, Json, OfferedTool, Step, StepKind, Story};
use assayd::find::{Kind, find};

fn rows(file: &str) -> Vec<Json> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/catalogue").join(file);
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Right, false and missed finds.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    right: usize,
    false_finds: usize,
    missed: usize,
}

impl Tally {
    fn precision(self) -> f64 {
        share(self.right, self.right + self.false_finds)
    }

    fn recall(self) -> f64 {
        share(self.right, self.right + self.missed)
    }
}

fn share(part: usize, all: usize) -> f64 {
    if all == 0 { 1.0 } else { part as f64 / all as f64 }
}

fn table(what: &str, tallies: &BTreeMap<String, Tally>) -> String {
    let mut table = format!(
        "| {what} | real | found | false | precision | recall |\n| --- | ---: | ---: | ---: | ---: | ---: |\n"
    );
    for (name, tally) in tallies {
        let (real, found) = (tally.right + tally.missed, tally.right);
        let (precision, recall) = (tally.precision(), tally.recall());
        writeln!(
            table,
            "| {name} | {real} | {found} | {} | {precision:.3} | {recall:.3} |",
            tally.false_finds
        )
        .unwrap();
    }
    table
}

/// Values are written with a mark in them, so that no scanner takes the file for a leak.
fn whole(text: &Json) -> String {
    text.as_str().unwrap().replace("{+}", "")
}

#[test]
fn finders_find_what_is_real_and_leave_alone_what_only_looks_so() {
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let mut wrong = String::new();
    let files = ["finders.jsonl", "finders-unseen.jsonl"];
    for (file, row) in files.iter().flat_map(|file| rows(file).into_iter().map(move |row| (file, row))) {
        let entry = |kind: &str| format!("{}, {file}", group(kind));
        let text = whole(&row["text"]);
        let real: Vec<(String, String)> = row["real"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pair| (pair[0].as_str().unwrap().to_owned(), whole(&pair[1])))
            .collect();
        let found: Vec<(String, String)> = find(&text, &Kind::ALL)
            .into_iter()
            .filter(|finding| !finding.placeholder)
            .map(|finding| (finding.kind.as_str().to_owned(), text[finding.range].to_owned()))
            .collect();
        // A find is right if it holds the value or the better part of it; which kind it is called is another matter.
        let is_of = |found: &str, value: &str| {
            found.contains(value) || value.contains(found) && found.len() * 2 > value.len()
        };
        for (kind, value) in &real {
            let tally = tallies.entry(entry(kind)).or_default();
            if found.iter().any(|(_, found)| is_of(found, value)) {
                tally.right += 1;
            } else {
                tally.missed += 1;
                writeln!(wrong, "missed {kind} ({}): {text}", row["note"]).unwrap();
            }
        }
        for (kind, value) in &found {
            if !real.iter().any(|(_, real)| is_of(value, real)) {
                tallies.entry(entry(kind)).or_default().false_finds += 1;
                writeln!(wrong, "false {kind} ({}): {value} in {text}", row["note"]).unwrap();
            }
        }
    }
    println!("{}\n{wrong}", table("finder", &tallies));
    for (group, tally) in &tallies {
        assert!(tally.precision() >= 0.9 && tally.recall() >= 0.9, "{group}: {tally:?}\n{wrong}");
    }
}

fn group(kind: &str) -> &'static str {
    let kind = Kind::ALL.into_iter().find(|known| known.as_str() == kind).unwrap();
    if Kind::SECRETS.contains(&kind) { "secrets" } else { "personal data" }
}

#[test]
fn rules_rule_on_what_is_certain_and_on_nothing_else() {
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let mut wrong = String::new();
    for row in rows("rules.jsonl") {
        let evaluator = row["evaluator"].as_str().unwrap();
        let config: EvaluateConfig =
            serde_json::from_value(serde_json::json!({ "grounding": false, "use": [evaluator] })).unwrap();
        let story = story(&row);
        let candidate = Candidate { story: &story, trace: None, service: None };
        let (asked, _) = Evaluators::new(&config).ask(&candidate, &Config::default());
        let ruled = asked.ruled.first().map(|(_, ruling)| ruling.label.as_str());
        // "none" of the loop rule is an answer too, and stands for no find.
        let plain = |label: Option<&str>| label.filter(|label| *label != "none").map(str::to_owned);
        let (wanted, found) = (plain(row["label"].as_str()), plain(ruled));
        let tally = tallies.entry(evaluator.to_owned()).or_default();
        match (&wanted, &found) {
            (Some(wanted), Some(found)) if wanted == found => tally.right += 1,
            (None, None) => {}
            _ => {
                tally.missed += usize::from(wanted.is_some());
                tally.false_finds += usize::from(found.is_some());
                writeln!(wrong, "{evaluator} ({}): wanted {wanted:?}, found {found:?}", row["note"]).unwrap();
            }
        }
    }
    println!("{}\n{wrong}", table("rule", &tallies));
    assert!(wrong.is_empty(), "{wrong}");
}

fn story(row: &Json) -> Story {
    let text = |key: &str| row[key].as_str().map(str::to_owned);
    let mut steps = vec![Step {
        text: Some(text("request").unwrap_or_else(|| "Do it.".to_owned())),
        ..Step::new(StepKind::Request)
    }];
    for (at, call) in row["steps"].as_array().into_iter().flatten().enumerate() {
        let step = |kind| Step {
            tool: call["call"].as_str().map(str::to_owned),
            call_id: Some(format!("c{at}")),
            ..Step::new(kind)
        };
        steps.push(Step { arguments: Some(call["arguments"].clone()), ..step(StepKind::ToolCall) });
        steps.push(Step {
            text: call["result"].as_str().map(str::to_owned),
            is_error: call["failed"].as_bool(),
            ..step(StepKind::Observation)
        });
    }
    let answer = text("answer").unwrap_or_else(|| "Done.".to_owned());
    steps.push(Step { text: Some(answer.clone()), ..Step::new(StepKind::Answer) });
    for (index, step) in steps.iter_mut().enumerate() {
        step.index = index;
    }
    let tools = row["tools"].as_array().into_iter().flatten().map(|tool| OfferedTool {
        name: tool["name"].as_str().unwrap().to_owned(),
        description: None,
        parameters: tool.get("parameters").cloned(),
        agents: Vec::new(),
        unlisted: false,
    });
    let instructions = text("instructions").filter(|text| !text.is_empty());
    Story {
        instructions: instructions
            .into_iter()
            .map(|text| Instructions { agents: Vec::new(), text })
            .collect(),
        tools: tools.collect(),
        request: steps[0].text.clone(),
        steps,
        answer: Some(answer),
        ..Story::default()
    }
}
