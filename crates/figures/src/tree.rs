//! A tree of classes with their rates: a row for each class, its position in the tree to the left, its share to the
//! right.

use super::svg::{Anchor, Stroke, Svg, text_width};
use crate::human;

/// One class, after its parent and all that is below its elder siblings.
#[derive(Clone, Debug, PartialEq)]
pub struct Node<'a> {
    /// Its name.
    pub name: &'a str,
    /// Levels below the link: 1 for a class that hangs off it.
    pub depth: usize,
    /// Guaranteed rate, in bit/s.
    pub guarantee_bps: Option<f64>,
    /// Maximum rate, in bit/s.
    pub ceiling_bps: Option<f64>,
    /// Its rate when all leaves have unlimited demand, in bit/s.
    pub share_bps: Option<f64>,
}

/// Returns the prefixes of names for `depths` (classes in the order of the tree, 1 below the link): branches of the
/// tree in box characters, three columns for each level.
///
/// ```
/// assert_eq!(fairlink_figures::tree::branches(&[1, 2, 2, 1]), ["├─ ", "│  ├─ ", "│  └─ ", "└─ "]);
/// ```
///
/// # Panics
/// If a depth is zero.
#[must_use]
pub fn branches(depths: &[usize]) -> Vec<String> {
    // From the last class up: true for each level with another class further down, before a level above it ends.
    let mut more: Vec<bool> = Vec::new();
    let mut all: Vec<String> = depths
        .iter()
        .rev()
        .map(|&depth| {
            more.truncate(depth);
            more.resize(depth, false);
            let mut text: String = more[..depth - 1].iter().map(|&more| if more { "│  " } else { "   " }).collect();
            text.push_str(if more[depth - 1] { "├─ " } else { "└─ " });
            more[depth - 1] = true;
            text
        })
        .collect();
    all.reverse();
    all
}

const ROW: f64 = 26.0;
const STEP: f64 = 22.0;
const SIZE: f64 = 14.0;
const TOP: f64 = 74.0;
const BARS: f64 = 420.0;
const EDGE: f64 = 24.0;
const NUMBERS: f64 = 100.0;
const LINE: &str = "#8c8c8c";
const SHARE: &str = "#0072b2";
const ROOM: &str = "#dbe9f4";
const GUARANTEE: &str = "#e69f00";

/// Returns the drawing as SVG, on white. A bar is a class's rate with unlimited demand of all; the light part behind it
/// extends to its ceiling; a mark is its guarantee.
///
/// # Panics
/// If a depth is zero.
#[must_use]
pub fn svg(title: &str, link_bps: f64, nodes: &[Node<'_>]) -> String {
    let depths: Vec<usize> = nodes.iter().map(|node| node.depth).collect();
    let widest = nodes.iter().map(|node| node.depth as f64 * STEP + text_width(node.name, SIZE)).fold(0.0, f64::max);
    let bars = EDGE + widest.max(80.0) + 24.0;
    let width = bars + BARS + NUMBERS + EDGE;
    let height = TOP + nodes.len() as f64 * ROW + EDGE;
    let mut svg = Svg::new();
    svg.bold(title, (EDGE, 30.0), 18.0, Anchor::Start);
    legend(&mut svg, bars);
    let grey = Stroke::full(LINE, 1.2);
    let middle = |row: usize| TOP + (row as f64 + 0.5) * ROW;
    let column = |depth: usize| EDGE + 6.0 + (depth as f64 - 1.0) * STEP;
    for (row, node) in nodes.iter().enumerate() {
        let y = middle(row);
        // Up to the class above it that is a sibling or its parent.
        let above = depths[..row].iter().rposition(|&depth| depth <= node.depth);
        let from = above.map_or(TOP - 6.0, |above| middle(above) + if depths[above] < node.depth { 8.0 } else { 0.0 });
        let x = column(node.depth);
        svg.polyline(&[(x, from), (x, y), (x + 12.0, y)], grey);
        svg.text(node.name, (x + 17.0, y + 5.0), SIZE, Anchor::Start);
        let length = |bps: f64| BARS * (bps / link_bps).clamp(0.0, 1.0);
        let bar = |svg: &mut Svg, bps: f64, high: f64, colour: &str| {
            let (right, half) = (bars + length(bps), high / 2.0);
            let corners = [(bars, y - half), (right, y - half), (right, y + half), (bars, y + half)];
            svg.polygon(&corners, colour, Stroke::full("none", 0.0));
        };
        bar(&mut svg, node.ceiling_bps.unwrap_or(link_bps), 16.0, ROOM);
        bar(&mut svg, node.share_bps.unwrap_or(0.0), 10.0, SHARE);
        if let Some(guarantee) = node.guarantee_bps {
            let x = bars + length(guarantee);
            svg.line((x, y - 10.0), (x, y + 10.0), Stroke::full(GUARANTEE, 2.5));
        }
        let share = node.share_bps.map_or_else(|| "not computed".to_owned(), human::rate);
        svg.text(&share, (bars + BARS + NUMBERS, y + 5.0), SIZE, Anchor::End);
    }
    svg.finish(width, height, title)
}

fn legend(svg: &mut Svg, left: f64) {
    let y = 56.0;
    let mut x = left;
    let box_of = |svg: &mut Svg, x: f64, colour: &str| {
        let corners = [(x, y - 9.0), (x + 18.0, y - 9.0), (x + 18.0, y + 1.0), (x, y + 1.0)];
        svg.polygon(&corners, colour, Stroke::full("none", 0.0));
    };
    for (text, colour) in [("share, all busy", SHARE), ("may get", ROOM)] {
        box_of(svg, x, colour);
        svg.text(text, (x + 24.0, y), 13.0, Anchor::Start);
        x += 24.0 + text_width(text, 13.0) + 18.0;
    }
    svg.line((x + 9.0, y - 14.0), (x + 9.0, y + 4.0), Stroke::full(GUARANTEE, 2.5));
    svg.text("guaranteed", (x + 18.0, y), 13.0, Anchor::Start);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_lead_from_each_class_to_its_parent() {
        // Read again: the parent of a class is the last one before it whose branch ends three columns further left.
        let depths = [1, 2, 3, 3, 2, 1, 2, 3, 4, 1, 1, 2];
        let all = branches(&depths);
        for (at, (text, &depth)) in all.iter().zip(&depths).enumerate() {
            assert_eq!(text.chars().count(), 3 * depth, "{text:?}");
            let cells: Vec<char> = text.chars().step_by(3).collect();
            for (level, &cell) in (1..).zip(&cells) {
                // True if the branch of that level continues below this row.
                let rest = &depths[at + 1..];
                let goes_on = rest.iter().take_while(|&&below| below >= level).any(|&below| below == level);
                let own = level == depth;
                let expected = match (own, goes_on) {
                    (true, true) => '├',
                    (true, false) => '└',
                    (false, true) => '│',
                    (false, false) => ' ',
                };
                assert_eq!(cell, expected, "row {at}, level {level}");
            }
        }
    }

    #[test]
    fn the_drawing_has_every_class_once_and_bars_in_proportion() {
        let node = |name, depth, share_bps| Node {
            name,
            depth,
            guarantee_bps: Some(1e6),
            ceiling_bps: None,
            share_bps: Some(share_bps),
        };
        let nodes = [node("a<b", 1, 4e6), node("c", 2, 2e6), node("d", 1, 6e6)];
        let text = svg("tree", 10e6, &nodes);
        assert_eq!(text.matches(">a&lt;b</text>").count(), 1);
        assert_eq!(text.matches(">6 Mbit/s</text>").count(), 1);
        let widths: Vec<f64> = text
            .lines()
            .filter(|line| line.starts_with("<polygon") && line.contains(SHARE))
            .skip(1)
            .map(|line| {
                let points = line.split("points=\"").nth(1).unwrap();
                let xs: Vec<f64> =
                    points.split(' ').take(2).map(|point| point.split(',').next().unwrap().parse().unwrap()).collect();
                xs[1] - xs[0]
            })
            .collect();
        assert_eq!(widths, [0.4 * BARS, 0.2 * BARS, 0.6 * BARS]);
    }
}
