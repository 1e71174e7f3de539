#![doc = include_str!("../README.md")]
//!
//! # Modules
//! * [`program`]: the start and the end of a program, and commands that another program has.
//! * [`args`]: values on the command line; [`files`]: link and scenario files that are named there.
//! * [`out`]: standard output as text or JSON; [`progress`]: a bar for long runs.
//! * [`failure`]: errors and exit codes; [`style`]: how errors and warnings look.
//! * [`examples`]: examples in help and manual pages; [`completions`] and [`man`]: two commands that both programs have.
//! * [`schema`]: JSON schemas of documents.
//! * [`interrupt`] is Ctrl-C.
#![forbid(unsafe_code)]

pub mod args;
pub mod completions;
pub mod examples;
pub mod failure;
pub mod files;
pub mod interrupt;
pub mod man;
pub mod out;
pub mod program;
pub mod progress;
pub mod schema;
pub mod style;
#[cfg(feature = "testing")]
pub mod testing;

pub use fairlink_config::human;
