//! The `fairlink` command: a thin front end of the libraries.
//!
//! The command line is a type in `cli.rs`; each command has a file in `commands/`; what it has in common with
//! `fairlink-lab` is in `fairlink-terminal`.
//!
//! Data goes to standard output, messages to standard error. Exit code 0: done; 1: the check or the run failed; 2: the
//! command line or a file is wrong.
#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
mod capacity;
mod cli;
mod commands;
mod cores;
mod examples;
#[cfg(target_os = "linux")]
mod gateway_stats;
mod link;
#[cfg(target_os = "linux")]
mod log;
mod rows;

use std::process::ExitCode;

use clap::CommandFactory;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::Out;
use fairlink_terminal::program::{LAB_COMMANDS, Other, Program};
use fairlink_terminal::{completions, man};

use crate::cli::{Cli, Command};
use crate::commands::{check, demo, diff, expand, explain, fluid, import, init, schedulers, schema, sim, tc};
#[cfg(target_os = "linux")]
use crate::commands::{ctl, gateway, generate, qdisc, receive};

/// Commands that ask for them have huge pages behind large memory.
#[cfg(target_os = "linux")]
#[global_allocator]
static MEMORY: fairlink_net::HugePages = fairlink_net::HugePages;

/// The program with the laboratory's commands.
const LABORATORY: &str = "fairlink-lab";

const PROGRAM: Program = Program {
    examples: examples::EXAMPLES,
    values: init::with_values,
    other: Other {
        program: LABORATORY,
        commands: LAB_COMMANDS,
        moved: &["reproduce", "bench", "traffic", "clock", "between"],
    },
};

fn main() -> ExitCode {
    // To read the command line takes milliseconds, in which a SIGHUP would end the process.
    #[cfg(target_os = "linux")]
    if std::env::args_os().skip(1).any(|arg| arg == "gateway")
        && let Err(failure) = fairlink_terminal::interrupt::Hangup::hold()
    {
        return failure.report();
    }
    PROGRAM.run(|cli: &Cli| cli.json, run)
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
        #[cfg(target_os = "linux")]
        Command::Capacity(args) => capacity::run(&args, out),
        Command::Schedulers(args) => schedulers::run(&args, out),
        Command::Completions(args) => completions::run(&args, "fairlink", out),
        Command::Man(args) => man::run(&args, Cli::command(), &PROGRAM, out),
    }
}
