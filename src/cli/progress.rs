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
        /// How many there are.
        total: usize,
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
        if !std::io::stderr().is_terminal() {
            return Self::Lines { total, noun, done: 0, last: Instant::now() };
        }
        let bar = ProgressBar::new(total as u64);
        if let Ok(style) =
            ProgressStyle::with_template(&format!("{{wide_bar}} {{pos}}/{{len}} {noun}, {{eta}} left"))
        {
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
                    super::complain(&format!("{done} of {total} {noun}"));
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
