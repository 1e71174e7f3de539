//! `completions SHELL`, and dynamic completion for shells.
//!
//! The script of a shell calls the program at each key: it sets a variable and passes the words so far. So the choices
//! are those of this program on this machine: its schedulers and kinds, files of the type of an argument, interfaces.

use std::ffi::OsStr;
use std::path::Path;

use clap::{Arg, Command};
use clap_complete::env::{CompleteEnv, Shells};
use clap_complete::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, Shell};
use fairlink_config::import::find;
use fairlink_core::registry;

use crate::failure::CliError;
use crate::out::Out;

/// The variable by which a shell asks. Both programs may have the same: a shell sets it for one call.
const ASKS: &str = "FAIRLINK_COMPLETE";

/// Shell to write completions for.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell to complete for.
    shell: Shell,
}

/// Prints the script for the program of this name.
///
/// # Errors
/// `--json`; standard output cannot be written to.
pub fn run(args: &Args, program: &str, out: &mut Out) -> Result<(), CliError> {
    out.refuse_json("a completion script")?;
    let shells = Shells::builtins();
    let shell = shells.completer(&args.shell.to_string()).expect("each shell that is taken has one");
    let mut script = Vec::new();
    shell.write_registration(ASKS, program, program, program, &mut script)?;
    out.raw(&script)
}

/// Answers a shell's completion request and ends; returns if there is none.
/// `values` is as in [`Program`](crate::program::Program).
pub fn answer(command: fn() -> Command, values: fn(&str, Arg) -> Arg) {
    CompleteEnv::with_factory(|| with_values(command(), values)).var(ASKS).complete();
}

/// The command line with the values that each argument takes.
fn with_values(command: Command, values: fn(&str, Arg) -> Arg) -> Command {
    let name = command.get_name().to_owned();
    command.mut_args(|arg| values(&name, with_value(&name, arg))).mut_subcommands(|below| with_values(below, values))
}

fn with_value(command: &str, arg: Arg) -> Arg {
    let value = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let imported = find(command).ok().and_then(|info| info.files.iter().find(|file| arg.get_id() == file.key));
    let endings: &[&str] = match (command, arg.get_id().as_str(), value.as_deref()) {
        (_, "scheduler" | "schedulers", _) => return arg.add(ArgValueCandidates::new(schedulers)),
        (_, _, Some("DIR")) => return arg.add(ArgValueCompleter::new(PathCompleter::dir())),
        _ if imported.is_some_and(|file| !file.endings.is_empty()) => imported.map_or(&[], |file| file.endings),
        (_, "svg", _) => &["svg"],
        (_, _, Some("LINK" | "SCENARIO")) => &["toml", "tc"],
        (_, _, Some("FILE" | "BEFORE" | "AFTER")) => return arg.add(ArgValueCompleter::new(PathCompleter::file())),
        _ => return arg,
    };
    let ends = |path: &Path| path.extension().and_then(OsStr::to_str).is_some_and(|ending| endings.contains(&ending));
    arg.add(ArgValueCompleter::new(PathCompleter::any().filter(ends)))
}

fn schedulers() -> Vec<CompletionCandidate> {
    registry::SCHEDULERS
        .iter()
        .map(|info| CompletionCandidate::new(info.name).help(Some(info.summary.into())))
        .collect()
}
