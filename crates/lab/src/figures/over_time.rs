//! Rates, delays, queues and drops against time, of one run.

use fairlink_sim::{LeafWindow, Phase, Run, Window, Windows};

use super::axis::Axis;
use super::figure::{Figure, Look, Panel, Series};
use super::{MAX_DRAWN, field, left_out, number};
use crate::rate_unit::RateUnit;

/// Rates: one row for each window, one column for each class, inner classes included; the head names the units.
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

/// Everything of the leaves: one row for each window and leaf. Delays are empty where no packet left.
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

/// Rates of the leaves that are ever busy and of inner classes (in grey) against time, on the ideals of the leaves, with the borders
/// of phases.
#[must_use]
pub fn rates(run: &Run, windows: &Windows, title: &str) -> Figure {
    let (leaves, more) = busiest(run, windows);
    let mut figure = Figure::new(title, vec![rate_panel(run, windows, &leaves, "", true).high(400.0)]);
    figure.notes.extend(left_out(more));
    figure
}

/// Rates under several schedulers, a panel for each on the same axes, with one legend. Runs without windows are passed over.
#[must_use]
pub fn schedulers(runs: &[&Run], title: &str) -> Figure {
    let with_windows = runs.iter().filter_map(|run| Some((*run, run.windows.as_ref()?)));
    let parts: Vec<(&Run, &Windows, Vec<usize>, usize)> = with_windows
        .map(|(run, windows)| {
            let (leaves, more) = busiest(run, windows);
            (run, windows, leaves, more)
        })
        .collect();
    // The same leaves everywhere, or a colour would be of two of them.
    let mut all: Vec<usize> = parts.iter().flat_map(|(_, _, leaves, _)| leaves.iter().copied()).collect();
    all.sort_unstable();
    all.dedup();
    let more = parts.iter().map(|(.., more)| *more).max().unwrap_or(0) + all.len().saturating_sub(MAX_DRAWN);
    all.truncate(MAX_DRAWN);
    let mut panels: Vec<Panel> = parts
        .iter()
        .map(|(run, windows, ..)| rate_panel(run, windows, &all, &run.scheduler, false).high(150.0))
        .collect();
    let top = panels.iter().map(|panel| panel.y.end()).fold(0.0, f64::max);
    let last = panels.len().saturating_sub(1);
    for (place, panel) in panels.iter_mut().enumerate() {
        panel.y = Axis::linear(panel.y.label.clone(), 0.0, top);
        if place < last {
            panel.x.label.clear();
        }
    }
    let mut figure = Figure::new(title, panels);
    figure.notes.extend(left_out(more));
    figure
}

/// Rate, delay, queue and drops of the leaves that are ever busy, below each other.
#[must_use]
pub fn series(run: &Run, windows: &Windows, title: &str) -> Figure {
    let (leaves, more) = busiest(run, windows);
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
            .map(|(n, points)| Series::steps(&windows.names[leaves[n]], points, Look::nth(n).layered(n, leaves.len())))
            .collect();
        panel
    };
    let seconds = |row: &Window| (row.end_s - row.start_s).max(1e-9);
    let panels = vec![
        rate_panel(run, windows, &leaves, "rate", false).high(190.0),
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

/// Values that hold for a window each; where there is none, the line is interrupted.
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

fn rate_panel(run: &Run, windows: &Windows, leaves: &[usize], title: &str, with_inner: bool) -> Panel {
    let unit = RateUnit::for_link(run.link_bps);
    let fastest = run.changes.iter().map(|change| change.link_bps).fold(run.link_bps, f64::max);
    // A link of which little is used would press all lines to the bottom.
    let highest = windows.rows.iter().flat_map(|row| &row.rates_bps).copied().fold(0.0, f64::max);
    let top = if highest > 0.0 && highest < fastest / 3.0 { highest * 1.1 } else { fastest * 1.05 };
    let y = Axis::linear(format!("rate ({})", unit.name), 0.0, top / unit.bps);
    let mut panel = Panel::new(title, time_axis(run), y);
    panel.borders = borders(run);
    let line = |column: usize, look: Look| {
        let point = |row: &Window| (row.start_s, Some(row.rates_bps[column] / unit.bps));
        Series::steps(&windows.names[column], steps(windows, point), look)
    };
    if with_inner {
        let inner = (0..windows.names.len()).filter(|&column| !windows.leaf[column]).take(MAX_DRAWN);
        panel.series.extend(inner.enumerate().map(|(n, column)| line(column, Look::background(n))));
    }
    let layered = |(n, &column): (usize, &usize)| line(column, Look::nth(n).layered(n, leaves.len()));
    panel.series.extend(leaves.iter().enumerate().map(layered));
    for &column in leaves {
        for phase in &run.phases {
            let ideal = phase.classes.iter().find(|class| class.name == windows.names[column]);
            if let Some(ideal) =
                ideal.and_then(|class| class.ideal_bps).map(|ideal| ideal / unit.bps).filter(|&ideal| ideal > 0.0)
            {
                let points = vec![(phase.start_s, ideal), (phase.end_s, ideal)];
                panel.series.push(Series::line("the ideal", points, Look::reference()));
            }
        }
    }
    panel
}

/// Columns of the leaves that are drawn, in their order: those with the highest ideal or measured rate in some phase. And how many busy
/// ones are not.
fn busiest(run: &Run, windows: &Windows) -> (Vec<usize>, usize) {
    let highest = |column: usize| {
        let of_phase = |phase: &Phase| {
            let class = phase.classes.iter().find(|class| class.name == windows.names[column]);
            class.map_or(0.0, |class| class.rate_bps.max(class.fair_bps))
        };
        run.phases.iter().map(of_phase).fold(0.0, f64::max)
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
