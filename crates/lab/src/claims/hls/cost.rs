//! Experiment 4: what a packet costs as leaves become many, and what finding its class costs.

use std::hint::black_box;
use std::time::{Duration, Instant};

use fairlink_config::matching::{FrameKey, IpVersion, Match, PortRange};
use fairlink_core::registry::find;
use fairlink_workload::Shape;

use crate::bench::{cost, machine};
use crate::claims::{Expected, Finding, Lab, Row, Table, Trouble, Unit};
use crate::figures::axis::Axis;
use crate::figures::figure::{Figure, Look, Panel, Series};

const SCHEDULERS: [&str; 4] = ["hls", "htb", "cbq-top-level", "fifo"];
/// Length of every packet: the paper's are short.
const BYTES: u32 = 64;
/// UDP.
const PROTO: u8 = 17;
const FIRST_PORT: u16 = 5001;

/// Numbers of leaves: 2, 4, 8 ... up to the last.
fn leaves(lab: &Lab<'_>) -> Vec<usize> {
    let every = lab.by_effort(2, 1);
    (1..=lab.by_effort(10, 13)).step_by(every).map(|power| 1usize << power).collect()
}

/// Costs by the number of leaves: nanoseconds a packet.
type Costs = Vec<(f64, f64)>;

/// Experiment 4.
pub(super) fn exp4(lab: &Lab<'_>) -> Result<Finding, Trouble> {
    let time = Duration::from_millis(lab.by_effort(20, 150));
    let counts = leaves(lab);
    let mut figure = Vec::new();
    let mut rows = Vec::new();
    let mut table = Table::new(
        "Nanoseconds a packet (enqueue and dequeue; classification apart)",
        &["tree, leaves", "hls", "htb", "cbq-top-level", "fifo", "by node", "at the root"],
    );
    for (shape, flat) in [("binary tree", false), ("flat", true)] {
        let mut costs: Vec<Costs> = vec![Vec::new(); SCHEDULERS.len()];
        let (mut progressive, mut linear) = (Costs::new(), Costs::new());
        for &count in &counts {
            lab.go_on()?;
            let levels = if flat { 1 } else { count.ilog2() as usize };
            let shape_of_tree =
                Shape { leaves: count, levels, weights: 1, len: BYTES, max_packet: BYTES, ..Shape::default() };
            let tree = shape_of_tree.tree().map_err(Trouble::other)?;
            for (costs, name) in costs.iter_mut().zip(SCHEDULERS) {
                let info = find(name).ok_or_else(|| Trouble::other(format!("no {name}")))?;
                // FIFO knows no tree.
                if info.unsupported(&tree).next().is_none() {
                    costs.push((count as f64, cost(info, &tree, time).map_err(Trouble::other)?));
                }
            }
            let filters = Filters::new(count)?;
            progressive.push((count as f64, filters.by_node(if flat { count } else { 2 }, time / 8)));
            linear.push((count as f64, filters.by_node(count, time / 8)));
            let last = |costs: &Costs| match costs.last() {
                Some(&(leaves, ns)) if leaves == count as f64 => format!("{ns:.1}"),
                _ => "-".to_owned(),
            };
            let cells = costs.iter().chain([&progressive, &linear]).map(last);
            table.row(std::iter::once(format!("{shape}, {count}")).chain(cells));
        }
        for (other, name) in [(1, "htb"), (2, "cbq-top-level")] {
            let ratios: Vec<f64> = costs[0].iter().zip(&costs[other]).map(|(hls, other)| hls.1 / other.1).collect();
            // The geometric mean: a disturbance of the machine at one number of leaves weighs as little as it should.
            let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
            let what = format!("{shape}: hls over {name}, the mean of all numbers of leaves");
            rows.push(Row::new(what, Unit::Times, Expected::AtMost(1.0), mean));
            let what = format!("{shape}: hls over {name}, the largest");
            rows.push(Row::shown(what, Unit::Times, ratios.into_iter().fold(0.0, f64::max)));
        }
        let growth = |costs: &Costs| costs.last().map_or(0.0, |cost| cost.1) - costs.first().map_or(0.0, |cost| cost.1);
        let what = format!("{shape}: what hls grows by over what a list of filters at the root grows by");
        rows.push(Row::new(what, Unit::Times, Expected::AtMost(0.5), growth(&costs[0]) / growth(&linear)));
        let x = Axis::log("leaves", 2.0, *counts.last().unwrap_or(&2) as f64);
        let mut panel = Panel::new(shape, x, Axis::log("ns a packet", 1.0, 10_000.0)).high(280.0);
        for (n, (name, costs)) in SCHEDULERS.into_iter().zip(costs).enumerate() {
            panel.series.push(Series::line(name, costs, Look::nth(n)));
        }
        if !flat {
            panel.series.push(Series::line("filters at each node", progressive, Look::background(0)));
        }
        panel.series.push(Series::line("filters at the root", linear, Look::background(1)));
        figure.push(panel);
    }
    let note = format!(
        "The paper counts transactions of TCP through the kernel, where nothing of a scheduler shows beside the rest; this is what a packet costs \
         in the scheduler itself, every leaf backlogged, on {}. Filters compare destination ports one after the other, two at each node of \
         the binary tree or all of them at the root, as in the paper. Its figure gives no numbers to compare with.",
        machine()
    );
    Ok(Finding::new(note, rows)
        .with_figure(Figure::new("Cost of a packet by the number of leaves", figure))
        .with_table(table))
}

/// Filters that find the class of a port as the kernel's do: one after the other.
struct Filters {
    ports: Vec<u16>,
}

impl Filters {
    fn new(leaves: usize) -> Result<Self, Trouble> {
        let ports = (0..leaves).map(|leaf| u16::try_from(leaf).ok()?.checked_add(FIRST_PORT)).collect::<Option<_>>();
        Ok(Self { ports: ports.ok_or_else(|| Trouble::other(format!("{leaves} leaves have no ports")))? })
    }

    /// A match of a range of leaves.
    fn filter(&self, from: usize, to: usize) -> Match {
        let ports = PortRange { first: self.ports[from], last: self.ports[to - 1] };
        Match { version: Some(IpVersion::V4), proto: Some(PROTO), dport: Some(ports), ..Match::ANY }
    }

    /// Nanoseconds to find a class where each node has `fanout` filters for its children, by the median of several times `time`.
    fn by_node(&self, fanout: usize, time: Duration) -> f64 {
        // The filters of each level, those of a node side by side.
        let mut levels: Vec<(usize, Vec<Match>)> = Vec::new();
        let mut span = self.ports.len();
        while span > 1 {
            let part = span / fanout;
            let count = self.ports.len() / part;
            levels.push((part, (0..count).map(|n| self.filter(n * part, (n + 1) * part)).collect()));
            span = part;
        }
        let find = |leaf: usize| {
            let frame = FrameKey {
                version: Some(IpVersion::V4),
                proto: PROTO,
                dport: Some(self.ports[leaf]),
                ..FrameKey::default()
            };
            let mut node = 0;
            for (_, filters) in &levels {
                let children = &filters[node * fanout..(node + 1) * fanout];
                node =
                    node * fanout + children.iter().position(|filter| filter.matches(black_box(&frame))).unwrap_or(0);
            }
            node
        };
        let mut figures: Vec<f64> = (0..5)
            .map(|_| {
                let (start, mut found) = (Instant::now(), 0usize);
                while start.elapsed() < time / 5 || found == 0 {
                    // A step that is no divisor goes through all leaves.
                    for n in 0..64 {
                        black_box(find((found + n) * 101 % self.ports.len()));
                    }
                    found += 64;
                }
                start.elapsed().as_nanos() as f64 / found as f64
            })
            .collect();
        figures.sort_by(f64::total_cmp);
        figures[2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_at_every_node_and_at_the_root_find_classes() {
        let filters = Filters::new(16).unwrap();
        assert!(filters.by_node(2, Duration::ZERO) > 0.0 && filters.by_node(16, Duration::ZERO) > 0.0);
        assert!(
            filters.filter(4, 8).covers(&filters.filter(5, 6)) && !filters.filter(4, 8).covers(&filters.filter(7, 9))
        );
        assert!(Filters::new(70_000).is_err());
    }
}
