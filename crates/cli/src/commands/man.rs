//! `fairlink man`.

use std::fs;
use std::path::PathBuf;

use clap::Command;
use clap_mangen::Man;

use crate::examples::in_manual;
use crate::failure::CliError;
use crate::out::{Out, make_directory, note};

/// Directory of the pages.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write one page per command into this directory, which is made if it is missing; without it, print fairlink(1).
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints the page of `fairlink`, the whole command line, or writes those of all its commands.
pub(crate) fn run(args: &Args, fairlink: Command, out: &mut Out) -> Result<(), CliError> {
    let mut fairlink = fairlink.disable_help_subcommand(true);
    fairlink.build();
    let Some(dir) = &args.out else {
        return out.raw(&page(&Man::new(fairlink.clone()), fairlink.get_name())?);
    };
    make_directory(dir)?;
    let cannot = |error| CliError::wrong(format!("cannot write to {}: {error}", dir.display()));
    for command in fairlink.get_subcommands().chain([&fairlink]).filter(|command| !command.is_hide_set()) {
        let man = Man::new(command.clone());
        fs::write(dir.join(man.get_filename()), page(&man, command.get_name())?).map_err(cannot)?;
    }
    note(format!(
        "manual pages written to {}; read one with: man -l {}",
        dir.display(),
        dir.join("fairlink.1").display()
    ));
    Ok(())
}

/// The page of a command, with its examples.
fn page(man: &Man, name: &str) -> Result<Vec<u8>, CliError> {
    let mut page = Vec::new();
    man.render(&mut page)?;
    page.extend(in_manual(name).bytes());
    Ok(page)
}
