//! A drawing as PDF, for papers. Letters are embedded (DejaVu Sans), so that it looks the same everywhere and a publisher's check of fonts passes.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use svg2pdf::usvg::roxmltree::{Document, Node, NodeId, ParsingOptions};
use svg2pdf::usvg::{self, fontdb};
use svg2pdf::{ConversionOptions, PageOptions};

/// Pixels per inch in CSS, and so in SVG.
const PIXELS_PER_INCH: f32 = 96.0;

/// Elements that stand in each other at most: the converter uses the stack.
const MAX_DEPTH: usize = 100;

/// Most elements of a drawing, with the copies that `use` makes.
const MAX_ELEMENTS: u64 = 200_000;

/// The longest side of a page of PDF in points (ISO 32000-1, Annex C.2).
const MAX_SIDE: f32 = 14_400.0;

/// The reason for which a drawing has no PDF.
#[derive(Debug, thiserror::Error)]
pub enum PdfError {
    /// The drawing is not SVG.
    #[error("the drawing is not understood: {0}")]
    Drawing(#[from] usvg::Error),
    /// An element refers to another file, or is a picture of pixels.
    #[error(
        "line {line}: <{element}> refers to {href:?}; pictures and other files are not converted: remove the element, or use another converter"
    )]
    Reference {
        /// Its line, from 1 on.
        line: u32,
        /// Its name.
        element: String,
        /// The beginning of what it refers to.
        href: String,
    },
    /// Elements stand in each other too deep.
    #[error(
        "line {line}: its elements stand in each other more than {MAX_DEPTH} deep, with the copies that <use> makes; use fewer groups"
    )]
    Deep {
        /// The first line that is too deep, from 1 on.
        line: u32,
    },
    /// There are too many elements.
    #[error("{elements} elements, with the copies that <use> makes; the limit is {MAX_ELEMENTS}: draw less at once")]
    Elements {
        /// Their number.
        elements: u64,
    },
    /// The page would be too large.
    #[error(
        "line {line}: a page of {width:.0} x {height:.0} pt; the limit of PDF is {MAX_SIDE} pt (200 inches): give <svg> a smaller width and height"
    )]
    Page {
        /// The line of the drawing's element, from 1 on.
        line: u32,
        /// Width in points.
        width: f32,
        /// Height in points.
        height: f32,
    },
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
    if let Some(line) = too_deep(svg) {
        return Err(PdfError::Deep { line });
    }
    let parsing = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(svg, parsing).map_err(usvg::Error::from)?;
    let root = document.root_element();
    let elements = Census::of(&document).count(root, 0)?.elements;
    if elements > MAX_ELEMENTS {
        return Err(PdfError::Elements { elements });
    }
    let tree = usvg::Tree::from_xmltree(&document, &options)?;
    let (width, height) = (tree.size().width() * 72.0 / PIXELS_PER_INCH, tree.size().height() * 72.0 / PIXELS_PER_INCH);
    if width.max(height) > MAX_SIDE {
        return Err(PdfError::Page { line: line_of(root), width, height });
    }
    let page = PageOptions { dpi: PIXELS_PER_INCH };
    svg2pdf::to_pdf(&tree, ConversionOptions::default(), page).map_err(|error| PdfError::Conversion(error.to_string()))
}

/// Returns the line of an element, from 1 on.
fn line_of(node: Node<'_, '_>) -> u32 {
    node.document().text_pos_at(node.range().start).row
}

/// Returns the first line in which elements stand in each other too deep. It reads the text alone, because the parser
/// uses the stack as well.
fn too_deep(svg: &str) -> Option<u32> {
    let (mut depth, mut line) = (0usize, 1);
    for (number, part) in svg.split('<').enumerate() {
        let element = part.split('>').next().unwrap_or_default();
        match number {
            0 => {}
            _ if element.starts_with('/') => depth = depth.saturating_sub(1),
            _ if element.ends_with('/') || element.starts_with(['!', '?']) => {}
            _ => depth += 1,
        }
        if depth > MAX_DEPTH {
            return Some(line);
        }
        line += part.matches('\n').count() as u32;
    }
    None
}

/// The size of a part of a drawing, with the copies that `use` makes.
#[derive(Clone, Copy)]
struct Extent {
    elements: u64,
    depth: usize,
}

/// Counts elements. What a `use` refers to is counted once.
struct Census<'a, 'input> {
    named: HashMap<&'a str, Node<'a, 'input>>,
    counted: HashMap<NodeId, Extent>,
}

impl<'a, 'input> Census<'a, 'input> {
    fn of(document: &'a Document<'input>) -> Self {
        let named = document.descendants().filter_map(|node| Some((node.attribute("id")?, node))).collect();
        Self { named, counted: HashMap::new() }
    }

    /// Counts `node` and what is below it, `above` elements deep.
    fn count(&mut self, node: Node<'a, 'input>, above: usize) -> Result<Extent, PdfError> {
        let known = self.counted.get(&node.id()).copied();
        if above + known.map_or(1, |extent| extent.depth) > MAX_DEPTH {
            return Err(PdfError::Deep { line: line_of(node) });
        }
        if let Some(known) = known {
            return Ok(known);
        }
        let element = node.tag_name().name();
        let href =
            node.attributes().find(|attribute| attribute.name() == "href").map_or("", |href| href.value().trim());
        let name = href.strip_prefix('#');
        if matches!(element, "image" | "feImage") || element == "use" && name.is_none() && !href.is_empty() {
            let href = href.chars().take(60).collect();
            return Err(PdfError::Reference { line: line_of(node), element: element.to_owned(), href });
        }
        let copied = name.filter(|_| element == "use").and_then(|name| self.named.get(name).copied());
        let mut extent = Extent { elements: 1, depth: 1 };
        for below in node.children().filter(Node::is_element).chain(copied) {
            let below = self.count(below, above + 1)?;
            extent.elements = extent.elements.saturating_add(below.elements);
            extent.depth = extent.depth.max(below.depth + 1);
        }
        self.counted.insert(node.id(), extent);
        Ok(extent)
    }
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

    /// A drawing of this size with these elements, the first of them on line 2.
    fn drawing(width: &str, elements: &str) -> String {
        format!(
            "<svg xmlns='http://www.w3.org/2000/svg' xmlns:xlink='http://www.w3.org/1999/xlink' width='{width}' height='9'>\n{elements}\n</svg>"
        )
    }

    #[test]
    fn what_is_not_converted_or_too_large_is_refused_with_place_value_and_limit() {
        let tenfold =
            |name: u32| format!("<g id='g{name}'>{}</g>\n", format!("<use href='#g{}'/>", name - 1).repeat(10));
        let bomb = format!("<g id='g0'><rect/></g>\n{}", (1..=9).map(tenfold).collect::<String>());
        let long = format!("<image href='data:image/png;base64,{}'/>", "A".repeat(1_000));
        for (width, elements, says) in [
            (
                "9",
                "<image xlink:href='photo.png' width='9' height='9'/>",
                "line 2: <image> refers to \"photo.png\"; pictures",
            ),
            ("9", &*long, "base64,AAAAAAA"),
            ("9", "<g>\n<use href='other.svg#a'/></g>", "line 3: <use> refers to \"other.svg#a\""),
            ("9", "<g id='a'>\n<use href='#a'/></g>", "line 3: its elements stand in each other more than 100 deep"),
            ("9", &*format!("{}\n{}", "<g>\n".repeat(150), "</g>".repeat(150)), "line 101: its elements stand"),
            ("9", &*bomb, "elements, with the copies that <use> makes; the limit is 200000: draw less at once"),
            (
                "2000in",
                "",
                "line 1: a page of 144000 x 7 pt; the limit of PDF is 14400 pt (200 inches): give <svg> a smaller",
            ),
        ] {
            let error = pdf(&drawing(width, elements)).unwrap_err().to_string();
            assert!(error.contains(says) && error.len() < 250, "{says}: {error}");
        }
        // Links, copies and entities are no pictures.
        let fine =
            "<defs><g id='a'><path d='M0 0h5'/></g></defs><a href='https://example.com'><use xlink:href='#a'/></a>";
        assert!(pdf(&drawing("14400pt", fine)).is_ok());
    }
}
