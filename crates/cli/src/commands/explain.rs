//! `fairlink explain`: reasons for the rate of a class, changes that raise it, and the gain of false demands and
//! restructured guarantees.

use fairlink_api::{Explained, explain};
use fairlink_config::SourceText;
use fairlink_core::Rate;

use crate::link::FluidArgs;
use fairlink_terminal::args;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::Out;
use fairlink_terminal::style::warn;

/// Class, link and demand.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    fluid: FluidArgs,
    /// The class to explain.
    #[arg(long, value_name = "NAME")]
    class: String,
    /// Size of the tried changes [default: a tenth of the link].
    #[arg(long, value_name = "RATE", value_parser = args::rate)]
    step: Option<Rate>,
}

/// Explains and prints.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    let source = SourceText::read(&args.fluid.link)?;
    let Explained { warnings, document } = explain(&source, &args.class, args.fluid.demand.as_deref(), args.step)?;
    warn(warnings);
    if out.json {
        return out.document(&document);
    }
    match &document.content.text {
        Some(text) => {
            let indent = |line: &str| line.len() - line.trim_start().len();
            text.lines().try_for_each(|line| out.paragraph(line, indent(line) + 4))
        }
        None => document.content.notes.iter().try_for_each(|note| out.paragraph(note, 2)),
    }
}
