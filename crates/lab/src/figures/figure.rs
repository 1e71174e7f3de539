//! The pieces of every figure: panels one below the other on a common width, series and boxes on them, events below the x axis, and
//! a legend below all, so that it covers nothing.
//!
//! Series differ in colour, in dashes and in markers at once, so that they are told apart in grey. Of lines that coincide, those drawn
//! first are wider, and their markers stand at other places.

use super::axis::Axis;
use super::svg::{Anchor, Stroke, Svg, text_width};

/// Colours that remain distinct for most colour-blind readers (Okabe and Ito), without the yellow that white paper swallows, ordered
/// so that neighbours differ in grey.
const COLOURS: [&str; 7] = ["#0072b2", "#e69f00", "#00795a", "#cc79a7", "#8b3d00", "#56b4e9", "#000000"];
/// No dots: those are what should be.
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
const GRID: &str = "#e3e3e3";
const FRAME: &str = "#444444";

/// Width of all figures.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 86.0;
const RIGHT: f64 = 24.0;
const SIZE: f64 = 14.0;
/// Markers on a line are about so far from each other.
const MARKER_EVERY: f64 = 90.0;
/// Rows of texts of events below an axis.
const EVENT_ROWS: usize = 3;

/// The shape that stands at points.
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

/// How a series looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    colour: &'static str,
    dash: &'static str,
    marker: Option<Marker>,
    width: f64,
    /// Shifts markers along the line.
    phase: usize,
}

impl Look {
    /// The look of the series with this number: the first seven differ in colour and marker, neighbours in dashes as well.
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

    /// A thin grey line: what is there for comparison, such as inner classes.
    #[must_use]
    pub fn background(n: usize) -> Self {
        Self { colour: GREY, dash: DASHES[n % DASHES.len()], marker: None, width: 1.2, phase: n }
    }

    /// A thin black dotted line: what should be, such as an ideal or a bound.
    #[must_use]
    pub fn reference() -> Self {
        Self { colour: "#000000", dash: "1.6 3.4", marker: None, width: 1.6, phase: 0 }
    }

    /// As wide as becomes the `n`th of `count` lines that may coincide: the first is the widest.
    #[must_use]
    pub fn layered(self, n: usize, count: usize) -> Self {
        let above = count.saturating_sub(n + 1).min(4);
        Self { width: 1.8 + 1.1 * above as f64, ..self }
    }

    /// The same without markers.
    #[must_use]
    pub fn without_marker(self) -> Self {
        Self { marker: None, ..self }
    }

    fn stroke(&self) -> Stroke<'static> {
        Stroke { colour: self.colour, width: self.width, dash: self.dash }
    }
}

/// How the points of a series are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// By straight lines.
    Lines,
    /// Each value holds until the next point.
    Steps,
    /// Not at all.
    Nothing,
}

/// Points that belong together. A point that is not finite interrupts the line.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What the legend says; nothing where empty. Series of one name and look share an entry.
    pub name: String,
    /// x and y, in the order of x.
    pub points: Vec<(f64, f64)>,
    /// Half lengths of error bars by point; none where shorter than the points.
    pub errors: Vec<f64>,
    /// How points are joined.
    pub join: Join,
    /// How it looks.
    pub look: Look,
}

impl Series {
    /// Points joined by lines.
    #[must_use]
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>, look: Look) -> Self {
        Self { name: name.into(), points, errors: Vec::new(), join: Join::Lines, look }
    }

    /// Values that hold until the next point.
    #[must_use]
    pub fn steps(name: impl Into<String>, points: Vec<(f64, f64)>, look: Look) -> Self {
        Self { join: Join::Steps, ..Self::line(name, points, look) }
    }

    /// Points alone.
    #[must_use]
    pub fn points(name: impl Into<String>, points: Vec<(f64, f64)>, look: Look) -> Self {
        Self { join: Join::Nothing, ..Self::line(name, points, look) }
    }

    /// With error bars.
    #[must_use]
    pub fn with_errors(self, errors: Vec<f64>) -> Self {
        Self { errors, ..self }
    }
}

/// A box plot of one distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// What the legend says.
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
    /// How it looks.
    pub look: Look,
}

/// Something that happened, shown below the x axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When.
    pub x: f64,
    /// What, in a word or two.
    pub text: String,
}

/// A rectangle with axes and what is drawn in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What stands above it; nothing where empty.
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
    pub spreads: Vec<Spread>,
    /// x of vertical lines, such as borders of phases.
    pub borders: Vec<f64>,
    /// What happened, marked below the x axis.
    pub events: Vec<Event>,
}

impl Panel {
    /// Without anything in it.
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

    /// Of this height in pixels.
    #[must_use]
    pub fn high(self, height: f64) -> Self {
        Self { height, ..self }
    }
}

/// Panels below each other, and what they are about.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The headline.
    pub title: String,
    /// The panels, from above.
    pub panels: Vec<Panel>,
    /// Sentences below the legend, such as what is left out.
    pub notes: Vec<String>,
}

impl Figure {
    /// With these panels.
    #[must_use]
    pub fn new(title: impl Into<String>, panels: Vec<Panel>) -> Self {
        Self { title: title.into(), panels, notes: Vec::new() }
    }

    /// As an SVG document, 960 pixels wide.
    #[must_use]
    pub fn svg(&self) -> String {
        let mut svg = Svg::new();
        let mut y = 30.0;
        let mut size = 18.0;
        while text_width(&self.title, size) > WIDTH - 20.0 && size > 9.0 {
            size -= 1.0;
        }
        svg.bold(&self.title, (WIDTH / 2.0, y), size, Anchor::Middle);
        y += 16.0;
        for panel in &self.panels {
            y = panel.draw(&mut svg, y);
        }
        y = self.legend(&mut svg, y + 8.0);
        for note in &self.notes {
            y += SIZE + 6.0;
            svg.text(note, (LEFT, y), SIZE - 1.0, Anchor::Start);
        }
        svg.finish(WIDTH, y + 18.0, &self.title)
    }

    /// Entries in columns below `y`; where it ends.
    fn legend(&self, svg: &mut Svg, mut y: f64) -> f64 {
        let mut entries: Vec<(&str, Look)> = Vec::new();
        for panel in &self.panels {
            let series = panel.series.iter().map(|series| (series.name.as_str(), series.look));
            let spreads = panel.spreads.iter().map(|spread| (spread.name.as_str(), spread.look));
            for (name, look) in series.chain(spreads) {
                let known = |&(other, other_look): &(&str, Look)| other == name && other_look.colour == look.colour;
                if !name.is_empty() && !entries.iter().any(known) {
                    entries.push((name, look));
                }
            }
        }
        const SAMPLE: f64 = 44.0;
        let widest = entries.iter().map(|(name, _)| text_width(name, SIZE)).fold(0.0, f64::max);
        let column = SAMPLE + 8.0 + widest + 24.0;
        let columns = ((WIDTH - LEFT - RIGHT) / column).floor().max(1.0) as usize;
        for row in entries.chunks(columns) {
            y += SIZE + 9.0;
            for (n, (name, look)) in row.iter().enumerate() {
                let x = LEFT + n as f64 * column;
                let middle = y - 0.35 * SIZE;
                svg.line((x, middle), (x + SAMPLE, middle), look.stroke());
                look.mark(svg, (x + SAMPLE / 2.0, middle));
                svg.text(name, (x + SAMPLE + 8.0, y), SIZE, Anchor::Start);
            }
        }
        y
    }
}

impl Look {
    fn mark(&self, svg: &mut Svg, (x, y): (f64, f64)) {
        let Some(marker) = self.marker else { return };
        let stroke = Stroke::full(self.colour, 1.6);
        let r = 4.2;
        let shape = |svg: &mut Svg, points: &[(f64, f64)]| {
            let points: Vec<_> = points.iter().map(|&(dx, dy)| (x + r * dx, y + r * dy)).collect();
            svg.polygon(&points, "#ffffff", stroke);
        };
        match marker {
            Marker::Circle => svg.circle((x, y), r, "#ffffff", stroke),
            Marker::Square => shape(svg, &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
            Marker::Triangle => shape(svg, &[(-1.1, 0.9), (1.1, 0.9), (0.0, -1.1)]),
            Marker::TriangleDown => shape(svg, &[(-1.1, -0.9), (1.1, -0.9), (0.0, 1.1)]),
            Marker::Diamond => shape(svg, &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)]),
            Marker::Cross => {
                svg.line((x - r, y - r), (x + r, y + r), stroke);
                svg.line((x - r, y + r), (x + r, y - r), stroke);
            }
            Marker::Plus => {
                svg.line((x - 1.2 * r, y), (x + 1.2 * r, y), stroke);
                svg.line((x, y - 1.2 * r), (x, y + 1.2 * r), stroke);
            }
        }
    }
}

/// The rectangle of a panel, in pixels.
struct Frame<'a> {
    panel: &'a Panel,
    top: f64,
    bottom: f64,
}

impl Frame<'_> {
    const WIDTH: f64 = WIDTH - LEFT - RIGHT;

    fn x(&self, value: f64) -> Option<f64> {
        // A little beyond the frame, so that what is far outside makes no endless numbers.
        self.panel.x.place(value).map(|at| LEFT + at.clamp(-0.0, 1.0) * Self::WIDTH)
    }

    fn y(&self, value: f64) -> Option<f64> {
        self.panel.y.place(value).map(|at| self.bottom - at.clamp(0.0, 1.0) * (self.bottom - self.top))
    }

    fn at(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        Some((self.x(x)?, self.y(y)?))
    }
}

impl Panel {
    /// Below `y`; where it ends.
    fn draw(&self, svg: &mut Svg, y: f64) -> f64 {
        let top = if self.title.is_empty() { y + 8.0 } else { y + 26.0 };
        if !self.title.is_empty() {
            svg.bold(&self.title, (LEFT, top - 8.0), SIZE, Anchor::Start);
        }
        let frame = Frame { panel: self, top, bottom: top + self.height };
        self.draw_axes(svg, &frame);
        for &border in &self.borders {
            if let Some(x) = frame.x(border) {
                svg.line((x, frame.top), (x, frame.bottom), Stroke { colour: GREY, width: 1.0, dash: "2 4" });
            }
        }
        self.series.iter().for_each(|series| draw_series(series, svg, &frame));
        self.spreads.iter().for_each(|spread| draw_spread(spread, svg, &frame));
        let ends = draw_events(&self.events, svg, &frame);
        let label = ends + SIZE + 8.0;
        svg.text(&self.x.label, (LEFT + Frame::WIDTH / 2.0, label), SIZE, Anchor::Middle);
        label + 8.0
    }

    /// Whether names along the x axis would run into each other in one row, and stand in two.
    fn crowded(&self) -> bool {
        let ticks = self.x.ticks(10);
        let room = Frame::WIDTH / ticks.len().max(1) as f64;
        self.x.has_names() && ticks.iter().any(|(_, text)| text_width(text, SIZE - 1.0) + 6.0 > room)
    }

    fn draw_axes(&self, svg: &mut Svg, frame: &Frame<'_>) {
        let (left, right) = (LEFT, LEFT + Frame::WIDTH);
        for (value, text) in self.y.ticks((self.height / 45.0) as usize) {
            if let Some(y) = frame.y(value) {
                svg.line((left, y), (right, y), Stroke::full(GRID, 1.0));
                svg.line((left - 5.0, y), (left, y), Stroke::full(FRAME, 1.0));
                svg.text(&text, (left - 8.0, y + 0.35 * (SIZE - 1.0)), SIZE - 1.0, Anchor::End);
            }
        }
        for y in self.y.small_ticks().into_iter().filter_map(|value| frame.y(value)) {
            svg.line((left - 3.0, y), (left, y), Stroke::full(FRAME, 1.0));
        }
        let ticks = self.x.ticks(10);
        let room = Frame::WIDTH / ticks.len().max(1) as f64;
        let crowded = self.crowded();
        for (n, (value, text)) in ticks.into_iter().enumerate() {
            if let Some(x) = frame.x(value) {
                if !self.x.has_names() {
                    svg.line((x, frame.top), (x, frame.bottom), Stroke::full(GRID, 1.0));
                }
                svg.line((x, frame.bottom), (x, frame.bottom + 5.0), Stroke::full(FRAME, 1.0));
                let row = if crowded && n % 2 == 1 { SIZE + 2.0 } else { 0.0 };
                let fits = if crowded { (2.0 * room / (0.6 * (SIZE - 1.0))) as usize } else { usize::MAX };
                let text = shortened(&text, fits.max(4));
                svg.text(&text, (x, frame.bottom + 19.0 + row), SIZE - 1.0, Anchor::Middle);
            }
        }
        for x in self.x.small_ticks().into_iter().filter_map(|value| frame.x(value)) {
            svg.line((x, frame.bottom), (x, frame.bottom + 3.0), Stroke::full(FRAME, 1.0));
        }
        let corners = [(left, frame.top), (right, frame.top), (right, frame.bottom), (left, frame.bottom)];
        svg.polygon(&corners, "none", Stroke::full(FRAME, 1.0));
        svg.upright(&self.y.label, (22.0, (frame.top + frame.bottom) / 2.0), SIZE);
    }
}

/// At most so many letters.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

fn draw_series(series: &Series, svg: &mut Svg, frame: &Frame<'_>) {
    let stroke = series.look.stroke();
    let placed: Vec<Option<(f64, f64)>> = series.points.iter().map(|&point| frame.at(point)).collect();
    for part in placed.split(Option::is_none) {
        let points: Vec<(f64, f64)> = part.iter().flatten().copied().collect();
        match series.join {
            Join::Nothing => {}
            Join::Lines if points.len() > 1 => svg.polyline(&thinned(points), stroke),
            Join::Steps if points.len() > 1 => {
                let steps = points.windows(2).flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
                svg.polyline(&thinned(steps.chain(points.last().copied()).collect()), stroke);
            }
            Join::Lines | Join::Steps => {}
        }
    }
    for (&(x, y), &error) in series.points.iter().zip(&series.errors) {
        let full = Stroke::full(series.look.colour, 1.4);
        if let (Some(x), Some(low), Some(high)) = (frame.x(x), frame.y(y - error), frame.y(y + error)) {
            svg.line((x, low), (x, high), full);
            [low, high].into_iter().for_each(|y| svg.line((x - 5.0, y), (x + 5.0, y), full));
        }
    }
    // The first marker of each series is elsewhere, so that series that coincide show theirs in turn.
    let few = series.points.len() <= 24 && series.join != Join::Steps || series.join == Join::Nothing;
    let mut next = LEFT + MARKER_EVERY * (0.25 + (series.look.phase % 7) as f64 / 7.0);
    for pair in placed.windows(2) {
        let [Some(from), Some(to)] = pair[..] else { continue };
        if !few && to.0 >= next {
            // On the line between the two, not only where points are.
            let share = if to.0 > from.0 { ((next - from.0) / (to.0 - from.0)).clamp(0.0, 1.0) } else { 0.0 };
            let y = if series.join == Join::Steps { from.1 } else { from.1 + share * (to.1 - from.1) };
            let x = from.0 + share * (to.0 - from.0);
            series.look.mark(svg, (x, y));
            next = x + MARKER_EVERY;
        }
    }
    if few {
        placed.iter().flatten().for_each(|&at| series.look.mark(svg, at));
    }
}

/// Of points in the order of x at most four in each half pixel: first, lowest, highest, last. The picture is the same.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if points.len() < 4_000 {
        return points;
    }
    let mut thin = Vec::new();
    for column in points.chunk_by(|one, other| (one.0 * 2.0).floor() == (other.0 * 2.0).floor()) {
        if column.len() <= 4 {
            thin.extend_from_slice(column);
            continue;
        }
        let by = |order: fn(&f64, &f64) -> std::cmp::Ordering| column.iter().copied().min_by(|a, b| order(&a.1, &b.1));
        thin.extend(column.first());
        thin.extend(by(f64::total_cmp));
        thin.extend(by(|a, b| b.total_cmp(a)));
        thin.extend(column.last());
    }
    thin
}

fn draw_spread(spread: &Spread, svg: &mut Svg, frame: &Frame<'_>) {
    let (half, look) = (spread.width / 2.0, spread.look);
    let Some(x) = frame.x(spread.x) else { return };
    let (Some(left), Some(right)) = (frame.x(spread.x - half), frame.x(spread.x + half)) else { return };
    let ys = [spread.whiskers.0, spread.quartiles.0, spread.median, spread.quartiles.1, spread.whiskers.1];
    let [Some(low), Some(first), Some(median), Some(third), Some(high)] = ys.map(|y| frame.y(y)) else { return };
    let full = Stroke::full(look.colour, 1.8);
    svg.line((x, low), (x, first), full);
    svg.line((x, third), (x, high), full);
    let cap = (right - left) / 4.0;
    [low, high].into_iter().for_each(|y| svg.line((x - cap, y), (x + cap, y), full));
    svg.polygon(&[(left, first), (right, first), (right, third), (left, third)], "#ffffff", look.stroke());
    svg.line((left, median), (right, median), Stroke::full(look.colour, 3.2));
    if let Some(y) = frame.y(spread.mean) {
        look.mark(svg, (x, y));
    }
    if let Some(y) = frame.y(spread.max) {
        svg.circle((x, y), 2.2, look.colour, full);
    }
}

/// Triangles below the axis with their texts, in as many rows as keeps them apart; where they end.
fn draw_events(events: &[Event], svg: &mut Svg, frame: &Frame<'_>) -> f64 {
    let below = frame.bottom + 24.0 + if frame.panel.crowded() { SIZE } else { 0.0 };
    let mut ends = [f64::NEG_INFINITY; EVENT_ROWS];
    let mut used = 0;
    let stroke = Stroke::full(FRAME, 1.0);
    for event in events {
        let Some(x) = frame.x(event.x) else { continue };
        svg.line((x, frame.top), (x, frame.bottom), Stroke { colour: GREY, width: 1.0, dash: "5 3" });
        svg.polygon(&[(x - 4.0, below + 8.0), (x + 4.0, below + 8.0), (x, below)], FRAME, stroke);
        used = used.max(1);
        let half = text_width(&event.text, SIZE - 3.0) / 2.0;
        let middle = x.clamp(half + 2.0, WIDTH - half - 2.0);
        // Texts that fit nowhere are left out: their triangles remain.
        if let Some(row) = ends.iter().position(|&end| middle - half > end + 4.0) {
            ends[row] = middle + half;
            used = used.max(row + 1);
            svg.text(&event.text, (middle, below + 20.0 + 13.0 * row as f64), SIZE - 3.0, Anchor::Middle);
        }
    }
    below + if used > 0 { 10.0 + 13.0 * used as f64 } else { 0.0 }
}

#[cfg(test)]
mod tests;
