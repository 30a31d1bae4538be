//! What commands say: results to standard output, all else to standard error.

use std::io::Write;

use crate::evaluate::LineError;

/// Notes that are shown.
const SHOWN_NOTES: usize = 5;
/// Mistakes of a file that are shown.
const SHOWN_MISTAKES: usize = 50;

/// How the result of a command that measures is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Output {
    /// For people
    Table,
    /// One JSON object
    Json,
}

/// Writes a result.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// An error and its causes, each once: many a text holds its cause's already.
pub(super) fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&cause);
        }
    }
    text
}

/// Names the files and parts of files that were passed over, or says how many there are where they are many.
pub(super) fn say_notes(notes: &[String]) {
    for note in notes.iter().take(SHOWN_NOTES) {
        complain(note);
    }
    for note in notes.iter().skip(SHOWN_NOTES) {
        tracing::info!("{note}");
    }
    if notes.len() > SHOWN_NOTES {
        complain(&format!("and {} more (ASSAYD_LOG=info names them)", notes.len() - SHOWN_NOTES));
    }
}

/// A number of things, for a person: `1 trace`, `2 traces`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Says what is wrong, to a person.
pub(super) fn complain(text: &str) {
    // Nobody is left to tell if standard error is closed.
    let _ = writeln!(std::io::stderr().lock(), "assayd: {text}");
}

/// Tells the mistakes of a file with labels; an error if they are not to be skipped.
pub(super) fn tell_mistakes(path: &std::path::Path, errors: &[LineError], skip: bool) -> anyhow::Result<()> {
    let path = path.display();
    for error in errors.iter().take(SHOWN_MISTAKES) {
        complain(&format!("{path}: {error}"));
    }
    if errors.len() > SHOWN_MISTAKES {
        complain(&format!("{path}: and {} more", errors.len() - SHOWN_MISTAKES));
    }
    anyhow::ensure!(
        errors.is_empty() || skip,
        "{path}: {} mistakes; mend them, or leave the lines out with --skip-bad",
        errors.len()
    );
    Ok(())
}
