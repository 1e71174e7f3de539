//! `man`: manual pages of a program.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;

use crate::examples::in_manual;
use crate::failure::CliError;
use crate::out::{Out, make_directory, note};
use crate::program::Program;

/// Directory of the pages.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write one page per command into this directory, which is made if it is missing; without it, print that of the program.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints the page of a program, the whole command line, or writes those of all its commands.
///
/// # Errors
/// `--json`; a directory or standard output that cannot be written to.
pub fn run(args: &Args, program: Command, parts: &Program, out: &mut Out) -> Result<(), CliError> {
    out.refuse_json("a manual page")?;
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let Some(dir) = &args.out else { return out.raw(&page(&program, "", &[], parts)?) };
    make_directory(dir)?;
    write(&program, "", &[], parts, dir)?;
    note(format!(
        "manual pages written to {}; read one with: man -l {}",
        dir.display(),
        dir.join(format!("{}.1", program.get_name())).display()
    ));
    Ok(())
}

/// Writes the page of a command, and those of the commands below it. `words` are its names behind that of the program,
/// and `above` the names of the pages above it.
fn write(command: &Command, words: &str, above: &[String], parts: &Program, dir: &Path) -> Result<(), CliError> {
    let name = name_of(command);
    let cannot = |error| CliError::wrong(format!("cannot write to {}: {error}", dir.display()));
    fs::write(dir.join(format!("{name}.1")), page(command, words, above, parts)?).map_err(cannot)?;
    let above = [above, &[name]].concat();
    shown(command)
        .try_for_each(|below| write(below, format!("{words} {}", below.get_name()).trim_start(), &above, parts, dir))
}

/// The commands below one that its help lists.
fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set())
}

/// The name of the page of a command.
fn name_of(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

/// The page of a command, with its examples, and with the pages above and below it and that of the other program.
fn page(command: &Command, words: &str, above: &[String], parts: &Program) -> Result<Vec<u8>, CliError> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    page.extend(in_manual(if words.is_empty() { command.get_name() } else { words }, parts.examples).bytes());
    let others = above.iter().cloned().chain([parts.other.program.to_owned()]).chain(shown(command).map(name_of));
    let others: Vec<String> = others.map(|name| format!("\\fB{}\\fR(1)", name.replace('-', "\\-"))).collect();
    page.extend(format!(".SH \"SEE ALSO\"\n{}\n", others.join(", ")).bytes());
    Ok(page)
}
