//! The command line: what was asked for, and the exit code it ends with. Results go to standard output, all else to
//! standard error.

mod ask;
mod calibrate;
mod check;
mod command;
mod compare;
mod config;
mod convert;
mod demo;
mod hook;
mod model;
mod progress;
mod replay;
mod say;
mod serve;
mod setup;
mod table;
#[cfg(test)]
mod tests;

pub use command::main;

use command::{BAD_CONFIG, Usage};
use say::{Output, complain, counted, print, say_notes, tell_mistakes, told};
use setup::{Voice, count, log, runtime};
