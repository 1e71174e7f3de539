//! `fairlink completions SHELL`.

use clap::Command;
use clap_complete::Shell;

use crate::failure::Failure;
use crate::out::Out;

/// Which shell.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell to complete for.
    shell: Shell,
}

/// Prints the script for `fairlink`, the whole command line.
pub(crate) fn run(args: &Args, mut fairlink: Command, out: &mut Out) -> Result<(), Failure> {
    // Generated into memory first: the generator panics on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut fairlink, "fairlink", &mut script);
    out.raw(&script)
}
