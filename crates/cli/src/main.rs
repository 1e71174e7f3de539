//! The `fairlink` command: a thin front end of the libraries.
//!
//! The command line is a type in `cli.rs`; each command has a file in `commands/`; what they print goes through
//! `out.rs`.
//!
//! Data goes to standard output, messages to standard error. Exit code 0: done; 1: the check, the claim or the run
//! failed; 2: the command line or a file is wrong.
#![forbid(unsafe_code)]

mod args;
#[cfg(target_os = "linux")]
mod capacity;
mod cli;
mod commands;
mod cores;
mod examples;
mod failure;
#[cfg(target_os = "linux")]
mod gateway_stats;
mod interrupt;
mod link;
#[cfg(target_os = "linux")]
mod log;
mod out;
mod rows;
mod style;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use fairlink_lab::human;

use crate::cli::{Cli, Command};
use crate::commands::{
    bench, between, check, clock, completions, demo, diff, expand, explain, fluid, import, init, man, reproduce,
    schedulers, schema, sim, tc, traffic,
};
#[cfg(target_os = "linux")]
use crate::commands::{ctl, gateway, generate, qdisc, receive};
use crate::failure::CliError;
use crate::out::Out;

/// Commands that ask for them have huge pages behind large memory.
#[cfg(target_os = "linux")]
#[global_allocator]
static MEMORY: fairlink_net::HugePages = fairlink_net::HugePages;

fn main() -> ExitCode {
    // To read the command line takes milliseconds, in which a SIGHUP would end the process.
    #[cfg(target_os = "linux")]
    if std::env::args_os().skip(1).any(|arg| arg == "gateway")
        && let Err(failure) = interrupt::Hangup::hold()
    {
        return failure.report();
    }
    completions::answer(Cli::command);
    style::set();
    // Neither returns where the command line is wrong.
    let matches = examples::in_help(Cli::command()).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let mut out = Out::new(cli.json);
    let done = run(cli, &mut out).and_then(|()| out.flush());
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(cli: Cli, out: &mut Out) -> Result<(), CliError> {
    match cli.command.unwrap_or_else(|| Command::Demo(demo::Args::default())) {
        Command::Demo(args) => demo::run(&args, out),
        Command::Check(args) => check::run(&args, out),
        Command::Init(args) => init::run(&args, out),
        Command::Expand(args) => expand::run(&args, out),
        Command::Fluid(args) => fluid::run(&args, out),
        Command::Diff(args) => diff::run(&args, out),
        Command::Schema(args) => schema::run(&args, out),
        Command::Explain(args) => explain::run(&args, out),
        Command::Sim(args) => sim::run(&args, out),
        Command::Reproduce(args) => reproduce::run(&args, out),
        Command::Clock(args) => clock::run(&args, out),
        Command::Between(args) => between::run(&args, out),
        Command::Traffic(args) => traffic::run(&args, out),
        Command::Import(args) => import::run(&args, out),
        #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
        Command::RunConfined(args) => import::script::confined(&args),
        Command::Tc(args) => tc::run(&args, out),
        #[cfg(target_os = "linux")]
        Command::Ctl(args) => ctl::run(&args, out),
        #[cfg(target_os = "linux")]
        Command::Gateway(args) => gateway::run(&args, out),
        #[cfg(target_os = "linux")]
        Command::Qdisc(args) => qdisc::run(&args, out),
        #[cfg(target_os = "linux")]
        Command::Generate(args) => generate::run(&args, out),
        #[cfg(target_os = "linux")]
        Command::Receive(args) => receive::run(&args, out),
        Command::Schedulers(args) => schedulers::run(&args, out),
        Command::Bench(args) => bench::run(args, out),
        Command::Completions(args) => completions::run(&args, out),
        Command::Man(args) => man::run(&args, Cli::command(), out),
    }
}
