//! Rate and delay of real traffic against time, class by class, as its receiver saw them.

use super::axis::Axis;
use super::figure::{Figure, Panel, Series, SeriesStyle};
use super::{MAX_DRAWN, field, left_out, number};
use crate::rate_unit::RateUnit;

/// The received packets in a window of time.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedWindow {
    /// Its start in seconds.
    pub start_s: f64,
    /// Its end in seconds.
    pub end_s: f64,
    /// Values of each of [`Received::names`].
    pub classes: Vec<ReceivedClass>,
}

/// The received packets of a class in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReceivedClass {
    /// Mean rate in bit/s.
    pub rate_bps: f64,
    /// Mean delay in seconds; `None` without packets.
    pub delay_mean_s: Option<f64>,
    /// Longest delay in seconds.
    pub delay_max_s: Option<f64>,
}

/// A receiver's measurements, window by window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Received {
    /// The classes.
    pub names: Vec<String>,
    /// The windows, in the order of time.
    pub windows: Vec<ReceivedWindow>,
}

/// One row for each window and class. Delays are empty without packets.
#[must_use]
pub fn csv(received: &Received) -> String {
    let mut text = String::from("start_s,end_s,class,rate_bps,delay_mean_s,delay_max_s\n");
    let names: Vec<String> = received.names.iter().map(|name| field(name)).collect();
    for window in &received.windows {
        for (name, class) in names.iter().zip(&window.classes) {
            let (mean, max) = (number(class.delay_mean_s), number(class.delay_max_s));
            let (start, end) = (window.start_s, window.end_s);
            text.push_str(&format!("{start:.6},{end:.6},{name},{:.0},{mean},{max}\n", class.rate_bps));
        }
    }
    text
}

/// Draws rate, mean and longest delay below each other, of the classes that sent most.
#[must_use]
pub fn figure(received: &Received, title: &str) -> Figure {
    let rate_of = |class: usize| received.windows.iter().map(|window| window.classes[class].rate_bps).sum::<f64>();
    let mut classes: Vec<usize> = (0..received.names.len()).collect();
    classes.sort_by(|&one, &other| rate_of(other).total_cmp(&rate_of(one)));
    let more = classes.len().saturating_sub(MAX_DRAWN);
    classes.truncate(MAX_DRAWN);
    classes.sort_unstable();
    let all = received.windows.iter().flat_map(|window| &window.classes);
    let fastest = all.map(|class| class.rate_bps).fold(0.0, f64::max);
    let unit = RateUnit::for_link(fastest);
    let (start, end) = match (received.windows.first(), received.windows.last()) {
        (Some(first), Some(last)) => (first.start_s, last.end_s),
        _ => (0.0, 1.0),
    };
    let panel = |title: &str, y: &str, of_time: bool, value: &dyn Fn(&ReceivedClass) -> Option<f64>| {
        let line = |&class: &usize| -> Vec<(f64, f64)> {
            let point = |window: &ReceivedWindow| (window.start_s, value(&window.classes[class]).unwrap_or(f64::NAN));
            let mut points: Vec<(f64, f64)> = received.windows.iter().map(point).collect();
            points.extend(points.last().map(|&(_, y)| (end, y)));
            points
        };
        let lines: Vec<_> = classes.iter().map(line).collect();
        let highest = lines.iter().flatten().map(|point| point.1).filter(|y| y.is_finite()).fold(0.0, f64::max);
        let axis = Axis::linear(y, 0.0, highest * 1.05);
        let axis = if of_time { axis.of_time() } else { axis };
        let mut panel = Panel::new(title, Axis::linear("time (s)", start, end), axis).high(220.0);
        panel.series = lines
            .into_iter()
            .enumerate()
            .map(|(n, points)| {
                Series::steps(&received.names[classes[n]], points, SeriesStyle::nth(n).layered(n, classes.len()))
            })
            .collect();
        panel
    };
    let panels = vec![
        panel("rate", &format!("rate ({})", unit.name), false, &|class| Some(class.rate_bps / unit.bps)),
        panel("mean delay of the packets that came in a window", "delay", true, &|class| class.delay_mean_s),
        panel("longest delay of the packets that came in a window", "delay", true, &|class| class.delay_max_s),
    ];
    let mut figure = Figure::new(title, panels);
    figure.notes.extend(left_out(more));
    figure
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_flows() -> Received {
        let class = |rate_bps, delay: Option<f64>| ReceivedClass { rate_bps, delay_mean_s: delay, delay_max_s: delay };
        let window = |second: f64, classes| ReceivedWindow { start_s: second, end_s: second + 1.0, classes };
        Received {
            names: vec!["0".to_owned(), "1".to_owned()],
            windows: vec![
                window(0.0, vec![class(720_000.0, Some(0.002)), class(0.0, None)]),
                window(1.0, vec![class(540_000.0, Some(0.07)), class(260_000.0, Some(0.14))]),
            ],
        }
    }

    #[test]
    fn windows_without_a_packet_have_no_delay_in_the_file_and_none_in_the_figure() {
        let text = csv(&two_flows());
        assert_eq!(text.lines().nth(2), Some("0.000000,1.000000,1,0,,"));
        assert_eq!(text.lines().count(), 5);
        let drawn = figure(&two_flows(), "Received").svg();
        assert!(drawn.contains("rate (kbit/s)") && !drawn.contains("NaN"), "{drawn}");
    }

    #[test]
    fn nothing_received_is_an_empty_figure() {
        assert!(figure(&Received::default(), "Received").svg().contains("</svg>"));
    }
}
