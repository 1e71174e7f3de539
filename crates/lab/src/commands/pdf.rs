//! `fairlink-lab pdf`: drawings as PDF.

use std::path::PathBuf;

use fairlink_report::Content;
#[cfg(feature = "pdf")]
use fairlink_report::Document;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::Out;
use schemars::JsonSchema;
use serde::Serialize;

/// The content of the document `pdf`.
#[derive(JsonSchema, Serialize)]
pub(crate) struct PdfDoc {
    /// The files that were written.
    files: Vec<String>,
}

impl Content for PdfDoc {
    const KIND: &'static str = "pdf";
}

/// Figures to convert.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// SVG files, as `fairlink sim --out` writes them. The PDF is written beside each, with the same name
    /// and size, and replaces one that is there; `--width column` and `--width
    /// page` of `fairlink sim` draw for a paper.
    #[arg(required = true, value_name = "FIGURE")]
    figures: Vec<PathBuf>,
}

/// Converts all figures, or none if one is not a drawing.
#[cfg(feature = "pdf")]
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    let wrong = |path: &PathBuf, why: &dyn std::fmt::Display| CliError::wrong(format!("{}: {why}", path.display()));
    let mut made = Vec::with_capacity(args.figures.len());
    for path in &args.figures {
        let to = path.with_extension("pdf");
        if to == *path {
            return Err(wrong(path, &"the PDF would replace it; name an SVG file"));
        }
        let bytes = std::fs::metadata(path).map_err(|error| wrong(path, &error))?.len();
        if bytes > MAX_BYTES {
            return Err(wrong(path, &format!("{bytes} B; the limit is {MAX_BYTES} B: draw less at once")));
        }
        let svg = std::fs::read_to_string(path).map_err(|error| wrong(path, &error))?;
        let pdf = fairlink_lab::pdf::pdf(&svg).map_err(|error| wrong(path, &error))?;
        made.push((to, pdf));
    }
    for (path, pdf) in &made {
        fairlink_terminal::out::write_file(path, pdf)?;
    }
    let files: Vec<String> = made.iter().map(|(path, _)| path.display().to_string()).collect();
    if out.json {
        return out.document(&Document::new(PdfDoc { files }));
    }
    files.iter().try_for_each(|file| out.line(file))
}

/// The longest file.
#[cfg(feature = "pdf")]
const MAX_BYTES: u64 = 64 << 20;

/// The converter is not built in.
#[cfg(not(feature = "pdf"))]
pub(crate) fn run(args: &Args, _: &mut Out) -> Result<(), CliError> {
    let figures = fairlink_terminal::human::count(args.figures.len(), "figure", "figures");
    Err(fairlink_terminal::program::needs_feature(&format!("pdf: {figures} to convert"), "fairlink-lab", "pdf"))
}
