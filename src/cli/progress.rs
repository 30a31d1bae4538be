//! Progress on standard error: a bar on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Between two lines where there is no terminal.
const PAUSE: Duration = Duration::from_secs(10);

/// How far a piece of long work has come.
pub enum Progress {
    /// On a terminal.
    Bar(ProgressBar),
    /// Elsewhere.
    Lines {
        /// How many there are, if that is known.
        total: Option<usize>,
        /// What they are.
        noun: &'static str,
        /// How many are done.
        done: usize,
        /// When the last line was written.
        last: Instant,
    },
}

impl Progress {
    /// Of so many of what the noun names.
    pub fn over(total: usize, noun: &'static str) -> Self {
        let bar = || ProgressBar::new(total as u64);
        Self::start(Some(total), noun, bar, &format!("{{wide_bar}} {{pos}}/{{len}} {noun}, {{eta}} left"))
    }

    /// Of what the noun names; how many there are shows at the end.
    pub fn of_unknown(noun: &'static str) -> Self {
        Self::start(None, noun, ProgressBar::new_spinner, &format!("{{spinner}} {{pos}} {noun}"))
    }

    fn start(
        total: Option<usize>,
        noun: &'static str,
        bar: impl Fn() -> ProgressBar,
        template: &str,
    ) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::Lines { total, noun, done: 0, last: Instant::now() };
        }
        let bar = bar();
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self::Bar(bar)
    }

    /// One more is done.
    pub fn step(&mut self) {
        match self {
            Self::Bar(bar) => bar.inc(1),
            Self::Lines { total, noun, done, last } => {
                *done += 1;
                if last.elapsed() >= PAUSE {
                    *last = Instant::now();
                    let of = total.map(|total| format!(" of {total}")).unwrap_or_default();
                    super::complain(&format!("{done}{of} {noun}"));
                }
            }
        }
    }

    /// Runs `write` while the bar is out of the way.
    pub fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        match self {
            Self::Bar(bar) => bar.suspend(write),
            Self::Lines { .. } => write(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
