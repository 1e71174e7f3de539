//! `fairlink expand`: a file with its templates and tables of classes written out.

use std::path::PathBuf;

use fairlink_api::expand;
use fairlink_config::SourceText;

use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::Out;

/// File to expand.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The link file or scenario.
    file: PathBuf,
}

/// Prints the text, which names no table and no template any more.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    let document = expand(&SourceText::read(&args.file)?)?;
    if out.json {
        return out.document(&document);
    }
    out.raw(document.content.text.as_bytes())
}
