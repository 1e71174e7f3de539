//! Rates of classes under several schedulers, phase by phase, as bars side by side with the ideal as a mark.

use super::svg::{Anchor, Stroke, Svg, text_width};
use crate::human;

/// The rates of one class in one phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Got<'a> {
    /// The class.
    pub class: &'a str,
    /// Its fluid ideal, in bit/s.
    pub ideal_bps: f64,
    /// Its rate under each scheduler, in bit/s; NaN if that was not run.
    pub measured_bps: Vec<f64>,
}

/// A phase and its classes.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase<'a> {
    /// Its name, such as `2.5 .. 5 s`.
    pub name: String,
    /// In the order in which they are drawn.
    pub classes: Vec<Got<'a>>,
}

/// Colours of the schedulers, distinct for most colour-blind readers and in grey.
const COLOURS: [&str; 4] = ["#0072b2", "#e69f00", "#00795a", "#cc79a7"];
const LEFT: f64 = 150.0;
const BARS: f64 = 560.0;
const RIGHT: f64 = 210.0;
const BAR: f64 = 13.0;
const EDGE: f64 = 24.0;
const TOP: f64 = 78.0;

/// Returns the drawing as SVG, on white. The full width is the largest rate. Draws at most four schedulers.
#[must_use]
pub fn svg(title: &str, schedulers: &[&str], phases: &[Phase<'_>]) -> String {
    let players = schedulers.len().min(COLOURS.len());
    let group = players as f64 * BAR + 12.0;
    let classes: usize = phases.iter().map(|phase| phase.classes.len()).sum();
    let width = LEFT + BARS + RIGHT;
    let height = TOP + classes as f64 * group + phases.len() as f64 * 14.0 + EDGE;
    let mut svg = Svg::new();
    svg.bold(title, (EDGE, 30.0), 18.0, Anchor::Start);
    legend(&mut svg, &schedulers[..players]);
    let all = phases.iter().flat_map(|phase| &phase.classes);
    let rates = all.flat_map(|got| got.measured_bps.iter().take(players).chain([&got.ideal_bps]));
    let largest = rates.copied().filter(|bps| bps.is_finite()).fold(1.0, f64::max);
    let across = |bps: f64| LEFT + BARS * (bps / largest).clamp(0.0, 1.0);
    let mut y = TOP;
    for phase in phases {
        svg.text(&phase.name, (EDGE, y + group / 2.0), 14.0, Anchor::Start);
        for got in &phase.classes {
            let middle = y + (group - 12.0) / 2.0;
            svg.bold(got.class, (LEFT - 12.0, middle + 5.0), 14.0, Anchor::End);
            for (place, &bps) in got.measured_bps.iter().take(players).enumerate().filter(|(_, bps)| bps.is_finite()) {
                let top = y + place as f64 * BAR;
                let bottom = top + BAR - 2.0;
                let corners = [(LEFT, top), (across(bps), top), (across(bps), bottom), (LEFT, bottom)];
                svg.polygon(&corners, COLOURS[place], Stroke::full("none", 0.0));
                let right = across(bps.max(got.ideal_bps)) + 8.0;
                svg.text(&told(bps, got.ideal_bps), (right, bottom - 0.5), 12.0, Anchor::Start);
            }
            let x = across(got.ideal_bps);
            svg.line((x, y - 3.0), (x, y + group - 11.0), Stroke::full("#000000", 2.5));
            y += group;
        }
        y += 14.0;
    }
    svg.finish(width, height, title)
}

/// Formats a rate, and its deviation from the ideal if it is visible.
fn told(bps: f64, ideal_bps: f64) -> String {
    let off = 100.0 * (bps / ideal_bps - 1.0);
    let rate = human::rate((bps / 1e4).round() * 1e4);
    if ideal_bps > 0.0 && off.abs() >= 0.5 { format!("{rate}  ({off:+.0} %)") } else { rate }
}

fn legend(svg: &mut Svg, schedulers: &[&str]) {
    let y = 56.0;
    let mut x = LEFT;
    for (name, colour) in schedulers.iter().zip(COLOURS) {
        let corners = [(x, y - 10.0), (x + 18.0, y - 10.0), (x + 18.0, y), (x, y)];
        svg.polygon(&corners, colour, Stroke::full("none", 0.0));
        svg.text(name, (x + 24.0, y), 14.0, Anchor::Start);
        x += 24.0 + text_width(name, 14.0) + 20.0;
    }
    svg.line((x + 4.0, y - 14.0), (x + 4.0, y + 4.0), Stroke::full("#000000", 2.5));
    svg.text("the ideal", (x + 14.0, y), 14.0, Anchor::Start);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_the_rates_and_marks_stand_at_the_ideal() {
        let got = Got { class: "A1", ideal_bps: 50e6, measured_bps: vec![50e6, 25e6, f64::NAN] };
        let phases = [Phase { name: "0 .. 1 s".to_owned(), classes: vec![got] }];
        let text = svg("two", &["hls", "htb", "drr"], &phases);
        let ends: Vec<f64> = text
            .lines()
            .filter(|line| line.starts_with("<polygon"))
            .skip(3)
            .map(|line| line.split("points=\"").nth(1).unwrap().split(' ').nth(1).unwrap().split(',').next().unwrap())
            .map(|x| x.parse().unwrap())
            .collect();
        assert_eq!(ends, [LEFT + BARS, LEFT + BARS / 2.0]);
        assert!(text.contains("25 Mbit/s  (-50 %)") && text.contains(">50 Mbit/s<"), "{text}");
        assert_eq!(text.matches(&format!("points=\"{},", LEFT + BARS)).count(), 1, "the mark");
    }
}
