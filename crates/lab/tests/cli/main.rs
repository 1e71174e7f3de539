//! The `fairlink-lab` program as its users see it: output, JSON as documented, exit codes. One module per command.
#![forbid(unsafe_code)]

mod basics;
mod bench;
mod between;
mod campaign;
mod clock;
mod pdf;
mod reproduce;
mod traffic;
mod width;

pub(crate) use fairlink_terminal::testing::{Run, Scratch, Tested, scenario};

/// The program.
static PROGRAM: Tested = Tested::new(env!("CARGO_BIN_EXE_fairlink-lab"));

/// Runs it to its end.
pub(crate) fn lab(args: &[&str]) -> Run {
    PROGRAM.with(args)
}
