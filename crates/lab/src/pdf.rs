//! A drawing as PDF, for papers. Letters are embedded (DejaVu Sans), so that it looks the same everywhere and a publisher's check of fonts passes.

use std::sync::{Arc, LazyLock};

use svg2pdf::usvg::{self, fontdb};
use svg2pdf::{ConversionOptions, PageOptions};

/// Pixels per inch in CSS, and so in SVG.
const PIXELS_PER_INCH: f32 = 96.0;

/// The reason for which a drawing has no PDF.
#[derive(Debug, thiserror::Error)]
pub enum PdfError {
    /// The drawing is not SVG.
    #[error("the drawing is not understood: {0}")]
    Drawing(#[from] usvg::Error),
    /// The conversion failed.
    #[error("the PDF cannot be made: {0}")]
    Conversion(String),
}

/// One face, also for titles: of several the converter writes them in an order that differs from run to run, and the same drawing is to be the same bytes.
static FONTS: LazyLock<Arc<fontdb::Database>> = LazyLock::new(|| {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    Arc::new(fonts)
});

/// Converts the drawing `svg` to a PDF of one page of the same size.
///
/// # Errors
/// [`PdfError`].
pub fn pdf(svg: &str) -> Result<Vec<u8>, PdfError> {
    let options = usvg::Options { fontdb: FONTS.clone(), ..usvg::Options::default() };
    let tree = usvg::Tree::from_str(svg, &options)?;
    let page = PageOptions { dpi: PIXELS_PER_INCH };
    svg2pdf::to_pdf(&tree, ConversionOptions::default(), page).map_err(|error| PdfError::Conversion(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlink_figures::axis::Axis;
    use fairlink_figures::figure::{Figure, Panel, Series, SeriesStyle, Width};

    /// Returns the first number behind `key`.
    fn number(text: &str, key: &str) -> Option<f64> {
        let behind = text.split_once(key)?.1.trim_start_matches([' ', '[']);
        behind.split(|letter: char| !(letter.is_ascii_digit() || letter == '.')).next()?.parse().ok()
    }

    #[test]
    fn a_figure_becomes_a_page_as_wide_as_a_paper_with_its_fonts_in_it() {
        let mut panel = Panel::new("µ & <b>", Axis::linear("time (s)", 0.0, 1.0), Axis::linear("rate", 0.0, 1.0));
        panel.series.push(Series::line("hls", vec![(0.0, 0.0), (1.0, 1.0)], SeriesStyle::nth(0)));
        let figure = Figure::new("a figure", vec![panel]);
        for (width, points) in [(Width::Screen, 720.0), (Width::Page, 504.0), (Width::Column, 240.0)] {
            let made = pdf(&figure.svg_for(width)).unwrap();
            assert!(made.starts_with(b"%PDF-") && made.len() < 100_000, "{} B", made.len());
            let text = String::from_utf8_lossy(&made);
            assert!(number(&text, "/MediaBox [0 0").is_some_and(|found| (found - points).abs() < 1.0), "{points}");
            // Text stays text, in letters that are embedded.
            assert!(text.contains("/FontFile") && text.contains("DejaVuSans"), "no font");
            (0..8).for_each(|_| assert!(pdf(&figure.svg_for(width)).unwrap() == made, "the same bytes"));
        }
        assert!(matches!(pdf("no drawing"), Err(PdfError::Drawing(_))));
    }
}
