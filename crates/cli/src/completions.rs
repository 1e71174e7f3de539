//! `fairlink completions SHELL`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::out::Out;

/// Which shell.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell to complete for.
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), Failure> {
    // Generated into memory first: the generator panics on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "fairlink", &mut script);
    out.raw(&script)
}
