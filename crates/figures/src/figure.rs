//! The parts of every figure: panels one below the other on a common width, series and boxes on them, events below the
//! x axis, and a legend below all, so that it covers nothing.
//!
//! Series differ in colour, in dashes and in markers at once, so that they are distinct in grey. Of lines that
//! coincide, those drawn first are wider, and their markers are at other places.

use super::axis::Axis;
use super::svg::Stroke;

mod draw;

/// Colours that remain distinct for most colour-blind readers (Okabe and Ito), without the yellow that white paper swallows, ordered
/// so that neighbours differ in grey.
const COLOURS: [&str; 7] = ["#0072b2", "#e69f00", "#00795a", "#cc79a7", "#8b3d00", "#56b4e9", "#000000"];
/// No dots: those are for references.
const DASHES: [&str; 6] = ["", "9 4", "14 3 3 3", "5 3", "18 5", "8 3 3 3 3 3"];
const MARKERS: [Marker; 7] = [
    Marker::Circle,
    Marker::Square,
    Marker::Triangle,
    Marker::Diamond,
    Marker::Cross,
    Marker::Plus,
    Marker::TriangleDown,
];
const GREY: &str = "#8c8c8c";

/// The shape of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    Cross,
    Plus,
    TriangleDown,
}

/// The style of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesStyle {
    colour: &'static str,
    dash: &'static str,
    marker: Option<Marker>,
    width: f64,
    /// Shifts markers along the line.
    phase: usize,
}

impl SeriesStyle {
    /// Returns the look of the series with this number. The first seven differ in colour and marker, neighbours in
    /// dashes as well.
    #[must_use]
    pub fn nth(n: usize) -> Self {
        Self {
            colour: COLOURS[n % COLOURS.len()],
            dash: DASHES[n % DASHES.len()],
            marker: Some(MARKERS[(n + 3 * (n / COLOURS.len())) % MARKERS.len()]),
            width: 2.2,
            phase: n,
        }
    }

    /// Returns the `n`th look in its `k`th variant: the same colour and marker in other dashes. The first is a line
    /// without gaps.
    #[must_use]
    pub fn variant(n: usize, k: usize) -> Self {
        Self { dash: DASHES[k % DASHES.len()], ..Self::nth(n) }
    }

    /// A thin grey line for comparison, such as inner classes.
    #[must_use]
    pub fn background(n: usize) -> Self {
        Self { colour: GREY, dash: DASHES[n % DASHES.len()], marker: None, width: 1.2, phase: n }
    }

    /// A thin black dotted line for a reference, such as an ideal or a bound.
    #[must_use]
    pub fn reference() -> Self {
        Self { colour: "#000000", dash: "1.6 3.4", marker: None, width: 1.6, phase: 0 }
    }

    /// Sets the width for the `n`th of `count` lines that may coincide. The first is the widest.
    #[must_use]
    pub fn layered(self, n: usize, count: usize) -> Self {
        let above = count.saturating_sub(n + 1).min(4);
        Self { width: 1.8 + 1.1 * above as f64, ..self }
    }

    /// Removes the markers.
    #[must_use]
    pub fn without_marker(self) -> Self {
        Self { marker: None, ..self }
    }

    fn stroke(&self) -> Stroke<'static> {
        Stroke { colour: self.colour, width: self.width, dash: self.dash }
    }
}

/// The connection of the points of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// By straight lines.
    Lines,
    /// Each value holds until the next point.
    Steps,
    /// No line.
    Nothing,
}

/// Points that belong together. A point that is not finite interrupts the line.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its legend; none if empty. Series of one name and style share an entry.
    pub name: String,
    /// x and y, in the order of x.
    pub points: Vec<(f64, f64)>,
    /// Half lengths of error bars by point; none if shorter than the points.
    pub errors: Vec<f64>,
    /// Connection of the points.
    pub join: Join,
    /// Style.
    pub look: SeriesStyle,
}

impl Series {
    /// Points joined by lines.
    #[must_use]
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>, look: SeriesStyle) -> Self {
        Self { name: name.into(), points, errors: Vec::new(), join: Join::Lines, look }
    }

    /// Values that hold until the next point.
    #[must_use]
    pub fn steps(name: impl Into<String>, points: Vec<(f64, f64)>, look: SeriesStyle) -> Self {
        Self { join: Join::Steps, ..Self::line(name, points, look) }
    }

    /// Points alone.
    #[must_use]
    pub fn points(name: impl Into<String>, points: Vec<(f64, f64)>, look: SeriesStyle) -> Self {
        Self { join: Join::Nothing, ..Self::line(name, points, look) }
    }

    /// Adds error bars.
    #[must_use]
    pub fn with_errors(self, errors: Vec<f64>) -> Self {
        Self { errors, ..self }
    }
}

/// A box plot of one distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxPlot {
    /// Its legend.
    pub name: String,
    /// Its middle and its width on the x axis.
    pub x: f64,
    /// Width on the x axis.
    pub width: f64,
    /// Ends of the whiskers.
    pub whiskers: (f64, f64),
    /// Ends of the box: the quartiles.
    pub quartiles: (f64, f64),
    /// The line across the box.
    pub median: f64,
    /// A marker.
    pub mean: f64,
    /// A dot above the whisker.
    pub max: f64,
    /// Style.
    pub look: SeriesStyle,
}

/// Something that happened, shown below the x axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When.
    pub x: f64,
    /// The event, in a word or two.
    pub text: String,
}

/// A rectangle with axes and its contents.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Its title; none if empty.
    pub title: String,
    /// Along the bottom.
    pub x: Axis,
    /// Along the left.
    pub y: Axis,
    /// Height of the rectangle in pixels.
    pub height: f64,
    /// Lines and points, the lowest first.
    pub series: Vec<Series>,
    /// Box plots.
    pub spreads: Vec<BoxPlot>,
    /// x of vertical lines, such as borders of phases.
    pub borders: Vec<f64>,
    /// Events, marked below the x axis.
    pub events: Vec<Event>,
}

impl Panel {
    /// Makes an empty panel.
    #[must_use]
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self {
            title: title.into(),
            x,
            y,
            height: 340.0,
            series: Vec::new(),
            spreads: Vec::new(),
            borders: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Sets the height in pixels.
    #[must_use]
    pub fn high(self, height: f64) -> Self {
        Self { height, ..self }
    }
}

/// The width of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Width {
    /// 960 pixels, for a screen.
    #[default]
    Screen,
    /// 240 pt (3.33 in), a column of a paper. No text is smaller than 7 pt.
    Column,
    /// 504 pt (7 in), both columns of a paper. No text is smaller than 7 pt.
    Page,
}

impl Width {
    /// Width in points on paper; `None` for a screen.
    #[must_use]
    pub fn points(self) -> Option<f64> {
        match self {
            Self::Screen => None,
            Self::Column => Some(240.0),
            Self::Page => Some(504.0),
        }
    }
}

/// Panels below each other, with a title.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The headline.
    pub title: String,
    /// The panels, from above.
    pub panels: Vec<Panel>,
    /// Sentences below the legend, such as on omissions.
    pub notes: Vec<String>,
}

impl Figure {
    /// Makes a figure with these panels.
    #[must_use]
    pub fn new(title: impl Into<String>, panels: Vec<Panel>) -> Self {
        Self { title: title.into(), panels, notes: Vec::new() }
    }
}

#[cfg(test)]
mod tests;
