//! Logs, as text or JSON, on standard error. Results go to standard output, so the two never mix.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::SystemTime;
use tracing_subscriber::util::SubscriberInitExt;

/// The environment variable that goes before `log.level`.
pub const VARIABLE: &str = "ASSAYD_LOG";

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Lines for people; in colour on a terminal.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// `error`, `warn`, `info`, `debug`, `trace` or `off`; also per room, as in `info,assayd::emit=debug`. The environment
    /// variable `ASSAYD_LOG` goes before it.
    pub level: String,
    /// `text`, or `json` for one object per line.
    pub format: Format,
}

impl Default for Config {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: Format::Text }
    }
}

impl Config {
    /// Adds what is wrong with this section.
    pub fn check(&self, problems: &mut Vec<String>) {
        if let Err(error) = filter("log.level", &self.level) {
            problems.push(error.to_string());
        }
    }
}

/// Why logging could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter cannot be read.
    #[error("{place} ({text:?}) is not a log filter such as info or info,assayd::emit=debug: {source}")]
    Filter {
        /// `log.level` or the environment variable.
        place: &'static str,
        /// What was given.
        text: String,
        /// What is wrong with it.
        source: tracing_subscriber::filter::ParseError,
    },
    /// This process already logs elsewhere.
    #[error("this process already has a logger")]
    AlreadyInstalled,
}

/// Starts logging for this process. `variable` is the value of [`VARIABLE`], if it is set.
pub fn init(config: &Config, variable: Option<&str>) -> Result<(), LogError> {
    let chosen = match variable.map(str::trim).filter(|text| !text.is_empty()) {
        Some(text) => filter(VARIABLE, text)?,
        None => filter("log.level", &config.level)?,
    };
    let colours = config.format == Format::Text && io::stderr().is_terminal();
    let base = tracing_subscriber::fmt()
        .with_env_filter(chosen)
        .with_timer(SystemTime)
        .with_writer(move || OneLine { to: io::stderr(), colours })
        .with_ansi(colours);
    let installed = match config.format {
        Format::Text => base.finish().try_init(),
        Format::Json => base.json().flatten_event(true).with_current_span(false).finish().try_init(),
    };
    installed.map_err(|_| LogError::AlreadyInstalled)
}

/// Each event in one line, whatever is in it: an error may cite what a stranger sent, and must neither look like further lines nor
/// steer the terminal. The subscriber writes an event at once; of what fields show it makes only a part harmless itself.
struct OneLine<W> {
    to: W,
    /// Whether the subscriber's own colours pass.
    colours: bool,
}

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        self.to.write_all(one_line(&text, self.colours).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn one_line(event: &str, colours: bool) -> Cow<'_, str> {
    let inner = event.strip_suffix('\n').unwrap_or(event);
    let steers = |c: char| c.is_control() && c != '\t';
    if !inner.contains(steers) {
        return Cow::Borrowed(event);
    }
    let mut line = String::with_capacity(event.len() + 16);
    for (at, c) in inner.char_indices() {
        if steers(c) && !(colours && is_colour(&inner[at..])) {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line.push_str(&event[inner.len()..]);
    Cow::Owned(line)
}

/// Whether the text begins with a sequence that only colours what follows.
fn is_colour(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("\u{1b}[") else { return false };
    rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m')
}

fn filter(place: &'static str, text: &str) -> Result<EnvFilter, LogError> {
    EnvFilter::builder().parse(text).map_err(|source| LogError::Filter {
        place,
        text: text.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(level: &str) -> Vec<String> {
        let mut problems = Vec::new();
        Config { level: level.to_owned(), ..Config::default() }.check(&mut problems);
        problems
    }

    #[test]
    fn a_wrong_level_is_told_with_its_place_and_an_example() {
        let problems = problems("assayd=loud");
        assert_eq!(problems.len(), 1);
        assert!(
            problems[0].starts_with("log.level (\"assayd=loud\") is not a log filter"),
            "{}",
            problems[0]
        );
    }

    #[test]
    fn an_event_is_one_line_and_steers_no_terminal_whatever_it_cites() {
        use std::sync::{Arc, Mutex};

        #[derive(Clone, Default)]
        struct Kept(Arc<Mutex<Vec<u8>>>);
        impl Write for Kept {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().extend(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let kept = Kept::default();
        let writer = kept.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || OneLine { to: writer.clone(), colours: false })
            .finish();
        let forged = "no\n2026-11-30T08:00:00Z ERROR assayd: all keys are lost\r\u{1b}[2J";
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(error = %forged, text = forged, "the judge did not answer");
            tracing::warn!("{forged}");
        });
        let lines = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert_eq!(lines.lines().count(), 2, "{lines:?}");
        assert!(!lines.contains('\u{1b}') && !lines.contains('\r'), "{lines:?}");
        assert_eq!(
            one_line("\u{1b}[2mtime\u{1b}[0m a\tb \u{1b}[2J\u{9b}1m\n", true),
            "\u{1b}[2mtime\u{1b}[0m a\tb \\u{1b}[2J\\u{9b}1m\n"
        );
        assert!(matches!(one_line("a plain line\n", false), Cow::Borrowed(_)));
    }

    #[test]
    fn levels_per_room_are_accepted() {
        assert_eq!(problems("info,assayd::emit=debug"), Vec::<String>::new());
        assert_eq!(problems("off"), Vec::<String>::new());
    }

    #[test]
    fn the_environment_goes_before_the_configuration() {
        let config = Config { level: "info".to_owned(), format: Format::Json };
        let error = init(&config, Some("assayd=loud")).unwrap_err();
        assert!(error.to_string().starts_with("ASSAYD_LOG"), "{error}");
    }
}
