//! `fairlink-lab pdf`: drawings as PDF.

use std::path::PathBuf;

use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::Out;

/// Figures to convert.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// SVG files, as `fairlink sim --out` writes them. The PDF has the same name and size; `--width column` and `--width
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
        let svg = std::fs::read_to_string(path).map_err(|error| wrong(path, &error))?;
        let pdf = fairlink_lab::pdf::pdf(&svg).map_err(|error| wrong(path, &error))?;
        made.push((path.with_extension("pdf"), pdf));
    }
    for (path, pdf) in &made {
        fairlink_terminal::out::write_file(path, pdf)?;
        out.line(path.display().to_string())?;
    }
    Ok(())
}

/// The converter is not built in.
#[cfg(not(feature = "pdf"))]
pub(crate) fn run(args: &Args, _: &mut Out) -> Result<(), CliError> {
    let figures = fairlink_terminal::human::count(args.figures.len(), "figure", "figures");
    Err(fairlink_terminal::program::needs_feature(&format!("pdf: {figures} to convert"), "fairlink-lab", "pdf"))
}
