//! `fairlink tc`: tc commands to a link file and back.

use std::path::PathBuf;

use clap::Subcommand;
use fairlink_api::ProblemReport;
use fairlink_config::tc::{ImportOptions, export, import_source};
use fairlink_config::{LinkFile, Problem, ReadOptions, SourceText};
use fairlink_core::{Leniency, Rate};
use fairlink_report::{Content, Document};
use schemars::JsonSchema;
use serde::Serialize;

use fairlink_terminal::args::rate;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::Out;
use fairlink_terminal::style::warn;

/// Direction of the conversion.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    way: Way,
}

#[derive(Debug, Subcommand)]
enum Way {
    /// Print the link file for these tc commands: HTB or CBQ with its queues and filters.
    Import(ImportArgs),
    /// Print the tc commands for a link file, in HTB or, for a file of CBQ, in CBQ.
    Export(ExportArgs),
}

#[derive(Debug, clap::Args)]
struct ImportArgs {
    /// The file of tc commands: a script, or input of `tc -batch`.
    file: PathBuf,
    /// Rate of the link [default: cbq's bandwidth; of htb the sum of the root's classes].
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<Rate>,
    /// Import this device alone [default: all; those after the first become peers].
    #[arg(long, value_name = "IF")]
    dev: Option<String>,
}

#[derive(Debug, clap::Args)]
struct ExportArgs {
    /// The link file.
    link: PathBuf,
    /// The device in the commands.
    #[arg(long, value_name = "IF", default_value = "eth0", value_parser = device)]
    dev: String,
}

/// The name of a device, as it may stand in a command that a shell reads.
pub(crate) fn device(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-:@".contains(c);
    if (1..=15).contains(&text.len()) && !text.starts_with('-') && text.chars().all(plain) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "{text:?} is not the name of a device: 1 to 15 letters, digits and . _ - : @, not beginning with -; write eth0"
    ))
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct TcDoc {
    /// The link file, or the commands.
    text: String,
    devices: Vec<String>,
    /// Losses and changes of meaning.
    notes: Vec<ProblemReport>,
}

impl Content for TcDoc {
    const KIND: &'static str = "tc";
}

/// Converts and prints: the text to standard output, losses to standard error.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    match &args.way {
        Way::Import(args) => {
            let options = ImportOptions { rate: args.rate, device: args.dev.clone() };
            let made = import_source(&SourceText::read(&args.file)?, &options)?;
            show(made.text, made.devices, made.notes, out)
        }
        Way::Export(args) => {
            let mut link = LinkFile::read(&args.link, &ReadOptions { leniency: Leniency::Ignore, scheduler: None })?;
            warn(std::mem::take(&mut link.warnings));
            let made = export(&link, &args.dev)?;
            show(made.text, vec![args.dev.clone()], made.notes, out)
        }
    }
}

fn show(text: String, devices: Vec<String>, notes: Vec<Problem>, out: &mut Out) -> Result<(), CliError> {
    if out.json {
        let notes = notes.iter().map(ProblemReport::from).collect();
        return out.document(&Document::new(TcDoc { text, devices, notes }));
    }
    warn(notes);
    out.raw(text.as_bytes())
}
