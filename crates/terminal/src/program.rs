//! The start and the end of a program, and commands that another program has.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, CommandFactory, FromArgMatches};

use crate::examples::{self, Examples};
use crate::failure::CliError;
use crate::out::{Out, note_paragraph};
use crate::{completions, style};

/// The commands that only `fairlink` has.
pub const LINK_COMMANDS: &[&str] = &[
    "demo",
    "check",
    "fluid",
    "explain",
    "diff",
    "sim",
    "init",
    "expand",
    "import",
    "tc",
    "gateway",
    "ctl",
    "qdisc",
    "generate",
    "receive",
    "schedulers",
];

/// The commands that only `fairlink-lab` has.
pub const LAB_COMMANDS: &[&str] = &["reproduce", "bench", "campaign", "traffic", "clock", "between", "pdf"];

/// The parts of a program that its command line, a type, does not have.
#[derive(Clone, Copy)]
pub struct Program {
    /// Its examples.
    pub examples: Examples,
    /// Adds the values that an argument of the command with this name takes to the argument, or returns it as it is.
    pub values: fn(&str, Arg) -> Arg,
    /// The program beside it.
    pub other: Other,
}

/// The program beside another.
#[derive(Clone, Copy, Debug)]
pub struct Other {
    /// Its name.
    pub program: &'static str,
    /// The commands that only it has.
    pub commands: &'static [&'static str],
    /// Those of them that moved there.
    pub moved: &'static [&'static str],
}

impl Program {
    /// Returns the command line `C` with the examples in its help.
    #[must_use]
    pub fn command<C: CommandFactory>(&self) -> clap::Command {
        examples::in_help(C::command(), self.examples)
    }

    /// Answers a shell that completes, or reads the command line, which does not return where that is wrong. Then runs
    /// `run` and prints its error. `json` says whether documents are asked for.
    pub fn run<C: CommandFactory + FromArgMatches>(
        &self,
        json: fn(&C) -> bool,
        run: impl FnOnce(C, &mut Out) -> Result<(), CliError>,
    ) -> ExitCode {
        completions::answer(C::command, self.values);
        style::set();
        let matches = match self.command::<C>().try_get_matches() {
            Ok(matches) => matches,
            Err(error) => match self.elsewhere(&error) {
                Some(answer) => return answer.map_or_else(CliError::report, |()| ExitCode::SUCCESS),
                None => error.exit(),
            },
        };
        let cli = C::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        let mut out = Out::new(json(&cli));
        match run(cli, &mut out).and_then(|()| out.flush()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.report(),
        }
    }

    /// Answers a command line that begins with a command of the other program: runs that where the command moved there,
    /// else names it.
    fn elsewhere(&self, error: &clap::Error) -> Option<Result<(), CliError>> {
        let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return None };
        let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
        let place = words.iter().position(|word| !word.to_string_lossy().starts_with('-') && word != "help")?;
        let Other { program, commands, moved } = self.other;
        if words[place] != name.as_str() || !commands.contains(&name.as_str()) {
            return None;
        }
        if !moved.contains(&name.as_str()) || words.iter().take(place).any(|word| word == "help") {
            return Some(Err(CliError::wrong(format!("`{name}` is a command of {program}: write `{program} {name}`"))));
        }
        words[..=place].rotate_right(1);
        Some(run_other(program, &words, &format!("fairlink {name}")))
    }
}

/// Returns the error of `what`, an option or a file, that needs a feature which this `program` was built without.
#[must_use]
pub fn needs_feature(what: &str, program: &str, feature: &str) -> CliError {
    CliError::wrong(format!(
        "{what}: this {program} was built without the feature `{feature}`; packages have it, and `cargo build --release -p {program} \
         --features {feature}` builds it in"
    ))
}

/// Runs `program` with these words in place of this program, and says so in a line that names the command `old`. The
/// program is the one in the directory of this one, else the first one of `PATH`.
///
/// # Errors
/// There is no such program; its exit code, if it is not 0.
pub fn run_other(program: &str, words: &[OsString], old: &str) -> Result<(), CliError> {
    let name = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    let new = format!("{program} {name}");
    let Some(path) = found(program) else {
        return Err(CliError::wrong(format!(
            "{old}: this is now `{new}`, and {program} is not installed here; packages have it, and `cargo build --release -p {program}` \
             builds it"
        )));
    };
    // A program of that name that is this one, under another name, would go on for ever.
    if std::env::var_os(RAN_BY).is_some() {
        return Err(CliError::wrong(format!("{old}: {} is no {program}: it leads back here", path.display())));
    }
    note_paragraph(&format!("NOTE: {old} is now `{new}`"), 2);
    let mut command = Command::new(&path);
    command.args(words).env(RAN_BY, old);
    let failed = |error: std::io::Error| CliError::wrong(format!("{}: {error}", path.display()));
    #[cfg(unix)]
    {
        // It gets the terminal and its signals. This returns only if it cannot be started.
        Err(failed(std::os::unix::process::CommandExt::exec(&mut command)))
    }
    #[cfg(not(unix))]
    {
        match command.status().map_err(failed)?.code() {
            Some(0) => Ok(()),
            code => Err(CliError::Said(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))),
        }
    }
}

/// Set for a program that is run in place of this one.
const RAN_BY: &str = "FAIRLINK_RAN_BY";

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

/// Returns the path of `program`: the one in the directory of this program, else the first one of `PATH`.
#[must_use]
pub fn found(program: &str) -> Option<PathBuf> {
    let file = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    let own = std::env::current_exe().ok().and_then(|own| own.parent().map(Path::to_owned));
    let path = std::env::var_os("PATH").unwrap_or_default();
    own.into_iter().chain(std::env::split_paths(&path)).map(|dir| dir.join(&file)).find(|path| is_program(path))
}
