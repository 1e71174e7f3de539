//! `man`: manual pages of a program.

use std::fs;
use std::path::PathBuf;

use clap::Command;
use clap_mangen::Man;

use crate::examples::{Examples, in_manual};
use crate::failure::CliError;
use crate::out::{Out, make_directory, note};

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
/// A directory or standard output that cannot be written to.
pub fn run(args: &Args, program: Command, examples: Examples, out: &mut Out) -> Result<(), CliError> {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let Some(dir) = &args.out else {
        return out.raw(&page(&Man::new(program.clone()), program.get_name(), examples)?);
    };
    make_directory(dir)?;
    let cannot = |error| CliError::wrong(format!("cannot write to {}: {error}", dir.display()));
    for command in program.get_subcommands().chain([&program]).filter(|command| !command.is_hide_set()) {
        let man = Man::new(command.clone());
        fs::write(dir.join(man.get_filename()), page(&man, command.get_name(), examples)?).map_err(cannot)?;
    }
    note(format!(
        "manual pages written to {}; read one with: man -l {}",
        dir.display(),
        dir.join(format!("{}.1", program.get_name())).display()
    ));
    Ok(())
}

/// The page of a command, with its examples.
fn page(man: &Man, name: &str, examples: Examples) -> Result<Vec<u8>, CliError> {
    let mut page = Vec::new();
    man.render(&mut page)?;
    page.extend(in_manual(name, examples).bytes());
    Ok(page)
}
