//! The command line, as a type.

use clap::{Parser, Subcommand};

use crate::commands::{
    bench, between, check, clock, completions, demo, expand, explain, fluid, import, init, man, reproduce, schedulers,
    schema, sim, tc, traffic,
};
#[cfg(target_os = "linux")]
use crate::commands::{ctl, gateway, generate, qdisc, receive};

/// Shares a network link among a tree of traffic classes so that the outcome can be predicted.
///
/// Without a command, runs the demo. Data goes to standard output, messages to standard error. Exit code 0: done; 1: the
/// check, the claim or the run failed; 2: the command line or a file is wrong.
#[derive(Debug, Parser)]
#[command(name = "fairlink", version, max_term_width = 100, propagate_version = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Print JSON (base units: bit/s, seconds, bytes) instead of text.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// What `fairlink` can be asked to do; one file each in `commands/`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Share a link among real packets in a private network namespace, and see measured rates beside ideal ones.
    Demo(demo::Args),
    /// Check a link file, and print what its scheduler promises: shares, weights as run, bounds.
    Check(check::Args),
    /// Compute what every class should get: the hierarchical max-min fair allocation, exact, ceilings respected.
    Fluid(fluid::Args),
    /// Say why a class gets what it gets.
    Explain(explain::Args),
    /// Simulate a scenario under one scheduler, or several side by side.
    Sim(sim::Args),
    /// Try the claims of the five papers, a row each: the paper's value, ours, and whether they agree.
    Reproduce(reproduce::Args),
    /// Measure what the sources of a scenario send, without a link: rate, dispersion, correlation, burstiness.
    Traffic(traffic::Args),
    /// Find offset, skew, drift and jumps between two clocks from the one-way delays of packets.
    Clock(clock::Args),
    /// Find the delays, losses and disorder of a device from two recordings, one made before and one behind it.
    Between(between::Args),
    /// Write a link file to begin with, for an interface, a rate and a kind of use.
    Init(init::Args),
    /// Print a link file with its templates and tables of classes written out, class by class.
    Expand(expand::Args),
    /// Turn what other tools run today into a link file: LibreQoS, tc, RouterOS, Kubernetes, libvirt.
    Import(import::Args),
    /// Run a script in the sandbox of `import tc --run`.
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    #[command(hide = true)]
    RunConfined(import::script::Confined),
    /// Turn tc commands into a link file, or a link file into tc commands.
    Tc(tc::Args),
    /// Share a real link: forward frames between two interfaces, one direction shaped by the link file.
    #[cfg(target_os = "linux")]
    Gateway(gateway::Args),
    /// Talk to a running gateway.
    #[cfg(target_os = "linux")]
    Ctl(ctl::Args),
    /// Share what an interface sends in the kernel, by the module sch_fairlink.
    #[cfg(target_os = "linux")]
    Qdisc(qdisc::Args),
    /// Send a scenario as real traffic.
    #[cfg(target_os = "linux")]
    Generate(generate::Args),
    /// Measure what `generate` sends: rate, delay, loss and order per class.
    #[cfg(target_os = "linux")]
    Receive(receive::Args),
    /// List the schedulers and what each supports and promises, or those that one needs.
    Schedulers(schedulers::Args),
    /// Print the JSON schema of what commands print with --json.
    Schema(schema::Args),
    /// Measure what a packet costs under each scheduler on this machine.
    Bench(bench::Args),
    /// Print a completion script for a shell.
    Completions(completions::Args),
    /// Print the manual page, or write one per command to a directory.
    Man(man::Args),
}
