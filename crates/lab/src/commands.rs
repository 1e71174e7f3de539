//! The commands, one file each: command-line arguments (`Args`), and `run`, which calls the libraries and prints the
//! results.

mod bench;
mod between;
mod busy;
mod campaign;
mod clock;
mod examples;
mod pdf;
mod reproduce;
mod schema;
mod traffic;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::Out;
use fairlink_terminal::program::{LINK_COMMANDS, Other, Program};
use fairlink_terminal::{completions, man};

/// The laboratory beside fairlink: claims of the papers, benchmarks, campaigns, clocks, recordings.
///
/// Data goes to standard output, messages to standard error. Exit code 0: done; 1: the claim or the run failed; 2: the
/// command line or a file is wrong. Links are shared, checked and simulated by the program fairlink.
#[derive(Debug, Parser)]
#[command(
    name = "fairlink-lab",
    version,
    max_term_width = 100,
    propagate_version = true,
    arg_required_else_help = true
)]
struct Cli {
    /// The command.
    #[command(subcommand)]
    command: Command,

    /// Print JSON (base units: bit/s, seconds, bytes) instead of text.
    #[arg(long, global = true)]
    json: bool,
}

/// The commands of `fairlink-lab`; one file each in `commands/`.
#[derive(Debug, Subcommand)]
enum Command {
    /// Check the claims of the five papers, one row each: the paper's value, the measured value, and the verdict.
    Reproduce(reproduce::Args),
    /// Measure the cost of a packet under each scheduler on this machine.
    Bench(bench::Args),
    /// Simulate a scenario many times, as files that several processes and machines write together.
    Campaign(campaign::Args),
    /// Measure the traffic of a scenario's sources, without a link: rate, dispersion, correlation, burstiness.
    Traffic(traffic::Args),
    /// Find offset, skew, drift and jumps between two clocks from the one-way delays of packets.
    Clock(clock::Args),
    /// Compute delays, losses and reordering of a device from two recordings, made before and after it.
    Between(between::Args),
    /// Convert figures of fairlink from SVG to PDF, with their letters, for a paper.
    Pdf(pdf::Args),
    /// Print the JSON schema of the documents of --json.
    Schema(schema::Args),
    /// Print a completion script for a shell.
    Completions(completions::Args),
    /// Print the manual page, or write one per command to a directory.
    Man(man::Args),
}

const PROGRAM: Program = Program {
    examples: examples::EXAMPLES,
    values: |_, arg| arg,
    other: Other { program: "fairlink", commands: LINK_COMMANDS, moved: &[] },
};

/// Runs the command of the command line.
pub(crate) fn main() -> ExitCode {
    PROGRAM.run(|cli: &Cli| cli.json, run)
}

fn run(cli: Cli, out: &mut Out) -> Result<(), CliError> {
    match cli.command {
        Command::Reproduce(args) => reproduce::run(&args, out),
        Command::Bench(args) => bench::run(args, out),
        Command::Campaign(args) => campaign::run(&args, out),
        Command::Traffic(args) => traffic::run(&args, out),
        Command::Clock(args) => clock::run(&args, out),
        Command::Between(args) => between::run(&args, out),
        Command::Pdf(args) => pdf::run(&args, out),
        Command::Schema(args) => schema::run(&args, out),
        Command::Completions(args) => completions::run(&args, "fairlink-lab", out),
        Command::Man(args) => man::run(&args, Cli::command(), &PROGRAM, out),
    }
}

#[cfg(test)]
mod tests {
    use fairlink_terminal::program::LAB_COMMANDS;
    use fairlink_terminal::testing::{check_commands, check_documented_lines, check_examples};

    use super::Cli;

    #[test]
    fn every_command_in_the_documents_is_one_that_is_understood() {
        check_documented_lines::<Cli>("fairlink-lab", 10);
    }

    #[test]
    fn the_other_program_knows_the_commands_of_this_one() {
        check_commands::<Cli>(LAB_COMMANDS);
    }

    #[test]
    fn every_help_has_examples_that_the_command_understands_and_files_that_are_there() {
        check_examples::<Cli>("fairlink-lab", &super::PROGRAM, 9);
    }
}
