//! A drawing as SVG text, shape by shape. Lengths are in pixels, from the upper left corner.

use std::fmt::Write;

/// Width of a letter as a part of its height, on the safe side for the fonts that are in use.
const LETTER: f64 = 0.6;

/// The alignment of a text at its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// The style of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stroke<'a> {
    pub(super) colour: &'a str,
    pub(super) width: f64,
    /// Lengths of dashes and gaps; a full line if empty.
    pub(super) dash: &'a str,
}

impl<'a> Stroke<'a> {
    /// Makes a full line.
    pub(super) fn full(colour: &'a str, width: f64) -> Self {
        Self { colour, width, dash: "" }
    }

    fn attributes(self) -> String {
        let dash = if self.dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{}\"", self.dash) };
        format!("stroke=\"{}\" stroke-width=\"{}\"{dash}", self.colour, px(self.width))
    }
}

/// The text so far.
#[derive(Debug)]
pub(super) struct Svg {
    body: String,
}

impl Svg {
    pub(super) fn new() -> Self {
        Self { body: String::new() }
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: Stroke<'_>) {
        self.polyline(&[from, to], stroke);
    }

    pub(super) fn polyline(&mut self, points: &[(f64, f64)], stroke: Stroke<'_>) {
        let mut list = String::with_capacity(points.len() * 12);
        for &(x, y) in points {
            let _ = write!(list, "{},{} ", px(x), px(y));
        }
        let list = list.trim_end();
        let _ = writeln!(
            self.body,
            "<polyline fill=\"none\" stroke-linejoin=\"round\" {} points=\"{list}\"/>",
            stroke.attributes()
        );
    }

    pub(super) fn polygon(&mut self, points: &[(f64, f64)], fill: &str, stroke: Stroke<'_>) {
        let list: Vec<String> = points.iter().map(|&(x, y)| format!("{},{}", px(x), px(y))).collect();
        let _ = writeln!(self.body, "<polygon fill=\"{fill}\" {} points=\"{}\"/>", stroke.attributes(), list.join(" "));
    }

    pub(super) fn circle(&mut self, at: (f64, f64), radius: f64, fill: &str, stroke: Stroke<'_>) {
        let (x, y) = (px(at.0), px(at.1));
        let _ = writeln!(
            self.body,
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"{}\" fill=\"{fill}\" {}/>",
            px(radius),
            stroke.attributes()
        );
    }

    pub(super) fn text(&mut self, text: &str, at: (f64, f64), size: f64, anchor: Anchor) {
        self.styled(text, at, size, anchor, "");
    }

    pub(super) fn bold(&mut self, text: &str, at: (f64, f64), size: f64, anchor: Anchor) {
        self.styled(text, at, size, anchor, " font-weight=\"bold\"");
    }

    /// Draws text from below upwards, its middle at `at`.
    pub(super) fn upright(&mut self, text: &str, at: (f64, f64), size: f64) {
        let turn = format!(" transform=\"rotate(-90 {} {})\"", px(at.0), px(at.1));
        self.styled(text, at, size, Anchor::Middle, &turn);
    }

    fn styled(&mut self, text: &str, (x, y): (f64, f64), size: f64, anchor: Anchor, more: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let (x, y, text) = (px(x), px(y), escaped(text));
        let _ = writeln!(self.body, "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\"{anchor}{more}>{text}</text>");
    }

    /// Returns the whole drawing, on white, a pixel for a pixel.
    pub(super) fn finish(self, width: f64, height: f64, title: &str) -> String {
        self.printed(width, height, (px(width), px(height)), title)
    }

    /// Returns the whole drawing on white, for paper: `points` wide.
    pub(super) fn finish_in_points(self, width: f64, height: f64, points: f64, title: &str) -> String {
        let size = (format!("{}pt", px(points)), format!("{}pt", px(height * points / width)));
        self.printed(width, height, size, title)
    }

    fn printed(self, width: f64, height: f64, size: (String, String), title: &str) -> String {
        let (width, height, title) = (px(width), px(height), escaped(title));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" fill=\"#222222\">\n<title>{title}</title>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n{}</svg>\n",
            size.0, size.1, self.body
        )
    }
}

/// Approximate width of a text.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * LETTER
}

/// Formats a length to a tenth of a pixel.
fn px(length: f64) -> String {
    let text = format!("{length:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            // XML has no other control characters.
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}
