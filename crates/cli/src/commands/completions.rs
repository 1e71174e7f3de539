//! `fairlink completions SHELL`, and dynamic completion for shells.
//!
//! The script of a shell calls `fairlink` at each key: it sets [`ASKS`] and passes the words so far. So the choices are
//! those of this `fairlink` on this machine: its schedulers and kinds, files of the type of an argument, interfaces.

use std::ffi::OsStr;
use std::path::Path;

use clap::{Arg, Command};
use clap_complete::env::{CompleteEnv, Shells};
use clap_complete::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, Shell};
use fairlink_config::import::find;
use fairlink_core::registry;

use crate::commands::init::{kinds, lines};
use crate::failure::CliError;
use crate::out::Out;

/// The variable by which a shell asks.
const ASKS: &str = "FAIRLINK_COMPLETE";

/// Shell to write completions for.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell to complete for.
    shell: Shell,
}

/// Prints the script for `fairlink`.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    let shells = Shells::builtins();
    let shell = shells.completer(&args.shell.to_string()).expect("each shell that is taken has one");
    let mut script = Vec::new();
    shell.write_registration(ASKS, "fairlink", "fairlink", "fairlink", &mut script)?;
    out.raw(&script)
}

/// Answers a shell's completion request and ends; returns if there is none.
pub(crate) fn answer(fairlink: fn() -> Command) {
    CompleteEnv::with_factory(|| with_values(fairlink())).var(ASKS).complete();
}

/// The command line with the values that each argument takes.
fn with_values(command: Command) -> Command {
    let name = command.get_name().to_owned();
    command.mut_args(|arg| with_value(&name, arg)).mut_subcommands(with_values)
}

fn with_value(command: &str, arg: Arg) -> Arg {
    let value = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let imported = find(command).ok().and_then(|info| info.files.iter().find(|file| arg.get_id() == file.key));
    let endings: &[&str] = match (command, arg.get_id().as_str(), value.as_deref()) {
        (_, "scheduler" | "schedulers", _) => return arg.add(ArgValueCandidates::new(schedulers)),
        ("init", "kind", _) => return arg.add(ArgValueCandidates::new(kinds)),
        ("init", "line", _) => return arg.add(ArgValueCandidates::new(lines)),
        (_, _, Some("IF")) => return arg.add(ArgValueCandidates::new(interfaces)),
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

fn kinds() -> Vec<CompletionCandidate> {
    kinds::KINDS.iter().map(|kind| CompletionCandidate::new(kind.name).help(Some(kind.what.into()))).collect()
}

fn lines() -> Vec<CompletionCandidate> {
    lines::LINES.iter().map(|line| CompletionCandidate::new(line.name).help(Some(line.what.into()))).collect()
}

fn interfaces() -> Vec<CompletionCandidate> {
    crate::commands::init::interfaces().into_iter().map(CompletionCandidate::new).collect()
}
