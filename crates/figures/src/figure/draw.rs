//! Rendering of a figure to lines and letters.

use super::super::svg::{Anchor, Stroke, Svg, text_width};
use super::{BoxPlot, Event, Figure, GREY, Join, Marker, Panel, Series, SeriesStyle, Width};

const GRID: &str = "#e3e3e3";
const FRAME: &str = "#444444";

/// Width of figures in files.
const WIDE: f64 = 960.0;
/// Width of figures on a narrow screen.
const NARROW: f64 = 460.0;
/// Pixels for a point on paper: the smallest text, of [`SIZE`] - 3 pixels, has 7.1 pt.
const FOR_A_POINT: f64 = 1.54;
const LEFT: f64 = 86.0;
const RIGHT: f64 = 24.0;
const SIZE: f64 = 14.0;
/// Size of a title on a screen.
const HEADLINE: f64 = 18.0;
/// Approximate distance of markers on a line.
const MARKER_EVERY: f64 = 90.0;
/// Rows of texts of events below an axis.
const EVENT_ROWS: usize = 3;

/// The canvas of a figure.
#[derive(Clone, Copy)]
struct Sheet {
    width: f64,
}

impl Sheet {
    /// Returns the width of the rectangle of a panel.
    fn inner(self) -> f64 {
        self.width - LEFT - RIGHT
    }

    /// Returns the largest number of ticks along the x axis.
    fn ticks(self) -> usize {
        (self.inner() / 85.0) as usize
    }
}

impl Figure {
    /// Returns the figure as an SVG document of this width. On paper panels are half as high, and long titles and notes
    /// are broken.
    #[must_use]
    pub fn svg_for(&self, width: Width) -> String {
        let Some(points) = width.points() else { return self.svg() };
        let sheet = Sheet { width: points * FOR_A_POINT };
        let letters = |size: f64| ((sheet.width - 12.0) / text_width("x", size)) as usize;
        let mut svg = Svg::new();
        let mut y = 6.0;
        for line in fitted(&self.title, letters(SIZE)) {
            y += SIZE + 3.0;
            svg.bold(&line, (sheet.width / 2.0, y), SIZE, Anchor::Middle);
        }
        let low = |panel: &Panel| panel.clone().high(panel.height / 2.0);
        let figure = Self { panels: self.panels.iter().map(low).collect(), ..self.clone() };
        y = figure.body(sheet, &mut svg, y + 4.0);
        for line in self.notes.iter().flat_map(|note| fitted(note, letters(SIZE - 2.0))) {
            y += SIZE + 2.0;
            svg.text(&line, (6.0, y), SIZE - 2.0, Anchor::Start);
        }
        svg.finish_in_points(sheet.width, y + 10.0, points, &self.title)
    }

    /// Returns an SVG document, 960 pixels wide. Long titles are smaller, and broken if that is not enough.
    #[must_use]
    pub fn svg(&self) -> String {
        let sheet = Sheet { width: WIDE };
        let mut svg = Svg::new();
        let mut size = HEADLINE;
        while text_width(&self.title, size) > WIDE - 20.0 && size > SIZE {
            size -= 1.0;
        }
        let mut y = 30.0 - size - 3.0;
        for line in fitted(&self.title, ((WIDE - 20.0) / text_width("x", size)) as usize) {
            y += size + 3.0;
            svg.bold(&line, (WIDE / 2.0, y), size, Anchor::Middle);
        }
        y = self.body(sheet, &mut svg, y + 16.0);
        for note in &self.notes {
            y += SIZE + 6.0;
            svg.text(note, (LEFT, y), SIZE - 1.0, Anchor::Start);
        }
        svg.finish(WIDE, y + 18.0, &self.title)
    }

    /// Returns panels and legend as SVG for a page with separate title and notes: for wide screens and for narrow ones.
    #[must_use]
    pub fn for_page(&self) -> [String; 2] {
        [WIDE, NARROW].map(|width| {
            let mut svg = Svg::new();
            let y = self.body(Sheet { width }, &mut svg, 8.0);
            svg.finish(width, y + 14.0, &self.title)
        })
    }

    /// Draws panels and legend below `y`; returns their end.
    fn body(&self, sheet: Sheet, svg: &mut Svg, mut y: f64) -> f64 {
        for panel in &self.panels {
            y = panel.draw(sheet, svg, y);
        }
        self.legend(sheet, svg, y + 8.0)
    }

    /// Draws entries in columns below `y`; returns their end.
    fn legend(&self, sheet: Sheet, svg: &mut Svg, mut y: f64) -> f64 {
        let mut entries: Vec<(&str, SeriesStyle)> = Vec::new();
        for panel in &self.panels {
            let series = panel.series.iter().map(|series| (series.name.as_str(), series.look));
            let spreads = panel.spreads.iter().map(|spread| (spread.name.as_str(), spread.look));
            for (name, look) in series.chain(spreads) {
                let known =
                    |&(other, other_look): &(&str, SeriesStyle)| other == name && other_look.colour == look.colour;
                if !name.is_empty() && !entries.iter().any(known) {
                    entries.push((name, look));
                }
            }
        }
        const SAMPLE: f64 = 44.0;
        let widest = entries.iter().map(|(name, _)| text_width(name, SIZE)).fold(0.0, f64::max);
        let column = (SAMPLE + 8.0 + widest + 24.0).min(sheet.inner());
        let columns = (sheet.inner() / column).floor().max(1.0) as usize;
        let letters = ((column + RIGHT - SAMPLE - 8.0) / text_width("x", SIZE)) as usize;
        for row in entries.chunks(columns) {
            y += SIZE + 9.0;
            let mut lines = 1;
            for (n, (name, look)) in row.iter().enumerate() {
                let x = LEFT + n as f64 * column;
                let middle = y - 0.35 * SIZE;
                svg.line((x, middle), (x + SAMPLE, middle), look.stroke());
                look.mark(svg, (x + SAMPLE / 2.0, middle));
                let broken = broken(name, letters);
                for (line, text) in broken.iter().enumerate() {
                    let below = line as f64 * (SIZE + 3.0);
                    svg.text(text, (x + SAMPLE + 8.0, y + below), SIZE, Anchor::Start);
                }
                lines = lines.max(broken.len());
            }
            y += (lines - 1) as f64 * (SIZE + 3.0);
        }
        y
    }
}

/// Breaks a text between words into lines of at most `most` letters. A longer word stays whole.
fn broken(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.len() - 1;
        if lines[line].is_empty() {
            lines[line].push_str(word);
        } else if lines[line].chars().count() + 1 + word.chars().count() <= most {
            lines[line] += " ";
            lines[line] += word;
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Like [`broken`], but words that are longer than a line continue in the next one.
fn fitted(text: &str, most: usize) -> Vec<String> {
    let cut = |line: String| {
        let letters: Vec<char> = line.chars().collect();
        letters.chunks(most.max(1)).map(|part| part.iter().collect()).collect::<Vec<String>>()
    };
    broken(text, most).into_iter().flat_map(cut).collect()
}

impl SeriesStyle {
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
            // On white, or they would be lost on a wide line of their colour.
            Marker::Cross => {
                for stroke in [Stroke::full("#ffffff", 5.0), stroke] {
                    svg.line((x - r, y - r), (x + r, y + r), stroke);
                    svg.line((x - r, y + r), (x + r, y - r), stroke);
                }
            }
            Marker::Plus => {
                for stroke in [Stroke::full("#ffffff", 5.0), stroke] {
                    svg.line((x - 1.2 * r, y), (x + 1.2 * r, y), stroke);
                    svg.line((x, y - 1.2 * r), (x, y + 1.2 * r), stroke);
                }
            }
        }
    }
}

/// The rectangle of a panel, in pixels.
struct Frame<'a> {
    sheet: Sheet,
    panel: &'a Panel,
    top: f64,
    bottom: f64,
}

impl Frame<'_> {
    fn x(&self, value: f64) -> Option<f64> {
        // Slightly beyond the frame, so that values far outside do not make huge numbers.
        self.panel.x.place(value).map(|at| LEFT + at.clamp(-0.0, 1.0) * self.sheet.inner())
    }

    fn y(&self, value: f64) -> Option<f64> {
        self.panel.y.place(value).map(|at| self.bottom - at.clamp(0.0, 1.0) * (self.bottom - self.top))
    }

    fn at(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        Some((self.x(x)?, self.y(y)?))
    }
}

impl Panel {
    /// Draws below `y`; returns the end.
    fn draw(&self, sheet: Sheet, svg: &mut Svg, y: f64) -> f64 {
        let letters = ((sheet.width - LEFT) / text_width("x", SIZE)) as usize;
        let lines = if self.title.is_empty() { Vec::new() } else { fitted(&self.title, letters) };
        let further = lines.len().saturating_sub(1) as f64 * (SIZE + 3.0);
        let top = if lines.is_empty() { y + 8.0 } else { y + 26.0 + further };
        for (above, line) in lines.iter().rev().enumerate() {
            svg.bold(line, (LEFT, top - 8.0 - above as f64 * (SIZE + 3.0)), SIZE, Anchor::Start);
        }
        let frame = Frame { sheet, panel: self, top, bottom: top + self.height };
        self.draw_axes(svg, &frame);
        for &border in &self.borders {
            if let Some(x) = frame.x(border) {
                svg.line((x, frame.top), (x, frame.bottom), Stroke { colour: GREY, width: 1.0, dash: "2 4" });
            }
        }
        // Markers after all lines, so that none is covered.
        self.series.iter().for_each(|series| draw_line(series, svg, &frame));
        self.series.iter().for_each(|series| draw_markers(series, svg, &frame));
        self.spreads.iter().for_each(|spread| draw_spread(spread, svg, &frame));
        let ends = draw_events(&self.events, svg, &frame);
        if self.x.label.is_empty() {
            return ends + 4.0;
        }
        let mut label = ends + 5.0;
        for line in fitted(&self.x.label, ((sheet.width - 12.0) / text_width("x", SIZE)) as usize) {
            label += SIZE + 3.0;
            // A text that is longer than the panel moves further to the left.
            let rightmost = sheet.width - 6.0 - text_width(&line, SIZE) / 2.0;
            svg.text(&line, ((LEFT + sheet.inner() / 2.0).min(rightmost), label), SIZE, Anchor::Middle);
        }
        label + 8.0
    }

    /// Returns true if names along the x axis would overlap in one row, and need two.
    fn crowded(&self, sheet: Sheet) -> bool {
        let ticks = self.x.ticks(sheet.ticks());
        let room = sheet.inner() / ticks.len().max(1) as f64;
        self.x.has_names() && ticks.iter().any(|(_, text)| text_width(text, SIZE - 1.0) + 6.0 > room)
    }

    fn draw_axes(&self, svg: &mut Svg, frame: &Frame<'_>) {
        let (left, right) = (LEFT, LEFT + frame.sheet.inner());
        // Low panels have at least a step or two, too.
        for (value, text) in self.y.ticks(((self.height / 45.0) as usize).max(3)) {
            if let Some(y) = frame.y(value) {
                svg.line((left, y), (right, y), Stroke::full(GRID, 1.0));
                svg.line((left - 5.0, y), (left, y), Stroke::full(FRAME, 1.0));
                svg.text(&text, (left - 8.0, y + 0.35 * (SIZE - 1.0)), SIZE - 1.0, Anchor::End);
            }
        }
        for y in self.y.small_ticks().into_iter().filter_map(|value| frame.y(value)) {
            svg.line((left - 3.0, y), (left, y), Stroke::full(FRAME, 1.0));
        }
        let ticks = self.x.ticks(frame.sheet.ticks());
        let room = frame.sheet.inner() / ticks.len().max(1) as f64;
        let crowded = self.crowded(frame.sheet);
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
        // Slightly longer than the panel at most, in two lines if needed.
        let lines = fitted(&self.y.label, ((frame.bottom - frame.top + 60.0) / text_width("x", SIZE)) as usize);
        let first = if lines.len() > 1 { 12.0 } else { 22.0 };
        for (n, line) in lines.iter().enumerate() {
            let x = first + n as f64 * (SIZE + 1.0);
            svg.upright(line, (x, (frame.top + frame.bottom) / 2.0), SIZE);
        }
    }
}

/// Shortens a text to at most `most` letters.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Draws the line of a series and its error bars.
fn draw_line(series: &Series, svg: &mut Svg, frame: &Frame<'_>) {
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
}

/// The markers of a series: at all points if they are few, or else along the line.
fn draw_markers(series: &Series, svg: &mut Svg, frame: &Frame<'_>) {
    let placed: Vec<Option<(f64, f64)>> = series.points.iter().map(|&point| frame.at(point)).collect();
    // The first marker of each series is elsewhere, so that series that coincide show theirs in turn.
    let few = series.points.len() <= 24 && series.join != Join::Steps || series.join == Join::Nothing;
    let mut next = LEFT + MARKER_EVERY * (0.25 + (series.look.phase % 7) as f64 / 7.0);
    for pair in placed.windows(2) {
        let [Some(from), Some(to)] = pair[..] else { continue };
        if !few && to.0 >= next {
            // On the line between the two, not only at points.
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

/// Thins points in the order of x to at most four in each half pixel: first, lowest, highest, last. The picture is the
/// same.
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

fn draw_spread(spread: &BoxPlot, svg: &mut Svg, frame: &Frame<'_>) {
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

/// Draws triangles below the axis with their texts, in as many rows as needed to keep them apart; returns the end.
fn draw_events(events: &[Event], svg: &mut Svg, frame: &Frame<'_>) -> f64 {
    let below = frame.bottom + 24.0 + if frame.panel.crowded(frame.sheet) { SIZE } else { 0.0 };
    let mut ends = [f64::NEG_INFINITY; EVENT_ROWS];
    let mut used = 0;
    let stroke = Stroke::full(FRAME, 1.0);
    for event in events {
        let Some(x) = frame.x(event.x) else { continue };
        svg.line((x, frame.top), (x, frame.bottom), Stroke { colour: GREY, width: 1.0, dash: "5 3" });
        svg.polygon(&[(x - 4.0, below + 8.0), (x + 4.0, below + 8.0), (x, below)], FRAME, stroke);
        used = used.max(1);
        let half = text_width(&event.text, SIZE - 3.0) / 2.0;
        let middle = x.clamp(half + 2.0, frame.sheet.width - half - 2.0);
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
mod tests {
    use super::*;

    #[test]
    fn a_long_series_is_thinned_without_losing_its_extremes() {
        let points: Vec<(f64, f64)> =
            (0..100_000).map(|n| (f64::from(n) / 200.0, if n == 54_321 { 99.0 } else { 1.0 })).collect();
        let thin = thinned(points);
        assert!(thin.len() < 5_000 && thin.iter().any(|point| point.1 == 99.0), "{}", thin.len());
        assert!(thin.windows(2).all(|pair| (pair[0].0 * 2.0).floor() <= (pair[1].0 * 2.0).floor()));
    }

    #[test]
    fn long_words_of_a_legend_go_on_in_the_next_line() {
        assert_eq!(broken("one two three", 8), ["one two", "three"]);
        assert_eq!(broken("incomprehensible", 8), ["incomprehensible"]);
        assert_eq!(broken("", 8), [""]);
        assert_eq!(fitted("a name-that-is-long", 8), ["a", "name-tha", "t-is-lon", "g"]);
    }
}
