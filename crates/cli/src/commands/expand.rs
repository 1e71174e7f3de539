//! `fairlink expand`: a file with its templates and tables of classes written out.

use std::path::PathBuf;

use fairlink_config::{SourceText, written_out};
use serde::Serialize;

use crate::failure::Failure;
use crate::out::Out;

/// Which file.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The link file or scenario.
    file: PathBuf,
}

#[derive(Serialize)]
struct Document<'a> {
    text: &'a str,
    /// The tables that classes came from.
    tables: Vec<&'a str>,
}

/// Prints the text, which names no table and no template any more.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), Failure> {
    let source = written_out(&SourceText::read(&args.file)?)?;
    if out.json {
        return out.document(&Document { text: source.inner(), tables: source.included().collect() });
    }
    out.raw(source.inner().as_bytes())
}
