//! The `fairlink` command. Thin: what it can do, the libraries can do. One module per command.
//!
//! Data goes to standard output, messages to standard error. Exit code 0: done; 1: the check, the claim or the run failed;
//! 2: the command line or a file is wrong.

mod cli;
mod failure;
mod human;
mod interrupt;
mod link;
mod out;
mod promises;

mod bench;
mod check;
mod completions;
mod explain;
mod fluid;
mod man;
mod schedulers;
mod sim;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::failure::Failure;
use crate::out::Out;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = Out::new(cli.json);
    let done = run(cli, &mut out).and_then(|()| out.finish());
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(cli: Cli, out: &mut Out) -> Result<(), Failure> {
    match cli.command {
        Command::Check(args) => check::run(&args, out),
        Command::Fluid(args) => fluid::run(&args, out),
        Command::Explain(args) => explain::run(&args, out),
        Command::Sim(args) => sim::run(&args, out),
        Command::Schedulers => schedulers::run(out),
        Command::Bench(args) => bench::run(args, out),
        Command::Completions(args) => completions::run(&args, out),
        Command::Man(args) => man::run(&args, out),
    }
}
