//! The command line, as a type.

use clap::{Parser, Subcommand};
use fairlink_terminal::{completions, man};

use crate::commands::{check, demo, diff, expand, explain, fluid, import, init, schedulers, schema, sim, tc};
#[cfg(target_os = "linux")]
use crate::commands::{ctl, gateway, generate, qdisc, receive};

/// Shares a network link among a tree of traffic classes so that the outcome can be predicted.
///
/// Without a command, runs the demo. Data goes to standard output, messages to standard error. Exit code 0: done; 1:
/// the check or the run failed; 2: the command line or a file is wrong.
///
/// The laboratory is a program of its own, fairlink-lab: claims of the papers, benchmarks, campaigns, clocks,
/// recordings, traffic statistics, PDF.
#[derive(Debug, Parser)]
#[command(name = "fairlink", version, max_term_width = 100, propagate_version = true)]
pub(crate) struct Cli {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Print JSON (base units: bit/s, seconds, bytes) instead of text.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// The commands of `fairlink`; one file each in `commands/`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show link sharing with real packets in a private network namespace: measured rates beside ideal ones.
    Demo(demo::Args),
    /// Check a link file and print shares, effective weights and bounds.
    Check(check::Args),
    /// Compute the ideal rate of every class: the exact hierarchical max-min fair allocation, with ceilings.
    Fluid(fluid::Args),
    /// Explain the rate of a class.
    Explain(explain::Args),
    /// Compare two link files: differences of keys, shares, delay bounds and maximum rates.
    Diff(diff::Args),
    /// Simulate a scenario under one scheduler, or several side by side.
    Sim(sim::Args),
    /// Write a first link file for an interface, a rate and a kind of use.
    Init(init::Args),
    /// Print a link file with its templates and tables expanded, class by class.
    Expand(expand::Args),
    /// Convert the configuration of another tool into a link file.
    #[command(about = import::about())]
    Import(import::Args),
    /// Run a script in the sandbox of `import tc --run`.
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    #[command(hide = true)]
    RunConfined(import::script::Confined),
    /// Convert tc commands into a link file, or a link file into tc commands.
    Tc(tc::Args),
    /// Forward frames between two interfaces and shape one direction by the link file.
    #[cfg(target_os = "linux")]
    Gateway(Box<gateway::Args>),
    /// Query or change a running gateway.
    #[cfg(target_os = "linux")]
    Ctl(ctl::Args),
    /// Shape an interface in the kernel, by the module sch_fairlink.
    #[cfg(target_os = "linux")]
    Qdisc(qdisc::Args),
    /// Send a scenario as real traffic.
    #[cfg(target_os = "linux")]
    Generate(generate::Args),
    /// Measure the traffic of `generate`: rate, delay, loss and order per class.
    #[cfg(target_os = "linux")]
    Receive(receive::Args),
    /// List the schedulers with their features and bounds, or those with the required features.
    Schedulers(schedulers::Args),
    /// Print a JSON schema: of link files or scenarios, for editors, or of the documents of --json.
    Schema(schema::Args),
    /// Measure what a gateway moves on one processor of this machine.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Capacity(crate::capacity::Args),
    /// Print a completion script for a shell.
    Completions(completions::Args),
    /// Print the manual page, or write one per command to a directory.
    Man(man::Args),
}

#[cfg(test)]
mod tests {
    use fairlink_terminal::program::LINK_COMMANDS;
    use fairlink_terminal::testing::{check_commands, check_documented_lines, check_examples};

    use super::Cli;

    #[test]
    fn every_command_in_the_documents_is_one_that_is_understood() {
        check_documented_lines::<Cli>("fairlink", 55);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_other_program_knows_the_commands_of_this_one() {
        check_commands::<Cli>(LINK_COMMANDS);
    }

    #[test]
    fn every_help_has_examples_that_the_command_understands_and_files_that_are_there() {
        check_examples::<Cli>("fairlink", &crate::PROGRAM, 34);
    }
}
