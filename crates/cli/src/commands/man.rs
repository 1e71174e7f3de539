//! `fairlink man`.

use std::fs;
use std::path::PathBuf;

use clap::Command;

use crate::failure::Failure;
use crate::out::{Out, note};

/// Where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write one page per command into this directory, which is made if it is missing; without it, print fairlink(1).
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints the page of `fairlink`, the whole command line, or writes those of all its commands.
pub(crate) fn run(args: &Args, fairlink: Command, out: &mut Out) -> Result<(), Failure> {
    let Some(dir) = &args.out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(fairlink).render(&mut page)?;
        return out.raw(&page);
    };
    fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(fairlink, dir))
        .map_err(|error| Failure::wrong(format!("cannot write to {}: {error}", dir.display())))?;
    note(format!(
        "manual pages written to {}; read one with: man -l {}",
        dir.display(),
        dir.join("fairlink.1").display()
    ));
    Ok(())
}
