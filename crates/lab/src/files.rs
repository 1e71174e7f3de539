//! Figures of the laboratory as files: SVG, and PDF for papers where feature `pdf` is built in.

use std::path::{Path, PathBuf};

use fairlink_figures::clocks;
use fairlink_figures::figure::{Figure, Width};
use fairlink_figures::files::{FileError, Files};
use fairlink_traffic::clocks::Clocks;

/// Draws a figure of this width as SVG, and as PDF for a paper: as wide as its page, while the SVG is for a screen.
fn draw(files: &mut Files<'_>, stem: &str, figure: &Figure, width: Width) -> Result<(), FileError> {
    files.draw(stem, figure, width)?;
    #[cfg(feature = "pdf")]
    {
        let name = format!("{stem}.pdf");
        let pdf = crate::pdf::pdf(&figure.svg_for(if width == Width::Screen { Width::Page } else { width }));
        let pdf = pdf.map_err(|error| FileError { path: name.clone().into(), error: std::io::Error::other(error) })?;
        files.write(&name, pdf)?;
    }
    Ok(())
}

/// Writes `figures` of this width into `dir`, which is made if it is not there, as SVG and PDF, each with its name without the ending, and
/// returns the paths.
///
/// # Errors
/// [`FileError`]; files written before it stay.
pub fn write_figures<'a>(
    figures: impl IntoIterator<Item = (&'a str, &'a Figure)>,
    width: Width,
    dir: &Path,
) -> Result<Vec<PathBuf>, FileError> {
    let mut files = Files::new(dir)?;
    figures.into_iter().try_for_each(|(stem, figure)| draw(&mut files, stem, figure, width))?;
    Ok(files.written())
}

/// Writes `clock.csv`, and `clock` as SVG and PDF, into `dir`, which is made if it is not there, and returns the paths.
///
/// # Errors
/// [`FileError`].
pub fn write_clocks(found: &Clocks, title: &str, dir: &Path) -> Result<Vec<PathBuf>, FileError> {
    let mut files = Files::new(dir)?;
    files.write("clock.csv", clocks::csv(found))?;
    draw(&mut files, "clock", &clocks::figure(found, title), Width::Screen)?;
    Ok(files.written())
}
