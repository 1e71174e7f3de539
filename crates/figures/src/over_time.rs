//! Rates, delays, queues and drops against time, of one run.

use fairlink_sim::{LeafWindow, Phase, Run, Window, Windows};

use super::axis::Axis;
use super::figure::{Figure, Panel, Series, SeriesStyle};
use super::{MAX_DRAWN, field, left_out, number};
use crate::rate_unit::RateUnit;

/// Writes rates: one row for each window, one column for each class, including inner classes. The head names the units.
#[must_use]
pub fn rates_csv(windows: &Windows) -> String {
    let mut text = String::from("start_s,end_s");
    for name in &windows.names {
        text.push(',');
        text.push_str(&field(&format!("{name}_bps")));
    }
    text.push('\n');
    for row in &windows.rows {
        text.push_str(&format!("{},{}", row.start_s, row.end_s));
        for rate in &row.rates_bps {
            text.push_str(&format!(",{rate:.0}"));
        }
        text.push('\n');
    }
    text
}

/// All series of the leaves: one row for each window and leaf. Delays are empty if no packet left.
#[must_use]
pub fn series_csv(windows: &Windows) -> String {
    let mut text = String::from(
        "start_s,end_s,class,rate_bps,sent_packets,dropped_packets,delay_mean_s,delay_max_s,queue_mean_packets,\
         queue_max_packets\n",
    );
    let names: Vec<String> = windows.names.iter().map(|name| field(name)).collect();
    for row in &windows.rows {
        for (index, leaf) in row.leaves.iter().enumerate().filter(|&(index, _)| windows.leaf[index]) {
            let (mean, max) = (number(leaf.delay_mean_s), number(leaf.delay_max_s));
            text.push_str(&format!(
                "{},{},{},{:.0},{},{},{mean},{max},{},{}\n",
                row.start_s,
                row.end_s,
                names[index],
                row.rates_bps[index],
                leaf.sent_packets,
                leaf.dropped_packets,
                leaf.queue_mean_packets,
                leaf.queue_max_packets
            ));
        }
    }
    text
}

/// Rates of the leaves that are ever busy and of inner classes (in grey) against time, on the ideals of the leaves,
/// with the borders of phases.
#[must_use]
pub fn rates(run: &Run, windows: &Windows, title: &str) -> Figure {
    let (leaves, more) = busiest(&[(run, windows)]);
    let top = top(&[(run, windows)]);
    let mut figure = Figure::new(title, vec![rate_panel(run, windows, &leaves, ("", true), top).high(400.0)]);
    figure.notes.extend(left_out(more));
    figure
}

/// Rates of the leaves against time under several schedulers: a panel for each, one below the other, with the same axes, the same looks
/// and one legend. All runs are of one scenario.
#[must_use]
pub fn compared(runs: &[(&Run, &Windows)], title: &str) -> Figure {
    let (leaves, more) = busiest(runs);
    let top = top(runs);
    let panel = |(n, &(run, windows)): (usize, &(&Run, &Windows))| {
        let mut panel = rate_panel(run, windows, &leaves, (run.scheduler.as_str(), false), top).high(260.0);
        if n + 1 < runs.len() {
            panel.x.label.clear();
        }
        panel
    };
    let mut figure = Figure::new(title, runs.iter().enumerate().map(panel).collect());
    figure.notes.extend(left_out(more));
    figure
}

/// Draws the longest delays of the leaves in each window under several schedulers, like [`compared`] for the rates.
#[must_use]
pub fn compared_delays(runs: &[(&Run, &Windows)], title: &str) -> Figure {
    let (leaves, more) = busiest(runs);
    let delay = |row: &Window, column: usize| row.leaves.get(column).and_then(|leaf| leaf.delay_max_s);
    let rows = runs.iter().flat_map(|(_, windows)| &windows.rows);
    let longest = rows.flat_map(|row| leaves.iter().filter_map(|&column| delay(row, column))).fold(0.0, f64::max);
    let panel = |(n, &(run, windows)): (usize, &(&Run, &Windows))| {
        let mut x = time_axis(run);
        if n + 1 < runs.len() {
            x.label.clear();
        }
        let y = Axis::linear("longest delay", 0.0, longest * 1.05).of_time();
        let mut panel = Panel::new(run.scheduler.as_str(), x, y).high(260.0);
        panel.borders = borders(run);
        let line = |(n, &column): (usize, &usize)| {
            let points = steps(windows, |row| (row.start_s, delay(row, column)));
            Series::steps(&windows.names[column], points, SeriesStyle::nth(n).layered(n, leaves.len()))
        };
        panel.series = leaves.iter().enumerate().map(line).collect();
        panel
    };
    let mut figure = Figure::new(title, runs.iter().enumerate().map(panel).collect());
    figure.notes.extend(left_out(more));
    figure
}

/// Draws rate, delay, queue and drops of the leaves that are ever busy, below each other.
#[must_use]
pub fn series(run: &Run, windows: &Windows, title: &str) -> Figure {
    let (leaves, more) = busiest(&[(run, windows)]);
    let panel = |title: &str, y: &str, of_time: bool, value: &dyn Fn(&Window, &LeafWindow) -> Option<f64>| {
        let values = |&column: &usize| -> Vec<(f64, f64)> {
            let point = |row: &Window| (row.start_s, row.leaves.get(column).and_then(|leaf| value(row, leaf)));
            steps(windows, point)
        };
        let lines: Vec<_> = leaves.iter().map(values).collect();
        let finite = lines.iter().flatten().map(|point| point.1).filter(|y| y.is_finite());
        let axis = Axis::linear(y, 0.0, finite.fold(0.0, f64::max) * 1.05);
        let axis = if of_time { axis.of_time() } else { axis };
        let mut panel = Panel::new(title, time_axis(run), axis).high(190.0);
        panel.borders = borders(run);
        panel.series = lines
            .into_iter()
            .enumerate()
            .map(|(n, points)| {
                Series::steps(&windows.names[leaves[n]], points, SeriesStyle::nth(n).layered(n, leaves.len()))
            })
            .collect();
        panel
    };
    let seconds = |row: &Window| (row.end_s - row.start_s).max(1e-9);
    let panels = vec![
        rate_panel(run, windows, &leaves, ("rate", false), top(&[(run, windows)])).high(190.0),
        panel("mean delay of the packets that left in a window", "delay", true, &|_, leaf| leaf.delay_mean_s),
        panel("longest delay of the packets that left in a window", "delay", true, &|_, leaf| leaf.delay_max_s),
        panel("mean length of the queue", "packets", false, &|_, leaf| Some(leaf.queue_mean_packets)),
        panel("dropped", "packets/s", false, &|row, leaf| Some(f64::from(leaf.dropped_packets) / seconds(row))),
    ];
    let mut figure = Figure::new(title, panels);
    figure.notes.extend(left_out(more));
    figure
}

fn time_axis(run: &Run) -> Axis {
    Axis::linear("time (s)", 0.0, run.duration_s)
}

fn borders(run: &Run) -> Vec<f64> {
    run.phases.iter().skip(1).map(|phase| phase.start_s).collect()
}

/// Values that are valid for a window each; a missing one interrupts the line.
fn steps(windows: &Windows, point: impl Fn(&Window) -> (f64, Option<f64>)) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = windows
        .rows
        .iter()
        .map(|row| {
            let (x, y) = point(row);
            (x, y.unwrap_or(f64::NAN))
        })
        .collect();
    if let (Some(row), Some(&(_, y))) = (windows.rows.last(), points.last()) {
        points.push((row.end_s, y));
    }
    points
}

/// End of the axis of rates, in bit/s.
fn top(runs: &[(&Run, &Windows)]) -> f64 {
    let rates = |&(run, _): &(&Run, _)| run.changes.iter().map(|change| change.link_bps).fold(run.link_bps, f64::max);
    let fastest = runs.iter().map(rates).fold(0.0, f64::max);
    // A link with little use would press all lines to the bottom.
    let rows = runs.iter().flat_map(|(_, windows)| &windows.rows);
    let highest = rows.flat_map(|row| &row.rates_bps).copied().fold(0.0, f64::max);
    if highest > 0.0 && highest < fastest / 3.0 { highest * 1.1 } else { fastest * 1.05 }
}

fn rate_panel(run: &Run, windows: &Windows, leaves: &[usize], (title, with_inner): (&str, bool), top: f64) -> Panel {
    let unit = RateUnit::for_link(run.link_bps);
    let y = Axis::linear(format!("rate ({})", unit.name), 0.0, top / unit.bps);
    let mut panel = Panel::new(title, time_axis(run), y);
    panel.borders = borders(run);
    let line = |column: usize, look: SeriesStyle| {
        let point = |row: &Window| (row.start_s, Some(row.rates_bps[column] / unit.bps));
        Series::steps(&windows.names[column], steps(windows, point), look)
    };
    if with_inner {
        let inner = (0..windows.names.len()).filter(|&column| !windows.leaf[column]).take(MAX_DRAWN);
        panel.series.extend(inner.enumerate().map(|(n, column)| line(column, SeriesStyle::background(n))));
    }
    let layered = |(n, &column): (usize, &usize)| line(column, SeriesStyle::nth(n).layered(n, leaves.len()));
    panel.series.extend(leaves.iter().enumerate().map(layered));
    for &column in leaves {
        for phase in &run.phases {
            let ideal = phase.classes.iter().find(|class| class.name == windows.names[column]);
            if let Some(ideal) =
                ideal.and_then(|class| class.rates.ideal_bps).map(|ideal| ideal / unit.bps).filter(|&ideal| ideal > 0.0)
            {
                let points = vec![(phase.start_s, ideal), (phase.end_s, ideal)];
                panel.series.push(Series::line("the ideal", points, SeriesStyle::reference()));
            }
        }
    }
    panel
}

/// Columns of the leaves to draw, in their order: those with the highest ideal or measured rate in some phase. Second,
/// the number of busy ones that are left out.
fn busiest(runs: &[(&Run, &Windows)]) -> (Vec<usize>, usize) {
    let Some((_, windows)) = runs.first() else { return (Vec::new(), 0) };
    let highest = |column: usize| {
        let of_phase = |phase: &Phase| {
            let class = phase.classes.iter().find(|class| class.name == windows.names[column]);
            class.map_or(0.0, |class| class.rates.rate().max(class.rates.fair()))
        };
        runs.iter().flat_map(|(run, _)| &run.phases).map(of_phase).fold(0.0, f64::max)
    };
    let leaves = (0..windows.names.len()).filter(|&column| windows.leaf[column]);
    let mut busy: Vec<(usize, f64)> =
        leaves.map(|column| (column, highest(column))).filter(|&(_, highest)| highest > 0.0).collect();
    let all = busy.len();
    busy.sort_by(|a, b| b.1.total_cmp(&a.1));
    busy.truncate(MAX_DRAWN);
    busy.sort_by_key(|&(column, _)| column);
    (busy.iter().map(|&(column, _)| column).collect(), all - busy.len())
}
