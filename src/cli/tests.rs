//! What help and documents show must be what the program takes.

use std::path::{Path, PathBuf};

use clap::{CommandFactory, Parser};

use super::command::Cli;

/// Wider lines are broken by clap where there is no terminal, and an example that is broken cannot be copied.
const WIDEST: usize = 100;

/// Every command's words and the text after its help.
fn helps() -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect(&Cli::command(), "assayd", &mut found);
    found
}

fn collect(command: &clap::Command, name: &str, found: &mut Vec<(String, String)>) {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    found.push((name.to_owned(), text));
    for inner in command.get_subcommands() {
        collect(inner, &format!("{name} {}", inner.get_name()), found);
    }
}

/// The words of each `assayd …` command in a text; a backslash joins lines, and a blank of two or more ends a command, for
/// help explains what stands before it.
fn commands(text: &str) -> Vec<Vec<String>> {
    let pieces = text.split("\\\n").map(str::trim_end);
    let joined = pieces.map(str::trim_start).collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    for line in joined.lines() {
        let line = line.trim().trim_start_matches("$ ");
        // It begins the line, or follows a pipe or variables that are set for it.
        let is_command = |at: &usize| {
            let before = line[..*at].trim_end();
            before.ends_with(['|', ';', '&']) || before.split_whitespace().all(|word| word.contains('='))
        };
        let Some(begin) = line.match_indices("assayd ").map(|(at, _)| at).find(is_command) else { continue };
        // An ellipsis stands for something, and so does a bar between names; a version begins what the program says itself.
        let command = &line[begin..];
        let is_spoken = command["assayd ".len()..].starts_with(|c: char| c.is_ascii_digit());
        if !is_spoken && !command.contains("…") && !command.contains("gateway|worker") {
            found.push(words(command));
        }
    }
    found
}

/// As a shell splits it, up to a comment, a pipe, a redirection or what follows.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut word, mut quote, mut is_open) = (String::new(), None, false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (letter, Some(end)) if letter == end => quote = None,
            (_, Some(_)) => word.push(letter),
            ('\'' | '"', None) => (quote, is_open) = (Some(letter), true),
            (' ', None) => {
                if is_open || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                    is_open = false;
                }
                if letters.peek() == Some(&' ') {
                    return words;
                }
                if matches!(letters.peek(), Some('#' | '|' | '>' | '<' | '&' | ';' | '(')) {
                    return words;
                }
            }
            (letter, None) => word.push(letter),
        }
    }
    if is_open || !word.is_empty() {
        words.push(word);
    }
    words
}

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec![root.join("README.md")];
    for folder in ["docs", "docs/runbooks"] {
        let entries = std::fs::read_dir(root.join(folder)).unwrap();
        files.extend(entries.map(|entry| entry.unwrap().path()));
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    files
}

fn refused(commands: &[Vec<String>]) -> Vec<String> {
    commands
        .iter()
        .filter_map(|words| match Cli::try_parse_from(words) {
            Err(error) if error.use_stderr() => Some(format!("{words:?}: {error}")),
            _ => None,
        })
        .collect()
}

#[test]
fn what_stands_after_a_help_is_not_broken_into_other_lines() {
    let wide: Vec<String> = helps()
        .into_iter()
        .flat_map(|(name, text)| text.lines().map(|line| format!("{name}: {line}")).collect::<Vec<_>>())
        .filter(|line| line.split_once(": ").is_some_and(|(_, line)| line.chars().count() > WIDEST))
        .collect();
    assert!(wide.is_empty(), "wider than {WIDEST}:\n{}", wide.join("\n"));
}

#[test]
fn every_example_of_a_help_is_taken() {
    let mut all = 0;
    for (name, text) in helps() {
        let commands = commands(&text);
        all += commands.len();
        assert!(refused(&commands).is_empty(), "{name}: {}", refused(&commands).join("\n"));
    }
    assert!(all >= 25, "only {all} examples were found");
}

#[test]
fn every_command_in_a_document_is_taken() {
    let mut all = 0;
    for path in documents() {
        let text = std::fs::read_to_string(&path).unwrap();
        // Code stands between fences.
        let code: Vec<&str> = text.split("```").skip(1).step_by(2).collect();
        let commands = commands(&code.join("\n"));
        all += commands.len();
        assert!(refused(&commands).is_empty(), "{}: {}", path.display(), refused(&commands).join("\n"));
    }
    assert!(all >= 25, "only {all} commands were found");
}

#[test]
fn words_are_split_as_a_shell_does() {
    let taken = words("assayd ask --state 'My payouts  fail!' --noul \"Is it?\" '' | head # x");
    assert_eq!(taken, ["assayd", "ask", "--state", "My payouts  fail!", "--noul", "Is it?", ""]);
    assert_eq!(words("assayd demo          about ten seconds"), ["assayd", "demo"]);
    assert_eq!(words("assayd config schema > x.json"), ["assayd", "config", "schema"]);
    assert_eq!(commands("A=b assayd demo\nrun | assayd check --context x\nsee assayd demo").len(), 2);
}
