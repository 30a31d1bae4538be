//! The catalogue as a part of `docs/evaluators.md`.

use std::fmt::Write;

use super::Each;
use super::catalogue::{self, BuiltIn, Group, Task};

/// All built-in evaluators, as Markdown.
pub fn reference() -> String {
    let mut page = String::new();
    for group in Group::ALL {
        // Writing to a string cannot fail.
        write!(page, "\n### {}\n", group.title()).ok();
        for built_in in catalogue::all().filter(|built_in| built_in.group == group) {
            entry(&mut page, built_in);
        }
    }
    page
}

fn entry(page: &mut String, built_in: &BuiltIn) {
    let asked = match (built_in.task, built_in.each) {
        (Task::Grounding, _) => "once for each claim",
        (Task::Loop, _) => "by rule, no model",
        (Task::Leaks { .. }, _) => "by finders, then once if they found something",
        (_, Each::Story) => "once",
        (_, Each::ToolCall) => "once for each tool call of the last turn",
    };
    let state = built_in.state.as_str();
    write!(page, "\n#### `{}`\n\n{}\n\n", built_in.name, built_in.about).ok();
    write!(page, "- Reads (`{state}`): {}\n- Asks: {asked}.", built_in.reading).ok();
    if !built_in.instructions.is_empty() {
        write!(page, " “{}”", built_in.instructions).ok();
    }
    page.push('\n');
    if let Some(rule) = built_in.rule {
        writeln!(page, "- Certain without a model: {}.", rule.about()).ok();
    }
    let needs: Vec<String> = built_in.needs.iter().map(|need| format!("`{}`", need.reason())).collect();
    if !needs.is_empty() {
        writeln!(page, "- Skips with {} where the story lacks it.", needs.join(", ")).ok();
    }
    for (label, text) in labels(built_in.task) {
        let fails = if built_in.fails.contains(&label) { " (failure)" } else { "" };
        writeln!(page, "- `{label}`{fails}: {text}").ok();
    }
}

fn labels(task: Task) -> Vec<(&'static str, &'static str)> {
    match task {
        Task::Grounding => Vec::new(),
        Task::Relevance => {
            vec![("true", "the evidence holds what answers the request"), ("false", "it does not")]
        }
        Task::Choice(options) => options.to_vec(),
        Task::Loop => vec![
            ("none", "no round of calls was made three times in a row"),
            ("loop", "a round of calls was made three times in a row, with the same arguments and results"),
        ],
        Task::Leaks { options, .. } => options.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: &str =
        "<!-- the catalogue: written by ASSAYD_WRITE_DOCS=1 cargo test --lib evaluators:: -->\n";
    const TO: &str = "\n<!-- the end of the catalogue -->";

    #[test]
    fn the_page_of_evaluators_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/evaluators.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (before, rest) = page.split_once(FROM).expect("the page has the mark where the catalogue begins");
        let (written, after) = rest.split_once(TO).expect("the page has the mark where the catalogue ends");
        if std::env::var_os("ASSAYD_WRITE_DOCS").is_some() {
            std::fs::write(path, format!("{before}{FROM}{}{TO}{after}", reference())).unwrap();
            return;
        }
        assert!(
            written == reference(),
            "docs/evaluators.md is not what ASSAYD_WRITE_DOCS=1 cargo test --lib evaluators:: writes"
        );
    }
}
