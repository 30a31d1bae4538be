//! What can be wrong with the section, all of it at once, each with what would be right.

use std::collections::HashSet;

use super::super::catalogue::{self, BuiltIn, Task};
use super::super::scope::Scope;
use super::super::suggest::nearest;
use super::{
    Criteria, Each, EvaluateConfig, EvaluatorConfig, MatchConfig, MetricConfig, QuestionType,
    SessionEvaluateConfig,
};
use crate::find;

/// Longest name of an evaluator or metric.
const LONGEST_NAME: usize = 64;

impl EvaluateConfig {
    /// Adds what is wrong with this section.
    pub fn check(&self, problems: &mut Vec<String>) {
        self.check_built_in(problems);
        for (name, evaluator) in &self.evaluators {
            let mut report = Report { key: format!("evaluate.evaluators.{name}"), problems };
            match catalogue::named(name) {
                Some(built_in) => self.check_settings(built_in, evaluator, &mut report),
                None => self.check_own(name, evaluator, &mut report),
            }
        }
        for (name, metric) in &self.metrics {
            let mut report = Report { key: format!("evaluate.metrics.{name}"), problems };
            check_name(name, &mut report);
            if catalogue::named(name).is_some() || self.evaluators.contains_key(name) {
                report.add("has the name of an evaluator; give it another one".to_owned());
            }
            check_metric(metric, &mut report);
        }
        if self.sessions != SessionEvaluateConfig::default() {
            let mut inner = Vec::new();
            self.of_sessions().check(&mut inner);
            let named = inner.iter().map(|problem| problem.replace("evaluate.", "evaluate.sessions."));
            problems.extend(named);
        }
    }

    fn check_built_in(&self, problems: &mut Vec<String>) {
        let mut seen = HashSet::new();
        for name in &self.built_in {
            if catalogue::named(name).is_none() {
                let own = self.evaluators.contains_key(name);
                let hint = match nearest(name, catalogue::all().map(|built_in| built_in.name)) {
                    _ if own => "; own evaluators run without being named here".to_owned(),
                    Some(meant) => format!("; did you mean {meant}?"),
                    None if name == "hallucination" => {
                        "; did you mean grounding, which always runs?".to_owned()
                    }
                    None => {
                        let all: Vec<&str> = catalogue::all().map(|built_in| built_in.name).collect();
                        format!("; there are {}", all.join(", "))
                    }
                };
                problems.push(format!("evaluate.use: {name:?} is no built-in evaluator{hint}"));
            }
            if !seen.insert(name) {
                problems.push(format!("evaluate.use: {name} is there twice"));
            }
        }
        if !self.grounding && self.built_in.iter().any(|name| name == "grounding") {
            problems.push("evaluate.use names grounding, and evaluate.grounding is false".to_owned());
        }
    }

    /// Settings of a built-in evaluator: only what it has.
    fn check_settings(&self, built_in: &BuiltIn, settings: &EvaluatorConfig, report: &mut Report) {
        let name = built_in.name;
        let runs = match built_in.task {
            Task::Grounding => self.grounding,
            _ => self.built_in.iter().any(|used| used == name),
        };
        if !runs {
            let how = if name == "grounding" {
                "evaluate.grounding is false"
            } else {
                "evaluate.use does not name it"
            };
            report.add(format!("has settings for the built-in evaluator {name}, but {how}"));
        }
        if settings.kind.is_some() {
            report.add(format!(
                "sets type, but {name} is built in and has its own; give your evaluator another name"
            ));
        }
        if settings.each.is_some() {
            report.add(format!("sets each, but {name} is built in and has its own"));
        }
        let is_choice = matches!(built_in.task, Task::Choice(_));
        let own_text = [
            ("instructions", settings.instructions.is_some()),
            ("criteria", settings.criteria.is_some()),
            ("state", settings.state.is_some()),
        ];
        for (key, _) in own_text.iter().filter(|(_, is_set)| *is_set && !is_choice) {
            report.add(format!("sets {key}, but {name} does not ask a question of its own wording"));
        }
        if settings.find.is_some() && !matches!(built_in.task, Task::Leaks { .. }) {
            report.add("sets find, which only secrets and pii have".to_owned());
        }
        if settings.find.as_ref().is_some_and(Vec::is_empty) {
            let all: Vec<&str> = find::Kind::ALL.iter().map(|kind| kind.as_str()).collect();
            report.add(format!("find is empty; there are {}", all.join(", ")));
        }
        let is_rule = matches!(built_in.task, Task::Loop);
        let of_models = [
            ("min_confidence", settings.min_confidence.is_some()),
            ("escalate", settings.escalate.is_some()),
            ("escalations_per_hour", settings.escalations_per_hour.is_some()),
            ("prompt", settings.prompt.is_some()),
        ];
        for (key, _) in of_models.iter().filter(|(_, is_set)| *is_set && is_rule) {
            report.add(format!("sets {key}, but {name} is a rule and asks no model"));
        }
        if matches!(built_in.task, Task::Grounding) && settings.fail.is_some() {
            report.add("sets fail; what counts as a hallucination is set in score.label".to_owned());
        }
        if let (Some(criteria), true) = (&settings.criteria, is_choice) {
            check_criteria(QuestionType::Choice, Some(criteria), report);
            let labels = labels(QuestionType::Choice, Some(criteria));
            let lost: Vec<&str> =
                built_in.fails.iter().copied().filter(|label| !labels.iter().any(|l| l == label)).collect();
            if settings.fail.is_none() && !lost.is_empty() {
                report.add(format!(
                    "criteria lack the label {} that counts as a failure; give fail, too, if only as []",
                    lost.join(", ")
                ));
            }
        }
        check_fail(settings, &built_in_labels(built_in, settings), report);
        check_common(settings.matching.as_ref(), settings.sample, report);
        check_confidence(settings, report);
    }

    fn check_own(&self, name: &str, own: &EvaluatorConfig, report: &mut Report) {
        check_name(name, report);
        let Some(kind) = own.kind else {
            let hint = nearest(name, catalogue::all().map(|built_in| built_in.name))
                .map(|meant| format!(", or did you mean the built-in {meant}?"))
                .unwrap_or_default();
            return report.add(format!("needs a type: noul, choice or score{hint}"));
        };
        if own.instructions.as_ref().is_none_or(|text| text.trim().is_empty()) {
            report.add("needs instructions: what is to be decided about the state".to_owned());
        }
        if own.find.is_some() {
            report.add("sets find, which only secrets and pii have".to_owned());
        }
        check_criteria(kind, own.criteria.as_ref(), report);
        check_fail(own, &labels(kind, own.criteria.as_ref()), report);
        let shows_calls = matches!(own.state, None | Some(super::StateOf::Tools | super::StateOf::Story));
        if own.each == Some(Each::ToolCall) && !shows_calls {
            report.add("asks about each tool_call, so its state must be tools or story".to_owned());
        }
        check_common(own.matching.as_ref(), own.sample, report);
        check_confidence(own, report);
    }
}

struct Report<'a> {
    key: String,
    problems: &'a mut Vec<String>,
}

impl Report<'_> {
    fn add(&mut self, problem: String) {
        self.problems.push(format!("{}: {problem}", self.key));
    }
}

fn check_name(name: &str, report: &mut Report) {
    let is_word =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_-.".contains(letter);
    let starts = name.starts_with(|letter: char| letter.is_ascii_lowercase());
    if !starts || !name.chars().all(is_word) || name.len() > LONGEST_NAME {
        report.add(format!(
            "a name has at most {LONGEST_NAME} of a-z, 0-9, _, - and ., and starts with a letter: it is a label in metrics and a key in verdicts"
        ));
    }
}

fn check_criteria(kind: QuestionType, criteria: Option<&Criteria>, report: &mut Report) {
    match (kind, criteria) {
        (QuestionType::Choice, Some(Criteria::Labels(labels))) => {
            if !(2..=255).contains(&labels.len()) {
                report.add(format!("criteria have {} labels; a choice has 2 to 255", labels.len()));
            }
            if labels.iter().any(|(label, _)| label.trim().is_empty()) {
                report.add("criteria have a label without a name".to_owned());
            }
            let odd = labels.iter().find(|(_, text)| text.is_number() || text.is_boolean());
            if let Some((label, text)) = odd {
                report.add(format!("criteria describe {label} by {text}; write a text"));
            }
        }
        (QuestionType::Choice, _) => {
            report.add("needs criteria: a map of 2 to 255 labels and what each means".to_owned());
        }
        (QuestionType::Score, Some(Criteria::Levels(levels))) if (2..=10).contains(&levels.len()) => {}
        (QuestionType::Score, Some(Criteria::Levels(levels))) => {
            report.add(format!("criteria have {} levels; a score has 2 to 10", levels.len()));
        }
        (QuestionType::Score, _) => {
            report.add(
                "needs criteria: a list of 2 to 10 levels, lowest first, and what each means".to_owned(),
            );
        }
        (QuestionType::Noul, None) => {}
        (QuestionType::Noul, Some(Criteria::Labels(sides))) => {
            for (side, _) in sides.iter().filter(|(side, _)| side != "true" && side != "false") {
                report.add(format!(
                    "criteria of a noul are true and false, not {side:?}; other labels need type: choice"
                ));
            }
        }
        (QuestionType::Noul, Some(Criteria::Levels(_))) => {
            report.add("criteria of a noul are a map of true and false; a list needs type: score".to_owned());
        }
    }
}

/// The labels that an answer can have.
fn labels(kind: QuestionType, criteria: Option<&Criteria>) -> Vec<String> {
    match (kind, criteria) {
        (QuestionType::Noul, _) => vec!["true".to_owned(), "false".to_owned()],
        (QuestionType::Choice, Some(Criteria::Labels(labels))) => {
            labels.iter().map(|(label, _)| label.clone()).collect()
        }
        (QuestionType::Score, Some(Criteria::Levels(levels))) => {
            (0..levels.len()).map(|level| level.to_string()).collect()
        }
        _ => Vec::new(),
    }
}

fn built_in_labels(built_in: &BuiltIn, settings: &EvaluatorConfig) -> Vec<String> {
    let known: Vec<&str> = match built_in.task {
        Task::Grounding => return Vec::new(),
        Task::Relevance => vec!["true", "false"],
        Task::Choice(options) => match &settings.criteria {
            Some(criteria) => return labels(QuestionType::Choice, Some(criteria)),
            None => options.iter().map(|(label, _)| *label).collect(),
        },
        Task::Loop => vec!["none", "loop"],
        Task::Leaks { options, .. } => options.iter().map(|(label, _)| *label).collect(),
    };
    known.into_iter().map(str::to_owned).collect()
}

fn check_fail(own: &EvaluatorConfig, labels: &[String], report: &mut Report) {
    for label in own.fail.iter().flatten().filter(|label| !labels.is_empty() && !labels.contains(label)) {
        let hint = nearest(label, labels.iter().map(String::as_str))
            .map(|meant| format!("; did you mean {meant}?"))
            .unwrap_or_else(|| format!("; there are {}", labels.join(", ")));
        report.add(format!("fail names {label:?}, which is none of its labels{hint}"));
    }
}

fn check_common(matching: Option<&MatchConfig>, sample: Option<f64>, report: &mut Report) {
    if let Some(sample) = sample.filter(|share| !(0.0..=1.0).contains(share)) {
        report.add(format!("sample ({sample}) must be from 0 to 1; a fifth of all traces is 0.2"));
    }
    for problem in Scope::problems(matching) {
        report.add(problem);
    }
}

fn check_confidence(own: &EvaluatorConfig, report: &mut Report) {
    if let Some(least) = own.min_confidence.filter(|least| !(0.0..=1.0).contains(least)) {
        report.add(format!("min_confidence ({least}) must be from 0 to 1"));
    }
    if own.escalate == Some(false) {
        let idle =
            [("escalations_per_hour", own.escalations_per_hour.is_some()), ("prompt", own.prompt.is_some())];
        for (key, _) in idle.iter().filter(|(_, is_set)| *is_set) {
            report.add(format!("sets {key}, which is for the judge, and escalate: false"));
        }
    }
}

fn check_metric(metric: &MetricConfig, report: &mut Report) {
    if metric.prompt.is_none() && metric.instructions.as_ref().is_none_or(|text| text.trim().is_empty()) {
        report.add("needs instructions or a prompt: what is to be measured".to_owned());
    }
    if metric.schema.is_null() {
        report.add("needs a schema: the JSON Schema of its value, such as { type: boolean }".to_owned());
    } else if let Err(error) = jsonschema::validator_for(&metric.schema) {
        report.add(format!("schema is no valid JSON Schema: {error}"));
    }
    check_common(metric.matching.as_ref(), metric.sample, report);
}
