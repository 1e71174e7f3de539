//! `fairlink schema`: JSON schemas.

use clap::Subcommand;
use fairlink_config::scenario;
use fairlink_schema::editor;

use crate::failure::Failure;
use crate::out::Out;

/// Which schema.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

/// The schemas.
#[derive(Debug, Subcommand)]
enum What {
    /// Print the JSON schema of link files (draft 7), by which editors complete and check them.
    Link,
    /// Print the JSON schema of scenarios (draft 7).
    Scenario,
}

/// Prints it. It is JSON with and without `--json`.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), Failure> {
    out.document(&match args.what {
        What::Link => editor::link(),
        What::Scenario => scenario::schema(),
    })
}
